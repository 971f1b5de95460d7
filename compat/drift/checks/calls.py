"""Calls whose arguments the callee does not take, or that leave out what it requires."""

from __future__ import annotations

from collections.abc import Iterator

from compat.drift.context import Context
from compat.drift.finding import Finding, Severity
from compat.drift.signatures import misfits


def check(context: Context) -> Iterator[Finding]:
    for call in context.caller.calls:
        if call.signature is None:
            continue
        for misfit in misfits(call.node, call.signature):
            message = misfit.told(call.label)
            severity: Severity = "may fail" if call.guarded else "fails"
            yield Finding(severity, misfit.kind, call.label, misfit.name, message, call.place, call.target.place)
