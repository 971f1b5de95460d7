"""Bars that are redrawn in place, many updates on one line: what a later update undoes need not be read.

A bar's line is put off if it is plain to see that it shows one bar of one worker that has not reached its end. When
the bar then begins anew, nothing of the run before matters but when it began and its last state. What is left is
read as the other lines are, before anything that depends on it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from remote.logs.prefixes import read_line
from remote.logs.records import clean

MAX_BARS = 32
MAX_CLOCKS = 8192

_COLOUR = rb"(?:\x1b\[[\d;]*m)?"
_FORM = re.compile(
    rb"(?P<return>\r)?(?P<prefix>" + _COLOUR + rb"\((?P<label>[A-Za-z_]\w*) pid=\d+\)" + _COLOUR + rb" ?)?"
    rb"(?P<carried>\r)?[A-Za-z]"
)
"""Every update bears the worker's prefix, or the prefix stands before the first carriage return, or there is none."""
_CLOCK = rb"\d+(?::\d\d){1,2}"
_UPDATE = re.compile(
    rb"(?:  \d| \d\d|\d\d\d)(?:% Completed \||%\|[^|%\r\n]{0,200}\|) (?P<done>\d{1,12})/(?P<total>\d{1,12}) "
    rb"\[(?P<elapsed>" + _CLOCK + rb")<(?:" + _CLOCK + rb"|\?), +[^\],\r\n]{1,40}\] *(?=\r|$)"
)
"""The part behind the label. Stricter than what is read elsewhere: other forms are read there."""


Step = tuple[int, int, float, int, int]
"""Units done, of how many, after so many seconds; number and byte offset of the line."""


class Put(NamedTuple):
    """One line that was put off: its updates, from the first one on, and its place in the log."""

    data: bytes
    updates: int
    line: int
    offset: int


class BarReader(Protocol):
    """What reads the bars in the end; `before`: what the bar showed before `text`, not having reached its end."""

    def read_bar(self, worker: str | None, text: str, line: int, offset: int, before: Iterable[Step] = ()) -> bool: ...


class _Bar:
    def __init__(self, prefix: bytes, state: Step) -> None:
        self.worker: str | None = None
        self.prefix = prefix
        """What each update bears before its label, or the line before its first one."""
        self.before: list[Step] = []
        """Where the run before the present one ended."""
        self.lines: list[Put] = []
        self.state = state

    def text(self, update: bytes) -> str:
        return clean(update[len(self.prefix) :] if update.startswith(self.prefix) else update).rstrip()


class Redrawn:
    """The lines put off while one block is read; nothing outlives the block."""

    def __init__(self, reader: BarReader) -> None:
        self._reader = reader
        self._bars: dict[bytes, _Bar] = {}
        self._moving: dict[bytes | None, bytes] = {}
        """The bar that each worker moves."""

    def put_off(self, line: bytes, number: int, offset: int) -> bool:
        """Whether the line, given without its line feed, can wait until `settle`."""
        last = line.rfind(b"\r") + 1
        place = line.find(b"%", last) - 3
        end = _UPDATE.match(line, place) if place > last else None
        if end is None or end.end() != len(line) or line[place - 1 : place + 1].isdigit():
            return False
        named, total = line[last:place], end["total"]
        before, start = line[: line.find(b"\r") + 1], line.find(b"\r") + 1
        key = before[:-1] + named
        bar = self._bars.get(key)
        label = None
        if bar is None or before not in (b"\r", bar.prefix + b"\r"):
            form = _FORM.match(line)
            if form is None:
                return False
            prefix, carried, label = form["prefix"] or b"", form["carried"], form["label"]
            if not (prefix or form["return"]) or (carried and not prefix):
                return False
            start = form.end() - 1 if carried or not prefix else form.start("prefix")
            key, bar = prefix + named if carried else named, None
        begin = _UPDATE.match(line, line.find(b"%", start) - 3)
        updates = line.count(b"\r", start) + 1
        if (
            begin is None
            or not line.startswith(named, start)
            or line.count(named) != updates
            or line.count(b"/" + total + b" [") != updates
            or b" " + total + b"/" + total + b" [" in line  # the end of a bar is a step of its own
        ):
            return False
        put = Put(line[start:], updates, number, offset)
        first = _step(begin.groups(), put)
        if bar is None:
            if self._moving.get(label, key) != key or (key not in self._bars and len(self._bars) >= MAX_BARS):
                self.settle()
            bar = self._bars.get(key) or self._new(prefix, bool(carried), first, line[start : begin.end()])
            if bar is None:
                return False
            self._moving[label], self._bars[key] = key, bar
        ended, bar.state = bar.state, _step(end.groups(), put)
        if _begins_anew(ended, first):
            bar.before = [ended]
            bar.lines.clear()
        elif _begins_anew(first, bar.state):
            bar.before = []
            bar.lines.clear()
        bar.lines.append(put)
        return True

    def settle(self, worker: bytes | None = None) -> None:
        """Read what was put off, of one worker or of all."""
        keys = list(self._bars) if worker is None else [self._moving.get(worker, b"")]
        for key in keys:
            bar = self._bars.pop(key, None)
            if bar is not None:
                self._settle(bar)
        if worker is None:
            self._moving.clear()
        else:
            self._moving.pop(worker, None)

    def _settle(self, bar: _Bar) -> None:
        steps = bar.before
        for place, put in enumerate(bar.lines, 1):
            seen = _UPDATE.findall(put.data)
            last = put.data.rfind(b"\r") + 1
            if len(seen) == put.updates:
                steps += [_step(update, put) for update in seen]
                if place == len(bar.lines):
                    steps.pop()
                    self._reader.read_bar(bar.worker, bar.text(put.data[last:]), put.line, put.offset, steps)
            else:  # an update on the way was torn: read them one by one
                for update in put.data.split(b"\r"):
                    if self._reader.read_bar(bar.worker, bar.text(update), put.line, put.offset, steps):
                        steps = []

    def _new(self, prefix: bytes, carried: bool, first: Step, update: bytes) -> _Bar | None:
        """Read its first update, which may begin a phase; None when more stands before it than a prefix and a label."""
        bar = _Bar(prefix, first)
        who = read_line(clean(prefix if carried else update))
        said = read_line(clean(update)) if carried else who
        if said.source or said.hint or len(who.origins) != 1 or said.text != bar.text(update):
            return None
        if (prefix and not who.origins[0].label) or (not prefix and who.origins[0].key):
            return None
        bar.worker = who.origins[0].label
        self._reader.read_bar(bar.worker, said.text, *first[3:])
        return bar


def _begins_anew(one: Step, other: Step) -> bool:
    return other[0] < one[0] or other[1] != one[1] or other[2] < one[2]


def _step(update: Sequence[bytes], put: Put) -> Step:
    return int(update[0]), int(update[1]), _SECONDS[update[2]], put.line, put.offset


class _Seconds(dict[bytes, float]):
    """Seconds by the clock's text; there are few of them."""

    def __missing__(self, clock: bytes) -> float:
        seconds = 0
        for part in clock.split(b":"):
            seconds = seconds * 60 + int(part)
        if len(self) > MAX_CLOCKS:
            self.clear()
        self[clock] = float(seconds)
        return float(seconds)


_SECONDS = _Seconds()
