"""Acceptance: how rounds are counted, when served and simulated agree, and what an alarm is raised for."""

from __future__ import annotations

import re
from typing import Any

import pytest

from pipeline.draft import acceptance, alarm, prompts
from pipeline.draft.acceptance import Answer

ANSWERS = [Answer((7, 8, 9, 5), (3, 0)), Answer((4, 5), (1,)), Answer((5,), ())]


def test_a_round_counts_at_each_position_up_to_what_was_accepted() -> None:
    found = acceptance.total(ANSWERS, 3)
    assert (found.rounds, found.accepted, found.per_position) == (3, 4, (2, 1, 1))
    assert found.length == 1 + 4 / 3
    assert found.rates == (2 / 3, 1 / 3, 1 / 3)
    assert acceptance.total(ANSWERS[2:], 3).length == 1.0


def test_the_first_answer_that_is_not_the_targets_own_is_found() -> None:
    alone = [answer.tokens for answer in ANSWERS]
    assert acceptance.lossless(ANSWERS, alone) is None
    assert acceptance.lossless(ANSWERS, [alone[0], (4, 6), alone[2]]) == 1


def test_served_and_simulated_agree_to_the_last_accepted_token() -> None:
    report = acceptance.compare(ANSWERS, list(ANSWERS), "held-out")
    assert report.passed
    assert "3 rounds on held-out exactly the 4 tokens" in report.sentence


@pytest.mark.parametrize(
    ("other", "fault", "says"),
    [
        (Answer((4, 5), (2,)), "other acceptance", "round 0 after prompt 1 of held-out the engine accepts 2 "),
        (
            Answer((4, 5), (1, 0)),
            "other acceptance",
            "round 1 .* the engine accepts 0 tokens of the draft, and nothing",
        ),
        (Answer((4, 6), (1,)), "other tokens", "Prompt 1 of held-out .* from token 1 on: 6 and 5"),
        (Answer((4,), (1,)), "other tokens", "from token 1 on: nothing and 5"),
    ],
)
def test_a_difference_is_named_by_its_place(other: Answer, fault: str, says: str) -> None:
    report = acceptance.compare(ANSWERS, [ANSWERS[0], other, ANSWERS[2]], "held-out")
    assert (report.passed, report.fault) == (False, fault)
    assert re.search(says, report.sentence), report.sentence


def evaluation(promised: float | None = 3.0, passed: bool = True, **lengths: float) -> dict[str, Any]:
    return {
        "training": {} if promised is None else {"acceptance": promised},
        "reports": [{"passed": passed, "sentence": "A gate."}],
        "sets": [{"name": n.replace("_", "-"), "served": {"acceptance_length": x}} for n, x in lengths.items()],
    }


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (evaluation(held_out=2.8, trained=2.9, everyday=1.3), ""),
        (evaluation(None, held_out=1.6), ""),
        (evaluation(held_out=1.04), "held-out is 1.04, next to nothing"),
        (evaluation(held_out=2.8, everyday=1.1), "everyday is 1.1"),
        (evaluation(held_out=1.9, trained=2.9), "held-out is 1.9, and training promised 3.00"),
        (evaluation(passed=False, held_out=2.8), "A gate."),
    ],
)
def test_the_alarm_is_raised_near_one_and_far_from_what_training_promised(found: dict[str, Any], says: str) -> None:
    assert says in alarm.suspicion(found)
    assert bool(alarm.suspicion(found)) is bool(says)


def test_a_set_of_prompts_is_known_by_its_tokens() -> None:
    one = prompts.PromptSet("mine", ((1, 2), (3,)), "a file")
    assert one.digest == prompts.PromptSet("another", ((1, 2), (3,)), "elsewhere").digest
    assert one.digest != prompts.PromptSet("mine", ((1,), (2, 3)), "a file").digest
    assert one.to_json()["tokens"] == 3
