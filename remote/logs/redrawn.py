"""Bars that are redrawn in place, many updates on one line: what a later update undoes need not be read.

A bar's line is put off if it is plain to see that it shows one bar of one worker that has not reached its end. When
the bar then begins anew, nothing of the run before matters but when it began and its last state. What is left is
read as the other lines are, before anything that depends on it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple, Protocol

from remote.logs.prefixes import read_line
from remote.logs.records import clean

MAX_BARS = 32

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


class State(NamedTuple):
    done: int
    total: int
    elapsed: float

    def begins_anew_at(self, other: State) -> bool:
        return other.done < self.done or other.total != self.total or other.elapsed < self.elapsed


class Put(NamedTuple):
    """One line that was put off: its updates, from the first one on, and its place in the log."""

    data: bytes
    updates: int
    line: int
    offset: int


class BarReader(Protocol):
    """What reads the bars in the end; `before`: what the bar showed on that line before `text`."""

    def read_bar(self, worker: str | None, text: str, line: int, offset: int, before: Iterable[State] = ()) -> bool: ...


class _Bar:
    def __init__(self, worker: str | None, prefix: bytes, began: Put) -> None:
        self.worker = worker
        self.prefix = prefix
        """What each update bears before its label."""
        self.began = began
        """Its first update began the worker's phase."""
        self.before: list[State] = []
        """Where the run before the present one ended."""
        self.lines: list[Put] = []
        self.state = State(0, 0, 0.0)

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
        form = _FORM.match(line)
        if form is None:
            return False
        prefix, carried, label = form["prefix"] or b"", form["carried"], form["label"]
        if not (prefix or form["return"]) or (carried and not prefix):
            return False
        last = line.rfind(b"\r") + 1
        place = line.find(b"%", last) - 3
        end = _UPDATE.match(line, place) if place > last else None
        if end is None or end.end() != len(line) or line[place - 1 : place + 1].isdigit():
            return False
        start = form.end() - 1 if carried or not prefix else form.start("prefix")
        named, total = line[last:place], end["total"]
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
        key = prefix + b"\r" + named if carried else named
        if self._moving.get(label, key) != key or (key not in self._bars and len(self._bars) >= MAX_BARS):
            self.settle()
        put = Put(line[start:], updates, number, offset)
        bar = self._bars.pop(key, None) or self._new(prefix, bool(carried), put, line[start : begin.end()])
        if bar is None:
            return False
        self._moving[label] = key
        self._bars[key] = bar
        bar_state, first, bar.state = bar.state, _state(begin), _state(end)
        if bar.lines and bar_state.begins_anew_at(first):
            bar.before = [bar_state]
            bar.lines.clear()
        elif first.begins_anew_at(bar.state):
            bar.before = []
            bar.lines.clear()
        bar.lines.append(put)
        return True

    def settle(self) -> None:
        """Read what was put off: the bars in the order in which they appeared, then as they moved last."""
        if not self._bars:
            return
        for bar in sorted(self._bars.values(), key=lambda bar: bar.began.line):
            put = bar.began
            self._reader.read_bar(bar.worker, bar.text(put.data.partition(b"\r")[0]), put.line, put.offset)
        for bar in self._bars.values():
            self._settle(bar)
        self._bars.clear()
        self._moving.clear()

    def _settle(self, bar: _Bar) -> None:
        before = bar.before
        for put in bar.lines:
            seen = _UPDATE.findall(put.data)
            last = put.data.rfind(b"\r") + 1
            if len(seen) == put.updates:
                states = before + [State(int(done), int(total), _seconds(clock)) for done, total, clock in seen[:-1]]
                self._reader.read_bar(bar.worker, bar.text(put.data[last:]), put.line, put.offset, states)
            else:  # an update on the way was torn: read them one by one
                for update in put.data.split(b"\r"):
                    self._reader.read_bar(bar.worker, bar.text(update), put.line, put.offset, before)
                    before = []
            before = []

    @staticmethod
    def _new(prefix: bytes, carried: bool, put: Put, update: bytes) -> _Bar | None:
        """None when the line's beginning is more than a worker's prefix and a bar's label."""
        bar = _Bar(None, b"" if carried else prefix, put)
        who = read_line(clean(prefix if carried else update))
        said = read_line(clean(update)) if carried else who
        if said.source or said.hint or len(who.origins) != 1 or said.text != bar.text(update):
            return None
        if (prefix and not who.origins[0].label) or (not prefix and who.origins[0].key):
            return None
        bar.worker = who.origins[0].label
        return bar


def _state(update: re.Match[bytes]) -> State:
    return State(int(update["done"]), int(update["total"]), _seconds(update["elapsed"]))


def _seconds(clock: bytes) -> float:
    seconds = 0
    for part in clock.split(b":"):
        seconds = seconds * 60 + int(part)
    return float(seconds)
