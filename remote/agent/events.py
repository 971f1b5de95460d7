"""A stage's events.jsonl folded into what the console shows. Read incrementally; unknown kinds are passed over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from remote.agent import files
from remote.views import ExceptionReport, StageProgress

BUDGET = 1 << 18
ARTIFACTS_KEPT = 500
NOTES_KEPT = 50
PATCH_RANK = {"refused": 3, "active": 2, "needed": 1}
"""A patch reports from the driver and from every worker: the most telling state wins."""


class Events:
    """The events of one attempt so far."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._offset = 0
        self.progress: StageProgress | None = None
        self.metrics: dict[str, float] = {}
        self.artifacts: list[str] = []
        self.artifacts_dropped = 0
        self.patches: dict[str, str] = {}
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
                self.metrics[str(event["name"])] = float(event["value"])
            elif kind == "artifact":
                self._artifact(str(event["path"]))
            elif kind == "note":
                self.notes = [*self.notes, str(event["text"])][-NOTES_KEPT:]
            elif kind == "patch":
                self._patch(str(event["id"]), str(event["state"]))
            elif kind == "exception":
                self.exception = ExceptionReport(
                    str(event["type"]), str(event.get("message", "")), str(event.get("text", ""))
                )
        except (KeyError, TypeError, ValueError):
            return  # one malformed event must not hide the others

    def _artifact(self, path: str) -> None:
        if path in self.artifacts:
            return
        self.artifacts.append(path)
        if len(self.artifacts) > ARTIFACTS_KEPT:
            del self.artifacts[0]
            self.artifacts_dropped += 1

    def _patch(self, patch: str, state: str) -> None:
        if PATCH_RANK.get(state, 0) >= PATCH_RANK.get(self.patches.get(patch, ""), 0):
            self.patches[patch] = state


def _number(value: Any) -> float | None:
    return None if value is None else float(value)
