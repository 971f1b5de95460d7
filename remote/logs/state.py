"""A reader's state as bytes: what it remembers of a log, so that another process can read on at the same offset.

The bytes are one line that names the format, its version and a digest, then plain JSON. Restoring builds only the
classes and bound methods named here and runs no code of the state's own, so a state file is data, whoever wrote it.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections import deque
from collections.abc import Callable, Iterable
from types import MethodType, ModuleType
from typing import Any

FORMAT = b"eyas-log-reader"
VERSION = 7
"""To be raised whenever a class that is saved gains, loses or changes an attribute."""

MAX_STATE = 256 << 20

_CONTAINERS = (list, dict, set, deque, bytearray)


class StateError(ValueError):
    """The bytes are not a state that this reader can go on from."""


class Saver:
    """Flattens a graph of objects to a table; two references to one object stay references to one object."""

    def __init__(self, classes: dict[str, type], methods: frozenset[str]) -> None:
        """`methods`: the names that a bound method among the attributes may have."""
        self._names = {cls: name for name, cls in classes.items()}
        self._methods = methods
        self._places: dict[int, int] = {}
        self._objects: list[Any] = []

    def save(self, root: object) -> bytes:
        self._place(root)
        table: list[object] = []
        while len(table) < len(self._objects):  # writing one object can find more of them
            table.append(self._object(self._objects[len(table)]))
        body = json.dumps(table, separators=(",", ":")).encode("ascii")
        return b"%s %d %s\n" % (FORMAT, VERSION, hashlib.sha256(body).hexdigest().encode()) + body

    def _place(self, item: object) -> int:
        place = self._places.get(id(item))
        if place is None:
            place = self._places[id(item)] = len(self._objects)
            self._objects.append(item)
        return place

    def _object(self, item: Any) -> list[object]:
        kind = type(item)
        if kind is bytearray:
            return ["bytearray", base64.b64encode(item).decode()]
        if kind is dict:
            return ["dict", [[self._value(key), self._value(value)] for key, value in item.items()]]
        if kind is deque:
            return ["deque", [self._value(part) for part in item], item.maxlen]
        if kind in _CONTAINERS:
            return [kind.__name__, [self._value(part) for part in item]]
        return [self._name(kind), {name: self._value(value) for name, value in attributes(item).items()}]

    def _value(self, item: Any) -> object:
        """JSON's own scalars as they are; anything else as a list that begins with its kind."""
        kind = type(item)
        if item is None or kind in (bool, int, float, str):
            return ["text", item.encode("utf-8", "surrogatepass").hex()] if _lone_surrogate(item) else item
        if kind is bytes:
            return ["bytes", base64.b64encode(item).decode()]
        if kind is tuple:
            return ["tuple", *(self._value(part) for part in item)]
        if isinstance(item, tuple):
            return ["named", self._name(kind), *(self._value(part) for part in item)]
        if isinstance(item, MethodType):
            if item.__func__.__name__ not in self._methods:
                raise TypeError(f"The log reader's state has no place for the method {item.__func__.__qualname__}.")
            return ["method", self._place(item.__self__), item.__func__.__name__]
        return ["at", self._place(item)]

    def _name(self, kind: type) -> str:
        if kind not in self._names:
            raise TypeError(f"The log reader's state has no place for a {kind.__module__}.{kind.__qualname__}.")
        return self._names[kind]


class Restorer:
    """Builds the graph again; StateError for anything that `Saver` would not have written."""

    def __init__(self, classes: dict[str, type], methods: frozenset[str]) -> None:
        self._classes = classes
        self._methods = methods
        self._objects: list[Any] = []

    def restore(self, data: bytes) -> Any:
        """The first object of the table."""
        table = _opened(data)
        try:
            self._objects = [self._empty(row) for row in table]
            fill_last = []
            for item, row in zip(self._objects, table, strict=True):
                if isinstance(item, (dict, set)):
                    fill_last.append((item, row))  # keys are hashed, so what they hold has to be there
                else:
                    self._fill(item, row)
            for item, row in fill_last:
                self._fill(item, row)
            return self._objects[0]
        except (KeyError, IndexError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise StateError(f"The saved state of the log reader is damaged ({error}): read the log anew.") from error

    def _empty(self, row: Any) -> Any:
        kind = row[0]
        if kind == "deque":
            return deque(maxlen=row[2])
        for container in _CONTAINERS:
            if kind == container.__name__:
                return container()
        return object.__new__(self._classes[kind])

    def _fill(self, item: Any, row: Any) -> None:
        if isinstance(item, bytearray):
            item += base64.b64decode(row[1], validate=True)
        elif isinstance(item, dict):
            item.update((self._value(key), self._value(value)) for key, value in row[1])
        elif isinstance(item, set):
            item.update(self._value(part) for part in row[1])
        elif isinstance(item, (list, deque)):
            item.extend(self._value(part) for part in row[1])
        else:
            for name, value in row[1].items():
                if name.startswith("__"):
                    raise ValueError(f"an attribute that no reader has: {name!r:.40}")
                object.__setattr__(item, name, self._value(value))

    def _value(self, item: Any) -> Any:
        if not isinstance(item, list):
            return item
        kind, *parts = item
        if kind == "at":
            return self._at(parts[0])
        if kind == "tuple":
            return tuple(self._value(part) for part in parts)
        if kind == "bytes":
            return base64.b64decode(parts[0], validate=True)
        if kind == "text":
            return bytes.fromhex(parts[0]).decode("utf-8", "surrogatepass")
        if kind == "named":
            return self._classes[parts[0]](*(self._value(part) for part in parts[1:]))
        if kind == "method":
            return self._bound(self._at(parts[0]), parts[1])
        raise ValueError(f"an unknown kind of value: {kind!r:.40}")

    def _at(self, place: Any) -> Any:
        if not isinstance(place, int) or place < 0:
            raise ValueError("a reference to nowhere")
        return self._objects[place]

    def _bound(self, owner: Any, name: str) -> Callable[..., Any]:
        if type(owner) not in self._classes.values() or name not in self._methods:
            raise ValueError(f"a method that the reader does not hand out: {name!r:.40}")
        bound: Callable[..., Any] = getattr(owner, name)
        return bound


def classes_of(modules: Iterable[ModuleType]) -> dict[str, type]:
    """Every class that these modules define, by its name."""
    found: dict[str, type] = {}
    for module in modules:
        for name, item in vars(module).items():
            if isinstance(item, type) and item.__module__ == module.__name__:
                found[name] = item
    return found


def attributes(item: object) -> dict[str, Any]:
    """Every attribute of an instance, kept in a dict or in slots; those not set yet are left out."""
    found = dict(getattr(item, "__dict__", {}))
    for cls in type(item).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(item, name):
                found[name] = getattr(item, name)
    return found


def _opened(data: bytes) -> list[Any]:
    """The table, its head and digest checked."""
    head, _, body = data.partition(b"\n")
    words = head.split(b" ")
    if len(data) > MAX_STATE or words[0] != FORMAT or len(words) != 3:
        raise StateError("These bytes are no saved state of the log reader: read the log anew.")
    if words[1] != b"%d" % VERSION:
        raise StateError(
            f"The state was saved by version {words[1][:20].decode('ascii', 'replace')} of the log reader, "
            f"this is version {VERSION}: read the log anew."
        )
    if hashlib.sha256(body).hexdigest().encode() != words[2]:
        raise StateError("The saved state of the log reader is damaged (its digest differs): read the log anew.")
    try:
        table = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise StateError("The saved state of the log reader is damaged (no JSON): read the log anew.") from error
    if not isinstance(table, list) or not table:
        raise StateError("The saved state of the log reader is damaged (no table): read the log anew.")
    return table


def _lone_surrogate(item: object) -> bool:
    return isinstance(item, str) and not item.isascii() and any("\ud800" <= char <= "\udfff" for char in item)
