"""A language model inside a wrapper, as Kimi-K2.5 is: the stages up to `verify` take it in both pairs."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from engine_run import PAIRS, Run

pytestmark = pytest.mark.engine

NAME = "tiny-kimi-k25"


def wrapped(folder: Path, pair: str, backend: str) -> Run:
    run = {"pair": pair, "target": NAME, "samples": 6, "batch_size": 3, "max_length": 96}
    return Run(folder, {"run": run, "stage": {"target": {"steps": 6}, "extract": {"backend": backend}}})


@pytest.fixture(scope="module", params=PAIRS)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run of a pair with its environment, the target and a data set."""
    run = wrapped(tmp_path_factory.mktemp(request.param), request.param, "transformers")
    for name in ("provision", "target", "prepare"):
        attempt = run.stage(name)
        assert attempt.rc == 0, attempt.log
    return run


@pytest.mark.parametrize("backend", ["transformers", "auto"])
def test_a_wrapped_target_is_prepared_extracted_and_verified(made: Run, backend: str, tmp_path: Path) -> None:
    pair = made.settings["run"]["pair"]
    run = wrapped(tmp_path / "run", pair, backend)
    shutil.copytree(made.products, run.products)
    for name in ("extract", "verify"):
        attempt = run.stage(name)
        assert attempt.rc == 0, attempt.log
    entry = json.loads((run.products / "hidden_states" / "manifest.jsonl").read_text().splitlines()[0])
    auto = {"seed": "generator", "current": "native"}[pair]
    assert entry["backend"] == (auto if backend == "auto" else backend)
    verdict = json.loads((run.products / "verify.json").read_text())
    assert verdict["passed"] and verdict["left_out"] == {}
    assert {"attribution", "aux-layers", "final-norm", "rotary"} <= {report["gate"] for report in verdict["reports"]}


def test_a_wrapper_without_all_weights_of_its_language_model_is_refused(made: Run, tmp_path: Path) -> None:
    run = wrapped(tmp_path / "run", made.settings["run"]["pair"], "transformers")
    shutil.copytree(made.products, run.products)
    path = run.products / "target" / "model.safetensors.index.json"
    index = json.loads(path.read_text())
    lost = "language_model.model.norm.weight"
    others = {name: shard for name, shard in index["weight_map"].items() if shard != index["weight_map"][lost]}
    path.write_text(json.dumps({**index, "weight_map": others}))
    (run.products / "target" / index["weight_map"][lost]).unlink()
    attempt = run.stage("extract")
    assert attempt.rc == 1
    message = attempt.events("exception")[0]["message"]
    assert re.search(r"lacks \d+ weights of the deepseek_v3 inside it, the first model\.\S+; copy the model's", message)
