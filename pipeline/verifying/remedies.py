"""Which fault is told first when several gates found one, what to do about it, and which samples it spoils."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from compat.switches import VARIABLE, parse
from pipeline.gates import origin
from pipeline.gates.report import GateReport

AGAIN = "Relaunch extract, which does them again, then verify"
ALL_AGAIN = "then relaunch extract, which does all samples again, and verify"
PREPARE = "Run prepare again"


@dataclass(frozen=True)
class Remedy:
    """What to do about a fault."""

    text: str
    wide: bool = False
    """The whole data set is in doubt, not single samples of it."""
    patches: tuple[str, ...] = ()
    """Patches whose absence leads to it."""


_ORIGIN = Remedy("Put back what differs, or start a new run: states of two origins are never mixed")
_BY_FAULT = {
    "not extracted": Remedy("Relaunch extract, which does what is missing, then verify"),
    "file missing": Remedy(AGAIN),
    "truncated file": Remedy(AGAIN),
    "altered file": Remedy(f"Find out what wrote to the file. {AGAIN}"),
    "other target": _ORIGIN,
    "other tokenizer": _ORIGIN,
    "other dtype": _ORIGIN,
    "other max_length": _ORIGIN,
    "empty data set": Remedy(PREPARE),
    "empty masks": Remedy(PREPARE),
    "empty mask": Remedy(PREPARE),
    "conversations lost": Remedy(PREPARE),
    "mask shifted": Remedy(PREPARE),
    "mask of another row": Remedy(PREPARE),
    "reasoning erased": Remedy(PREPARE),
    "unreadable file": Remedy(AGAIN),
    "wrong shape": Remedy(AGAIN),
    "layers missing": Remedy(AGAIN),
    "other tokens": Remedy(AGAIN),
    "NaN": Remedy(f"{AGAIN}; when they come again, the target overflows in its dtype: set run.dtype"),
    "zeros": Remedy(
        f"{AGAIN}; when they come again, the engine reads other slots of its cache than it wrote: use another vLLM",
        patches=("hybrid-block-size",),
    ),
    "prefix-cache hit": Remedy(
        f"Turn prefix caching off in the engine and take any block hasher out, {ALL_AGAIN}",
        wide=True,
        patches=("prefix-caching",),
    ),
    "truncated": Remedy(
        f"Let the engine take whole prompts, without chunked prefill, {ALL_AGAIN}",
        wide=True,
        patches=("chunked-prefill", "row-attribution"),
    ),
    "shifted": Remedy(
        f"Let each sample get its own rows, {ALL_AGAIN}",
        wide=True,
        patches=("row-attribution", "result-order", "connector-layout"),
    ),
    "norm twice": Remedy(f"Capture the last layer before its final norm, {ALL_AGAIN}", wide=True),
    "rotary": Remedy(
        f"Let the engine rotate queries and keys as the target does, {ALL_AGAIN}", wide=True, patches=("cpu-rotary",)
    ),
    "missing norm": Remedy("Name an environment with speculators 0.4 or later for the pair current", patches=()),
    "wrong layer": Remedy(
        f"Capture the layers that the manifest names: vLLM's id k is the output of layer k - 1, {ALL_AGAIN}", wide=True
    ),
    "rows missing": Remedy(AGAIN, patches=("chunked-prefill", "row-attribution", "prefix-caching")),
    "rows too many": Remedy(AGAIN, patches=("row-attribution",)),
    "numbers differ": Remedy(f"Look for what changed in the engine since it extracted them, {ALL_AGAIN}", wide=True),
}
"""In the order in which they are told: a cause before what follows from it."""


def of(report: GateReport) -> Remedy:
    return _ORIGIN if report.gate == origin.GATE else _BY_FAULT.get(report.fault, Remedy(AGAIN))


def first(faults: Sequence[GateReport]) -> GateReport:
    """The report that names the cause."""
    order = list(_BY_FAULT)
    return min(faults, key=lambda report: order.index(report.fault) if report.fault in order else len(order))


def sentence(faults: Sequence[GateReport], cause: GateReport) -> str:
    """What was found, what to do, and what else was found."""
    remedy = of(cause)
    off = [patch for patch in remedy.patches if patch in parse(os.environ.get(VARIABLE, "")).off]
    switched = f" Switched off here: {', '.join(off)}." if off else ""
    # What spoils the whole data set spoils it for the gates behind, too; the verdict on disk has them all.
    others = dict.fromkeys(report.fault for report in faults if report.fault != cause.fault and not remedy.wide)
    besides = f" Also found: {', '.join(others)}." if others else ""
    return f"{cause.fault} ({cause.gate}): {cause.sentence}{switched} {remedy.text}.{besides}"
