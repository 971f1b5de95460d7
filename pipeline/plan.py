"""Plans a run: checks the settings against the host, then names the stages and how each is started."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from compat.environment import read
from compat.versions import vllm_version
from pipeline import conversations, environments, layers, model_folder, settings, sharding, stages
from pipeline.draft import profile
from pipeline.problem import Problem
from pipeline.report import StageError
from pipeline.settings import STDLIB, TARGETS, Settings
from pipeline.targets import smollm2

TINY_POSITIONS = 4096
"""Longest sequence of the tiny target, in tokens."""
TINY_VOCABULARY = 1024
"""Tokens of the tiny target."""
ROWS_LOOKED_AT = 1000
"""Of a file of prompts, for one that can be used."""


def plan(request: Mapping[str, Any]) -> dict[str, Any]:
    """`{"settings", "run_folder", "python", "bundle"}` → `{"pair", "versions", "stages"}`. Raises Problem.

    Reads the host and changes nothing on it.
    """
    wanted = settings.parse(request.get("settings") or {})
    bundle = Path(str(request.get("bundle") or Path(__file__).parent.parent))
    stages.check_pairs(wanted)
    _check_target(wanted)
    _check_conversations(wanted)
    _check_host(wanted)
    _check_draft(wanted)
    pythons = {pair: _python(wanted, pair) for pair in stages.pairs(wanted)}
    maker = _maker(wanted, str(request.get("python") or ""))
    return {
        "pair": stages.pair_at("extract", wanted),
        "versions": _versions(wanted, stages.pair_at("extract", wanted)),
        "stages": [
            {
                "name": stage.name,
                "title": stage.title,
                "argv": [
                    maker if stage.name == "provision" else pythons[stages.pair_of(stage, wanted)],
                    *("-m", "pipeline", stage.name),
                ],
                "env": stages.environment(stage, wanted, bundle),
                "cwd": str(request.get("run_folder") or "."),
                "grace_s": stage.grace_s,
            }
            for stage in stages.wanted(wanted)
        ],
    }


def _versions(wanted: Settings, pair: str) -> dict[str, str]:
    """What the hidden states are extracted with: as pinned, or as an environment of the operator's own has it."""
    own = wanted.environment(pair).python
    if own:
        found = read(environments.site_of(pair, own))
        return {one.name.lower(): one.version for one in found.both if one.version}
    pinned = environments.pinned_versions(pair, environments.build_of(wanted, pair))
    told = {"speculators": pinned["speculators"], "vllm": str(vllm_version(pinned))}
    return told | {name: pinned[name] for name in ("torch", "transformers")}


def _python(wanted: Settings, pair: str) -> str:
    """The Python of a pair's environment, made or not. Raises Problem when it cannot be made here."""
    own = wanted.environment(pair).python
    if own:
        environments.site_of(pair, own)
        return own
    environment = environments.of(wanted, pair)
    if not environment.complete:
        _check_index(pair, wanted.environment(pair).torch_index)
        environments.check_space(environment)
    return str(environment.python)


def _check_index(pair: str, index: str | None) -> None:
    """pip would only warn of a folder that is not there, and gigabytes of CUDA libraries would come instead."""
    if index is not None and "://" not in index and not Path(index).is_dir():
        raise Problem(
            "bad_settings",
            f"environment.{pair}.torch_index is {index}, and there is no such folder on the host.",
            "Correct it, or leave it out.",
        )


def _maker(wanted: Settings, running: str) -> str:
    """The Python that `provision` runs with: one that can make those environments that the operator has not."""
    used = stages.pairs(wanted)
    made = [pair for pair in used if not wanted.environment(pair).python]
    return environments.base_python(made[0])[0] if made else running or str(wanted.environment(used[0]).python)


def _check_target(wanted: Settings) -> None:
    if wanted.makes_target:
        if wanted.target == settings.SMOLLM2:
            _check_length(wanted, smollm2.POSITIONS, "SmolLM2")
            _check_vocabulary(wanted, smollm2.VOCABULARY, "SmolLM2")
            _check_heads(wanted, smollm2.HEADS, "SmolLM2")
        else:
            _check_length(wanted, TINY_POSITIONS, "the tiny target")
            _check_vocabulary(wanted, TINY_VOCABULARY, "the tiny target")
        return
    folder = Path(wanted.target)
    if not folder.is_absolute():
        raise Problem(
            "bad_settings",
            f"run.target is {wanted.target!r}, which is neither the name of a target nor the full path of a folder.",
            f"Give the full path of a model folder on the host, or one of: {', '.join(TARGETS)}.",
        )
    model = model_folder.check(folder)
    layers.choose(model.layers, wanted.layers)
    if model.positions:
        _check_length(wanted, model.positions, str(folder))
    if model.vocabulary:
        _check_vocabulary(wanted, model.vocabulary, str(folder))
    _check_heads(wanted, model.heads, str(folder))


def _check_heads(wanted: Settings, heads: int, place: str) -> None:
    if heads % wanted.tensor_parallel:
        raise Problem(
            "bad_settings",
            f"run.tensor_parallel is {wanted.tensor_parallel}, and the {heads} attention heads of {place} do not split "
            "evenly over it.",
            f"Use a divisor of {heads}.",
        )


def _check_draft(wanted: Settings) -> None:
    """The declared engine serves what would be trained, for this target."""
    if not any(stage.drafts for stage in stages.wanted(wanted)):
        return
    profile.check(wanted)
    kind = TARGETS[wanted.target] if wanted.makes_target else profile.target_type_in(Path(wanted.target))
    profile.check_target(wanted, kind, "The target" if wanted.makes_target else wanted.target)
    if not wanted.makes_target:
        profile.check_weights(Path(wanted.target))
    if wanted.train.pack_tokens is not None and wanted.train.pack_tokens < wanted.max_length:
        raise Problem(
            "bad_settings",
            f"stage.train.pack_tokens is {wanted.train.pack_tokens}, and the trainer would cut samples of up to "
            f"run.max_length, {wanted.max_length} tokens, to it.",
            f"Raise it to {wanted.max_length} at least, leave it out, or lower run.max_length.",
        )
    for name, path in wanted.evaluate.prompts.items():
        _check_prompts(name, path)


def _check_prompts(name: str, path: str) -> None:
    remedy = f"Correct stage.evaluate.prompts.{name}, or leave it out."
    if not Path(path).is_file():
        raise Problem("bad_settings", f"There is no file of prompts {path} on the host.", remedy)
    fault = ""
    try:
        for conversation in itertools.islice(conversations.read(path), ROWS_LOOKED_AT):
            if not conversation.fault:
                return
            fault = fault or f"{conversation.place} {conversation.fault}"
    except StageError as error:
        fault = str(error).partition(";")[0]
    told = f"The file of prompts {path} has no conversation that can be used: {fault}."
    raise Problem("bad_settings", told, remedy)


def _check_length(wanted: Settings, positions: int, place: str) -> None:
    # vLLM's generator keeps one position for the token it samples.
    if wanted.max_length >= positions:
        raise Problem(
            "bad_settings",
            f"run.max_length is {wanted.max_length}, and {place} takes sequences of {positions} tokens.",
            f"Lower it to {positions - 1} at most.",
        )


def _check_vocabulary(wanted: Settings, tokens: int, place: str) -> None:
    if wanted.draft_vocabulary is not None and wanted.draft_vocabulary > tokens:
        raise Problem(
            "bad_settings",
            f"run.draft_vocabulary is {wanted.draft_vocabulary}, and {place} has {tokens} tokens.",
            f"Lower it to {tokens} at most, or leave it out.",
        )


def _check_conversations(wanted: Settings) -> None:
    if wanted.conversations == STDLIB:
        return
    path = Path(wanted.conversations)
    if not path.is_absolute() or not path.is_file():
        raise Problem(
            "bad_settings",
            f"There is no file of conversations {wanted.conversations} on the host.",
            'Correct run.conversations: the full path of a JSON or JSON Lines file, or "stdlib".',
        )
    if path.stat().st_size == 0:
        raise Problem("bad_settings", f"The file of conversations {path} is empty.", "Point run.conversations at data.")


def _check_host(wanted: Settings) -> None:
    _check_engines(wanted)
    if not stages.has_gpu() and wanted.tensor_parallel > stages.cpus():
        raise Problem(
            "bad_settings",
            f"run.tensor_parallel is {wanted.tensor_parallel}, and the host has {stages.cpus()} CPU cores and no GPU.",
            f"Lower it to {stages.cpus()} at most.",
        )


def _check_engines(wanted: Settings) -> None:
    if wanted.extract.engines == 1:
        return
    places = len(sharding.gpus()) if stages.has_gpu() else stages.cpus()
    kind = "GPUs" if stages.has_gpu() else "CPU cores and no GPU"
    if wanted.extract.engines * wanted.tensor_parallel > places:
        raise Problem(
            "bad_settings",
            f"stage.extract.engines is {wanted.extract.engines}, of {wanted.tensor_parallel} each, and the host has "
            f"{places} {kind}.",
            f"Lower it to {max(1, places // wanted.tensor_parallel)} at most.",
        )
