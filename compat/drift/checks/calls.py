"""Calls whose arguments the callee does not take, or that leave out what it requires."""

from __future__ import annotations

from collections.abc import Iterator

from compat.drift.context import Context
from compat.drift.finding import Finding, Severity
from compat.drift.signatures import misfits

SENTENCES = {
    "missing-argument": "calls {label} without {name!r}, which it requires",
    "unknown-argument": "passes {name!r} to {label}, which has no such parameter",
    "too-many-arguments": "passes {name} positional arguments to {label}, more than it takes",
}


def check(context: Context) -> Iterator[Finding]:
    for call in context.caller.calls:
        if call.signature is None:
            continue
        for misfit in misfits(call.node, call.signature):
            message = SENTENCES[misfit.kind].format(label=call.label, name=misfit.name)
            severity: Severity = "may fail" if call.guarded else "fails"
            yield Finding(severity, misfit.kind, call.label, misfit.name, message, call.place, call.target.place)
