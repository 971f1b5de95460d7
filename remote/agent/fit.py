"""Making a run's view small enough for one frame, without hiding that something was left out."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from remote import protocol
from remote.logs.findings import Findings, Traceback
from remote.views import ExceptionReport, RunView, StageView
from remote.wire import to_wire


@dataclasses.dataclass(frozen=True)
class Limits:
    text: int
    frames: int
    tracebacks: int
    items: int


LIMITS = (Limits(16384, 100, 400, 500), Limits(2048, 40, 100, 200), Limits(400, 20, 20, 50), Limits(120, 6, 4, 10))


def encode_view(frame: Callable[[Any], Mapping[str, Any]], view: RunView) -> bytes:
    """The frame made of the view, which is shortened step by step until the frame is below the protocol's cap."""
    for limits in (None, *LIMITS):
        shown = view if limits is None else shorten(view, limits)
        if _weight(shown) > 2 * protocol.LINE_CAP:
            continue  # encoding it only to find that out would hold the agent up
        try:
            return protocol.encode(frame(to_wire(shown)))
        except protocol.ProtocolError:
            continue
    bare = dataclasses.replace(view, stages=(), versions={}, error="this run's view is too large for the link")
    return protocol.encode(frame(to_wire(bare)))


def _weight(view: RunView) -> int:
    """A low estimate of the bytes that a view's findings take."""
    return sum(
        len(one.message) + sum(60 + len(frame.file) + len(frame.source) for frame in one.frames)
        for stage in view.stages
        for one in stage.findings.tracebacks
    )


def shorten(view: RunView, limits: Limits) -> RunView:
    return dataclasses.replace(view, stages=tuple(_stage(stage, limits) for stage in view.stages))


def _stage(stage: StageView, limits: Limits) -> StageView:
    findings = _findings(stage.findings, limits)
    shown = dataclasses.replace(
        stage,
        findings=findings,
        attempts=stage.attempts[-limits.items :],
        artifacts=stage.artifacts[-limits.items :],
        notes=tuple(cut(note, limits.text) for note in stage.notes[-limits.items :]),
        metrics=dict(list(stage.metrics.items())[-limits.items :]),
        exception=_exception(stage.exception, limits),
    )
    if shown == stage:
        return stage
    total = len(stage.findings.tracebacks)
    which = f"{len(findings.tracebacks)} of {total} tracebacks; long texts are cut" if total else "long texts are cut"
    return dataclasses.replace(shown, notes=(*shown.notes, f"Shortened for the link: {which}. The log has it all."))


def _exception(report: ExceptionReport | None, limits: Limits) -> ExceptionReport | None:
    if report is None:
        return None
    return ExceptionReport(cut(report.type, 200), cut(report.message, limits.text), cut(report.text, limits.text * 8))


def _findings(found: Findings, limits: Limits) -> Findings:
    """The root cause, the nearest of those it is chained to, and the first of the others; indices follow."""
    kept = set(range(min(limits.tracebacks, len(found.tracebacks))))
    most = len(kept) + limits.tracebacks
    at = found.root_cause
    while at is not None and at not in kept and len(kept) < most:
        kept.add(at)
        at = found.tracebacks[at].chained_from
    place = {old: new for new, old in enumerate(sorted(kept))}

    def moved(index: int | None) -> int | None:
        return None if index is None else place.get(index)

    return dataclasses.replace(
        found,
        tracebacks=tuple(
            dataclasses.replace(
                _traceback(found.tracebacks[old], limits),
                chained_from=moved(found.tracebacks[old].chained_from),
                caused_by=moved(found.tracebacks[old].caused_by),
            )
            for old in sorted(kept)
        ),
        root_cause=moved(found.root_cause),
        progress=found.progress[-limits.items :],
        milestones=found.milestones[-limits.items :],
        fatal=tuple(dataclasses.replace(f, text=cut(f.text, limits.text)) for f in found.fatal[: limits.items])
        if found.root_cause_fatal is None or found.root_cause_fatal < limits.items
        else found.fatal,
        reason=cut(found.reason, limits.text),
    )


def _traceback(one: Traceback, limits: Limits) -> Traceback:
    frames = one.frames
    if len(frames) > limits.frames:
        frames = frames[: limits.frames // 2] + frames[-(limits.frames - limits.frames // 2) :]
    return dataclasses.replace(
        one,
        message=cut(one.message, limits.text),
        frames=tuple(dataclasses.replace(f, source=cut(f.source, 300), file=cut(f.file, 500)) for f in frames),
        truncated=one.truncated or len(frames) < len(one.frames),
    )


def cut(text: str, size: int) -> str:
    """Head and tail of a text that is longer than `size`."""
    if len(text) <= size:
        return text
    half = size // 2
    return f"{text[:half]} … {len(text) - 2 * half} characters left out … {text[-half:]}"
