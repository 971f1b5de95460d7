"""Run in the current pair's environment: injects each cause of the alarm into a trained draft model and its data.

`alarm_faults.py SITE`, with EYAS_RUN and EYAS_ATTEMPT as a stage has them, and SITE with the sources of a vLLM that
knows none of the newer norms, prints `RESULT {case: [[fault,
sentence]…]}`, what the alarm's tests find; no engine is started.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from pipeline import dataset, origin, products, settings, store, vocabulary
from pipeline.draft import alarm, checkpoints, measure
from pipeline.draft.alarm import Case

Injection = tuple[str, Callable[[], Case]]


def main() -> None:
    torch.set_num_threads(1)
    wanted = settings.of_attempt()
    samples = dataset.read(products.dataset())
    about = json.loads((products.dataset() / dataset.ABOUT).read_text())
    target = products.target(wanted)
    asked = measure.task(wanted, samples, about)
    simulation = measure.simulation(wanted, target, asked, "float32")
    best = checkpoints.best(products.checkpoints())
    clean = alarm.case(wanted, samples, about, best, simulation, asked.sets)
    result: dict[str, list[list[str]]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for name, make in injections(clean, Path(scratch), asked, origin.layers(wanted, target)):
            reports = alarm.examine(make())
            result[name] = [[report.fault, report.sentence] for report in reports if not report.passed]
    print("RESULT " + json.dumps(result), flush=True)


def injections(clean: Case, scratch: Path, asked: Any, layers: Any) -> Iterator[Injection]:
    """Name of the case → the case. A name begins with the fault that is to be found."""

    def draft(change: Callable[[dict[str, Any], dict[str, Any]], None]) -> Case:
        """With another config and other tensors of the draft model."""
        folder = Path(tempfile.mkdtemp(dir=scratch)) / "draft"
        shutil.copytree(clean.draft, folder)
        config, tensors = json.loads((folder / "config.json").read_text()), load_file(folder / "model.safetensors")
        change(config, tensors)
        (folder / "config.json").write_text(json.dumps(config))
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        return replace(clean, draft=folder, config=config)

    def late(config: dict[str, Any], tensors: dict[str, Any]) -> None:
        ids = config["eagle_aux_hidden_state_layer_ids"]
        config["eagle_aux_hidden_state_layer_ids"] = [i + 1 for i in ids]

    def late_by_the_names(_: object = None) -> Case:
        """The data name the layers that are served too: only the states tell."""
        case = draft(late)
        folder = Path(tempfile.mkdtemp(dir=scratch)) / "states"
        shutil.copytree(clean.states, folder)
        path = folder / store.MANIFEST
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        ids = [*case.config["eagle_aux_hidden_state_layer_ids"], layers.vllm_ids[-1]]
        for line in lines:
            if "index" in line:
                line["layers"] = {"vllm_ids": ids, "output_indices": [i - 1 for i in ids]}
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return replace(case, states=folder)

    def cleared() -> Case:
        folder = Path(tempfile.mkdtemp(dir=scratch)) / "states"
        folder.mkdir()
        shutil.copyfile(clean.states / store.MANIFEST, folder / store.MANIFEST)
        return replace(clean, states=folder)

    def other_vocabulary(config: dict[str, Any], tensors: dict[str, Any]) -> None:
        """A mapping that is whole, of another draft vocabulary than the head's."""
        size, total = len(tensors["d2t"]), len(tensors["t2d"])
        kept = torch.arange(total).roll(size // 3)[:size].sort().values
        tensors["d2t"] = kept - torch.arange(size)
        tensors["t2d"] = torch.zeros(total, dtype=torch.bool).index_fill(0, kept, True)

    def other_tokenizer() -> Case:
        folder = Path(tempfile.mkdtemp(dir=scratch)) / "target"
        shutil.copytree(clean.target, folder)
        data = json.loads((folder / "tokenizer.json").read_text())
        data["model"]["merges"] = data["model"]["merges"][:-1]
        (folder / "tokenizer.json").write_text(json.dumps(data))
        return replace(clean, target=folder)

    def other_rotation_of_the_target() -> Case:
        """As an engine does that rotates the target's queries and keys wrongly."""
        folder = Path(tempfile.mkdtemp(dir=scratch)) / "target"
        shutil.copytree(clean.target, folder)
        config = json.loads((folder / "config.json").read_text())
        for key in ("rope_theta", "rope_parameters"):
            if key in config:
                config[key] = {**config[key], "rope_theta": 100.0} if key == "rope_parameters" else 100.0
        (folder / "config.json").write_text(json.dumps(config))
        simulation = measure.Simulation(folder, layers, "float32", asked)
        return replace(clean, simulation=simulation)

    def headless() -> Case:
        assert clean.marks is not None
        cut = len(clean.marks.header)
        sets = [replace(one, prompts=tuple(prompt[:-cut] for prompt in one.prompts)) for one in clean.sets]
        return replace(clean, sets=sets)

    def shifted_mask() -> Case:
        moved = [replace(s, loss_mask=(0, 0, *s.loss_mask[:-2])) for s in clean.samples]
        return replace(clean, samples=moved)

    def rolled(config: dict[str, Any], tensors: dict[str, Any]) -> None:
        tensors["d2t"] = tensors["d2t"].roll(1)

    def rotated(config: dict[str, Any], tensors: dict[str, Any]) -> None:
        config["transformer_layer_config"]["rope_parameters"]["rope_theta"] = 100.0

    def lost_everywhere() -> Case:
        return replace(draft(lost("norm_before_fc")), made=replace(clean.made, norm_before_fc=False))

    def lost(name: str) -> Callable[[dict[str, Any], dict[str, Any]], None]:
        return lambda config, tensors: config.update({name: False})

    assert vocabulary.read(clean.mappings) is not None
    yield "clean", lambda: clean
    yield "clean: no states any more", cleared
    yield f"{alarm.LAYERS}: one too late by the config", lambda: draft(late)
    yield f"{alarm.LAYERS}: one too late by the states", late_by_the_names
    yield f"{alarm.NORM}: norm_before_fc lost", lambda: draft(lost("norm_before_fc"))
    yield f"{alarm.NORM}: norm_output lost", lambda: draft(lost("norm_output"))
    yield f"{alarm.NORM}: told by its weights alone", lost_everywhere
    yield f"{alarm.NORM}: unknown to the engine", lambda: replace(clean, site=Path(sys.argv[1]))
    yield f"{alarm.VOCABULARY}: d2t rolled", lambda: draft(rolled)
    yield f"{alarm.VOCABULARY}: of another vocabulary", lambda: draft(other_vocabulary)
    yield f"{alarm.TEMPLATE}: prompts without a header", headless
    yield f"{alarm.TEMPLATE}: mask two tokens late", shifted_mask
    yield f"{alarm.ROTARY}: of the draft", lambda: draft(rotated)
    yield f"{alarm.ROTARY}: of the target", other_rotation_of_the_target
    yield f"{alarm.TOKENIZER}: one merge less", other_tokenizer


if __name__ == "__main__":
    main()
