"""Tracebacks out of lines: one automaton per stream (a process and, where vLLM heads each line, its source tag)."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from remote.logs import layouts
from remote.logs.layouts import Body, BoxBody, NotebookBody, PlainBody
from remote.logs.prefixes import Origin

MAX_FRAMES = 2000
MAX_MESSAGE_LINES = 200
MAX_SCRIPT = 400
MAX_STRAY_LINES = 8
"""So many lines in a row that fit nowhere end a traceback that was never finished."""

_NOT_ERRORS = ("DEBUG", "INFO", "WARNING")
_SYNTAX_ERRORS = ("SyntaxError", "IndentationError", "TabError")
_LOG_LINE = re.compile(
    r"\[?\d{4}-\d\d-\d\d[ T]|\[\d\d:\d\d:\d\d|\[[A-Za-z]\w*\] |\[\s*\d+\.\d+\]"
    r"|[\[(]?(?:DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL)\b|\[?[IWEF]\d{3,4} \d\d:\d\d"
    r"|\[rank\d+\]:\[|@@|\$ |>>> |[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d |\S+\.py:\d+: \w+"
    r"|Exception (?:ignored|in (?:thread|callback))|Error in (?:atexit|sys)\.|##\[|(?:last )?message repeated \d+ times"
    r"|(?:Task|Future) exception was never retrieved|Task was destroyed but it is pending"
    r"|Process \S+:$|terminate called after|Fatal Python error"
    r"|\tCommand being timed|Command exited with"
    r"|(?:Killed|Terminated|Aborted|Bus error|Segmentation fault)\b|.{0,200}\bline \d+: +\d+ (?:Killed|Aborted|Bus)"
    r"|srun: |slurmstepd: |make: \*\*\*|!!!!!!!|\*\*\* SIG|\S.{0,60}\d%\||=+ ?\w+ \d+"
)
_PARAGRAPH = re.compile(
    r"from user code:$|Set TORCH|Exception raised from |frame #\d+: |(?:Python|C\+\+) [\w ]*[Tt]raceback:?$"
)
"""How torch begins the further paragraphs of its messages."""


@dataclass(eq=False)
class Raw:
    """One printing of a traceback. `sequence` orders the printings by their header lines."""

    sequence: int
    line: int
    offset: int
    origin: Origin
    worker: str | None
    level: str
    body: Body
    chained_from: Raw | None = None
    chain_kind: str | None = None
    exception_type: str | None = None
    message: list[str] = field(default_factory=list)
    bare: bool = False
    """The exception line had no colon, so no message follows."""
    truncated: bool = False
    secondary: bool = False
    """Printed while the process was going down, or by code that went on: never the first suspect."""
    note: bool = False
    """Printed again as a note of the exception before it (PEP 678), not a second failure."""
    group: int | None = None
    """Exceptions of one group share this number."""
    raised_again: Raw | None = None
    """The exception that Ray raised for this one in another process, and printed before it."""
    stands_for: int = 1
    """Printings that this one stands for, where Ray left the others out."""


class Stream:
    """Follows one stream. Calls `ended` when a traceback's exception line was read, or when it broke off."""

    def __init__(self, ended: Callable[[Raw], None], sequence: Callable[[], int]) -> None:
        self._ended = ended
        self._sequence = sequence
        self._raw: Raw | None = None
        self._state = "idle"
        self._last: Raw | None = None
        self._chain: str | None = None
        self._stray = 0
        self._blanks = 0
        self._group: Raw | None = None
        """The outermost exception group, while it and its members are being printed."""
        self._member = False
        """A member of the group begins: one that was never raised has no header."""
        self._secondary = False
        self._record_goes_on = False
        self._goes_on_now = False
        self.last_line, self.stands_for = 0, 1
        self._script: list[str] = []
        self._before: list[str] = []
        self._told_at = 0
        """The last line of the last exception and its message."""

    @property
    def open(self) -> bool:
        return self._state != "idle" or self._member or self._chain is not None

    @property
    def in_message(self) -> bool:
        return self._state == "message"

    def foretells(self, other: Stream, text: str) -> bool | None:
        """Whether `text` comes next in `other` if that prints the same traceback as this one; None when it does not."""
        place = len(other._script)
        if other._state != "frames" or not place:
            return None
        for script in (self._script, self._before):
            if len(script) > place and script[:place] == other._script:
                return script[place] == text
        return None

    def fit(self, text: str) -> int:
        """How well `text` would go on here; used when two processes' writes got woven inside a line."""
        header = "Traceback (most recent call last)" in text
        if self._state != "frames" or self._raw is None:
            return 2 if header or not text[:1].isspace() else 0
        frames = self._raw.body.frames
        if text.startswith("  File "):
            return 3 if not frames or frames[-1].source else 1
        if layouts.MARKS.match(text):
            return 3 if frames and frames[-1].source else -2
        if text[:1].isspace():
            return 3 if frames and not frames[-1].source else 0
        return 2 if frames and frames[-1].source and layouts.exception_line(text) else -1

    def read(
        self, origin: Origin, hint: str | None, level: str, text: str, line: int, offset: int, goes_on: bool
    ) -> None:
        """One line of the stream. `goes_on`: it ends with CR LF, so the next line belongs to the same record."""
        self.last_line = line
        self._goes_on_now = goes_on
        in_group = False
        if self._group is not None or "+ Exception Group" in text:
            text = self._without_border(text)
        elif "  | " in text:
            text, in_group = self._without_head(text)
        header = self._header(text)
        if self._begins_remote_frames(text):
            again = self._raw
            self._open(origin, hint, level, PlainBody(), "", line, offset)
            assert self._raw is not None
            self._raw.raised_again, self._raw.note = again, False
            self._frames(text)
        elif text.startswith("ray::") and layouts.RAY_HEADER.match(text):
            again = self._last.raised_again if self._last and self._chain else None
            self._open(origin, hint, level, PlainBody(), "", line, offset)
            assert self._raw is not None
            self._raw.raised_again = again
        elif header:
            if self._chain and self._last and self._last.raised_again:
                self._last = self._last.raised_again
            before, body, group = header
            if before and self._state == "frames" and self._raw is not None and self._raw.body.frames:
                quoting = layouts.exception_line(text)
                if quoting:
                    self._complete(*quoting)
            self._open(origin, hint, level, body, before, line, offset)
            if group or in_group:
                self._join_group()
        elif self._state == "idle" and self._awaits_member and (found := layouts.exception_line(text)):
            self._open(origin, hint, level, PlainBody(), "", line, offset)
            self._join_group()
            self._complete(*found)
        elif self._state == "frames":
            if len(self._script) < MAX_SCRIPT:
                self._script.append(text)
            self._frames(text)
        elif not (
            (self._state == "stack" and text[:1].isspace())
            or (self._state == "message" and self._message(text))
            or (self._state == "syntax" and self._syntax(text))
        ):
            if self._state == "stack":
                self._state = "idle"
            self._idle(origin, hint, level, text, line, offset)
        if self._member and text:
            self._member = False
        self._record_goes_on = goes_on

    def never_raised(self, origin: Origin, hint: str | None, level: str, text: str, line: int, offset: int) -> None:
        """An exception that comes next in a chain, if it was not read as a traceback's."""
        if self._state == "idle" and self._told_at < line and (found := layouts.exception_line(text)):
            self.last_line = line
            self._open(origin, hint, level, PlainBody(), "", line, offset)
            self._complete(*found)

    def finish(self) -> None:
        """The log ends here: what was begun is kept, marked as truncated."""
        if self._state == "frames":
            self._break_off()
        self._close()
        self._member, self._chain = False, None

    def end_message(self) -> None:
        """The process went on to say something else."""
        if self._state == "message":
            self._close()

    # -- headers

    @staticmethod
    def _header(text: str) -> tuple[str, Body, bool] | None:
        if "Traceback (most recent call last)" not in text:
            return None
        if match := layouts.HEADER.match(text):
            before = match["before"]
            return before.strip(), PlainBody(None if before.strip() else len(before)), bool(match["group"])
        if layouts.BOX_HEADER.match(text):
            return "", BoxBody(len(text) - len(text.lstrip())), False
        if match := layouts.NOTEBOOK_HEADER.match(text):
            return "", NotebookBody(match["type"]), False
        return None

    def _begins_remote_frames(self, text: str) -> bool:
        """Ray's exception is followed by the worker's own frames, without a header."""
        raw = self._raw
        if self._state != "message" or raw is None or not text.startswith('  File "'):
            return False
        return len(raw.message) == 1 and bool(layouts.RAY_HEADER.search(raw.message[0]))

    def _open(
        self, origin: Origin, hint: str | None, level: str, body: Body, before: str, line: int, offset: int
    ) -> None:
        in_message = self.in_message
        if self._state == "frames":
            self._break_off()
        previous = self._last if self._chain else None
        raw = Raw(
            self._sequence(), line, offset, origin, origin.label or hint, level, body,
            chained_from=previous,
            chain_kind=self._chain if previous else None,
            secondary=self._secondary or level in _NOT_ERRORS or (previous is not None and previous.secondary),
            note=in_message and self._record_goes_on and not self._chain and not before,
            group=self._group.sequence if self._group else None,
            stands_for=self.stands_for,
        )  # fmt: skip
        self._raw, self._state, self._chain, self._stray, self._secondary = raw, "frames", None, 0, False
        self._before, self._script = self._script, []

    # -- groups

    def _without_border(self, text: str) -> str:
        rule = layouts.GROUP_RULE.match(text)
        if rule:
            if self._state == "frames":
                self._break_off()
            self._close()
            self._member = rule["member"] is not None
            return ""
        border = layouts.GROUP_BORDER.match(text)
        if border:
            return text[border.end() :]
        if text.strip() and not text.startswith(" "):
            if self._state == "message" and not self._header(text) and text not in layouts.CHAINS:
                return text  # Python draws no border before the further lines of a message
            self._close()
            # What is chained to a group is chained to the whole of it.
            self._last, self._group = self._group, None
        return text

    def _without_head(self, text: str) -> tuple[str, bool]:
        """The text, and whether a group's member begins with it: one whose group lost its head, or was never raised."""
        if "| Traceback (most recent" in text and layouts.GROUP_BORDER.match(text):
            return self._without_border(text), True
        if " sub-exception" in text and self._state != "frames" and layouts.GROUP_ALONE.match(text):
            self._close()
            self._member = True
            return self._without_border(text), True
        return text, False

    @property
    def _awaits_member(self) -> bool:
        """A member may come that was never raised, so that nothing but its own line is printed."""
        return self._member or (self._group is not None and self._chain is not None)

    def _join_group(self) -> None:
        assert self._raw is not None
        self._group = self._group or self._raw
        self._raw.group = self._group.sequence

    # -- states

    def _idle(self, origin: Origin, hint: str | None, level: str, text: str, line: int, offset: int) -> None:
        if not text:
            return
        if text.endswith(layouts.STACKS):
            self._state = "stack"
            return
        if text.startswith((*layouts.SECONDARY, "Exception in thread")):
            # A thread's death is a failure of its own; what a finaliser raises is not.
            self._secondary = not text.startswith("Exception in")
            return
        kind = layouts.CHAINS.get(text.strip())
        if kind and self._last is not None:
            self._chain = kind
            return
        self._chain = None
        self._secondary = False
        if '  File "' in text:
            frame = layouts.FRAME.match(text)
            if frame and int(frame["line"]):
                # Frames without a header: the head of the log is missing. Kept only if an exception line follows.
                self._open(origin, hint, level, PlainBody(len(text) - len(text.lstrip()) - 2), "", line, offset)
                assert self._raw is not None
                self._raw.truncated = True
                self._frames(text)
            elif layouts.SYNTAX_PLACE.match(text):
                self._open(origin, hint, level, PlainBody(), "", line, offset)
                assert self._raw is not None
                self._state = "syntax"
                self._raw.body.add(text)

    def _syntax(self, text: str) -> bool:
        """A SyntaxError of the main script prints no header and no frame."""
        found = layouts.exception_line(text)
        if found and found[0] in _SYNTAX_ERRORS:
            self._complete(*found)
            return True
        if text[:1].isspace() and '  File "' not in text:
            return True
        self._close()
        return False

    def _frames(self, text: str) -> None:
        raw = self._raw
        assert raw is not None
        body = raw.body
        inner = body.unindent(text)
        if inner is None:
            return self._strayed()
        text = inner
        if not text:
            return None
        if (len(body.frames) < MAX_FRAMES and body.add(text)) or text[:1].isspace():
            self._stray = 0
            return None
        if text.strip() in layouts.CHAINS:
            self._break_off()
            self._chain = layouts.CHAINS[text.strip()]
            return None
        found = layouts.exception_line(text)
        if found and (body.frames or not raw.truncated):
            return self._complete(*found)
        return self._strayed()

    def _strayed(self) -> None:
        self._stray += 1
        if self._stray > MAX_STRAY_LINES:
            self._break_off()

    def _message(self, text: str) -> bool:
        raw = self._raw
        assert raw is not None
        if layouts.MARKS.match(text) and layouts.RAY_HEADER.search(raw.message[0]):
            return True  # the marks that Python puts under the frames are left of frames that Ray took out
        inner = raw.body.unindent(text)
        if inner is None or inner.strip() in layouts.CHAINS or not self._continues(raw, inner):
            self._close()
            return False
        if not inner:
            self._blanks += 1
        elif len(raw.message) < MAX_MESSAGE_LINES:
            raw.message.extend([""] * self._blanks)
            raw.message.append(inner)
            self._blanks = 0
        self._told_at = self.last_line if inner else self._told_at
        if self._record_goes_on and not self._goes_on_now:
            self._close()
        return True

    def _continues(self, raw: Raw, text: str) -> bool:
        """Whether a line after the exception's own belongs to its message; outside CR LF records this is a guess."""
        if self._record_goes_on or not text:
            return True
        if raw.bare or text == '"""' or text.endswith(layouts.STACKS) or _LOG_LINE.match(text):
            return False
        return text[:1].isspace() or not self._blanks or bool(_PARAGRAPH.match(text))

    def _complete(self, exception_type: str, message: str | None) -> None:
        raw = self._raw
        assert raw is not None
        raw.exception_type, raw.message, raw.bare = exception_type, [message or ""], message is None
        raw.stands_for = self.stands_for if self.stands_for > 1 else raw.stands_for
        self._blanks = 0
        self._last, self._state, self._told_at = raw, "message", self.last_line
        self._ended(raw)
        if self._record_goes_on and not self._goes_on_now:
            self._close()

    def _break_off(self) -> None:
        raw = self._raw
        assert raw is not None
        # Frames without a header and without an exception are not a traceback (native stacks look like that).
        if raw.body.frames and not raw.truncated:
            raw.truncated = True
            self._last = raw
            self._ended(raw)
        self._close()

    def _close(self) -> None:
        self._raw, self._state, self._blanks, self._stray = None, "idle", 0, 0
