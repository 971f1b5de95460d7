"""What a release of vLLM can serve of a draft model, and what the plan refuses to train for it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from safetensors_files import safetensors, write_model

from pipeline import settings
from pipeline.draft import profile
from pipeline.draft.shape import Shape
from pipeline.plan import plan
from pipeline.problem import Problem


def wanted(**stage: Any) -> settings.Settings:
    return settings.parse({"stage": stage})


@pytest.mark.parametrize(
    ("engine", "norms", "plain", "layers", "latent", "old_rope"),
    [
        ("0.16.0", (), (), ("llama",), False, True),
        ("0.18", (), ("norm_before_fc",), ("llama",), True, True),
        ("0.22", ("norm_before_fc",), ("norm_before_fc", "fc_norm", "norm_output"), ("llama",), True, True),
        ("0.32", *[("norm_before_fc", "fc_norm", "norm_output")] * 2, ("llama", "qwen3"), True, False),
    ],
)
def test_a_release_has_a_profile(
    engine: str, norms: Any, plain: Any, layers: Any, latent: bool, old_rope: bool
) -> None:
    assert profile.profile_for(engine) == profile.Profile(engine, norms, plain, layers, latent, old_rope)


def test_norms_are_those_that_the_engine_serves() -> None:
    assert profile.norms(wanted()) == ("norm_before_fc", "norm_output")
    assert profile.norms(wanted(export={"engine": "0.22.1"})) == ("norm_before_fc",)
    assert profile.norms(wanted(export={"engine": "0.16"})) == ()
    assert profile.norms(wanted(train={"norms": ["fc_norm"]})) == ("fc_norm",)
    assert profile.norms(wanted(train={"norms": []})) == ()
    assert profile.shape(wanted()) == Shape(norm_before_fc=True, norm_output=True)
    asked = wanted(train={"norms": ["fc_norm"], "layer": "qwen3", "ttt_steps": 5})
    assert profile.shape(asked) == Shape(arch="qwen3", fc_norm=True, speculative_tokens=5)


@pytest.mark.parametrize(
    ("stage", "says"),
    [
        ({"export": {"engine": "0.16"}, "train": {"norms": ["norm_output"]}}, "norm_output.*0.16.*0.25.0 or later"),
        ({"export": {"engine": "0.22"}, "train": {"norms": ["norm_output"]}}, "plain form alone, since 0.22.0"),
        ({"export": {"engine": "0.22"}, "train": {"layer": "qwen3"}}, "layer is qwen3.*0.24.0 or later"),
        ({"train": {"norms": ["norm_before_fc", "fc_norm"]}}, "one of the two"),
        ({"train": {"norms": ["norm"]}}, "stage.train.norms is"),
        ({"train": {"layer": "mamba"}}, "stage.train.layer is 'mamba'"),
        ({"export": {"engine": "latest"}}, "'latest', which is no version"),
        ({"export": {"engine": "0.9.2"}}, "vLLM since 0.11.0"),
        ({"evaluate": {"prompts": {"mine": "here.jsonl"}}}, "stage.evaluate.prompts.mine"),
        ({"evaluate": {"prompts": {"mine": "/nowhere.jsonl"}}}, "no file of prompts /nowhere.jsonl"),
    ],
)
def test_the_plan_refuses_what_the_engine_cannot_serve(stage: dict[str, Any], says: str) -> None:
    with pytest.raises(Problem) as told:
        plan({"settings": {"run": {"pair": "current"}, "stage": stage}})
    whole = f"{told.value.message} {told.value.remedy}"
    assert re.search(says, whole), whole
    assert told.value.message.count(". ") == 0


def test_a_target_whose_layers_the_engine_does_not_hand_out_is_refused_before_anything_runs(tmp_path: Path) -> None:
    target = write_model(tmp_path / "model")
    config = json.loads((target / "config.json").read_text())
    inner = {key: config.pop(key) for key in ("num_hidden_layers", "num_attention_heads")}
    (target / "config.json").write_text(
        json.dumps({**config, "model_type": "kimi_k25", "text_config": {**inner, "model_type": "kimi_k2"}})
    )
    request = {"run": {"pair": "current", "target": str(target), "layers": [1, 2, 3]}}
    stage = {"export": {"engine": "0.16.0"}}
    with pytest.raises(Problem, match=r"of type kimi_k2, and vLLM 0\.16\.0"):
        plan({"settings": {**request, "stage": stage}})
    with pytest.raises(Problem, match=r"of type deepseek_v3"):
        plan({"settings": {"run": {"pair": "current", "target": "tiny-deepseek-v3"}, "stage": stage}})
    plan({"settings": {"run": {"pair": "current", "target": "tiny-deepseek-v3", "until": "verify"}, "stage": stage}})


def test_a_target_without_an_embedding_or_a_head_of_a_known_name_is_refused(tmp_path: Path) -> None:
    target = write_model(tmp_path / "model")
    request = {"settings": {"run": {"pair": "current", "target": str(target)}}}
    shards = sorted(target.glob("*.safetensors"))
    plan(request)
    shards[0].write_bytes(safetensors(name="language_model.model.embed_tokens.weight"))
    shards[1].write_bytes(safetensors(name="language_model.lm_head.weight"))
    plan(request)
    shards[1].write_bytes(safetensors(name="score.weight"))
    plan(request)  # the head is the embedding
    config = json.loads((target / "config.json").read_text())
    (target / "config.json").write_text(json.dumps({**config, "tie_word_embeddings": False}))
    with pytest.raises(Problem, match=r"has no head \(no tensor ends in lm_head.weight\)"):
        plan(request)
    shards[0].write_bytes(safetensors(name="embeddings"))
    with pytest.raises(Problem, match=r"no embedding that a draft model could share"):
        plan(request)
    plan({"settings": {"run": {"pair": "current", "target": str(target), "until": "verify"}}})
