"""The tracebacks of a whole log: each process's lines go to a stream of its own, and one that fell silent is ended."""

from __future__ import annotations

from remote.logs import embedded, layouts, signs
from remote.logs.fold import Error, Fold
from remote.logs.prefixes import Line, Origin, read_line
from remote.logs.records import Segment
from remote.logs.repeats import whole
from remote.logs.tracebacks import Stream

MAX_STREAMS = 256
IDLE_LINES = 4096
"""A traceback that got no line for so long is not waited for any more."""
IDLE_MESSAGE_LINES = 256
"""The same for further lines of its message: they were written together with the first."""

_STARTS = (
    "Traceback (most recent",
    '  File "',
    *layouts.SECONDARY,
    *layouts.STACKS,
    "Exception in thread",
    " sub-exception",
)
"""What a stream's first line of interest holds."""


class Streams:
    """Parts the lines by process and, where vLLM heads each line, by its source tag; folds what the streams find."""

    def __init__(self) -> None:
        self._streams: dict[tuple[str, str], Stream] = {}
        self._open: set[tuple[str, str]] = set()
        self._fold = Fold()
        self._crlf_everywhere = False
        self.sequence = 0
        """Tracebacks begun so far."""
        self._changes = 0
        self._awaited: set[str] = set()
        """The processes that print a traceback now."""
        self._patience = 0
        """The last line before which none of them is given up for being silent."""

    @property
    def errors(self) -> list[Error]:
        return self._fold.errors

    @property
    def version(self) -> int:
        return self._fold.version + self._changes

    @property
    def busy(self) -> bool:
        """A traceback is being printed."""
        return bool(self._open)

    def passes(self, origin: Origin, source: str, number: int) -> bool:
        """Whether line `number` changes nothing: no sign of a traceback in it, by that process and with that tag.

        The tag is `LEVEL file.py:1`, '' without a head; the line stands for itself alone.
        """
        if (origin.key, source) in self._streams:
            return False
        return not self._open or (number <= self._patience and origin.key not in self._awaited)

    def awaits(self, origin: Origin, line: Line) -> bool:
        """Whether what `line` stands in of that process prints a traceback now."""
        stream = self._streams.get(_key(origin, line))
        return stream is not None and stream.open

    def never_raised(self, origin: Origin, line: Line, number: int, offset: int) -> None:
        """`line` is the exception that the chain announced next begins with, if it is no part of a traceback."""
        key = _key(origin, line)
        stream = self._streams.get(key)
        if stream is None:
            stream = self._new(key)
        stream.never_raised(origin, line.hint, line.level, line.text, number, offset)
        if stream.open:
            self._open.add(key)

    def _new(self, key: tuple[str, str]) -> Stream:
        if len(self._streams) >= MAX_STREAMS:
            self._retire()
        stream = self._streams[key] = Stream(self._fold.add, self._next)
        return stream

    def end_record(self, line: Line) -> None:
        """Of the record that `line` began there is no more."""
        stream = self._streams.get(key := _key(line.origins[-1], line))
        if stream is not None and stream.in_message:
            stream.end_message()
            self._open.discard(key)
            self._changes += 1

    def finish(self) -> None:
        for stream in self._streams.values():
            stream.finish()
        self._open.clear()

    def read(self, origin: Origin, line: Line, segment: Segment, borne: int) -> None:
        self._read(origin, line, segment, borne)
        if self._open:
            self._awaited = {key for key, _ in self._open}
            self._patience = min(_last_line_waited(key, self._streams[key]) for key in self._open)

    def _read(self, origin: Origin, line: Line, segment: Segment, borne: int) -> None:
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
            stream = self._new(key)
        goes_on = False
        if segment.end == "crlf":
            if not line.source and line.text:
                self._crlf_everywhere = True
            goes_on = bool(line.source) and not self._crlf_everywhere
        stream.stands_for = stands_for
        was_in_message = stream.in_message
        stream.read(origin, line.hint, line.level, text, segment.line, segment.offset, goes_on)
        self._changes += was_in_message or stream.in_message
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
        self.sequence += 1
        return self.sequence

    def fit(self, origin: Origin, line: Line) -> int:
        """How well the line goes on what that process wrote; its fellows often print the same traceback."""
        key = _key(origin, line)
        stream = self._streams.get(key)
        if stream is None:
            return 1 if not line.text[:1].isspace() else -1
        fellows = [other for at, other in self._streams.items() if at[1] == key[1] and other is not stream]
        told = [answer for other in fellows if (answer := other.foretells(stream, line.text)) is not None]
        return stream.fit(line.text) + (4 if any(told) else -3 if told else 0)

    def read_embedded(self, text: str, segment: Segment) -> None:
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


def _key(origin: Origin, line: Line) -> tuple[str, str]:
    return origin.key, f"{line.level} {line.source}" if line.source else ""


def _last_line_waited(key: tuple[str, str], stream: Stream) -> int:
    """The last line that does not end the stream, if none of them is its own or its process's."""
    if key == ("", ""):
        return stream.last_line + 1
    return stream.last_line + (IDLE_MESSAGE_LINES if stream.in_message else IDLE_LINES)
