"""The log reader: bytes in, findings out."""

from __future__ import annotations

import re
from dataclasses import replace
from io import BytesIO
from itertools import accumulate

from remote.logs import embedded, layouts, saved, signs
from remote.logs.diagnosis import diagnose
from remote.logs.fatal import FatalReader
from remote.logs.findings import Findings
from remote.logs.fold import Fold
from remote.logs.kinds import kind_of
from remote.logs.prefixes import Line, Origin, read_line
from remote.logs.progress import ProgressReader, concerns_all, end_of_bar
from remote.logs.records import Segment, Splitter, clean
from remote.logs.redrawn import Redrawn
from remote.logs.repeats import whole
from remote.logs.skim import PLAIN, UPDATES, Shapes
from remote.logs.tracebacks import Stream
from remote.logs.weave import Weaver
from remote.logs.wrapping import Wrapping

MAX_STREAMS = 256
PIECE_BYTES = 128 * 1024
IDLE_LINES = 4096
"""A traceback that got no line for so long is not waited for any more."""
IDLE_MESSAGE_LINES = 256
"""The same for further lines of its message: they were written together with the first."""

_STARTS = ("Traceback (most recent", '  File "', *layouts.SECONDARY, *layouts.STACKS, "Exception in thread")
"""What a stream's first line of interest holds."""
_SHAPES = Shapes(signs.TOKENS, woven=signs.WOVEN, bar=signs.BAR)
"""Shared by all readers: it remembers sentences, not logs."""
_NOT_PLAIN = re.compile(b"[^%c]" % PLAIN)
_ATTEMPT = re.compile(
    r"[=#*@\- ]*attempt \d+[ =:#*\-]*$|Initializing a V1 LLM engine|.{0,80}Initializing hidden states generator"
)


class LogReader:
    """Pure and incremental: bytes in, findings out, the same whatever the chunks. No I/O; memory is bounded."""

    def __init__(self, restarted: str = "") -> None:
        """`restarted`: why the log is read anew, for the findings ("rotated", "truncated")."""
        self._restarted = restarted
        self._splitter = Splitter()
        self._streams: dict[tuple[str, str], Stream] = {}
        self._open: set[tuple[str, str]] = set()
        self._weaver = Weaver(self._fit)
        self._wrapping = Wrapping()
        self._fold = Fold()
        self._progress = ProgressReader()
        self._fatal = FatalReader(self._extraction)
        self._sequence = 0
        self._attempts: list[int] = []
        self._carried: Origin | None = None
        self._transport = ""
        self._previous = b""
        self._crlf_everywhere = False
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
            for stream in self._streams.values():
                stream.finish()
            self._open.clear()
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
        state = (self._version, self._fold.version, self._progress.version, self._fatal.version, tail)
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
        diagnosis = diagnose(self._fold.errors, self._attempts, deaths)
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
        """Whole lines up to `end`, in pieces that the processor's cache can hold."""
        start = 0
        if self._splitter.writing:
            start = data.index(b"\n") + 1
            self._read(self._splitter.complete(data[: start - 1]))
        self._redrawn = Redrawn(self._progress)
        while start < end:
            stop = data.rfind(b"\n", start, start + PIECE_BYTES) + 1 or data.index(b"\n", start + PIECE_BYTES) + 1
            self._piece(data[start:stop])
            start = stop
        self._redrawn.settle()
        self._redrawn = None

    def _piece(self, piece: bytes) -> None:
        """Read the lines that can matter and pass over the others."""
        splitter, redrawn = self._splitter, self._redrawn
        assert redrawn is not None
        first, offset = splitter.lines_read + 1, splitter.bytes_passed
        kinds = _SHAPES.kinds(piece)
        busy = self._busy
        if busy or _NOT_PLAIN.search(kinds):
            lines = BytesIO(piece).readlines()
            starts = list(accumulate(map(len, lines), initial=offset))
        waits, place = self._bars_can_wait, 0
        while place < len(kinds):
            if not busy:
                found = _NOT_PLAIN.search(kinds, place)
                if found is None:
                    break
                place = found.start()
            line, kind = lines[place], kinds[place]
            if not (kind == UPDATES and waits and redrawn.put_off(line[:-1], first + place, starts[place])):
                splitter.move_to(first + place - 1, starts[place])
                if place:
                    self._previous = _last_text(lines[place - 1])
                self._read(line[:-1], kind)
                busy, waits = self._busy, self._bars_can_wait
            place += 1
        splitter.move_to(first + len(kinds) - 1, offset + len(piece))
        self._previous = _last_text(piece[piece.rfind(b"\n", 0, -1) + 1 :])

    @property
    def _bars_can_wait(self) -> bool:
        return not (self._weaver.busy or self._wrapping.waits or self._fatal.waiting or self._progress.crowded)

    def _settle_bars(self, worker: str | None = None) -> None:
        """What comes next depends on the bars that were put off: on those of one worker, or on all."""
        if self._redrawn is not None:
            self._redrawn.settle(worker.encode() if worker else None)

    def _read(self, line: bytes, kind: int = signs.ANY) -> None:
        """`kind`: what the shape of the line says; it spares the search for anything else."""
        among = signs.ANY if kind == UPDATES else kind
        for segment in self._splitter.line(line):
            self._segment(segment, among)

    @property
    def _busy(self) -> bool:
        """Lines without any token matter too: a traceback is being printed, or texts were parted from prefixes."""
        return bool(self._open) or self._weaver.busy or self._wrapping.waits

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
            self._embedded(whole, segment)
        *updates, last = text.encode("utf-8", "replace").split(b"\r")
        for update in updates:
            self._segment(segment._replace(data=update, end="return"))
        self._segment(segment._replace(data=last, first=segment.first and not updates))

    def _watched(self, segment: Segment, borne: int) -> None:
        before = (self._sequence, self._fatal.deaths)
        self._line(segment, borne)
        if before != (self._sequence, self._fatal.deaths):
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
            self._embedded(text, segment)
        line = self._wrapping.read(text)
        if segment.first:
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
            label = origin.label or line.hint
            self._settle_bars(None if concerns_all(line.text) else label)
            self._progress.read_milestone(label, line.text, segment.line)
        if borne & signs.ATTEMPT and _ATTEMPT.match(line.text):
            self._new_attempt()
        if segment.end == "return" and not line.text[:1].isspace() and "Traceback" not in line.text:
            return
        self._traceback_line(origin, line, segment, borne)

    def _new_attempt(self) -> None:
        self._settle_bars()
        self._attempts = [*self._attempts[-99:], self._sequence + 1]
        self._progress.restart()
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

    # -- tracebacks

    def _traceback_line(self, origin: Origin, line: Line, segment: Segment, borne: int) -> None:
        key = (origin.key, f"{line.level} {line.source}" if line.source else "")
        if self._open:
            self._settle(key, segment)
        stream = self._streams.get(key)
        text, stands_for = whole(line.text)
        if stands_for > 1 and (stream is None or not stream.open) and (error := layouts.exception_line(text)):
            self._fold.again(*error, stands_for)
            return
        if stream is None:
            if not (borne & signs.TRACE and any(start in line.text for start in _STARTS)):
                return
            if len(self._streams) >= MAX_STREAMS:
                self._retire()
            stream = self._streams[key] = Stream(self._fold.add, self._next)
        goes_on = False
        if segment.end == "crlf":
            if not line.source and line.text:
                self._crlf_everywhere = True
            goes_on = bool(line.source) and not self._crlf_everywhere
        stream.stands_for = stands_for
        was_in_message = stream.in_message
        stream.read(origin, line.hint, line.level, text, segment.line, segment.offset, goes_on)
        self._version += was_in_message or stream.in_message
        if stream.open:
            self._open.add(key)
        else:
            self._open.discard(key)

    def _settle(self, key: tuple[str, str], segment: Segment) -> None:
        """End the messages that this line shows to have ended, and what nothing was heard of for long."""
        for other in list(self._open):
            stream = self._streams[other]
            same_process = other[0] == key[0]
            # Without a prefix only the very next line can belong to a message.
            interrupted = not other[0] and not other[1] and stream.last_line + 1 < segment.line
            if interrupted or (same_process and other != key):
                stream.end_message()
            if segment.line - stream.last_line > (IDLE_MESSAGE_LINES if stream.in_message else IDLE_LINES):
                stream.finish()
            if not stream.open:
                self._open.discard(other)

    def _retire(self) -> None:
        idle = [key for key, stream in self._streams.items() if not stream.open]
        for key in (idle or list(self._streams))[: MAX_STREAMS // 2]:
            self._streams.pop(key).finish()
            self._open.discard(key)

    def _next(self) -> int:
        self._sequence += 1
        return self._sequence

    def _fit(self, origin: Origin, line: Line) -> int:
        """How well the line goes on what that process wrote; its fellows often print the same traceback."""
        source = f"{line.level} {line.source}" if line.source else ""
        stream = self._streams.get((origin.key, source))
        if stream is None:
            return 1 if not line.text[:1].isspace() else -1
        fellows = [other for key, other in self._streams.items() if key[1] == source and other is not stream]
        told = [answer for other in fellows if (answer := other.foretells(stream, line.text)) is not None]
        return stream.fit(line.text) + (4 if any(told) else -3 if told else 0)

    def _embedded(self, text: str, segment: Segment) -> None:
        """A traceback whose line ends were escaped, as in a JSON string: a small log of its own."""
        streams: dict[str, Stream] = {}
        origin = Origin()
        for piece in embedded.lines(text):
            line = read_line(piece)
            origin = line.origins[-1] if line.origins[-1].key else origin
            stream = streams.setdefault(origin.key, Stream(self._fold.add, self._next))
            stream.read(origin, line.hint, line.level, line.text, segment.line, segment.offset, False)
        for stream in streams.values():
            stream.finish()


def _last_text(line: bytes) -> bytes:
    """What stands behind the last carriage return of a line, as far as a prefix can reach."""
    text = line.rstrip(b"\r\n")
    return text[text.rfind(b"\r") + 1 :][:256]
