"""A stage's events.jsonl folded into what the console shows. Read incrementally; unknown kinds are passed over."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from remote.agent import files
from remote.views import TELLING, ExceptionReport, PatchReport, StageProgress

BUDGET = 1 << 18
ARTIFACTS_KEPT = 500
NOTES_KEPT = 50


class Events:
    """The events of one attempt so far."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._offset = 0
        self.progress: StageProgress | None = None
        self.metrics: dict[str, float] = {}
        self._broken: set[str] = set()
        """Names of metrics that were no finite number at least once."""
        self.artifacts: list[str] = []
        self.artifacts_dropped = 0
        self._reports: dict[PatchReport, int] = {}
        self.notes: list[str] = []
        self.exception: ExceptionReport | None = None

    def read(self) -> bool:
        """Take in what is new, at most BUDGET bytes. True when there may be more."""
        found, offset = files.read_lines(self._path, self._offset, BUDGET)
        more = offset > self._offset
        self._offset = offset
        for event in found:
            self._take(event)
        return more

    @property
    def patches(self) -> tuple[PatchReport, ...]:
        """In the order in which they were first reported; those of several workers that are equal are one."""
        return tuple(replace(report, processes=count) for report, count in self._reports.items())

    def _take(self, event: Mapping[str, Any]) -> None:
        kind = event.get("kind")
        try:
            if kind == "progress":
                self.progress = StageProgress(
                    label=str(event.get("label", "")),
                    done=float(event.get("done") or 0),
                    total=_number(event.get("total")),
                    unit=str(event.get("unit") or ""),
                    eta_s=_number(event.get("eta_s")),
                )
            elif kind == "metric":
                self._metric(str(event["name"]), float(event["value"]))
            elif kind == "artifact":
                self._artifact(str(event["path"]))
            elif kind == "note":
                self.notes = [*self.notes, str(event["text"])][-NOTES_KEPT:]
            elif kind == "patch":
                self._patch(event)
            elif kind == "exception":
                self.exception = ExceptionReport(
                    str(event["type"]), str(event.get("message", "")), str(event.get("text", ""))
                )
        except (KeyError, TypeError, ValueError):
            return  # one malformed event must not hide the others

    def _metric(self, name: str, value: float) -> None:
        """The latest value. One that is no finite number has no place in JSON: it is told as a note."""
        if math.isfinite(value):
            self.metrics[name] = value
        elif name not in self._broken:
            self._broken.add(name)
            self.notes = [*self.notes, f"{name} was reported as {value}"][-NOTES_KEPT:]

    def _artifact(self, path: str) -> None:
        if path in self.artifacts:
            return
        self.artifacts.append(path)
        if len(self.artifacts) > ARTIFACTS_KEPT:
            del self.artifacts[0]
            self.artifacts_dropped += 1

    def _patch(self, event: Mapping[str, Any]) -> None:
        report = PatchReport(
            id=str(event["id"]),
            process=str(event.get("process", "")),
            state=str(event["state"]),
            reason=str(event.get("reason", "")),
            digest=str(event.get("digest", "")),
            replaced_digest=str(event.get("replaced_digest", "")),
        )
        if report.state in TELLING:
            self._reports[report] = self._reports.get(report, 0) + 1


def _number(value: Any) -> float | None:
    return None if value is None else float(value)
