"""What shippers, schedulers and people put before every line: no list holds it all, so it is learnt from the lines.

Words before a traceback's header are either prose (`Scheduler hit an exception: Traceback …`) or stand before every
line. The line behind the header tells: it begins with the same words, other digits aside, only in the second case.
"""

from __future__ import annotations

import re

from remote.logs.prefixes import Line, read_line
from remote.logs.records import Segment, clean

MAX_FORMS = 16
MAX_HEAD = 300

_HEADER = re.compile(
    r"(?:^ *\| |(?:^|  )\+ )?(?:Exception Group )?Traceback \(most recent call last\):$"
    r"|╭─+ Traceback \(most recent call last\) ─"
)
_TIME = re.compile(r"\d{4}-\d\d-\d\d|\d\d?:\d\d:\d\d(?:[.,]\d+)?|\b\d+\.\d{3,}")
_PROSE = re.compile(r"[A-Za-z]+ [a-z]+ [a-z]+")
_DIGITS = re.compile(r"\d+")
_NUMBER = re.compile(r"(?:\\ )*\d+")
"""A number, padded or not, in an escaped text."""


class Wrapping:
    """Takes off what stands before every line. A header behind unknown words is held until the next line is there."""

    def __init__(self) -> None:
        self._forms: list[tuple[str, bool]] = []
        """Patterns, and whether the digits of what they match tell processes apart, as in srun's `3: `."""
        self._held: Segment | None = None

    @property
    def learnt(self) -> bool:
        """Something stands before this log's lines."""
        return bool(self._forms)

    @property
    def waits(self) -> bool:
        return self._held is not None

    def arrange(self, segment: Segment) -> list[Segment]:
        """The segments that can be read now."""
        ready = self.rest()
        if ready:
            self._learn(self.read(clean(ready[0].data)).text, self.read(clean(segment.data)).text)
        if b"Traceback (most recent" in segment.data and not segment.data.startswith((b"Traceback", b"{")):
            head = self._head(self.read(clean(segment.data)).text)
            if head and not self._named(head):
                self._held = segment
                return ready
        return [*ready, segment]

    def rest(self) -> list[Segment]:
        """What is still held, at the end of the log."""
        held, self._held = self._held, None
        return [] if held is None else [held]

    def read(self, text: str) -> Line:
        """The line without its prefixes and without what was learnt."""
        line = read_line(text)
        for form, told_apart in self._forms:
            match = re.match(form, line.text)
            if match:
                inner = read_line(line.text[match.end() :])
                key = line.origins[-1].key + _who(match[0], told_apart)
                origins = tuple(origin._replace(key=key + origin.key) for origin in inner.origins)
                if line.origins[-1].label and not any(origin.label for origin in origins):
                    origins = (line.origins[-1]._replace(key=key),)
                width = len(text.rstrip()) - len(line.text) + match.end()
                return inner._replace(origins=origins, hint=inner.hint or line.hint, transport=key, width=width)
        return line

    def _head(self, text: str) -> str:
        """What stands before a header, '' without one or for mere indentation."""
        header = _HEADER.search(text)
        head = text[: header.start()] if header else ""
        return head if head.strip() and len(head) <= MAX_HEAD else ""

    def _named(self, head: str) -> bool:
        """Between prose and the header no process is named: before its name stands what every line has."""
        for place, char in enumerate(head):
            if place and char in "([":
                inner = read_line(head[place:] + "x")
                if inner.text == "x" and any(origin.label for origin in inner.origins):
                    return self._add(head[:place], False)
        return False

    def _learn(self, first: str, second: str) -> None:
        head = self._head(first)
        match = re.match(_form(head), second) if head else None
        if match is None:
            if head and second.startswith(f'{"":{len(head)}}  File "'):
                self._add(head, False)  # journalctl's indentation
            return
        again = bool(_HEADER.match(second[match.end() :]))
        if again and _PROSE.search(head):
            return  # two processes said the same in the same words
        same = _DIGITS.findall(_who(head, True)) == _DIGITS.findall(_who(match[0], True))
        self._add(head, same or again)

    def _add(self, head: str, told_apart: bool) -> bool:
        self._forms = [*self._forms[1 - MAX_FORMS :], (_form(head), told_apart)]
        return True


def _form(head: str) -> str:
    """A pattern for `head` with any digits; a line that is otherwise empty lacks the blank at its end."""
    words = _NUMBER.sub(r" *\\d+", re.escape(head.rstrip()))
    blank = re.escape(head[len(head.rstrip()) :])
    return f"{words}(?:{blank}|$)"


def _who(head: str, told_apart: bool) -> str:
    """What names the process in a matched head: not its time, and no digits that count lines."""
    named = _TIME.sub("", head).strip()
    return named if told_apart else _DIGITS.sub("", named)
