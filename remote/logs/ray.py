"""Ray's memory monitor: one kill is told by the raylet, by the worker's end and by the driver's exception."""

from __future__ import annotations

import re
from dataclasses import replace

from remote.logs.findings import Fatal

KIND = "ray_oom"
DIED = "ray_worker_died"
MAX_PIDS = 1000
_VOICES = (
    ("raylet", re.compile(r"\d+ Workers \(tasks / actors\) killed due to memory pressure")),
    ("figures", re.compile(r"Memory on the node \(IP: ")),
    ("end", re.compile(r"A worker died|Worker exit type: NODE_OUT_OF_MEMORY")),
    ("exception", re.compile(r"")),
)
"""Who tells of a kill, and where the telling part of the text begins."""


class MemoryKills:
    """Adds up the kills of one log, whoever tells of them."""

    def __init__(self) -> None:
        self._counted = 0
        """Kills that the raylet counted, who knows of all."""
        self._pids: set[int] = set()
        """The killed processes that were named."""
        self._heard: set[str] = set()

    def told(self, new: Fatal, old: Fatal | None) -> Fatal:
        """All kills as one finding, `new` among them; the first text of each who tells is its evidence."""
        voice, start = next((name, found.start()) for name, pattern in _VOICES if (found := pattern.search(new.text)))
        self._counted += new.count if voice == "raylet" else 0
        if new.pid is not None and len(self._pids) < MAX_PIDS:
            self._pids.add(new.pid)
        text = new.text[start:]
        if old is not None:
            text = old.text if voice in self._heard else f"{old.text[:700]} | {text[:300]}"
        self._heard.add(voice)
        return replace(
            new if old is None else old,
            text=text,
            worker=(old.worker if old else None) or new.worker,
            pid=(old.pid if old else None) or new.pid,
            count=self._count,
        )

    @property
    def _count(self) -> int:
        return self._counted or max(1, len(self._pids))

    def with_reports(self, found: list[Fatal]) -> list[Fatal]:
        """The ends of workers that only tell again what the memory monitor did, made part of its finding."""
        if not self._heard:
            return found
        unnamed = self._count - len(self._pids)
        reports: list[Fatal] = []
        others: list[Fatal] = []
        for item in found:
            report = item.kind == DIED and (item.pid in self._pids or unnamed > 0)
            unnamed -= report and item.pid not in self._pids
            (reports if report else others).append(item)
        return [_with(item, reports) if item.kind == KIND and reports else item for item in others]


def _with(kills: Fatal, reports: list[Fatal]) -> Fatal:
    text = kills.text if "A worker died" in kills.text else f"{kills.text[:700]} | {reports[0].text[:300]}"
    pid = kills.pid or next((item.pid for item in reports if item.pid), None)
    return replace(kills, text=text, pid=pid, line=min(kills.line, *(item.line for item in reports)))
