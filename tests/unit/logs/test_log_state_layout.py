"""What a saved reader is made of is pinned: a changed class with the old VERSION would restore into nonsense."""

from __future__ import annotations

import ast
import hashlib
import inspect
import textwrap

from remote.logs import saved, state
from remote.logs.reader import LogReader

PINNED = (7, "e731e997e1906f13")
"""VERSION of remote/logs/state.py, and the digest of what that version saves."""


def fields(cls: type) -> list[str]:
    """`name` or `name: type` of everything that the class's own source sets on an instance."""
    found: set[str] = set()
    (body,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    assert isinstance(body, ast.ClassDef)
    for node in ast.walk(body):
        if isinstance(node, ast.AnnAssign) and (node in body.body or isinstance(node.target, ast.Attribute)):
            found.add(f"{ast.unparse(node.target)}: {ast.unparse(node.annotation)}")
        elif isinstance(node, ast.Assign | ast.AugAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {name for target in targets for name in _on_self(target)}
    return sorted(found)


def _on_self(target: ast.expr) -> set[str]:
    parts = target.elts if isinstance(target, ast.Tuple) else [target]
    return {
        ast.unparse(part)
        for part in parts
        if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id == "self"
    }


def layout() -> str:
    classes = saved._classes(LogReader)
    described = [f"{name}({', '.join(fields(cls))})" for name, cls in sorted(classes.items())]
    return hashlib.sha256("\n".join(described).encode()).hexdigest()[:16]


def test_the_saved_layout_changes_only_with_its_version() -> None:
    version, digest = PINNED
    changed = layout() != digest
    assert not (changed and version == state.VERSION), (
        f"a class of the log reader that is saved gained, lost or changed an attribute: raise VERSION in "
        f"remote/logs/state.py to {state.VERSION + 1} and set PINNED here to ({state.VERSION + 1}, {layout()!r})"
    )
    assert (version, changed) == (state.VERSION, False), (
        f"VERSION in remote/logs/state.py is {state.VERSION}: set PINNED here to ({state.VERSION}, {layout()!r})"
    )


def test_every_attribute_of_a_reader_is_part_of_the_layout() -> None:
    reader = LogReader()
    reader.feed(b"Traceback (most recent call last):\n")
    named = {field.partition(":")[0].removeprefix("self.") for field in fields(LogReader)}
    assert set(state.attributes(reader)) <= named
