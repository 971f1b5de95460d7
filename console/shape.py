"""Views from a host that may be of another version, broken or hostile: a value of the wrong kind stops here.

`remote.wire.from_wire` builds whatever it is given; a text where a number belongs would only fail when it is drawn.
"""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, TypeVar

from remote.wire import from_wire

T = TypeVar("T")


def build(cls: type[T], data: Mapping[str, Any]) -> T:
    """`cls` from a JSON object, every field of the kind that it is declared as. Raises TypeError."""
    if not isinstance(data, Mapping):
        raise TypeError(f"{cls.__name__}: not an object")
    value = from_wire(cls, data)
    _check(cls, value, cls.__name__)
    return value


@lru_cache(maxsize=64)
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def _check(hint: Any, value: Any, where: str) -> None:
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in args:
            return
        _check(next(arg for arg in args if arg is not type(None)), value, where)
    elif origin is tuple:
        _expect(isinstance(value, tuple), where)
        kinds = [args[0]] * len(value) if len(args) == 2 and args[1] is Ellipsis else list(args)
        _expect(len(kinds) == len(value), where)
        for kind, item in zip(kinds, value, strict=True):
            _check(kind, item, where)
    elif origin is dict:
        _expect(isinstance(value, dict), where)
        for item in value.values():
            _check(args[1], item, where)
    elif origin is typing.Literal:
        _expect(isinstance(value, str), where)  # a word of a newer version is still a word
    elif dataclasses.is_dataclass(hint) and isinstance(hint, type):
        _expect(isinstance(value, hint), where)
        for name, kind in _hints(hint).items():
            _check(kind, getattr(value, name), f"{where}.{name}")
    elif hint is float:
        _expect(isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value), where)
    elif hint is int:
        _expect(isinstance(value, int) and not isinstance(value, bool), where)
    else:
        _expect(isinstance(value, hint), where)


def _expect(fits: bool, where: str) -> None:
    if not fits:
        raise TypeError(f"{where} is not of its kind")
