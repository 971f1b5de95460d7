"""Findings about the functions in a traceback: what to look at when no patch is known for it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from compat.drift.finding import Finding
from compat.patch import FrameLike


def concerning(findings: Iterable[Finding], frames: Sequence[FrameLike]) -> tuple[Finding, ...]:
    """Findings whose caller or callee is a function of the frames, the innermost first.

    `frames` are as in the traceback, innermost last; their files may be absolute.
    """
    found = tuple(findings)
    depth = {finding: i for i, frame in enumerate(frames) for finding in found if _concerns(finding, frame)}
    return tuple(sorted(depth, key=lambda finding: -depth[finding]))


def _concerns(finding: Finding, frame: FrameLike) -> bool:
    file = frame.file.replace("\\", "/")
    if finding.place.function.rpartition(".")[2] == frame.function and _same(finding.place.file, file):
        return True
    parts = finding.callee.split(".")
    if len(parts) > 1 and parts[-1] == "__init__":
        parts = parts[:-1]
    return frame.function in (parts[-1], finding.name) and _same(finding.at.rpartition(":")[0], file)


def _same(mine: str, theirs: str) -> bool:
    return bool(mine) and (theirs == mine or theirs.endswith(f"/{mine}"))
