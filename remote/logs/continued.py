"""Further lines of a record that bear no prefix of their own.

journalctl indents them by the prefix's width; syslog that was told to keep line feeds prints them as they are.
"""

from __future__ import annotations

from collections.abc import Callable

from remote.logs.prefixes import Line, Origin, read_line

_FRAMES = ('  File "', "  | ", "  + Exception Group ", "│ ")
"""What can only go on a traceback whose header stands behind a prefix."""


class Continued:
    """Remembers the latest record that a shipper's words stand before."""

    def __init__(self) -> None:
        self.record: Line | None = None
        """Where the latest record began; only then a line without a prefix can go it on."""
        self._last = 0
        """Number of the line read last: a record goes on with the very next one."""
        self._indented = False
        self.goes_on = False
        """The record has more than one line, and all of its lines have to be read."""
        self.over: Line | None = None
        """The record of several lines that ended right before the line read last."""

    def read(self, line: Line, text: str, number: int, awaits: Callable[[Origin, Line], bool]) -> Line:
        """`line` as its record's, where it goes on with one; `text` is the line as it was written.

        To be called for a line with a prefix, and for each while there is a record.
        `awaits`: whether the process prints a traceback now, in lines like that one.
        """
        record, is_next = self.record, self._last + 1 == number
        self._last, self.over = number, None
        if record is not None and not line.transport and is_next:
            inner = self._inner(record, line, text, awaits(record.origins[-1], record))
            if inner is not None:
                self.goes_on = True
                return inner
        self.over = record if self.goes_on else None
        self.record, self.goes_on, self._indented = line if line.transport else None, False, False
        return line

    def _inner(self, record: Line, line: Line, text: str, awaited: bool) -> Line | None:
        """The line as the record's; None when it is not."""
        if not (self.goes_on or awaited):
            return None
        if not self.goes_on:
            self._indented = len(text) > record.width and text[: record.width].isspace()
        if self._indented:
            if text[: record.width].strip():
                return None
            line = read_line(text[record.width :])
            if line.origins[-1].label is not None:
                return line.within(record.transport)
        else:
            named = line.source or line.origins[-1].label
            if named or not awaited or not (self.goes_on or text.startswith(_FRAMES)):
                return None
        line = line._replace(origins=record.origins[-1:], transport=record.transport)
        return line if line.source else line._replace(level=record.level, source=record.source)
