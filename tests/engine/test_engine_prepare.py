"""The prepare stage as a process: what it writes, what it counts and says, what it refuses and where."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from engine_run import Attempt, Run

pytestmark = pytest.mark.engine

SHORT = {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "said " * 10}]}
LONG = {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "said " * 200}]}
LATE = {"messages": [{"role": "user", "content": "asked " * 200}, {"role": "assistant", "content": "b"}]}


def prepare(pairs: dict[str, Run], folder: Path, target: str, text: str, **prepare: Any) -> tuple[Run, Attempt]:
    source = folder / "chat.json"
    source.write_text(text, encoding="utf-8")
    settings = {
        "run": {
            "pair": "current",
            "target": str(pairs["current"].folder / "targets" / target),
            "conversations": str(source),
            "max_length": 100,
            "samples": 10,
            "until": "prepare",  # these targets have a tokenizer and no weights that a draft could share
        },
        "stage": {"prepare": prepare},
    }
    run = Run(folder / "run", settings)
    return run, run.stage("prepare")


def rows(run: Run) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run.products / "dataset" / "dataset.jsonl").read_text().splitlines()]


def notes(attempt: Attempt) -> str:
    return "\n".join(event["text"] for event in attempt.events("note"))


@pytest.mark.parametrize("long", ["truncate", "drop"])
def test_conversations_that_are_too_long_are_cut_or_left_out_and_said(
    pairs: dict[str, Run], tmp_path: Path, long: str
) -> None:
    run, attempt = prepare(pairs, tmp_path, "kimi-k2.5", json.dumps([SHORT, LONG, LATE, SHORT]), long=long)
    assert attempt.rc == 0, attempt.log
    found = rows(run)
    assert [row["index"] for row in found] == list(range(len(found)))
    lengths = [len(row["token_ids"]) for row in found]
    metrics = {event["name"]: event["value"] for event in attempt.events("metric")}
    if long == "truncate":
        assert lengths == [lengths[0], 100, lengths[0]]
        words = "2 of 4 conversations are longer than run.max_length, 100 tokens, and were cut to it; 1 had no token"
        assert (metrics["long"], metrics["dropped"]) == (2, 1)
    else:
        assert lengths == [lengths[0], lengths[0]]
        words = "2 of 4 conversations are longer than run.max_length, 100 tokens, and were left out (stage.prepare"
        assert (metrics["long"], metrics["dropped"]) == (2, 2)
    assert words in notes(attempt)
    assert "gave" in notes(attempt) and "chat format Kimi-K2" in notes(attempt)
    about = json.loads((run.products / "dataset" / "dataset.json").read_text())
    assert (about["samples"], about["long"], about["chat_format"]) == (len(found), long, "Kimi-K2")
    assert about["marks"]["ends"] == [163586]
    assert found[0]["place"] == f"{tmp_path / 'chat.json'}:1, row 1"


def test_every_row_with_a_fault_is_told_and_nothing_is_written(pairs: dict[str, Run], tmp_path: Path) -> None:
    unknown = {"messages": [{"role": "critic", "content": "a"}, SHORT["messages"][1]]}
    text = "\n".join([json.dumps(SHORT), '{"messages": [', json.dumps(SHORT), json.dumps(unknown)])
    run, attempt = prepare(pairs, tmp_path, "kimi-k2.5", text)
    assert attempt.rc == 1
    (event,) = attempt.events("exception")
    assert event["message"].startswith(f"{tmp_path / 'chat.json'}:2 is no JSON (Expecting value")
    assert event["message"].endswith("1 more of 4 rows cannot be used; the log names them.")
    assert f"{tmp_path / 'chat.json'}:4 cannot be used: turn 1 has the role 'critic'" in attempt.log
    assert not list((run.products / "dataset").iterdir())


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("no-template", "has no chat template: the model was not made for conversations"),
        ("shifted", "gives '<think>' the id 163607, and Kimi-K2 was published with 163606"),
        ("split", "writes '<|im_middle|>', which its tokenizer takes apart into"),
        ("other-format", "is a Kimi-K2 (deepseek_v3, kimi_k25, vocabulary 163840) and its tokenizer speaks ChatML"),
    ],
)
def test_a_target_whose_tokenizer_is_not_its_own_is_refused(
    pairs: dict[str, Run], tmp_path: Path, target: str, words: str
) -> None:
    _, attempt = prepare(pairs, tmp_path, target, json.dumps(SHORT))
    assert attempt.rc == 1
    (event,) = attempt.events("exception")
    assert event["message"].startswith(f"Neither {tmp_path / 'chat.json'}:1 nor any other conversation can become a")
    assert words in event["message"]
