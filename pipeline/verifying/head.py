"""`lm_head(norm(last))` of what is stored, against what the engine says that follows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from compat.patches import target_norm
from compat.source import SourceNotFound
from pipeline.gates import final_norm
from pipeline.gates.report import GateReport
from pipeline.report import StageError
from pipeline.verifying.repeated import NextTokens
from pipeline.weights import FINAL_NORM, Weights

UNKNOWN = ("final_logit_softcapping", "logit_scale", "logits_scaling")
"""In the config of a target that changes its logits behind the head."""
ADDS_ONE = "gemma"
"""Types that begin so keep their norms' weights less one."""


def check(
    target: Path,
    config: Mapping[str, Any],
    stored: Mapping[int, Any],
    asked: Sequence[NextTokens],
    trainer: Path | None,
) -> tuple[list[GateReport], str]:
    """(reports, why there are none). `stored` are states [S, L, H] by sample, the last layer's at the end of L.

    `config` is the text model's; `trainer` is the site-packages of the environment that will train, where it is made.
    """
    changes = [name for name in UNKNOWN if config.get(name)]
    if changes:
        return [], f"the target's config has {changes[0]}, which changes its logits behind the head"
    if not asked:
        return [], "no sample has two tokens"
    epsilon = config.get("rms_norm_eps")
    if epsilon is None:
        return [], "the target's config has no rms_norm_eps: its final norm is of another kind"
    try:
        weights = Weights(target)
        norm, head = _norm(weights, config), weights.head(config)
    except StageError as error:
        return [], str(error)
    omitted = norm_left_out(trainer)
    reports = []
    for one in asked:
        last = stored[one.sample][one.first : one.first + len(one.log_probabilities), -1]
        targets = head(last) if omitted else None
        report = final_norm.check(last, one.log_probabilities, head, norm, float(epsilon), targets)
        told = f"Sample {one.sample}: {report.sentence}" + (f" {omitted}." if report.fault == "missing norm" else "")
        reports.append(GateReport(report.gate, report.passed, report.fault, told))
    return reports, ""


def final_norm_of(target: Path, config: Mapping[str, Any]) -> Callable[[Any], Any] | None:
    """The target's final norm of states [S, H]; None where it is of another kind than those known here."""
    epsilon = config.get("rms_norm_eps")
    try:
        weight = _norm(Weights(target), config)
    except StageError:
        return None
    return None if epsilon is None else lambda states: final_norm.normed(states, weight, float(epsilon))


def _norm(weights: Weights, config: Mapping[str, Any]) -> Any:
    """The weights [H] of the final norm. Raises StageError where there are none."""
    weight = weights.tensor(FINAL_NORM).float()
    return weight + 1 if str(config.get("model_type", "")).startswith(ADDS_ONE) else weight


def norm_left_out(trainer: Path | None) -> str:
    """Where the trainer computes its targets without the final norm; "" where it applies it, or is not there."""
    if trainer is None:
        return ""
    try:
        found = target_norm.probe(trainer)
    except SourceNotFound:
        return ""
    return found.reason if found.needed else ""
