"""Logs in UTF-16, as PowerShell's `>` writes them, made UTF-8 before they are read."""

from __future__ import annotations

import codecs
import re

_MARKS = ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_HELD = 8
"""Bytes that tell the encoding where the mark is missing, as in the end of a log."""
_UNMARKED = (
    (re.compile(rb"(?:[\t\n\r -~]\0){4}"), "utf-16-le"),
    (re.compile(rb"(?:\0[\t\n\r -~]){4}"), "utf-16-be"),
)


class ToUtf8:
    """Incremental, in bounded memory: bytes in UTF-16 come out in UTF-8, all others as they are.

    Lines stay lines; the offsets that a reader of it finds are those of the text in UTF-8, not of the log.
    """

    def __init__(self) -> None:
        self.encoding = ""
        """`utf-16-le`, `utf-16-be`, or `utf-8` for everything else; '' while not known."""
        self.bytes_read = 0
        """Bytes of the log itself."""
        self._held = b""
        self._decoder: codecs.IncrementalDecoder | None = None

    def feed(self, data: bytes) -> bytes:
        self.bytes_read += len(data)
        if not self.encoding:
            self._held += data
            if len(self._held) < _HELD:
                return b""
            data = self._begin()
        return self._utf8(data)

    def finish(self) -> bytes:
        """What was held; half a character becomes U+FFFD."""
        return self._utf8(b"" if self.encoding else self._begin(), final=True)

    def _begin(self) -> bytes:
        """Find out the encoding; gives what was held, without its mark."""
        data, self._held = self._held, b""
        for mark, self.encoding in _MARKS:
            if data.startswith(mark):
                data = data[len(mark) :]
                break
        else:
            self.encoding = next((name for form, name in _UNMARKED if form.match(data)), "utf-8")
        if self.encoding != "utf-8":
            self._decoder = codecs.getincrementaldecoder(self.encoding)("replace")
        return data

    def _utf8(self, data: bytes, final: bool = False) -> bytes:
        return data if self._decoder is None else self._decoder.decode(data, final).encode("utf-8", "replace")
