"""Attributes and methods that the caller uses on the callee's objects and that their classes do not have."""

from __future__ import annotations

from collections.abc import Iterator

from compat.drift.context import Context
from compat.drift.finding import Finding, Severity


def check(context: Context) -> Iterator[Finding]:
    for use in context.caller.accesses:
        if use.stored or use.name.startswith("__"):
            continue
        names, is_open = context.classes.attributes(use.owner.symbol)
        if is_open or use.name in names:
            continue
        kind = "missing-method" if use.called else "missing-attribute"
        word = "calls" if use.called else "reads"
        owner = use.owner.symbol
        message = f"{word} {owner.name}.{use.name}, which {owner.name} does not have"
        severity: Severity = "fails" if use.owner.exact and not use.guarded else "may fail"
        yield Finding(severity, kind, owner.name, use.name, message, use.place, owner.place)
