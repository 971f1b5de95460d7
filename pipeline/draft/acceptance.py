"""How many of a draft model's tokens the target accepts: counted round by round, the same for an engine and for here.

A round is one verification of k proposed tokens. It is counted in full, even where the answer is cut off inside it, at
its end token or at the most tokens that it may have: so vLLM counts. The first token of an answer needs no round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.gates.report import GateReport, failed, passed

GATE = "served-simulated"


@dataclass(frozen=True)
class Answer:
    """What was said after one prompt."""

    tokens: tuple[int, ...]
    """Its end token included."""
    accepted: tuple[int, ...]
    """Tokens of the draft model that the target accepted, of each round."""


@dataclass(frozen=True)
class Acceptance:
    """Figures over some answers."""

    rounds: int
    accepted: int
    per_position: tuple[int, ...]
    """Rounds in which the first 1, 2, … k proposed tokens were accepted."""

    @property
    def length(self) -> float:
        """Tokens that a round gives, the target's own included; 1.0 where no round was needed."""
        return 1 + self.accepted / self.rounds if self.rounds else 1.0

    @property
    def rates(self) -> tuple[float, ...]:
        return tuple(count / self.rounds if self.rounds else 0.0 for count in self.per_position)

    def to_json(self) -> dict[str, Any]:
        return {
            "acceptance_length": round(self.length, 4),
            "rounds": self.rounds,
            "accepted": self.accepted,
            "per_position": list(self.per_position),
        }


def total(answers: Sequence[Answer], proposed: int) -> Acceptance:
    """`proposed` is k, the tokens that the draft model proposes in a round."""
    rounds = [count for answer in answers for count in answer.accepted]
    per_position = tuple(sum(count > place for count in rounds) for place in range(proposed))
    return Acceptance(len(rounds), sum(rounds), per_position)


def lossless(answers: Sequence[Answer], plain: Sequence[Sequence[int]]) -> int | None:
    """The first prompt whose answer is not what the target alone says; None where all are the same."""
    pairs = enumerate(zip(answers, plain, strict=True))
    return next((number for number, (answer, alone) in pairs if answer.tokens != tuple(alone)), None)


def compare(simulated: Sequence[Answer], served: Sequence[Answer], name: str) -> GateReport:
    """The gate: under greedy decoding both must agree round by round, to the last accepted token."""
    for number, (here, engine) in enumerate(zip(simulated, served, strict=True)):
        if here.tokens != engine.tokens:
            place = _first(here.tokens, engine.tokens)
            return failed(
                GATE,
                "other tokens",
                f"Prompt {number} of {name} is answered otherwise by the engine than here, from token {place} on: "
                f"{_at(engine.tokens, place)} and {_at(here.tokens, place)}.",
            )
        if here.accepted != engine.accepted:
            place = _first(here.accepted, engine.accepted)
            return failed(
                GATE,
                "other acceptance",
                f"In round {place} after prompt {number} of {name} the engine accepts {_at(engine.accepted, place)} "
                f"tokens of the draft, and {_at(here.accepted, place)} are accepted here.",
            )
    rounds = sum(len(answer.accepted) for answer in served)
    return passed(
        GATE,
        f"The engine accepts in each of {rounds} rounds on {name} exactly the {sum(sum(a.accepted) for a in served)} "
        "tokens that are accepted here.",
    )


def _first(one: Sequence[int], other: Sequence[int]) -> int:
    """The first place at which two sequences differ."""
    differing = (i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return next(differing, min(len(one), len(other)))


def _at(values: Sequence[int], place: int) -> str:
    return str(values[place]) if place < len(values) else "nothing"
