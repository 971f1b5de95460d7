"""The draft model's folder: what its config asks for, its plain form, and its model card."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from pipeline import loadcheck
from pipeline.draft import card, plain
from pipeline.gates import draft_folder

TARGET = {"hidden_size": 8, "vocab_size": 32, "num_hidden_layers": 8}
DECODER = {
    "model_type": "llama",
    "vocab_size": 32,
    "hidden_size": 8,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 4,
    "rope_parameters": {"rope_type": "default", "rope_theta": 50000.0},
}
CONFIG: dict[str, Any] = {
    "speculators_model_type": "eagle3",
    "draft_vocab_size": 32,
    "eagle_aux_hidden_state_layer_ids": [2, 4, 5],
    "norm_before_residual": True,
    "norm_before_fc": True,
    "norm_output": True,
    "dtype": "bfloat16",
    "transformer_layer_config": DECODER,
    "speculators_config": {
        "proposal_methods": [{"speculative_tokens": 3}],
        "verifier": {"name_or_path": "/models/target"},
    },
}


def write(folder: Path, config: dict[str, Any], drop: str = "", **more: tuple[int, ...]) -> Path:
    """A draft model of headers alone: what the gate reads where there is no mapping."""
    folder.mkdir()
    shapes = {**draft_folder.expected(config), **{k.replace("__", "."): v for k, v in more.items()}}
    shapes.pop(drop, None)
    header = json.dumps({n: {"dtype": "BF16", "shape": s, "data_offsets": [0, 0]} for n, s in shapes.items()}).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def test_a_folder_that_is_what_its_config_says(tmp_path: Path) -> None:
    report = draft_folder.check(write(tmp_path / "draft", CONFIG), TARGET)
    assert report.passed, report.sentence
    assert "15 tensors" in report.sentence


@pytest.mark.parametrize(
    ("config", "drop", "more", "fault", "says"),
    [
        ({}, "fc.weight", {}, "missing tensor", "fc.weight, which its config asks for, is not in it"),
        ({}, "", {"extra__weight": (3,)}, "unknown tensor", "it has extra.weight"),
        ({}, "", {"fc__weight": (8, 32)}, "wrong shape", "[8, 32], and its config asks for [8, 24]"),
        ({"eagle_aux_hidden_state_layer_ids": [2, 4, 5, 8]}, "", {}, "wrong layer", "three ids of 1 to 7"),
        ({"eagle_aux_hidden_state_layer_ids": None}, "", {}, "wrong layer", "is None"),
        ({"draft_vocab_size": 64}, "", {}, "vocabulary mapping", "64, and the target has 32 tokens"),
        ({"transformer_layer_config": {**DECODER, "hidden_size": 16}}, "", {}, "another target", "hidden_size is 16"),
        ({"speculators_config": {}}, "", {}, "no target", "names no target"),
        ({"transformer_layer_config": None}, "", {}, "unreadable", "no draft model in speculators' form"),
    ],
)
def test_a_fault_is_named_by_its_key(
    tmp_path: Path, config: dict[str, Any], drop: str, more: dict[str, Any], fault: str, says: str
) -> None:
    good = {**CONFIG, "transformer_layer_config": DECODER}
    folder = write(tmp_path / "draft", good, drop, **more)
    (folder / "config.json").write_text(json.dumps({**CONFIG, **config}))
    report = draft_folder.check(folder, TARGET)
    assert (report.passed, report.fault) == (False, fault), report.sentence
    assert says in report.sentence


def test_a_norm_that_the_config_lost_is_seen_by_its_weights(tmp_path: Path) -> None:
    folder = write(tmp_path / "draft", CONFIG)
    (folder / "config.json").write_text(json.dumps({**CONFIG, "norm_before_fc": False}))
    report = draft_folder.check(folder, TARGET)
    assert report.fault == "unknown tensor" and "input_norm.weight" in report.sentence


def test_every_kind_of_draft_has_its_tensors() -> None:
    kinds = draft_folder.expected({**CONFIG, "fc_norm": True, "draft_vocab_size": 16})
    assert {"fc_norm.0.weight", "fc_norm.2.weight", "d2t", "t2d", "layers.0.hidden_norm.weight"} <= kinds.keys()
    assert kinds["lm_head.weight"] == (16, 8) and kinds["d2t"] == (16,) and kinds["t2d"] == (32,)
    decoder = {**DECODER, "model_type": "qwen3", "num_hidden_layers": 2, "attention_bias": True}
    kinds = draft_folder.expected({**CONFIG, "transformer_layer_config": decoder})
    assert kinds["layers.0.self_attn.q_norm.weight"] == (4,)
    assert kinds["layers.0.self_attn.k_proj.weight"] == (4, 16)
    assert kinds["layers.1.self_attn.k_proj.weight"] == (4, 8)
    assert kinds["layers.1.self_attn.k_proj.bias"] == (4,)
    assert "layers.1.hidden_norm.weight" not in kinds


def test_the_plain_form_has_the_decoder_at_the_top_and_every_norm_written_out(tmp_path: Path) -> None:
    folder = write(tmp_path / "draft", CONFIG)
    plain.write(folder, folder / "plain")
    found = json.loads((folder / "plain" / "config.json").read_text())
    assert found["architectures"] == ["LlamaForCausalLMEagle3"]
    assert found["eagle_aux_hidden_state_layer_ids"] == [2, 4, 5]
    assert (found["hidden_size"], found["draft_vocab_size"], found["dtype"]) == (8, 32, "bfloat16")
    norms = [found[name] for name in ("norm_before_residual", "norm_before_fc", "fc_norm", "norm_output")]
    assert norms == [True, True, False, True]
    assert "speculators_config" not in found
    assert (folder / "plain" / "model.safetensors").read_bytes() == (folder / "model.safetensors").read_bytes()


def test_the_rotation_is_named_as_an_older_transformers_knows_it() -> None:
    assert plain.with_old_rope(DECODER) == {**DECODER, "rope_theta": 50000.0, "rope_scaling": None}
    yarn = {"rope_type": "yarn", "factor": 64.0, "rope_theta": 5e4}
    found = plain.with_old_rope({**DECODER, "rope_parameters": yarn})
    assert found["rope_scaling"] == {"rope_type": "yarn", "factor": 64.0} and found["rope_theta"] == 5e4
    assert found["rope_parameters"] == yarn


def written_card(dtype: str, lossless: bool | None) -> str:
    served = {"acceptance_length": 2.5, "rounds": 10, "accepted": 15, "per_position": [8, 5, 2]}
    one = {
        "name": "held-out",
        "source": "chat.jsonl | the rest",
        "prompts": 4,
        "digest": "abc",
        "served": served,
        "simulated": served,
        "untrained": {**served, "acceptance_length": 1.0},
        "lossless": lossless,
    }
    return card.write(
        card.Facts(
            name="Model",
            target="/models/Model",
            architecture="LlamaForCausalLM",
            config=CONFIG,
            evaluation={
                "sets": [one],
                "proposed": 3,
                "max_tokens": 40,
                "dtype": dtype,
                "versions": {"vllm": "0.32.0"},
                "draft_sha256": "f00",
                "speed": "Not measured.",
            },
            training={"acceptance": 2.6, "history": [1, 2]},
            vocabulary={"coverage": 0.9427},
            data={
                "digest": "d1",
                "samples": 64,
                "tokens": 1000,
                "source": "chat.jsonl",
                "target": "t1",
                "tokenizer": "k1",
                "max_length": 256,
            },
            run={
                "run": "2026-one",
                "pair": "seed",
                "versions": {"vllm": "0.16.0"},
                "patches": {"extract/1": [{"id": "prefix-caching", "digest": "9" * 64, "state": "active"}] * 2},
                "env": {"HF_TOKEN": "secret"},
            },
            engine="0.32.0",
        )
    )


def test_the_card_tells_figures_provenance_and_how_to_serve_it_elsewhere() -> None:
    text = written_card("float32", lossless=True)
    assert text.startswith("---\nbase_model: /models/Model\n")
    assert "| held-out | 4 | 1.00 | 2.50 | 2.50 | 80% / 50% / 20% | yes |" in text
    assert '"model": "FOLDER/plain", "num_speculative_tokens": 3' in text
    assert "| coverage of the assistant's tokens | 94.27% |" in text
    assert text.count("| extract/1 | prefix-caching | 9999999999999999 |") == 1
    assert "| training: acceptance | 2.6 |" in text and "history" not in text
    assert "secret" not in text and "chat.jsonl | the rest" in text


def test_another_answer_is_a_fault_on_the_card_in_32_bit_floats_alone() -> None:
    figures = "| 80% / 50% / 20% "
    exact, rounded = written_card("float32", lossless=False), written_card("bfloat16", lossless=False)
    assert f"{figures}| **no** |" in exact and "rounding" not in exact
    assert f"{figures}| rounding |" in rounded and "In bfloat16 that is no fault" in rounded and "**no**" not in rounded
    for lossless, told in ((True, "yes"), (None, "-")):
        text = written_card("bfloat16", lossless)
        assert f"{figures}| {told} |" in text and "rounding" not in text


def test_the_load_check_says_that_answers_are_the_targets_own_where_they_are() -> None:
    assert loadcheck.told_of(None) == ""
    assert loadcheck.told_of(True) == ", each answered as by the target alone"
    assert loadcheck.told_of(False).startswith(", not each answered as by the target alone (no fault")
