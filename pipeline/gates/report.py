"""What a gate says."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class GateReport:
    """The verdict of one gate on one thing."""

    gate: str
    passed: bool
    fault: str
    """Name of the fault found; "" when the gate passed."""
    sentence: str
    """What was found, with its figures."""


def passed(gate: str, sentence: str) -> GateReport:
    return GateReport(gate, True, "", sentence)


def failed(gate: str, fault: str, sentence: str) -> GateReport:
    return GateReport(gate, False, fault, sentence)
