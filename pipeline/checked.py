"""Values of the console's JSON, checked one by one: each raises Problem (bad_settings) with its place and a remedy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.problem import Problem


def bad(message: str, remedy: str) -> Problem:
    """`message` without its full stop."""
    return Problem("bad_settings", f"{message}.", remedy)


def table(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = data.get(key, {})
    if not isinstance(value, Mapping):
        raise bad(f"{key} is {value!r}, which is no table of settings", f"Write [{key}] and its keys below.")
    return value


def text(section: Mapping[str, Any], key: str, default: str, place: str = "run") -> str:
    value = section.get(key, default)
    if not isinstance(value, str) or not value or "\0" in value:
        raise bad(f"{place}.{key} is {value!r}, which is no text", f"Give a text, such as {default!r}.")
    return value


def choice(section: Mapping[str, Any], key: str, default: str, known: Sequence[str], place: str = "run") -> str:
    value = section.get(key, default)
    if value not in known:
        raise bad(f"{place}.{key} is {value!r}", f"Use one of: {', '.join(known)}.")
    return str(value)


def integer(section: Mapping[str, Any], key: str, default: int, low: int, high: int, place: str = "run") -> int:
    value = section.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise bad(f"{place}.{key} is {value!r}", f"Give a whole number from {low} to {high}, such as {default}.")
    return value


def number(section: Mapping[str, Any], key: str, default: float, low: float, high: float, place: str = "run") -> float:
    """A number from `low` to `high`, both allowed."""
    value = section.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise bad(f"{place}.{key} is {value!r}", f"Give a number from {low:g} to {high:g}, such as {default:g}.")
    return float(value)


def flag(section: Mapping[str, Any], key: str, default: bool, place: str = "run") -> bool:
    value = section.get(key, default)
    if not isinstance(value, bool):
        raise bad(f"{place}.{key} is {value!r}", "Give true or false.")
    return value
