"""The log reader: bytes in, findings out."""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import replace
from io import BytesIO
from itertools import accumulate

from remote.logs import embedded, layouts, repeats, saved, sayings, signs
from remote.logs.behind import CHAIN, NOTHING, Behind, Pair, last_two
from remote.logs.continued import Continued
from remote.logs.diagnosis import diagnose
from remote.logs.fatal import FatalReader
from remote.logs.findings import Findings
from remote.logs.kinds import kind_of
from remote.logs.outline import cuts, outline_of
from remote.logs.prefixes import Line, Origin, read_line
from remote.logs.progress import ProgressReader, end_of_bar
from remote.logs.records import Segment, Splitter, clean
from remote.logs.redrawn import Redrawn
from remote.logs.skim import PLAIN, RETURN, UPDATES
from remote.logs.streams import Streams
from remote.logs.weave import Weaver
from remote.logs.wrapping import Wrapping

_OFTEN = frozenset({PLAIN, signs.FIGURE, signs.DEATH})
"""Kinds of line that are said again and again; a traceback being printed makes the plain ones matter."""
_ATTEMPT = re.compile(
    r"[=#*@\- ]*attempt \d+[ =:#*\-]*$|Initializing a V1 LLM engine|.{0,80}Initializing hidden states generator"
)


class LogReader:
    """Pure and incremental: bytes in, findings out, the same whatever the chunks. No I/O; memory is bounded."""

    def __init__(self, restarted: str = "") -> None:
        """`restarted`: why the log is read anew, for the findings ("rotated", "truncated")."""
        self._restarted = restarted
        self._splitter = Splitter()
        self._streams = Streams()
        self._weaver = Weaver(self._streams.fit)
        self._wrapping = Wrapping()
        self._continued = Continued()
        self._progress = ProgressReader()
        self._fatal = FatalReader(self._extraction)
        self._attempts: list[int] = []
        self._carried: Origin | None = None
        self._transport = ""
        self._previous = b""
        self._behind: Pair = NOTHING
        self._finished = False
        self._redrawn: Redrawn | None = None
        self._version = 0
        self._cached: tuple[object, Findings] | None = None

    def feed(self, data: bytes, at: float | None = None) -> None:
        """Read on. `at`: when these bytes arrived, in seconds of any one clock; without bytes, that it is so late now.

        Raises ValueError after `finish`.
        """
        if self._finished:
            raise ValueError("The log was finished; a new LogReader reads the next one.")
        self._progress.arrives(at)
        self._splitter.bytes_read += len(data)
        end = data.rfind(b"\n") + 1
        if end:
            self._block(data, end)
        self._splitter.keep(data[end:])
        for segment in self._splitter.updates():
            self._segment(segment)
        self._progress.feed(data)

    def finish(self) -> Findings:
        """The log ends here: tracebacks still being printed are kept as truncated."""
        if not self._finished:
            for segment in self._splitter.finish():
                self._segment(segment)
            for segment in self._wrapping.rest():
                self._watched(segment, signs.signs_of(segment.data))
            self._streams.finish()
            self._finished = True
            self._version += 1
        return self.findings()

    def save(self) -> bytes:
        """Its state at the byte offset `findings().bytes_read`, for `restore`. A few KiB, more with many errors."""
        self._cached = None
        return saved.save(self)

    @classmethod
    def restore(cls, data: bytes) -> LogReader:
        """The reader that `save` was called on; feed it what follows. Raises state.StateError for anything else."""
        return saved.restore(cls, data)

    def follows(self, before: bytes) -> bool:
        """Whether `before`, the log's bytes right before the offset, were read there: not so once it was rewritten."""
        return self._progress.ends_with(before)

    def findings(self) -> Findings:
        """Everything recognised so far. A traceback appears once its exception line was read."""
        tail = self._splitter.tail()
        if not signs.signs_of(tail, signs.BAR):
            tail = b""
        state = (self._version, self._streams.version, self._progress.version, self._fatal.version, tail)
        if self._cached is None or self._cached[0] != state:
            self._cached = (state, self._make(tail))
        read = (self._splitter.bytes_read, self._splitter.lines_read)
        found = self._cached[1]
        stalls = self._progress.stalls
        if (found.bytes_read, found.lines_read) != read or found.stalls != stalls:
            found = replace(found, bytes_read=read[0], lines_read=read[1], stalls=stalls)
            self._cached = (state, found)
        return found

    def _make(self, tail: bytes) -> Findings:
        deaths = self._fatal.found
        diagnosis = diagnose(self._streams.errors, self._attempts, deaths)
        kind = kind_of(diagnosis.tracebacks, deaths, diagnosis.root_cause, diagnosis.root_cause_fatal)
        bars = self._progress.bars
        if tail:
            line = read_line(clean(tail))
            carried = self._carried if self._splitter.mid_line else None
            origin = line.origins[-1] if line.origins[-1].label else carried
            bars = self._progress.with_bar(origin.label if origin else None, line.text)
        return Findings(
            tracebacks=diagnosis.tracebacks,
            progress=bars,
            milestones=self._progress.milestones,
            fatal=deaths,
            phases=self._progress.phases,
            root_cause=diagnosis.root_cause,
            root_cause_fatal=diagnosis.root_cause_fatal,
            reason=diagnosis.reason,
            failure_kind=kind.name if kind else "",
            remedy=kind.remedy if kind else "",
            restarted=self._restarted,
        )

    # -- lines

    def _block(self, data: bytes, end: int) -> None:
        """Whole lines up to `end`, piece by piece."""
        start = 0
        if self._splitter.writing:
            start = data.index(b"\n") + 1
            whole, offset = not self._splitter.mid_line, self._splitter.bytes_passed
            line = self._splitter.complete(data[: start - 1])
            self._read(line)
            self._behind = last_two(
                line + b"\n" if whole else b"\n", len(line) + 1 if whole else 1, offset, self._behind
            )
        self._redrawn = Redrawn(self._progress)
        for begin, stop in cuts(data, start, end):
            self._piece(data[begin:stop])
        self._redrawn.settle()
        self._redrawn = None

    def _piece(self, piece: bytes) -> None:
        """Read the lines that can matter and pass over the others."""
        splitter, redrawn, earlier = self._splitter, self._redrawn, self._behind
        assert redrawn is not None
        first, offset = splitter.lines_read + 1, splitter.bytes_passed
        kinds, places, spans = outline_of(piece)
        busy, waits = self._busy, self._bars_can_wait
        starts: list[int] = []
        place = row = 0
        while place < len(kinds):
            if busy:
                starts = starts or [*accumulate(map(len, BytesIO(piece).readlines()), initial=0)]
                start, stop = starts[place], starts[place + 1] - 1
            else:
                row = bisect_left(places, place, row)
                if row == len(places):
                    break
                place, (start, stop) = places[row], spans[row]
            line, kind = piece[start:stop], kinds[place]
            if not waits or not (
                redrawn.put_off(line, first + place, offset + start)
                if kind == UPDATES
                else self._is_read(line, kind, first + place)
            ):
                splitter.move_to(first + place - 1, offset + start)
                if place:
                    self._previous = _last_text(piece, start)
                    if kind & signs.TRACE and CHAIN in line:
                        self._behind = last_two(piece, start, offset, earlier)
                self._read(line, kind)
                busy, waits = self._busy, self._bars_can_wait
            place += 1
        splitter.move_to(first + len(kinds) - 1, offset + len(piece))
        self._previous = _last_text(piece, len(piece))
        self._behind = last_two(piece, len(piece), offset, earlier)

    def _is_read(self, line: bytes, kind: int, number: int) -> bool:
        """Whether the line needs no further reading: it was said before, or nobody waits for it."""
        if kind not in _OFTEN:  # the shape may have said too much
            kind = signs.signs_of(line, kind) if kind < RETURN else kind
        if kind not in _OFTEN or self._wrapping.learnt:
            return False
        said = sayings.said(line)
        if said is None or not self._streams.passes(said.origin, said.source, number):
            return False
        if kind == PLAIN:
            return repeats.MARK not in line
        meant = sayings.meaning(said.text)
        if meant is None:
            return False
        if kind == signs.DEATH:
            return meant.hang_warning and self._fatal.warns_again(said.origin)
        if meant.phase or meant.figures:
            self._progress.figures(said.origin.label, meant.phase, meant.figures, said.text.decode(), number)
        return True

    @property
    def _bars_can_wait(self) -> bool:
        return not (
            self._weaver.busy
            or self._wrapping.waits
            or self._continued.goes_on
            or self._fatal.waiting
            or self._progress.crowded
        )

    def _settle_bars(self) -> None:
        """What comes next depends on the bars that were put off."""
        if self._redrawn is not None:
            self._redrawn.settle()

    def _read(self, line: bytes, kind: int = signs.ANY) -> None:
        """`kind`: what the shape of the line says; it spares the search for anything else."""
        among = signs.ANY if kind == UPDATES else kind
        for segment in self._splitter.line(line):
            self._segment(segment, among)

    @property
    def _busy(self) -> bool:
        """Lines without any token matter too: a traceback is being printed, or texts were parted from prefixes."""
        return (
            self._streams.busy
            or self._weaver.busy
            or self._wrapping.waits
            or self._continued.goes_on
            or self._fatal.dumping
        )

    def _segment(self, segment: Segment, among: int = signs.ANY) -> None:
        if segment.first:
            self._carried, self._transport = None, ""
        data = segment.data
        borne = signs.signs_of(data, among)
        glued = end_of_bar(data) if borne & signs.BAR else 0
        wrapped = embedded.unwrap(clean(data)) if (borne or self._busy) and data.endswith(b"}") else None
        if wrapped is not None:
            self._unwrapped(wrapped, segment, borne)
        elif glued:
            self._segment(segment._replace(data=data[:glued], end="return"), signs.BAR)
            self._segment(segment._replace(data=data[glued:], first=False))
        elif borne or self._busy:
            ready = [segment]
            if borne & signs.TRACE or self._wrapping.waits:
                ready = self._wrapping.arrange(segment)
            for each in ready:
                self._watched(each, borne if each is segment else signs.signs_of(each.data))
        elif segment.end == "return" and len(data) < 256:
            self._carry(data, segment.first)
        if segment.end != "return":
            self._previous = data[:256]

    def _unwrapped(self, text: str, segment: Segment, borne: int) -> None:
        """The line that an object held; a traceback can stand beside it."""
        if borne & signs.TRACE and embedded.may_hold(whole := clean(segment.data)):
            self._streams.read_embedded(whole, segment)
        *updates, last = text.encode("utf-8", "replace").split(b"\r")
        for update in updates:
            self._segment(segment._replace(data=update, end="return"))
        self._segment(segment._replace(data=last, first=segment.first and not updates))

    def _watched(self, segment: Segment, borne: int) -> None:
        before = (self._streams.sequence, self._fatal.deaths)
        self._line(segment, borne)
        if before != (self._streams.sequence, self._fatal.deaths):
            self._progress.failed(segment.line, segment.offset)

    def _carry(self, data: bytes, first: bool) -> None:
        """A prefix, then a carriage return, then the bar that the prefix belongs to."""
        line = self._wrapping.read(clean(data))
        if first:
            self._transport = line.transport
        if not line.text:
            self._carried = line.origins[-1] if line.origins[-1].label else self._carried

    def _line(self, segment: Segment, borne: int) -> None:
        text = clean(segment.data)
        if borne & signs.TRACE and embedded.may_hold(text):
            self._streams.read_embedded(text, segment)
        line = self._wrapping.read(text)
        if segment.first:
            if line.transport or self._continued.record is not None:
                line = self._continued.read(line, text, segment.line, self._streams.awaits)
                if self._continued.over is not None:
                    self._streams.end_record(self._continued.over)
            self._transport = line.transport
        else:
            line = line.within(self._transport)
        if segment.end == "return" and not line.text:
            if line.origins[-1].label:
                self._carried = line.origins[-1]
            return
        origin = self._weaver.owner(line)
        bar_origin = origin
        if not origin.label and self._carried is not None:
            bar_origin = self._carried
        if borne & signs.BAR:
            self._settle_bars()
            if self._bar(bar_origin, line, segment):
                return
        if borne & signs.DEATH or self._fatal.waiting:
            self._fatal.read(origin, line.text, segment.line)
        if borne & signs.FIGURE:
            self._progress.read_milestone(origin.label or line.hint, line.text, segment.line)
        if borne & signs.ATTEMPT and _ATTEMPT.match(line.text):
            self._new_attempt(segment.line)
        if segment.end == "return" and not line.text[:1].isspace() and "Traceback" not in line.text:
            return
        if borne & signs.TRACE and line.text in layouts.CHAINS:
            self._never_raised(origin, line, segment)
        self._streams.read(origin, line, segment, borne)

    def _never_raised(self, origin: Origin, line: Line, segment: Segment) -> None:
        """What the chain begins with can be an exception that has no traceback: nothing but its line was printed."""
        said, blank = (self._wrapping.read(embedded.unwrap(text) or text) for text in map(_text, self._behind))
        if not blank.text and said.origins[-1].key == origin.key and layouts.surely(said.text):
            self._streams.never_raised(origin, said, segment.line - 2, self._behind[0].offset)

    def _new_attempt(self, line: int) -> None:
        self._attempts = [*self._attempts[-99:], self._streams.sequence + 1]
        self._progress.restart(line)
        self._version += 1

    def _bar(self, origin: Origin, line: Line, segment: Segment) -> bool:
        label = origin.label or line.hint
        if label is None and segment.first:
            # Containers turn the carriage return into a line feed: the prefix stands alone on the line before.
            text = clean(self._previous)
            before = read_line(embedded.unwrap(text) or text)
            if before.origins[-1].pid is not None and not before.text and not before.source:
                label = before.origins[-1].label
        return self._progress.read_bar(label, line.text, segment.line, segment.offset)

    def _extraction(self) -> tuple[int, int] | None:
        self._settle_bars()
        for bar in self._progress.bars:
            if bar.kind == "hidden_state_extraction" and bar.done is not None and bar.total is not None:
                return bar.done, bar.total
        return None


def _text(line: Behind) -> str:
    return clean(line.data.rstrip(b"\r"))


def _last_text(piece: bytes, end: int) -> bytes:
    """What stands behind the last carriage return of the line that ends there, as far as a prefix can reach."""
    text = piece[piece.rfind(b"\n", 0, end - 1) + 1 : end].rstrip(b"\r\n")
    return text[text.rfind(b"\r") + 1 :][:256]
