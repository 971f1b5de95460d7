"""The shapes that a traceback's lines come in: Python's own, exception groups, Rich's box, IPython's."""

from __future__ import annotations

import html
import re

from remote.logs.findings import Frame

HEADER = re.compile(r"(?P<before>.*?)(?P<group>Exception Group )?Traceback \(most recent call last\):$")
BOX_HEADER = re.compile(r"\s*╭─+ Traceback \(most recent call last\) ─+╮$")
NOTEBOOK_HEADER = re.compile(r"(?P<type>[A-Za-z_][\w.]*) {2,}Traceback \(most recent call last\)$")

FRAME = re.compile(r'(?:> |\s+)File "(?P<file>.+?)", line (?P<line>\d+), in (?P<function>.+)$')
SYNTAX_PLACE = re.compile(r'\s+File "(?P<file>.+?)", line (?P<line>\d+)$')
RAY_HEADER = re.compile(r"ray::[\w.<>]{1,200}\(\) \(pid=\d+, ip=.*\)$")
"""Ray writes this in place of a header, where a worker's exception is raised again in the process that asked."""
SECONDARY = ("Exception ignored ", "Error in atexit.", "Error in sys.excepthook:", "--- Logging error ---")
"""What Python prints before the traceback of a finaliser, an exit handler or a log call."""
STACKS = ("Stack (most recent call last):", "Call stack:")
"""What stands before frames that only show where a log call was made."""
REPEATED = re.compile(r"\s*\[Previous line repeated (\d+) more times?\]$")
MARKS = re.compile(r"\s*[~^]+[~^ ]*$")

_TYPE = r"[A-Za-z_]\w*(?:\.(?:[A-Za-z_]\w*|<locals>))*(?:\([\w.]+\))?"
EXCEPTION = re.compile(rf"(?P<type>{_TYPE})(?::(?: (?P<message>.*))?)?$")
_NOT_A_TYPE = frozenset({"INFO", "DEBUG", "WARNING", "WARN", "ERROR", "CRITICAL", "FATAL", "Note", "File", "Traceback"})

CHAINS = {
    "The above exception was the direct cause of the following exception:": "cause",
    "During handling of the above exception, another exception occurred:": "context",
}

GROUP_BORDER = re.compile(r"\s*(?:\| ?|\+ (?=Exception Group ))")
GROUP_RULE = re.compile(r"\s*\+[-+]+(?: (?P<member>\d+) -+| \.\.\. -+)?$")
GROUP_ALONE = re.compile(r"\s*\| \S.*\(\d+ sub-exceptions?\)$")
"""A group that was printed without having been raised: no header, no frames."""

_BOX_LINE = re.compile(r"\s*│ (?P<inner>.*?)\s*│$")
_BOX_FRAME = re.compile(r"(?P<file>.*\S):(?P<line>\d+) in (?P<function>\S+)$")
_BOX_SOURCE = re.compile(r"❱\s*\d+ (?P<code>.*)$")
_NOTEBOOK_FRAME = re.compile(
    r"(?:File |Cell )(?P<file>.+?)(?:, line |:)(?P<line>\d+)(?:, in (?P<function>[\w.<>]+)(?:\(.*)?)?$"
)
_NOTEBOOK_PLACE = re.compile(
    r"\[?(?P<file>[^\s\]]+)\]?(?:\(https?:[^)\s]*\))? in (?P<function><[^>]+>|[\w.<>]+)(?:\(.*)?$"
)
"""Older layouts and Colab's: the line number stands only at the arrow."""
_NOTEBOOK_SOURCE = re.compile(r"-+> ?(?P<line>\d+) (?P<code>.*)$")


_SURELY = re.compile(r"[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit|Warning)(?::|$)")
"""The line of an exception, even where the source line of the last frame is missing."""
_MANGLED = re.compile(r"[“”]|&(?:quot|#39|lt|gt|amp);")
_QUOTES = str.maketrans("“”", '""')


def _mended(text: str) -> str:
    """A frame line whose quotes were made curly or into HTML, as Python printed it."""
    return html.unescape(text).translate(_QUOTES) if _MANGLED.search(text) else text


def exception_line(text: str) -> tuple[str, str | None] | None:
    """(type, first line of the message) when `text` can end a traceback; None for the message without a colon."""
    match = EXCEPTION.match(text)
    if not match:
        return None
    name = match["type"]
    last = name.rsplit(".", 1)[-1].lstrip("_")
    if name in _NOT_A_TYPE or not (last[:1].isupper() or "." in name or last.endswith(("error", "exception"))):
        return None
    return name, (match["message"] or "").strip() if ":" in text[len(name) :] else None


def surely(text: str) -> bool:
    """Whether it is the line of an exception, even without a traceback before it."""
    return _SURELY.match(text) is not None


class Body:
    """Collects the frames of one traceback; a subclass knows how its layout prints them."""

    def __init__(self, base: int | None = 0) -> None:
        """`base`: the indentation of the whole; None where only its first frame will show it."""
        self.frames: list[Frame] = []
        self.place: tuple[str, int] | None = None
        """File and line that a SyntaxError is about, which is no frame."""
        self.base = base

    def unindent(self, text: str) -> str | None:
        """`text` without the indentation of the whole; None when it has less."""
        if self.base is None:
            self.base = max(text.find('File "') - 2, 0) if text[:1] == " " else 0
        if not self.base:
            return text
        return text[self.base :] if not text[: self.base].strip() else None

    def add(self, text: str) -> bool:
        """Take one line; False when it is not part of the frames."""
        raise NotImplementedError

    def _source(self, code: str) -> None:
        if self.frames and not self.frames[-1].source:
            last = self.frames[-1]
            self.frames[-1] = Frame(last.file, last.line, last.function, code.strip())


class PlainBody(Body):
    """Python's own layout, 3.9 to 3.14."""

    def __init__(self, base: int | None = 0) -> None:
        super().__init__(base)
        self.flush = False
        """A paste lost all indentation: frames and source lines stand at the margin."""
        self.mangled = False
        """A paste made quotes curly, or everything into HTML."""
        self._begun = ""
        """The beginning of a frame's line that a terminal wrapped."""

    def add(self, text: str) -> bool:
        frame = FRAME.match(text)
        if frame is None:
            text = self._as_printed(text)
            frame = FRAME.match(text) or self._unwrapped(text)
        if frame:
            self.frames.append(Frame(frame["file"], int(frame["line"]), frame["function"]))
        elif not text[:1].isspace():
            return False
        elif place := SYNTAX_PLACE.match(text):
            self.place = place["file"], int(place["line"])
        elif not (REPEATED.match(text) or MARKS.match(text) or self.place or text.startswith('  File "')):
            # Marks and further lines of the statement come after the frame's first source line.
            self._source(_mended(text) if self.mangled else text)
        return True

    def _unwrapped(self, text: str) -> re.Match[str] | None:
        """The frame whose line began on the line before."""
        begun, self._begun = self._begun, text if text.startswith('  File "') else ""
        if not begun or self._begun:
            return None
        frame = FRAME.match(begun + text) or FRAME.match(f"{begun} {text.lstrip()}")
        if frame:
            self.place = None  # the beginning alone can look like a SyntaxError's place
        return frame

    def _as_printed(self, text: str) -> str:
        """The line as it was before a paste took its quotes or its indentation."""
        if "File" in text:
            printed, text = text, _mended(text)
            self.mangled = self.mangled or text != printed
            self.flush = self.flush or (text.startswith('File "') and not self.frames)
        if self.flush and self._at_margin(text):
            return f"  {text}" if text.startswith('File "') else f"    {text}"
        return text

    def _at_margin(self, text: str) -> bool:
        """Whether an unindented line is one of the frames: not the exception behind the last frame's source."""
        if text.startswith('File "') or MARKS.match(text):
            return True
        return bool(self.frames) and not self.frames[-1].source and not _SURELY.match(text)


class BoxBody(Body):
    """Rich's box; long paths are wrapped, so a frame can take two lines."""

    def __init__(self, base: int) -> None:
        super().__init__(base)
        self._path = ""

    def add(self, text: str) -> bool:
        if text.lstrip().startswith("╰"):
            return True
        line = _BOX_LINE.match(text)
        if not line:
            return False
        inner = line["inner"]
        if source := _BOX_SOURCE.match(inner):
            self._source(source["code"].lstrip("│ "))
            self._path = ""
        elif inner[:1] in ("", " ", "╭", "│", "╰") or (inner[:1].isdigit() and not self._path):
            self._path = ""
        else:
            # The box wraps at spaces too.
            self._path += (" " if self._path.endswith(" in") or inner.startswith("in ") else "") + inner
            if frame := _BOX_FRAME.match(self._path):
                self.frames.append(Frame(frame["file"], int(frame["line"]), frame["function"]))
                self._path = ""
        return True


class NotebookBody(Body):
    """IPython's layout: the frames stand at the margin, an arrow marks the source line."""

    def __init__(self, exception_type: str) -> None:
        super().__init__()
        self._type = exception_type
        self._place: tuple[str, str] | None = None
        """File and function of a frame whose line is not known yet."""

    def add(self, text: str) -> bool:
        if text.startswith(self._type):
            return False
        if frame := _NOTEBOOK_FRAME.match(text):
            self.frames.append(Frame(frame["file"], int(frame["line"]), frame["function"] or "<module>"))
            self._place = None
        elif place := _NOTEBOOK_PLACE.match(text):
            self._place = place["file"], place["function"]
        elif source := _NOTEBOOK_SOURCE.match(text):
            if self._place is not None:
                file, function = self._place
                self.frames.append(Frame(file, int(source["line"]), function))
                self._place = None
            self._source(source["code"])
        return True
