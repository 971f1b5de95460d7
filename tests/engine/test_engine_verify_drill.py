"""The fault drill of the stage verify: 20 data sets of each type and backend raise nothing, and every silent fault that
can be brought about is stopped under its right name. What was seen goes to `build/reports/verify.md`."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import verify_table
from engine_run import Run
from test_engine_verify import NAMES, copied, told

pytestmark = [pytest.mark.engine, pytest.mark.matrix]

SEEDS = 20
TYPES = {"tiny": "llama", "tiny-qwen3": "qwen3", "tiny-deepseek-v3": "deepseek_v3"}
BACKENDS = {"transformers": "current", "native": "current", "generator": "seed"}
"""Backend → the pair that has it."""
STEPS = 120
"""Optimiser steps of the targets."""


@pytest.fixture(scope="module")
def of_type(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Run]:
    """A run of the pair current with a target of a type, made when it is first asked for."""

    @cache
    def made(name: str) -> Run:
        settings = {"run": {"target": name, "pair": "current"}, "stage": {"target": {"steps": STEPS}}}
        run = Run(tmp_path_factory.mktemp(name), settings)
        for stage in ("provision", "target"):
            attempt = run.stage(stage)
            assert attempt.rc == 0, attempt.log
        return run

    return made


@pytest.fixture(scope="module")
def pair_runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    runs = {pair: Run(tmp_path_factory.mktemp(pair), {"run": {"pair": pair}}) for pair in set(BACKENDS.values())}
    for run in runs.values():
        attempt = run.stage("provision")
        assert attempt.rc == 0, attempt.log
    return runs


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", TYPES)
def test_data_without_a_fault_pass(
    name: str, backend: str, of_type: Callable[[str], Run], pair_runs: dict[str, Run], tmp_path: Path
) -> None:
    # An engine of vLLM is started once for its 20 data sets; the plain forward has a target of its own for each.
    fresh = backend == "transformers"
    target = of_type(name).products / "target"
    arguments = ("clean", backend, str(target), str(tmp_path / "runs"), f"1-{SEEDS}", str(int(fresh)))
    found = told(pair_runs[BACKENDS[backend]].script("verify_drill.py", *arguments))
    alarms = {seed: result["sentence"] for seed, result in found.items() if result["fault"]}
    row = {
        "type": TYPES[name],
        "backend": backend,
        "seeds": len(found),
        "targets": SEEDS if fresh else 1,
        "alarms": len(alarms),
        "largest": verify_table.largest(found),
    }
    verify_table.add(verify_table.CLEAN, [row])
    assert len(found) == SEEDS
    assert not alarms
    assert {"attribution", "final-norm", "rotary"} <= {report[0] for report in found["1"]["reports"]}


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_fault_in_the_data_is_named(backend: str, of_type: Callable[[str], Run], tmp_path: Path) -> None:
    run = of_pair(of_type("tiny"), BACKENDS[backend])
    made = copied(run, tmp_path / "run", backend)
    found = told(made.script("verify_drill.py", "spoilt", backend, str(made.folder), "clean", *NAMES))
    note(backend, {name: result for name, result in found.items() if name != "clean"})
    assert {name: result["fault"] for name, result in found.items()} == {"clean": "", **NAMES}


@pytest.mark.parametrize("what", ["other_target", "other_tokenizer"])
def test_another_target_or_tokenizer_than_the_data_s_is_named(
    what: str, of_type: Callable[[str], Run], tmp_path: Path
) -> None:
    made = copied(of_type("tiny"), tmp_path / "run", "transformers")
    made.script("spoil.py", str(made.products), what)
    assert stopped(made, what, "transformers") == what.replace("_", " ")


def test_an_engine_that_cuts_long_batches_is_stopped(of_type: Callable[[str], Run], tmp_path: Path) -> None:
    made = copied(of_pair(of_type("tiny"), "seed"), tmp_path / "run", "generator", max_length=512)
    off = ("chunked-prefill", "row-attribution")
    assert stopped(made, "`chunked-prefill` off", "generator", off) == "truncated"


def test_an_engine_with_the_account_s_block_hasher_is_stopped(of_type: Callable[[str], Run], tmp_path: Path) -> None:
    """The data were extracted rightly; then somebody gave the requests block hashes."""
    made = copied(of_pair(of_type("tiny"), "seed"), tmp_path / "run", "generator")
    hasher = Path(__file__).parent / "block_hasher"
    path = made.plan["verify"]["env"]["PYTHONPATH"]
    made.plan["verify"]["env"]["PYTHONPATH"] = f"{hasher}:{path}"
    off = ("prefix-caching", "row-attribution")
    assert stopped(made, "`prefix-cache-rows`: a block hasher", "generator", off) == "prefix-cache hit"


def test_a_rotation_that_is_wrong_throughout_is_stopped(of_type: Callable[[str], Run], tmp_path: Path) -> None:
    run = of_pair(of_type("tiny-deepseek-v3"), "current")
    made = copied(run, tmp_path / "run", "native", off=("cpu-rotary",))
    assert stopped(made, "`cpu-rotary` off", "native", ("cpu-rotary",)) == "rotary"


def test_a_wrong_rotation_is_stopped_by_an_engine_that_rotates_rightly(
    of_type: Callable[[str], Run], tmp_path: Path
) -> None:
    """Its numbers change with the batch, so that the stored rows are nowhere those of the sample alone."""
    run = of_pair(of_type("tiny-deepseek-v3"), "current")
    made = copied(run, tmp_path / "run", "native", off=("cpu-rotary",))
    assert stopped(made, "`cpu-rotary` off in extract alone", "native") == "rotary"


def test_layers_one_too_late_are_stopped(of_type: Callable[[str], Run], tmp_path: Path) -> None:
    """speculators' own default, under the names of ours."""
    made = copied(of_type("tiny"), tmp_path / "run", "transformers", layers=[3, 5, 6])
    made.script("spoil.py", str(made.products), "relabelled")
    del made.settings["run"]["layers"]
    assert stopped(made, "`aux-layers`: one too late", "transformers") == "wrong layer"


def test_a_trainer_without_the_final_norm_is_stopped(
    of_type: Callable[[str], Run], pair_runs: dict[str, Run], tmp_path: Path
) -> None:
    made = copied(of_type("tiny"), tmp_path / "run", "transformers")
    python = pair_runs["seed"].plan["extract"]["argv"][0]  # its speculators is 0.3.0
    made.settings["environment"] = {"current": {"python": python}}
    assert stopped(made, "`target-norm`: speculators 0.3.0 trains", "transformers") == "missing norm"


def of_pair(run: Run, pair: str) -> Run:
    """The same products, to be used in another pair."""
    return (
        run if run.settings["run"]["pair"] == pair else Run(run.folder, {"run": {**run.settings["run"], "pair": pair}})
    )


def stopped(run: Run, injected: str, backend: str, off: tuple[str, ...] = ()) -> str:
    """Runs the stage, which must fail; the fault that it names."""
    attempt = run.stage("verify", off=off)
    message = attempt.events("exception")[0]["message"] if attempt.events("exception") else ""
    fault = message.split(" (")[0]
    reports = json.loads((run.products / "verify.json").read_text())["reports"]
    told_by = [[r["gate"], r["fault"], r["sentence"]] for r in reports]
    note(backend, {injected: {"fault": fault, "sentence": message, "reports": told_by}})
    assert attempt.rc == 1, attempt.log
    return fault


def note(backend: str, results: dict[str, dict[str, Any]]) -> None:
    rows = []
    for name, result in results.items():
        rows.append(
            {
                "injected": name.replace("_", " "),
                "backend": backend,
                "fault": result["fault"],
                "gate": result["sentence"].partition(" (")[2].partition(")")[0],
                "sentence": result["sentence"],
            }
        )
    verify_table.add(verify_table.FAULTS, rows)
