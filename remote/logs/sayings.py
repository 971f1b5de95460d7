"""Lines that engines say again and again with other numbers in them: what the first one meant, the next ones mean too.

Only lines in the engine's own plain form: the process's prefix, a record's head, or both, then words in ASCII. Others
are read one by one.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from remote.logs import signs
from remote.logs.fatal import is_hang_warning
from remote.logs.milestones import Figure, figures_of
from remote.logs.phases import phase_of_line
from remote.logs.prefixes import Origin, read_line
from remote.logs.records import clean
from remote.logs.repeats import MARK

MAX_SAYINGS = 4096
MAX_ORIGINS = 1024
MAX_BYTES = 1024
"""Longer texts are read one by one, so that what is remembered stays small."""

_COLOUR = rb"(?:\x1b\[[\d;]*m)?"
_FORM = re.compile(
    rb"(" + _COLOUR + rb"\([A-Za-z_]\w* pid=\d+\)" + _COLOUR + rb" ?)?"
    rb"(?:" + _COLOUR + rb"(DEBUG|INFO|WARNING|ERROR|CRITICAL)" + _COLOUR + rb" \d\d-\d\d \d\d:\d\d:\d\d"
    rb" \[([!-\\^-~]{1,200}:\d+)\] ?)?"
    rb"(?!(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\b)(?=[A-Za-z]+(?:[^A-Za-z\x1b\0#]|$))"
)
"""Behind prefix and head stands a word that no escape parts: not a head in another form."""
_WORDS = re.compile(rb"[ -~]+")
_ZEROS = bytes.maketrans(b"123456789", b"000000000")


class Said(NamedTuple):
    """A line in the plain form."""

    origin: Origin
    source: str
    """`LEVEL file.py:12` of the record's head, '' without one."""
    text: bytes


class Saying(NamedTuple):
    """What a text means whatever its digits are, one by one."""

    phase: str
    """The phase that it begins, '' for none."""
    figures: tuple[Figure, ...]
    hang_warning: bool


class _Origins(dict[bytes, Origin]):
    """By the prefix of a process; a log has few of them."""

    def __missing__(self, prefix: bytes) -> Origin:
        if len(self) >= MAX_ORIGINS:
            self.clear()
        origin = self[prefix] = read_line(clean(prefix)).origins[0]
        return origin


class _Sayings(dict[bytes, Saying | None]):
    """By the text with a zero for each digit; None for one that has to be read anew each time."""

    def __missing__(self, text: bytes) -> Saying | None:
        meant = _meaning(text)
        if len(self) >= MAX_SAYINGS:
            self.clear()
        self[text] = meant
        return meant


_ORIGINS = _Origins()
_SAYINGS = _Sayings()
"""Shared by all readers: they remember sentences, not logs."""


def said(line: bytes) -> Said | None:
    """The line's parts, for a line without its line feed; None for one in another form."""
    form = _FORM.match(line)
    if form is None:
        return None
    prefix, level, source = form.groups()
    if not (prefix or level):
        return None
    return Said(_ORIGINS[prefix or b""], f"{level.decode()} {source.decode()}" if level else "", line[form.end() :])


def meaning(text: bytes) -> Saying | None:
    """What the text of a line that bears figures, or tells of a death, means; None when only reading it tells."""
    return _SAYINGS[text.translate(_ZEROS)] if len(text) <= MAX_BYTES else None


def _meaning(text: bytes) -> Saying | None:
    if not _WORDS.fullmatch(text) or MARK in text:
        return None
    borne, words = signs.signs_of(text), text.decode("ascii").rstrip()
    figures = bool(borne & signs.FIGURE)
    return Saying(
        phase_of_line(words) if figures else "",
        figures_of(words) if figures else (),
        bool(borne & signs.DEATH) and is_hang_warning(words),
    )
