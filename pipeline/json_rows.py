"""The rows of a JSON Lines file or of one JSON array, one at a time, in memory bounded by the longest row."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

CHUNK = 1 << 20
ROW_CAP = 256 << 20
"""Characters of one row."""
_SPACES = re.compile(r"[ \t\r\n]*")


@dataclass(frozen=True)
class Row:
    line: int
    """Where it begins, counted from 1."""
    value: Any
    in_array: bool = False


@dataclass(frozen=True)
class BadRow:
    line: int
    """Where it is broken."""
    fault: str
    """With what to do about it after a semicolon."""
    in_array: bool = False


def rows(path: Path) -> Iterator[Row | BadRow]:
    """Raises OSError. After a broken row of JSON Lines the next follow; an array ends with its first."""
    with path.open("rb") as file:
        start = file.read(3)
        file.seek(3 if start == codecs.BOM_UTF8 else 0)
        is_array = _first(file) == b"["
        file.seek(3 if start == codecs.BOM_UTF8 else 0)
        yield from _array(file) if is_array else _lines(file)


def _first(file: BinaryIO) -> bytes:
    while (byte := file.read(1)) and byte in b" \t\r\n":
        pass
    return byte


def _lines(file: BinaryIO) -> Iterator[Row | BadRow]:
    number = 0
    while line := file.readline(ROW_CAP + 1):
        number += 1
        if len(line) > ROW_CAP:
            yield BadRow(number, f"is longer than {ROW_CAP >> 20} MB; write one object a line")
            return
        if not line.strip():
            continue
        try:
            value = json.loads(line.decode())
        except UnicodeDecodeError as error:
            yield BadRow(number, f"is not UTF-8 (byte {error.start + 1}); save the file as UTF-8")
        except RecursionError:
            yield BadRow(number, "is nested too deeply; write one conversation a line")
        except ValueError as error:
            yield BadRow(number, f"is no JSON ({error}); write one object a line")
        else:
            yield Row(number, value)


class _Text:
    """What is decoded of a file and not taken yet."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._size = CHUNK
        self.text = ""
        self.at = 0
        """Where the rest begins that is not taken."""
        self.line = 1
        """The line of that place."""
        self.whole = False

    @property
    def left(self) -> int:
        return len(self.text) - self.at

    def more(self) -> None:
        data = self._file.read(self._size)
        self._size = min(2 * self._size, ROW_CAP)  # a row longer than what is here is not parsed over and over
        self.text, self.at = self.text[self.at :] + self._decoder.decode(data, final=not data), 0
        self.whole = not data

    def take(self, end: int) -> None:
        self.line += self.text.count("\n", self.at, end)
        self.at = end
        self._size = CHUNK

    def next(self) -> str:
        """The next character that is no white space, not taken; "" at the end."""
        while True:
            self.take(_SPACES.match(self.text, self.at).end())  # type: ignore[union-attr]
            if self.left or self.whole:
                return self.text[self.at : self.at + 1]
            self.more()


def _array(file: BinaryIO) -> Iterator[Row | BadRow]:
    text = _Text(file)
    try:
        text.next()
        text.take(text.at + 1)
        if text.next() == "]":
            text.take(text.at + 1)
        elif not (yield from _items(text)):
            return
        if text.next():
            yield BadRow(text.line, "has something behind the end of the array; remove it", True)
    except UnicodeDecodeError:
        yield BadRow(text.line, "or a line behind it is not UTF-8; save the file as UTF-8", True)


def _items(text: _Text) -> Generator[Row | BadRow, None, bool]:
    """True when the array ended as it should."""
    decoder = json.JSONDecoder()
    while True:
        text.next()
        try:
            value, end = decoder.raw_decode(text.text, text.at)
        except json.JSONDecodeError as error:
            if not text.whole and _may_go_on(error, text.text) and text.left <= ROW_CAP:
                text.more()
                continue
            line = text.line + text.text.count("\n", text.at, error.pos)
            yield BadRow(line, f"is no JSON ({error.msg}); mend that place", True)
            return False
        except RecursionError:
            yield BadRow(text.line, "is nested too deeply; write one conversation an item", True)
            return False
        except ValueError as error:  # a number with too many digits
            yield BadRow(text.line, f"is no JSON ({error}); mend that place", True)
            return False
        yield Row(text.line, value, True)
        text.take(end)
        sign = text.next()
        if sign not in (",", "]"):
            found = repr(text.text[text.at : text.at + 20]) if sign else "the end of the file"
            yield BadRow(text.line, f"has {found} where a comma or the array's end belongs; mend that place", True)
            return False
        text.take(text.at + 1)
        if sign == "]":
            return True


def _may_go_on(error: json.JSONDecodeError, text: str) -> bool:
    """Whether the text may only be cut off where it was read to, rather than broken."""
    return error.msg.startswith("Unterminated string") or error.pos >= len(text) - 16
