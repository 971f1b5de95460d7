"""Bars that are redrawn in place, many updates on one line: what a later update undoes need not be read.

A line whose shape says that it shows updates of one bar and nothing else is put off. When the bar then begins anew,
nothing of the run before matters but when it began and its last state. What is left is read as the other lines are,
before anything that depends on it. The phase that the bar leads through is told at once: other lines end it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple, Protocol

from remote.logs.pace import Steps, joined
from remote.logs.phases import running
from remote.logs.prefixes import read_line
from remote.logs.progress import read_bar
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
_STEP = re.compile(
    rb"%(?<=\d%)(?: Completed \||\|[^|]*\|) (\d{1,12})/(\d{1,12}) \[(\d+:\d\d(?::\d\d)?)<(?:\d+:\d\d|\?)"
)
"""The figures of an update, where the line's shape vouches for what stands around them."""
Put = tuple[bytes, int, int, int, int]
"""A line that was put off, where its first update begins in it, its updates, its number and its offset in the log."""
_NONE = Steps([], [], [], [])
_AT_ONCE = 8
"""So many lines are looked at first for where the bar began anew."""
_PERCENT = 3
"""Characters that an update has before its percent sign, behind its label."""


class BarReader(Protocol):
    """What reads the bars in the end; `before`: what the bar showed before `text`, not having reached its end."""

    def read_bar(self, worker: str | None, text: str, line: int, offset: int, before: Steps | None = None) -> bool: ...

    @property
    def works(self) -> Callable[[str | None, str, int], None]: ...


class _Bar:
    def __init__(self, worker: str | None, prefix: bytes, phase: str) -> None:
        self.worker = worker
        self.phase = phase
        self.prefix = prefix
        """What each update bears before its label, or the line before its first one."""
        self.lines: list[Put] = []

    def text(self, update: bytes) -> str:
        return clean(update[len(self.prefix) :] if update.startswith(self.prefix) else update).rstrip()


class _Head(NamedTuple):
    """How a bar's line begins, up to its first figure."""

    bar: _Bar
    named: bytes
    """What each update begins with."""
    start: int
    """Where the first update begins."""
    returns: int
    """Carriage returns before it."""


class Redrawn:
    """The lines put off while one block is read; nothing outlives the block."""

    def __init__(self, reader: BarReader) -> None:
        self._reader = reader
        self._works = reader.works
        self._heads: dict[bytes, _Head] = {}
        self._bars: dict[bytes, _Bar] = {}
        self._moving: dict[bytes | None, bytes] = {}
        """The bar that each worker moves."""

    def put_off(self, line: bytes, number: int, offset: int) -> bool:
        """Whether the line, without its line feed and known to be updates only, can wait until `settle`."""
        text = line[: line.find(b"%") - _PERCENT]
        head = self._heads.get(text) or self._begin(line, text, number, offset)
        if head is None or b"100%" in line:  # the end of a bar is a step of its own
            return False
        updates = len(line) - len(line.replace(b"\r", b"")) - head.returns + 1  # far quicker than `count`
        if line.count(head.named) != updates:
            return False
        bar = head.bar
        bar.lines.append((line, head.start, updates, number, offset))
        if bar.phase:
            self._works(bar.worker, bar.phase, number)
        return True

    def settle(self) -> None:
        """Read what was put off."""
        bars = list(self._bars.values())
        self._heads.clear()
        self._bars.clear()
        self._moving.clear()
        for bar in bars:
            self._settle(bar)

    def _settle(self, bar: _Bar) -> None:
        steps = _latest_run(bar.lines)
        if steps is None:  # an update on the way was torn: read them one by one
            for line, start, _, number, offset in bar.lines:
                for update in line[start:].split(b"\r"):
                    self._reader.read_bar(bar.worker, bar.text(update), number, offset, _NONE)
        elif bar.lines:
            line, _, _, number, offset = bar.lines[-1]
            last = bar.text(line[line.rfind(b"\r") + 1 :])
            self._reader.read_bar(bar.worker, last, number, offset, steps.part(0, -1))

    def _begin(self, line: bytes, text: bytes, number: int, offset: int) -> _Head | None:
        """A bar's first line, or one that begins in another way; None when it has to be read at once."""
        form = _FORM.match(line)
        first = _UPDATE.match(line, len(text))
        if form is None or first is None:
            return None
        prefix, carried, label = form["prefix"] or b"", form["carried"], form["label"]
        if not (prefix or form["return"]) or (carried and not prefix):
            return None
        start = form.end() - 1 if carried or not prefix else form.start("prefix")
        key = prefix + text[start:] if carried else text[start:]
        if self._moving.get(label, key) != key or (key not in self._bars and len(self._bars) >= MAX_BARS):
            self.settle()
        bar = self._bars.get(key)
        if bar is None:
            bar = self._new(prefix, bool(carried), line[start : first.end()], number, offset)
            if bar is None:
                return None
            self._moving[label], self._bars[key] = key, bar
        head = self._heads[text] = _Head(bar, text[start:], start, line.count(b"\r", 0, start))
        return head

    def _new(self, prefix: bytes, carried: bool, update: bytes, number: int, offset: int) -> _Bar | None:
        """Read its first update, which may begin a phase; None when more stands before it than a prefix and a label."""
        who = read_line(clean(prefix if carried else update))
        said = read_line(clean(update)) if carried else who
        shown = read_bar(said.text)
        bar = _Bar(who.origins[0].label, prefix, running(shown) if shown else "")
        if said.source or said.hint or len(who.origins) != 1 or said.text != bar.text(update):
            return None
        if (prefix and not who.origins[0].label) or (not prefix and who.origins[0].key):
            return None
        self._reader.read_bar(bar.worker, said.text, number, offset)
        return bar


def _latest_run(lines: list[Put]) -> Steps | None:
    """What the lines show from right before the bar began anew for the last time; None when one of them was torn."""
    parts, stop, take = [_NONE], len(lines), _AT_ONCE
    while stop:
        start = max(0, stop - take)
        earlier = _steps(lines[start:stop])
        if earlier is None:
            return None
        began = joined((earlier, parts[-1].part(0, 1))).last_run()
        parts.append(earlier.part(max(0, began - 1)))
        if began:
            break
        stop, take = start, 2 * take
    return joined(parts[::-1])


def _steps(lines: list[Put]) -> Steps | None:
    """What the lines show, one update after another; None when an update lacks one of its figures."""
    places: list[tuple[int, int]] = []
    for _, _, updates, number, offset in lines:
        places += [(number, offset)] * updates
    seen = _STEP.findall(b"\r".join([line[start:] for line, start, _, _, _ in lines]))
    if len(seen) != len(places):
        return None
    done, total, clocks = zip(*seen, strict=True)
    return Steps([*map(int, done)], [*map(int, total)], [*map(_SECONDS.__getitem__, clocks)], places)


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
