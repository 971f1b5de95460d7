"""The demo's project: the whole pipeline on an embedded host, with a target that is made on the spot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomlkit

from compat.catalogue import PATCHES, get
from compat.patch import Patch
from compat.versions import in_words, within
from console.errors import UserError, nearest
from console.patching import require_switch
from console.project import FILE, workstation_state
from console.settings import StagesSettings


@dataclass(frozen=True)
class Pair:
    speculators: str
    vllm: str

    @property
    def told(self) -> str:
        return f"speculators {self.speculators} on vLLM {self.vllm}"


PAIRS = {"current": Pair("0.9.0", "0.32.0"), "seed": Pair("0.3.0", "0.16.0")}
DEMO_PAIR = "current"
"""The one pair that does it all; with another one's states the draft stages need this one's environment besides."""
ARCHITECTURE = "LlamaForCausalLM"
"""Of every target below."""
TARGETS: Mapping[str, Mapping[str, Any]] = {
    "tiny": {
        "run": {"samples": 200, "max_length": 256, "dtype": "float32", "draft_vocabulary": 512},
        "stage": {
            "target": {"steps": 200},
            "train": {"epochs": 4},
            "evaluate": {"min_acceptance": 2.0},
        },
    },
    "smollm2": {
        "run": {"samples": 300, "max_length": 256, "dtype": "float32", "draft_vocabulary": 4096},
        "stage": {"train": {"epochs": 2, "lr": 4e-3}, "evaluate": {"set_size": 3, "max_tokens": 24}},
    },
}
"""Target → its settings of eyas.toml."""
HARMLESS = {
    "full-tracebacks": "it only gives words to another patch's failure",
    "async-scheduling": "a CPU has no asynchronous scheduling",
    "fused-loss-dynamo": "a CPU trains without the fused loss",
    "cpu-distributed": "the demo trains in one process",
    "cpu-autocast": "the demo trains in 32-bit floats",
    "cpu-checkpoint-device": "the stage train reads its checkpoints itself",
}
"""Patches in whose range a pair is and without which the demo goes well all the same, and why."""


@dataclass(frozen=True)
class Demo:
    folder: Path
    note: str = ""
    """What was chosen for the operator; "" when nothing was."""


def make_demo(pair: str | None, target: str = "tiny", broken: tuple[str, ...] = (), until: str = "") -> Demo:
    """Write the demo's eyas.toml anew, with `broken` patches switched off.

    Without a `pair` it is the one on which the broken patches matter. Raises UserError.
    """
    if pair is not None and pair not in PAIRS:
        raise UserError(f"There is no pair `{pair}`.", nearest(pair, PAIRS))
    if target not in TARGETS:
        raise UserError(f"The demo has no target `{target}`.", nearest(target, TARGETS))
    if until and until not in StagesSettings.model_fields:
        raise UserError(f"There is no stage `{until}`.", nearest(until, StagesSettings.model_fields))
    for patch in broken:
        require_switch(patch)
    chosen = _pair(broken) if pair is None else pair
    _require_failure(broken, chosen)
    document = tomlkit.document()
    document.add(tomlkit.comment("Made by `eyas demo`, anew each time."))
    document["project"] = "demo"
    document["host"] = {"demo": {"embedded": True}}
    run = {"target": target, "conversations": "stdlib", "pair": chosen, **TARGETS[target]["run"]}
    document["run"] = run | ({"until": until} if until else {})
    document["stage"] = TARGETS[target]["stage"]
    document["patches"] = {"mode": "auto", "off": list(broken)}
    folder = workstation_state() / "demo"
    folder.mkdir(exist_ok=True)
    (folder / FILE).write_text(tomlkit.dumps(document), encoding="utf-8")
    if pair is not None or chosen == DEMO_PAIR:
        return Demo(folder)
    named = " and ".join(f"`{patch}`" for patch in broken)
    return Demo(folder, f"Extracting with the {chosen} pair, {PAIRS[chosen].told}, for {named} matters there.")


def harmless(patch: str, pair: str) -> str:
    """Why the demo goes well on the pair without the patch; "" when it fails."""
    return _beside(patch, pair) or HARMLESS.get(patch, "")


def _beside(patch: str, pair: str) -> str:
    """Why the patch has nothing to do with the demo on that pair; "" when it has."""
    entry, versions = get(patch), PAIRS[pair]
    assert entry
    if not within(versions.speculators, entry.speculators) or not within(versions.vllm, entry.vllm):
        return f"it concerns {_ranges(entry)}, and the {pair} pair is {versions.told}"
    if entry.architectures and ARCHITECTURE not in entry.architectures:
        return f"it concerns {', '.join(entry.architectures)}, and the demo's target is a {ARCHITECTURE}"
    if entry.silent:
        return "it is silent: nothing is ever raised, and the demo's batches are too small for wrong data"
    return ""


def _pair(broken: Sequence[str]) -> str:
    """The first pair on which all of them matter, else the demo's own."""
    return next((pair for pair in PAIRS if not _faults(broken, pair)), DEMO_PAIR)


def _faults(broken: Sequence[str], pair: str) -> dict[str, str]:
    """Patches without which nothing fails, and why; one of HARMLESS may stand beside one that fails."""
    alone = all(harmless(patch, pair) for patch in broken)
    told = {patch: harmless(patch, pair) if alone else _beside(patch, pair) for patch in broken}
    return {patch: why for patch, why in told.items() if why}


def _require_failure(broken: Sequence[str], pair: str) -> None:
    """Raises UserError for the first patch that the demo does without."""
    for patch, why in _faults(broken, pair).items():
        others = [other for other in PAIRS if not harmless(patch, other)]
        if others:
            remedy = f"Use `--pair {others[0]}`, or leave --pair out."
        else:
            remedy = f"Use one of: {', '.join(_breakable(pair))}."
        raise UserError(f"Without `{patch}` nothing fails in this demo: {why}.", remedy)


def _breakable(pair: str) -> list[str]:
    return [patch.id for patch in PATCHES if patch.apply and not harmless(patch.id, pair)]


def _ranges(entry: Patch) -> str:
    return f"speculators {in_words(entry.speculators)} on vLLM {in_words(entry.vllm)}"
