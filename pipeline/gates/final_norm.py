"""Gate `final-norm`: the target's distribution from the stored last state is the engine's own.

KL(engine ‖ lm_head(norm(last))) for each position. The share of equal next tokens is not enough: it hardly moves when
the norm is missing.
"""

from __future__ import annotations

from typing import Any

from pipeline.gates.report import GateReport, failed, passed

GATE = "final-norm"
ALLOWED = 1e-3
"""Mean KL in nats. Measured on a tiny target: 0.000 when right, 0.064 without the norm, 0.076 with another layer's
states, 9.5 with rows shifted by one."""
SHIFTS = tuple(s for k in range(1, 17) for s in (k, -k))


def check(
    last: Any,
    engine_logits: Any,
    head: Any,
    norm: Any,
    epsilon: float,
    targets: Any = None,
    allowed: float | None = None,
) -> GateReport:
    """`last` [S, H] is the last layer's output before the final norm, `engine_logits` [S, V] the engine's own.

    Where the engine tells only its likeliest tokens, `engine_logits` are their log-probabilities, and -inf elsewhere.
    `head` [V, H] and `norm` [H] are the target's weights, `epsilon` its norm's; a head too large to be held at once is
    a function that takes states [S, H] to logits. `targets` [S, V] are the logits that the training is given; left out,
    they are made from `last` as they should be.
    """
    right = _logits(normed(last, norm, epsilon), head)
    given = right if targets is None else targets.float()
    allowed = _rounding(right, last.dtype) if allowed is None else allowed
    engine = engine_logits.float()
    found = divergence(engine, given)
    same = float((engine.argmax(1) == given.argmax(1)).float().mean())
    figures = (
        f"mean KL {found:.2g} nats over {len(last)} positions ({allowed:.0e} allowed), {same:.1%} equal next tokens"
    )
    if found <= allowed:
        return passed(GATE, f"The last state gives the engine's distribution: {figures}.")
    bare = _logits(last.float(), head)
    if targets is not None and divergence(engine, right) <= allowed:
        how = "without" if divergence(given, bare) <= allowed else "with another"
        return failed(GATE, "missing norm", f"The targets are computed {how} final norm: {figures}.")
    if divergence(engine, bare) <= allowed:
        return failed(GATE, "norm twice", f"The stored last state has the final norm in it already: {figures}.")
    for shift in SHIFTS:
        if len(last) > abs(shift) and _shifted(engine, right, shift) <= allowed:
            side = "late" if shift > 0 else "early"
            return failed(GATE, "shifted", f"The rows stand {abs(shift)} too {side}: {figures}.")
    return failed(
        GATE, "wrong layer", f"The stored last state is not the output of the target's last layer: {figures}."
    )


def _rounding(logits: Any, dtype: Any) -> float:
    """The divergence that an engine may have which rounds its logits to the numbers that its states are of.

    An error of a given variance diverges by half of it; the factor leaves room for the rounding of the states.
    """
    import torch

    spacing = float(torch.finfo(dtype).eps) * float(logits.abs().amax(1).mean())
    return max(ALLOWED, spacing * spacing / 3)


def divergence(engine: Any, other: Any) -> float:
    """Mean over positions of KL(softmax(engine) ‖ softmax(other)), in nats.

    Where the engine tells only some tokens, the others count as one: that can only make the divergence smaller.
    """
    import torch

    second = torch.log_softmax(other.float(), 1)
    told = torch.isfinite(engine)
    if bool(told.all()):
        first = torch.log_softmax(engine.float(), 1)
        return float((first.exp() * (first - second)).sum(1).mean())
    first = engine.float().masked_fill(~told, 0.0)
    shares = first.exp() * told
    rest = (1 - shares.sum(1)).clamp_min(1e-9)
    other_rest = (1 - (second.exp() * told).sum(1)).clamp_min(1e-9)
    return float(((shares * (first - second)).sum(1) + rest * (rest / other_rest).log()).mean())


def _shifted(engine: Any, logits: Any, shift: int) -> float:
    """Divergence where row i + shift of the states is compared with position i."""
    if shift > 0:
        return divergence(engine[:-shift], logits[shift:])
    return divergence(engine[-shift:], logits[:shift])


def normed(states: Any, weight: Any, epsilon: float) -> Any:
    """RMSNorm in 32-bit floats, as the target types here have it."""
    import torch

    wide = states.float()
    return wide * torch.rsqrt(wide.pow(2).mean(1, keepdim=True) + epsilon) * weight.float()


def _logits(states: Any, head: Any) -> Any:
    return head(states) if callable(head) else states @ head.float().T
