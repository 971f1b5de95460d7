"""Run in the extract stage's environment: applies the patches in many orders, each to freshly imported modules.

Prints `ORDER {"order", "states": {patch: [state…]}, "decoder": [name…]}` for each, where `decoder` are the names that a
decoder inside a wrapper has got by setting the capture up.
"""

from __future__ import annotations

import importlib
import itertools
import json
import sys
from types import SimpleNamespace
from typing import Any

SETUP = ("eagle3-gate", "wrapped-language-model", "embed-input-ids")
"""Patches of the same method of the worker extension."""


def main() -> None:
    from compat import activate as activation
    from compat.catalogue import PATCHES
    from compat.patches import cpu_rotary
    from compat.replace import GENERATOR, WORKER

    others = [patch for patch in PATCHES if patch.id not in SETUP]
    for number, setup in enumerate(itertools.permutations(SETUP)):
        chosen = [patch for name in setup for patch in PATCHES if patch.id == name]
        rest = others if number % 2 else others[::-1]
        activation.PATCHES = (*rest, *chosen) if number % 3 else (*chosen, *rest)
        for name in [name for name in sys.modules if name.startswith("speculators.data_generation")]:
            del sys.modules[name]
        reports: dict[str, list[str]] = {}
        for _ in range(2):  # the second time must change nothing
            _activate(activation, reports)
        importlib.import_module(cpu_rotary.MODULE)
        importlib.import_module(GENERATOR)
        decoder = _decoder(importlib.import_module(WORKER))
        order = [patch.id for patch in activation.PATCHES]
        print("ORDER " + json.dumps({"order": order, "states": reports, "decoder": decoder}), flush=True)


def _activate(activation: Any, reports: dict[str, list[str]]) -> None:
    from compat.patch import Switches

    for where in ("driver", "worker"):
        activation.activate(where, Switches(), lambda one: reports.setdefault(one.id, []).append(one.state))


def _decoder(worker: Any) -> list[str]:
    decoder = SimpleNamespace(layers=[], embed_input_ids=lambda ids: ids)
    wrapper = SimpleNamespace(language_model=SimpleNamespace(model=decoder))
    extension = worker.HiddenStatesWorkerExtension()
    extension.model_runner = SimpleNamespace(model=wrapper)
    extension._setup_hidden_states_capture([1])
    assert extension.model_runner.model is wrapper
    return sorted(vars(decoder))


if __name__ == "__main__":
    main()
