"""What went wrong in a run, ready to list: root cause first, wrappers with the cause they are about, deaths, reports.

Pure: reads a RunView, gives a tuple; the tracebacks screen, the run screen's last line and the keys `e`, `E`, `p`
share it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from compat.patch import Match, PatchStatus
from console.patching import as_ran
from remote.logs.findings import Fatal, Frame, Traceback
from remote.views import ExceptionReport, RunView, StageView

Patches = tuple[PatchStatus, ...]
Matcher = Callable[[str, str, tuple[Frame, ...], Patches], tuple[Match, ...]]
Role = Literal["root cause", "wrapper", "chained", "also", "death", "reported"]


@dataclass(frozen=True)
class Trouble:
    stage: str
    attempt: int
    role: Role
    headline: str
    traceback: Traceback | None = None
    index: int | None = None
    """Of `traceback` in the findings; the numbers on screen are this plus one."""
    fatal: Fatal | None = None
    report: ExceptionReport | None = None
    matches: tuple[Match, ...] = ()
    reason: str = ""
    """Why it is the root cause."""

    @property
    def line(self) -> int:
        return self.traceback.line if self.traceback else self.fatal.line if self.fatal else 0


@lru_cache(maxsize=256)
def find_patches(exception: str, message: str, frames: tuple[Frame, ...], patches: Patches = ()) -> tuple[Match, ...]:
    """The catalogue's matcher, remembered: the same failure is asked about at every repaint."""
    from compat.matcher import match

    return match(exception, message, frames, patches)


def bearing(match: Match) -> str:
    """What a matched patch has to do with the failure, in words, for behind its id."""
    words = {
        "active": "is about this, and was active",
        "refused": "mends this, and was refused",
        "not applicable": "mends this in another environment",
    }
    return words.get(match.state, "mends this")


def troubled_stage(run: RunView | None, prefer: str | None = None) -> StageView | None:
    """The stage to look at: the preferred one if it has anything, the failed one, else the latest that has."""
    if run is None:
        return None
    having = [stage for stage in run.stages if has_troubles(stage)]
    preferred = next((stage for stage in having if stage.name == prefer), None)
    failed = run.failed_stage
    return preferred or (failed if failed in having else None) or (having[-1] if having else None)


def has_troubles(stage: StageView) -> bool:
    return bool(stage.findings.tracebacks or stage.findings.fatal or stage.exception)


def list_troubles(
    stage: StageView | None, patches: Iterable[PatchStatus] = (), matcher: Matcher = find_patches
) -> tuple[Trouble, ...]:
    """Everything that went wrong in the stage's latest attempt, the root cause first, wrappers last.

    `patches` are those of the environment, as the host tells them: what was in force is the attempt's own record.
    """
    if stage is None or stage.latest is None:
        return ()
    attempt = stage.latest.number
    ran = as_ran(patches, stage)
    findings = stage.findings
    found: list[Trouble] = []
    for index, fatal in enumerate(findings.fatal):
        role: Role = "root cause" if index == findings.root_cause_fatal else "death"
        reason = findings.reason if role == "root cause" else ""
        found.append(Trouble(stage.name, attempt, role, f"{fatal.kind}: {fatal.text}", fatal=fatal, reason=reason))
    for index, traceback in enumerate(findings.tracebacks):
        role = _role(index, traceback, findings.root_cause)
        matches: tuple[Match, ...] = ()
        if traceback.exception_type and not (traceback.wrapper and traceback.caused_by is not None):
            matches = matcher(traceback.exception_type, traceback.message, traceback.frames, ran)
        found.append(
            Trouble(
                stage.name,
                attempt,
                role,
                traceback.headline,
                traceback=traceback,
                index=index,
                matches=matches,
                reason=findings.reason if role == "root cause" else "",
            )
        )
    if stage.exception and not findings.tracebacks:
        report = stage.exception
        headline = f"{report.type}: {report.message}" if report.message else report.type
        found.append(Trouble(stage.name, attempt, "reported", headline, report=report))
    return tuple(sorted(found, key=lambda trouble: (_ORDER[trouble.role], trouble.line)))


_ORDER: dict[Role, int] = {
    "root cause": 0,
    "death": 1,
    "reported": 1,
    "chained": 2,
    "also": 2,
    "wrapper": 3,
}


def _role(index: int, traceback: Traceback, root: int | None) -> Role:
    if index == root:
        return "root cause"
    if traceback.wrapper:
        return "wrapper"
    return "also" if traceback.chained_from is None else "chained"
