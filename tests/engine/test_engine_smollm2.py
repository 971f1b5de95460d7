"""SmolLM2-135M-Instruct out of its package, converted and extracted in both pairs' environments: the same model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from engine_run import PAIRS, Run

pytestmark = [pytest.mark.engine, pytest.mark.matrix]


def test_both_pairs_make_the_same_model_and_the_same_states_of_it(tmp_path: Path) -> None:
    runs = {}
    for pair in PAIRS:
        settings = {"run": {"target": "smollm2", "pair": pair, "samples": 4, "max_length": 128, "dtype": "float32"}}
        run = runs[pair] = Run(tmp_path / pair, settings)
        for stage in ("provision", "target", "prepare", "extract"):
            attempt = run.stage(stage)
            assert attempt.rc == 0, attempt.log
        target = run.products / "target"
        header = target.joinpath("model.safetensors").read_bytes()[:100_000].decode("utf-8", "replace")
        assert "model.embed_tokens.weight" in header and "lm_head.weight" not in header
        about = json.loads((run.products / "dataset" / "dataset.json").read_text())
        assert about["chat_format"] == "ChatML"
    rows = [(runs[pair].products / "dataset" / "dataset.jsonl").read_text() for pair in PAIRS]
    assert rows[0] == rows[1]
    folders = [str(runs[pair].products / "hidden_states") for pair in PAIRS]
    found = json.loads(runs["current"].script("same_states.py", *folders).split("RESULT ")[1].splitlines()[0])
    assert found["files"] == 4
    assert found["worst"] < 1e-4
