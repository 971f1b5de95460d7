"""The one border for text that came from a host: nothing that passes here can drive the operator's terminal.

Colour sequences go without a trace; any other control sequence leaves a visible mark, so that hostile text looks
hostile instead of looking like nothing. No textual here: the headless commands use it too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

MARK = "␛"
"""Stands for a control sequence that was taken out."""
REPLACED = "\ufffd"

_INTRODUCER = r"(?:\x1b\[|\x9b)"
_COLOUR = re.compile(_INTRODUCER + r"[0-9;:]*m")
# Strings end with BEL or ST; without either, only the introducer goes and the rest stays as harmless text.
_STRING = r"(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])"
_SEQUENCE = re.compile(
    rf"{_STRING}[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)"  # OSC, DCS, SOS, PM, APC
    rf"|{_INTRODUCER}[0-?]*[ -/]*[@-~]"  # CSI
    r"|\x1b[NO\x8e\x8f]."  # SS2, SS3
    rf"|{_STRING}|{_INTRODUCER}"  # unterminated
    r"|\x1b[ -/]*[0-~]?"  # other escapes, a lone ESC
)
_MARKS = {code: 0x2400 + code for code in range(0x20)} | {0x7F: 0x2421}
_MARKS |= dict.fromkeys(range(0x80, 0xA0), ord(REPLACED))  # C1
_MARKS |= dict.fromkeys(  # direction overrides, isolates and marks; line and paragraph separators
    [0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x2028, 0x2029], ord(REPLACED)
)
_MARKS |= dict.fromkeys(range(0xD800, 0xE000), ord(REPLACED))  # lone surrogates cannot be encoded
_MARKS |= dict.fromkeys(range(0xE0000, 0xE0080), ord(REPLACED))  # tags: text that nobody sees
del _MARKS[0x09]
_MARKS_BLOCK = {code: mark for code, mark in _MARKS.items() if code != 0x0A}


def sanitise(text: str, *, newlines: bool = False) -> str:
    """`text` without anything that a terminal would obey. Tabs stay; so do newlines when asked for."""
    if text.isprintable():
        return text
    text = _SEQUENCE.sub(MARK, _COLOUR.sub("", text))
    return text.translate(_MARKS_BLOCK if newlines else _MARKS)


def sanitise_json(value: Any) -> Any:
    """Every string of a frame, keys included; newlines stay, for tracebacks and source code are several lines."""
    if isinstance(value, str):
        return sanitise(value, newlines=True)
    if isinstance(value, Mapping):
        return {sanitise(str(key)): sanitise_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [sanitise_json(item) for item in value]
    return value


def one_line(text: str, tab: int = 4) -> str:
    """Fit for one row of the screen: sanitised, tabs expanded."""
    text = sanitise(text)
    return text.expandtabs(tab) if "\t" in text else text
