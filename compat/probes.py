"""Probes that several entries share: a call beside the signature that it meets."""

from __future__ import annotations

from pathlib import Path

from compat import source
from compat.patch import Probe


def passes_dropped(site: Path, caller: str, callee: str, argument: str) -> Probe:
    """Whether `caller` passes a keyword argument that `callee` (a function, or a class's `__init__`) does not take.

    Raises SourceNotFound.
    """
    inside, function = source.find(site, caller), source.find(site, callee)
    if argument in source.parameters(function):
        return Probe(False, f"{function.place} still takes {argument}")
    for call in source.calls(inside, _called(callee)):
        if argument in source.keywords(call):
            return Probe(True, f"{function.place} has no parameter {argument}, which {inside.at(call)} passes")
    return Probe(False, f"{inside.place} does not pass {argument}")


def omits_required(site: Path, caller: str, callee: str, argument: str) -> Probe:
    """Whether `caller` leaves out a keyword argument that `callee` requires. Raises SourceNotFound."""
    inside, function = source.find(site, caller), source.find(site, callee)
    if argument not in source.required_parameters(function):
        return Probe(False, f"{function.place} does not require {argument}")
    for call in source.calls(inside, _called(callee)):
        if argument not in source.keywords(call):
            return Probe(True, f"{function.place} requires {argument}, which {inside.at(call)} does not pass")
    return Probe(False, f"{inside.place} passes {argument}")


def _called(callee: str) -> str:
    """`Scheduler` of `vllm.….Scheduler.__init__`."""
    return callee.removesuffix(".__init__").rpartition(".")[2]
