"""The plan: what it hands to the supervisor, and the sentence it refuses each nonsense with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from safetensors_files import write_model

from pipeline import environments, settings
from pipeline.pairs import PAIRS, Size
from pipeline.plan import plan
from pipeline.problem import Problem
from pipeline.settings import TARGETS
from pipeline.stages import pairs

ROOT = Path(__file__).parents[3]


def request(**run: object) -> dict[str, Any]:
    return {"settings": {"run": run}, "run_folder": "/runs/one", "python": sys.executable, "bundle": "/bundle"}


@pytest.fixture(autouse=True)
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty cache, and disk enough for any environment."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name, pair in PAIRS.items():
        monkeypatch.setitem(PAIRS, name, replace(pair, cpu=Size(1000, 1000)))


DATA = ("target", "prepare", "extract", "verify")
DRAFT = ("vocab", "loadcheck", "train", "evaluate", "export")


def test_the_stages_are_in_order_and_each_runs_in_the_environment_that_provision_will_make() -> None:
    made = plan(request())
    assert [stage["name"] for stage in made["stages"]] == ["provision", *DATA, *DRAFT]
    pythons = {stage["name"]: stage["argv"][0] for stage in made["stages"]}
    for pair, names in (("seed", DATA), ("current", DRAFT)):
        environment = environments.locate(pair, environments.base_python(pair)[1])
        assert {pythons[name] for name in names} == {str(environment.python)}
    assert made["stages"][0]["argv"] == [environments.base_python("seed")[0], "-m", "pipeline", "provision"]
    assert all(stage["env"]["PYTHONPATH"] == "/bundle:/bundle/compat/plugin" for stage in made["stages"])
    assert all(stage["cwd"] == "/runs/one" for stage in made["stages"])
    assert made["versions"]["speculators"] == "0.3.0"
    assert made["versions"]["vllm"] == "0.16.0"


def test_a_run_ends_after_the_stage_that_is_asked_for() -> None:
    made = plan(request(until="extract"))
    assert [stage["name"] for stage in made["stages"]] == ["provision", "target", "prepare", "extract"]
    assert pairs(settings.parse({"run": {"until": "extract"}})) == ("seed",)
    assert pairs(settings.parse({"run": {}})) == ("seed", "current")
    with pytest.raises(Problem, match=r"run\.until is .extrakt., and there is no such stage"):
        plan(request(until="extrakt"))


def test_the_current_pair_has_an_environment_of_its_own() -> None:
    made = plan(request(pair="current"))
    environment = environments.locate("current", environments.base_python("current")[1])
    assert {stage["argv"][0] for stage in made["stages"][1:]} == {str(environment.python)}
    assert (made["pair"], made["versions"]["speculators"], made["versions"]["vllm"]) == ("current", "0.9.0", "0.32.0")


def moved(**pairs: str) -> dict[str, Any]:
    asked = request(pair="seed")
    asked["settings"]["stage"] = {stage: {"pair": pair} for stage, pair in pairs.items()}
    return asked


def test_a_stage_can_be_moved_to_another_pair_s_environment() -> None:
    """And what proves the hidden states goes with what made them, unless it is moved itself."""
    made = {stage["name"]: stage["argv"][0] for stage in plan(moved(extract="current"))["stages"]}
    assert made["extract"] == made["verify"] == made["train"]
    assert made["prepare"] == made["target"] != made["extract"]
    answer = plan(moved(extract="current"))
    assert (answer["pair"], answer["versions"]["vllm"]) == ("current", "0.32.0")
    made = {stage["name"]: stage["argv"][0] for stage in plan(moved(extract="current", verify="seed"))["stages"]}
    assert made["verify"] == made["prepare"]


@pytest.mark.parametrize("stage", DRAFT)
def test_a_draft_stage_is_refused_where_its_modules_are_not(stage: str) -> None:
    with pytest.raises(Problem, match=rf"stage\.{stage}\.pair is 'seed', and {stage} needs the modules of the current"):
        plan(moved(**{stage: "seed"}))
    assert plan(moved(**{stage: "current"}))


def test_a_stage_that_cannot_be_moved_or_a_pair_that_is_none_is_refused() -> None:
    with pytest.raises(Problem, match=r"stage\.provision\.pair"):
        plan(moved(provision="seed"))
    with pytest.raises(Problem, match=r"stage\.extract\.pair is 'newest'"):
        plan(moved(extract="newest"))


def test_the_versions_of_an_environment_of_the_operator_s_own_are_its_own() -> None:
    asked = request()
    asked["settings"]["environment"] = {"seed": {"python": sys.executable}}
    assert plan(asked)["versions"] == {}  # of speculators and vLLM the tests' environment has neither


def test_the_versions_on_a_gpu_host_are_those_of_its_build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.stages.has_gpu", lambda: True)
    for name, pair in PAIRS.items():
        monkeypatch.setitem(PAIRS, name, replace(pair, cuda=Size(1000, 1000)))
    made = plan(request())
    assert made["versions"]["vllm"] == "0.16.0"
    assert made["versions"]["torch"] == environments.pinned_versions("seed", "cuda")["torch"] != "2.10.0"
    pythons = {stage["name"]: stage["argv"][0] for stage in made["stages"]}
    assert "/seed-cuda-" in pythons["extract"] and "/current-cuda-" in pythons["train"]


def test_smollm2_is_as_long_and_has_as_many_heads_as_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.stages.cpus", lambda: 64)
    assert plan(request(target="smollm2", max_length=8191, tensor_parallel=3))
    with pytest.raises(Problem, match="SmolLM2 takes sequences of 8192 tokens"):
        plan(request(target="smollm2", max_length=8192))
    with pytest.raises(Problem, match="the 9 attention heads of SmolLM2 do not split evenly"):
        plan(request(target="smollm2", tensor_parallel=2))


def test_a_run_with_a_model_of_its_own_makes_no_target(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "model")
    assert "target" not in [stage["name"] for stage in plan(request(target=str(folder)))["stages"]]


@pytest.mark.parametrize("target", TARGETS)
def test_each_tiny_target_is_made_and_extracted_without_mla_on_a_cpu(
    target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeline.stages.has_gpu", lambda: False)
    env = {pair: {s["name"]: s["env"] for s in plan(request(target=target, pair=pair))["stages"]} for pair in PAIRS}
    assert all("target" in stages for stages in env.values())
    assert env["seed"]["extract"]["VLLM_MLA_DISABLE"] == "1"
    assert "VLLM_MLA_DISABLE" not in env["current"]["extract"]


def test_a_tiny_target_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(Problem) as caught:
        plan(request(target="tiny-gpt"))
    assert "one of: tiny, tiny-qwen3, tiny-deepseek-v3, tiny-kimi-k25" in caught.value.remedy


def test_variables_of_the_operator_win_over_the_plan_s() -> None:
    asked = request()
    asked["settings"]["stage"] = {"extract": {"env": {"VLLM_CPU_KVCACHE_SPACE": "7", "MINE": "1"}}}
    env = {stage["name"]: stage["env"] for stage in plan(asked)["stages"]}
    assert (env["extract"]["VLLM_CPU_KVCACHE_SPACE"], env["extract"]["MINE"]) == ("7", "1")
    assert "MINE" not in env["prepare"]


@pytest.mark.parametrize(
    ("run", "kind", "words"),
    [
        ({"pair": "newest"}, "bad_settings", "run.pair is 'newest'"),
        ({"pair": ["seed"]}, "bad_settings", "run.pair is ['seed']"),
        ({"layers": [2, 2, 3]}, "bad_settings", "run.layers is [2, 2, 3]"),
        ({"layers": [0, 2, 3]}, "bad_settings", "run.layers is [0, 2, 3]"),
        ({"layers": "some"}, "bad_settings", "run.layers is 'some'"),
        ({"tensor_parallel": 0}, "bad_settings", "run.tensor_parallel is 0"),
        ({"tensor_parallel": True}, "bad_settings", "run.tensor_parallel is True"),
        ({"tensor_parallel": 64}, "bad_settings", "run.tensor_parallel is 64"),
        ({"max_length": "long"}, "bad_settings", "run.max_length is 'long'"),
        ({"max_length": 4096}, "bad_settings", "run.max_length is 4096"),
        ({"dtype": "int4"}, "bad_settings", "run.dtype is 'int4'"),
        ({"conversations": "/no/such.jsonl"}, "bad_settings", "/no/such.jsonl"),
        ({"target": "models/mine"}, "bad_settings", "run.target is 'models/mine'"),
        ({"target": "/no/such/folder"}, "no_target", "/no/such/folder"),
    ],
)
def test_nonsense_is_refused_with_one_sentence_and_a_remedy(run: dict[str, object], kind: str, words: str) -> None:
    with pytest.raises(Problem) as caught:
        plan(request(**run))
    assert (caught.value.kind, words in caught.value.message) == (kind, True), caught.value.message
    assert caught.value.remedy


def test_what_becomes_of_long_conversations_is_one_of_two() -> None:
    assert settings.parse({"stage": {"prepare": {"long": "drop"}}}).long == "drop"
    for wrong in ("cut", 1):
        with pytest.raises(Problem, match=r"stage\.prepare\.long is"):
            settings.parse({"stage": {"prepare": {"long": wrong}}})


def test_a_model_without_config_is_refused(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "model")
    (folder / "config.json").unlink()
    refused(folder, "has no config.json")


def test_a_truncated_shard_is_named(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "model")
    shard = folder / "model-00002-of-00003.safetensors"
    shard.write_bytes(shard.read_bytes()[:-1])
    refused(folder, f"The shard {shard} is ")


def test_a_shard_cut_inside_its_header_is_named(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "model")
    shard = folder / "model-00003-of-00003.safetensors"
    shard.write_bytes(shard.read_bytes()[:11])
    refused(folder, f"The shard {shard} is cut off")


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "model")
    (folder / "model-00001-of-00003.safetensors").unlink()
    refused(folder, "lacks 1 of 3 shards; the first is model-00001-of-00003.safetensors")


def test_a_missing_shard_is_named_where_the_index_is_missing_too(tmp_path: Path) -> None:
    """A copy in the order of the names broke off: the index comes behind the shards."""
    folder = write_model(tmp_path / "model")
    (folder / "model.safetensors.index.json").unlink()
    assert plan(request(target=str(folder)))
    (folder / "model-00003-of-00003.safetensors").unlink()
    refused(folder, "lacks 1 of 3 shards; the first is model-00003-of-00003.safetensors")
    (folder / "model.safetensors").write_bytes((folder / "model-00001-of-00003.safetensors").read_bytes())
    assert plan(request(target=str(folder)))  # that one is the model


def test_a_target_with_too_few_layers_for_the_default_rule_is_refused(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "model", layers=6)
    with pytest.raises(Problem, match="6 layers, too few"):
        plan(request(target=str(folder)))
    assert plan(request(target=str(folder), layers=[1, 3, 5]))


def test_heads_that_do_not_split_over_the_ranks_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.stages.cpus", lambda: 64)
    folder = write_model(tmp_path / "model", heads=4)
    with pytest.raises(Problem, match="4 attention heads"):
        plan(request(target=str(folder), tensor_parallel=3))


def test_too_little_disk_is_refused_with_both_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PAIRS, "seed", replace(PAIRS["seed"], cpu=Size(10**18, 1000)))
    with pytest.raises(Problem, match=r"has \d+\.\d GB free") as caught:
        plan(request())
    assert caught.value.kind == "no_space"


def test_an_environment_of_the_operator_s_own_that_does_not_run_is_refused() -> None:
    asked = request()
    asked["settings"]["environment"] = {"seed": {"python": "/no/such/python"}}
    with pytest.raises(Problem, match="/no/such/python") as caught:
        plan(asked)
    assert caught.value.kind == "bad_settings"


def test_a_torch_index_is_an_address_or_a_folder(tmp_path: Path) -> None:
    asked = request(pair="current")
    for value in ("https://wheels.example/cpu", str(tmp_path)):
        asked["settings"]["environment"] = {"current": {"torch_index": value}}
        assert plan(asked)
    asked["settings"]["environment"] = {"current": {"torch_index": str(tmp_path / "none")}}
    with pytest.raises(Problem, match=r"environment\.current\.torch_index is .*/none, and there is no such folder"):
        plan(asked)
    asked["settings"]["environment"] = {"current": {"torch_index": "wheels"}}
    with pytest.raises(Problem, match=r"environment\.current\.torch_index is 'wheels'"):
        plan(asked)


def refused(folder: Path, words: str) -> None:
    with pytest.raises(Problem) as caught:
        plan(request(target=str(folder)))
    assert (caught.value.kind, words in caught.value.message) == ("no_target", True), caught.value.message


def command(name: str, text: str, cache: Path) -> tuple[int, dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-S", "-m", "pipeline", name],
        input=text,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "XDG_CACHE_HOME": str(cache)},
        timeout=60,
    )
    return done.returncode, json.loads(done.stdout)


def test_the_command_answers_a_refusal_with_status_2_and_leaves_nothing_behind(tmp_path: Path) -> None:
    rc, answer = command("plan", json.dumps(request(pair="none")), tmp_path / "cache")
    assert rc == 2
    assert answer["error"]["kind"] == "bad_settings"
    assert not (tmp_path / "cache").exists()
    assert command("plan", "no json", tmp_path / "cache")[0] == 2


def test_patches_before_the_environment_is_made_are_decided_by_the_pinned_versions(tmp_path: Path) -> None:
    text = json.dumps({"settings": {}, "switches": {"mode": "auto", "off": ["prefix-caching"]}})
    rc, answer = command("patches", text, tmp_path / "cache")
    states = {row["id"]: row["state"] for row in answer["patches"]}
    assert rc == 0
    told = [states[name] for name in ("prefix-caching", "kv-cache-specs", "eos-token-id")]
    assert told == ["off", "needed", "not applicable"]
    assert answer["environment"][:2] == ["speculators 0.3.0", "vLLM 0.16.0"]
    assert "not made yet" in answer["environment"][2]
    assert answer["troubles"] == []
    assert not (tmp_path / "cache").exists()


def test_an_environment_without_speculators_and_vllm_is_told_as_such(tmp_path: Path) -> None:
    settings = {"environment": {"seed": {"python": sys.executable}}}
    rc, answer = command("patches", json.dumps({"settings": settings}), tmp_path / "cache")
    assert rc == 0
    assert [t.split(" in ")[0] for t in answer["troubles"]] == ["speculators is not installed", "vLLM is not installed"]
    assert answer["environment"] == answer["troubles"]
    assert {row["state"] for row in answer["patches"]} == {"not applicable"}


def test_drift_before_the_environment_is_made_is_refused_with_the_remedy(tmp_path: Path) -> None:
    rc, answer = command("drift", json.dumps({"settings": {}, "switches": {}}), tmp_path / "cache")
    assert rc == 2
    assert "environment is not made yet" in answer["error"]["message"]
    assert "`eyas run`" in answer["error"]["remedy"]


def test_an_unknown_stage_is_refused_with_status_2() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pipeline", "trian"], capture_output=True, text=True, cwd=ROOT, timeout=60
    )
    assert done.returncode == 2
    assert "There is no stage 'trian'" in done.stderr


def test_a_draft_vocabulary_larger_than_the_targets_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(Problem, match=r"run\.draft_vocabulary is 1025, and the tiny target has 1024 tokens"):
        plan(request(draft_vocabulary=1025))
    write_model(tmp_path / "model")
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    (tmp_path / "model" / "config.json").write_text(json.dumps({**config, "vocab_size": 300}))
    with pytest.raises(Problem, match=r"run\.draft_vocabulary is 301, and .*model has 300 tokens"):
        plan(request(target=str(tmp_path / "model"), draft_vocabulary=301))
    plan(request(target=str(tmp_path / "model"), draft_vocabulary=300))


def with_stage(**stages: dict[str, Any]) -> dict[str, Any]:
    made = request(max_length=128)
    made["settings"]["stage"] = stages
    return made


def test_samples_longer_than_a_training_batch_are_refused_before_anything_starts() -> None:
    with pytest.raises(Problem, match=r"stage\.train\.pack_tokens is 64, and the trainer would cut samples of up to"):
        plan(with_stage(train={"pack_tokens": 64}))
    assert plan(with_stage(train={"pack_tokens": 128}))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "There is no file of prompts"),
        ("", "holds no conversation"),
        ("hello\n", r"mine\.jsonl:1 is no"),
        ('{"prompt": "hello"}\n' * 2, r"mine\.jsonl:1 has no conversation but"),
    ],
)
def test_prompts_that_cannot_be_used_are_refused_before_anything_starts(
    tmp_path: Path, text: str | None, why: str
) -> None:
    path = tmp_path / "mine.jsonl"
    if text is not None:
        path.write_text(text)
    with pytest.raises(Problem, match=why) as caught:
        plan(with_stage(evaluate={"prompts": {"mine": str(path)}}))
    assert caught.value.remedy == "Correct stage.evaluate.prompts.mine, or leave it out."
    path.write_text((text or "") + '{"messages": [{"role": "user", "content": "hello"}]}\n')
    assert plan(with_stage(evaluate={"prompts": {"mine": str(path)}}))


def test_a_set_of_prompts_does_not_take_the_name_of_a_built_in_one(tmp_path: Path) -> None:
    with pytest.raises(Problem, match=r"prompts\.held-out is the name of a built-in set"):
        plan(with_stage(evaluate={"prompts": {"held-out": str(tmp_path / "a.jsonl")}}))
