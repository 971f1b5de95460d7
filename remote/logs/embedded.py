"""Logs inside a line: text with escaped line ends, as JSON and `repr` write it."""

from __future__ import annotations

import json
import re

from remote.logs.records import clean

_STARTS = re.compile(r"\{\s*\"")
_TAGGED = re.compile(r"\d{4}-\d\d-\d\d[T ][\d:.,]+(?: ?[+\-]\d\d:?\d\d| ?Z)? [\w.\-/]+: (?=\{)")
"""What fluentd writes before the object: time and tag."""
_ESCAPE = re.compile(r"\\(.)")
_SYSLOG = "#012"
"""A line end as syslog escapes it."""
_LINE_KEYS = ("log", "message", "msg", "line", "l", "MESSAGE", "textPayload", "body")
_RECORD_KEYS = ("jsonPayload",)
"""What holds an object that holds the line."""
_END_OF_TEXT = re.compile(r"['\"\])},; ]*$")
"""What closes a text in another one."""
_PLAIN = {"n": "\n", "t": "\t", "r": "\r"}


def may_hold(text: str) -> bool:
    """Whether escaped line ends, or a list of lines, can hide a traceback."""
    if "\\n" in text:
        return "Traceback (most recent call last):\\n" in text or 'File \\"' in text
    return '"Traceback (most recent call last):"' in text or f"Traceback (most recent call last):{_SYSLOG}" in text


def unwrap(text: str) -> str | None:
    """The line that a log shipper put into a JSON object of its own; None for any other text."""
    start = 0
    if not text.startswith("{"):
        tagged = _TAGGED.match(text)
        if not tagged:
            return None
        start = tagged.end()
    try:
        value = json.loads(text[start:])
    except (ValueError, RecursionError):
        return None
    if isinstance(value, dict):
        value = next((inner for name in _RECORD_KEYS if isinstance(inner := value.get(name), dict)), value)
        for name in _LINE_KEYS:
            line = value.get(name)
            if isinstance(line, str) and "\n" not in line.rstrip("\r\n"):
                return _plain(line.rstrip("\r\n"))
    return None


def lines(text: str) -> list[str]:
    """The lines of every escaped text that has more than one."""
    if _SYSLOG in text and "\\n" not in text:
        return text.replace("#011", "\t").split(_SYSLOG)
    found: list[str] = []
    start = _STARTS.search(text)
    if start:
        try:
            value, _ = json.JSONDecoder().raw_decode(text, start.start())
        except (ValueError, RecursionError):
            value = None
        if value is not None:
            _gather(value, found)
            return [line for item in found for line in item.replace("\r", "").split("\n")]
    found = _ESCAPE.sub(lambda match: _PLAIN.get(match[1], match[1]), text).replace("\r", "").split("\n")
    return found[:-1] if _END_OF_TEXT.match(found[-1]) else found


def _plain(text: str) -> str:
    """Colour codes come out of an object only when it is read."""
    return clean(text.encode("utf-8", "replace")) if "\x1b" in text else text


def _gather(value: object, found: list[str]) -> None:
    if isinstance(value, str):
        if "\n" in value.rstrip("\r\n"):
            found.append(_plain(value))
    elif isinstance(value, dict):
        for item in value.values():
            _gather(item, found)
    elif isinstance(value, list) and all(isinstance(item, str) for item in value):
        _gather("\n".join(item.rstrip("\n") for item in value), found)
    elif isinstance(value, list):
        for item in value:
            _gather(item, found)
