"""Gate `loss-mask`: the mask stands on what the assistant says, and nothing that was to be learnt is gone.

Works on token ids alone, by the marks of the chat format that `prepare` leaves in dataset.json.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipeline import masking
from pipeline.gates.report import GateReport, failed, passed
from pipeline.masking import Marks

GATE = "loss-mask"


def check(
    token_ids: Sequence[int],
    mask: Sequence[int],
    marks: Marks,
    reasoning: Sequence[Sequence[int]] = (),
) -> GateReport:
    """`reasoning` are the ids of each reasoning that the conversation has and the mask must cover."""
    if len(mask) != len(token_ids):
        return failed(GATE, "mask shifted", f"The mask has {len(mask)} entries for {len(token_ids)} tokens.")
    expected = masking.mask(token_ids, marks)
    if not any(mask):
        turns = len(list(masking.turns(token_ids, marks)))
        return failed(
            GATE,
            "empty mask",
            f"The mask is zero on all {len(mask)} tokens; the assistant speaks {turns} times in them.",
        )
    if list(mask) != expected:
        return _pairing(list(mask), expected)
    for number, ids in enumerate(reasoning):
        if ids and not _covered(token_ids, mask, ids):
            return failed(
                GATE,
                "reasoning erased",
                f"Reasoning {number + 1} of {len(reasoning)} ({len(ids)} tokens) is in the conversation and not in the "
                "masked tokens: the chat template leaves it out.",
            )
    return passed(GATE, f"The mask covers {sum(mask)} of {len(mask)} tokens, all said by the assistant.")


def _pairing(mask: list[int], expected: list[int]) -> GateReport:
    wrong = sum(a != b for a, b in zip(mask, expected, strict=True))
    for by in (1, -1, 2, -2, 3, -3, 4, -4):
        moved = [0] * by + expected[:-by] if by > 0 else expected[-by:] + [0] * -by
        if mask == moved:
            side = "late" if by > 0 else "early"
            return failed(GATE, "mask shifted", f"The mask stands {abs(by)} tokens too {side} ({wrong} tokens wrong).")
    return failed(
        GATE,
        "mask of another row",
        f"The mask covers {sum(mask)} tokens and the assistant says {sum(expected)}; {wrong} of {len(mask)} disagree.",
    )


def _covered(token_ids: Sequence[int], mask: Sequence[int], ids: Sequence[int]) -> bool:
    said = [i if on else None for i, on in zip(token_ids, mask, strict=True)]
    return any(said[k : k + len(ids)] == list(ids) for k in range(len(said) - len(ids) + 1))
