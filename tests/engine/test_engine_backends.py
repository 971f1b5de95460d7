"""The backends, each on the pair that has it, give the same states as a plain forward of transformers, in files that
stock `speculators train` reads as they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from drill import run_of, samples
from engine_run import Run

pytestmark = pytest.mark.engine


def extracted(seed: Run, folder: Path, pair: str, backend: str) -> Run:
    """A run of its own over the target and the data set of `seed`, in 32-bit floats."""
    given = {**seed.settings["run"], "pair": pair, "dtype": "float32"}
    made = Run(folder, {"run": given, "stage": {"extract": {"backend": backend}}})
    assert made.stage("provision").rc == 0
    made.products.mkdir()
    for product in ("target", "dataset"):
        (made.products / product).symlink_to(seed.products / product)
    attempt = made.stage("extract")
    assert attempt.rc == 0, attempt.log
    return made


def current_run(folder: Path) -> Run:
    """One whose environment has the trainer."""
    return Run(folder / "trainer", {"run": {"pair": "current"}})


def stock_training(taken: Run, current: Run, *arguments: str) -> dict[str, Any]:
    """What `stock_train.py` prints of a short training on the hidden states of a run."""
    told = current.script("stock_train.py", str(taken.products), str(current.folder / "training"), *arguments)
    found: dict[str, Any] = json.loads(told.rpartition("RESULT ")[2])
    return found


@pytest.mark.parametrize("pair, backend", [("seed", "generator"), ("current", "native")])
def test_a_backend_agrees_with_a_plain_forward(run: Run, tmp_path: Path, pair: str, backend: str) -> None:
    taken = extracted(run, tmp_path / "auto", pair, "auto")
    plain = extracted(run, tmp_path / "plain", pair, "transformers")
    used = [
        json.loads((one.products / "hidden_states" / "manifest.jsonl").read_text().splitlines()[0])["backend"]
        for one in (taken, plain)
    ]
    assert used == [backend, "transformers"]
    told = plain.script("difference.py", str(taken.products), str(plain.products))
    found = json.loads(told.rpartition("RESULT ")[2])
    assert found["samples"] == 12
    assert found["tokens"] > 500
    assert min(found["size"]) > 1
    assert max(found["diff"]) < 2e-5 * max(found["size"])
    trained = stock_training(taken, plain if pair == "current" else current_run(tmp_path))
    assert trained["warnings"] == []
    losses = [epoch["loss_epoch"] for epoch in trained["epochs"]]
    assert losses[1] < losses[0] < float("inf")
    print(f"\n{pair}, {backend}: largest differences {found['diff']}, largest values {found['size']}")


def test_states_in_8_bit_floats_are_read_by_the_stock_trainer(run: Run, tmp_path: Path) -> None:
    target = run.products / "target"
    made = samples(40, 60)
    packed, plain = (
        run_of(tmp_path / states, target, made, "current", backend="transformers", states=states)
        for states in ("fp8", "full")
    )
    for one in (packed, plain):
        attempt = one.stage("extract")
        assert attempt.rc == 0, attempt.log
    told = json.loads(
        packed.script("fp8_states.py", str(packed.products), str(plain.products)).rpartition("RESULT ")[2]
    )
    assert told["as_hs_connectors"] and told["as_safetensors"]
    assert told["size"] < 0.56
    trained = stock_training(packed, packed, "--hidden-states-backend=fp8")
    assert trained["warnings"] == []
    assert trained["epochs"][1]["loss_epoch"] < trained["epochs"][0]["loss_epoch"]
    both = Run(
        tmp_path / "both", {**plain.settings, "stage": {"extract": {"backend": "transformers", "states": "fp8"}}}
    )
    (both.folder / "products").symlink_to(plain.products)
    refused = both.stage("extract")
    assert refused.rc == 1
    assert "holds hidden states of another states" in refused.events("exception")[0]["message"]
