"""All there is to say about one compat patch, as headed paragraphs: the screen and `eyas patches show` share them.

Pure; what is host's text in it is sanitised by whoever shows it.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

from compat.patch import PatchStatus
from console.words import many
from remote.views import PatchReport, RunView, StageView

SHORT = 12
"""Digits shown of a digest."""


@dataclass(frozen=True)
class Paragraph:
    name: str
    text: str


@dataclass(frozen=True)
class Column:
    """A piece of code with its heading."""

    name: str
    of: str
    """What it is the code of."""
    place: str
    code: str
    absent: str = ""
    """Why there is no code."""


def paragraphs(patch: PatchStatus, run: RunView | None) -> Iterator[Paragraph]:
    """What breaks, why, since when, what mends it at which risk; then what the run's processes did. None is empty."""
    told = {
        "silent": _silent(patch),
        "why it breaks": patch.cause,
        "since": patch.since or _ranges(patch),
        "only for": f"targets of the types {', '.join(patch.architectures)}" if patch.architectures else "",
        "what to do instead" if patch.advice else "what mends it": patch.mend,
        "risk": patch.risk,
        "shows as": "\n".join(patch.symptoms),
        "the story": patch.story,
        "in this run": "\n".join(_in_run(patch, run)),
        "references": "\n".join(patch.references),
    }
    return (Paragraph(name, text.strip()) for name, text in told.items() if text.strip())


def columns(patch: PatchStatus) -> tuple[Column, Column]:
    """What the patch does, its own code, and what it replaces, the host's code as installed."""
    does = Column(
        "what the patch does",
        patch.id,
        f"sha256 {patch.digest[:SHORT]}…" if patch.digest else "",
        _code(patch.code),
        "nothing at run time mends this" if patch.advice else "the host does not show its code",
    )
    code = _code(patch.replaced_code)
    replaced = Column(
        "where it breaks" if patch.advice else "what it replaces",
        ".".join(patch.replaces.split(".")[-2:]),
        f"{patch.replaced_at or patch.replaces}, {many(code.count(chr(10)) + 1, 'line')}" if code else patch.replaces,
        code,
        "its source is not readable in this environment",
    )
    return does, replaced


def _code(text: str) -> str:
    return textwrap.dedent(text.expandtabs(4)).strip("\n").rstrip()


def _silent(patch: PatchStatus) -> str:
    if not patch.silent:
        return ""
    gate = f"; the gate `{patch.gate}` catches it" if patch.gate else ""
    return f"nothing is ever raised, only the data is wrong{gate}"


def _ranges(patch: PatchStatus) -> str:
    return ", ".join(
        f"{name} {text}" for name, text in (("speculators", patch.speculators), ("vLLM", patch.vllm)) if text
    )


def _in_run(patch: PatchStatus, run: RunView | None) -> Iterator[str]:
    for stage in run.stages if run else ():
        for report in stage.patches:
            if report.id == patch.id:
                yield _told(report, stage, patch)


def _told(report: PatchReport, stage: StageView, patch: PatchStatus) -> str:
    """`extract #2: active in 8 workers, patch 12ab… in place of 34cd…`."""
    number = f" #{stage.latest.number}" if stage.latest else ""
    who = "the driver" if report.process == "driver" else many(report.processes, report.process or "process")
    said = f"{stage.name}{number}: {report.state} in {who}"
    if report.state == "refused":
        return f"{said}: {report.reason}"
    if report.state != "active":
        return said
    if report.digest:
        changed = " (it has changed since)" if patch.digest and patch.digest != report.digest else ""
        said += f", patch {report.digest[:SHORT]}{changed}"
    return said + (f" in place of {report.replaced_digest[:SHORT]}" if report.replaced_digest else "")
