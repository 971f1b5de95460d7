"""The alarm: acceptance that is near 1.0, or far from what training promised, has a cause; each is tested and named.

A small draft model hardly suffers from a wrong layer or a missing norm, where a large one is ruined. So no test goes by
acceptance: layers are told by comparing states, norms by what the weights, the config and the engine's sources say,
the vocabulary by the rows of the head, rotary by the loss with the target's own positions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline import identity, loadcheck, products, states, store
from pipeline.dataset import Sample
from pipeline.draft import model as draft_model
from pipeline.draft import profile, prompts, target_folder, teacher
from pipeline.draft.measure import Simulation
from pipeline.draft.prompts import PromptSet
from pipeline.draft.shape import Shape
from pipeline.draft.teacher import Lesson
from pipeline.gates import aux_layers, draft_folder, engine_norms, loss_mask, rotary
from pipeline.gates.report import GateReport, failed, passed
from pipeline.masking import Marks
from pipeline.report import note
from pipeline.settings import Settings

GATE = "alarm"
NEAR_ONE = 1.15
"""Acceptance length up to which next to nothing of the draft is accepted. Untrained: 1.00 to 1.03."""
FAR = 0.5
"""Share of the tokens beyond the first that training promised, below which something other than luck is missing."""
BETTER = 0.95
"""Of its loss as it is: an altered draft model that gets below is the one that was trained."""
SAMPLES = 6
LAYERS, NORM, VOCABULARY, TEMPLATE, ROTARY, TOKENIZER = (
    "layers off",
    "missing norm",
    "vocabulary mapping",
    "template or mask",
    "rotary",
    "wrong tokenizer",
)


@dataclass(frozen=True)
class Case:
    """All that the tests look at."""

    target: Path
    draft: Path
    config: Mapping[str, Any]
    """The draft model's config.json."""
    samples: Sequence[Sample]
    """A few, each with its states on disk."""
    states: Path
    marks: Marks | None
    sets: Sequence[PromptSet]
    mappings: Path
    """The folder of the run's draft vocabulary."""
    made: Shape
    """What the run's draft model is trained as."""
    site: Path
    """site-packages of the serving engine."""
    simulation: Simulation | None = None
    """None: only what needs no forward of the target is tested."""


def suspicion(result: Mapping[str, Any]) -> str:
    """Why an evaluation's figures are suspicious, a sentence; "" when they are not."""
    wrong = [report for report in result["reports"] if not report["passed"]]
    if wrong:
        return str(wrong[0]["sentence"])
    promised = result["training"].get("acceptance")
    for one in result["sets"]:
        length = one["served"]["acceptance_length"]
        if length <= NEAR_ONE:
            return f"The served acceptance length on {one['name']} is {length}, next to nothing."
        if one["name"] in (prompts.HELD_OUT, prompts.TRAINED) and promised and length - 1 < FAR * (promised - 1):
            return f"The served acceptance length on {one['name']} is {length}, and training promised {promised:.2f}."
    return ""


def case(
    wanted: Settings,
    samples: Sequence[Sample],
    about: Mapping[str, Any],
    folder: Path,
    simulation: Simulation | None,
    sets: Sequence[PromptSet],
) -> Case:
    """The case of a run's draft model in `folder`. `about` is what dataset.json says."""
    picked = sorted((s for s in samples if len(s.token_ids) >= 16), key=lambda s: len(s.token_ids))[:SAMPLES]
    return Case(
        target=products.target(wanted),
        draft=folder,
        config=target_folder.config(folder),
        samples=picked or list(samples[:SAMPLES]),
        states=products.hidden_states(),
        marks=Marks.from_json(about["marks"]) if about.get("marks") else None,
        sets=sets,
        mappings=products.vocabulary(),
        made=profile.shape(wanted),
        site=loadcheck.site(),
        simulation=simulation,
    )


def examine(found: Case) -> list[GateReport]:
    """Every test's report; those that failed name a cause, the likeliest first."""
    tests = [_tokenizer(found), _template(found), _layer_names(found), _norms(found), _vocabulary(found)]
    if found.simulation is not None:
        lessons, reports = _lessons(found, found.simulation)
        tests += reports
        tests += _altered(found, found.simulation, lessons) if lessons else []
    tests.sort(key=lambda report: report.passed)
    if all(report.passed for report in tests):
        told = f"None of {len(tests)} tests finds a cause: it is how much this draft model knows of these prompts."
        return [passed(GATE, told)]
    return tests


def _tokenizer(found: Case) -> GateReport:
    """The tokenizer that the data were made with is the one that is there."""
    entry = next(iter(store.entries(found.states).values()), {})
    here = identity.tokenizer_digest(found.target)
    if entry.get("tokenizer") not in (None, here):
        return failed(
            GATE,
            TOKENIZER,
            f"The tokenizer in {found.target} is another than the one that the draft model's data were made with "
            f"(sha256 {here[:12]} and {str(entry.get('tokenizer'))[:12]}).",
        )
    return passed(GATE, "The tokenizer is the one that the data were made with.")


def _template(found: Case) -> GateReport:
    """Prompts end where the assistant's turn opens, and the mask of the data covers what it says."""
    if found.marks is None:
        return passed(GATE, "The chat format is none whose marks are known; prompts and masks were not compared.")
    header = tuple(found.marks.header)
    for one in found.sets:
        odd = next((n for n, prompt in enumerate(one.prompts) if not _opens(prompt, header)), None)
        if odd is not None:
            return failed(
                GATE,
                TEMPLATE,
                f"Prompt {odd} of {one.name} does not end with the assistant's header {list(header)}, as every answer "
                "that the draft model was trained on begins: another chat template made it.",
            )
    for sample in found.samples:
        report = loss_mask.check(sample.token_ids, sample.loss_mask, found.marks)
        if not report.passed:
            return failed(GATE, TEMPLATE, f"Sample {sample.index} was trained on with a wrong mask: {report.sentence}")
    return passed(GATE, "Prompts open the assistant's turn, and masks cover what it says.")


def _opens(prompt: Sequence[int], header: tuple[int, ...]) -> bool:
    """Whether the header stands at the end of a prompt; a family's opening of its reasoning may follow it."""
    near = tuple(prompt[-len(header) - 8 :])
    return any(near[place : place + len(header)] == header for place in range(len(near)))


def _layer_names(found: Case) -> GateReport:
    """The layers that the engine is told are those of the data."""
    entry = next(iter(store.entries(found.states).values()), {})
    named = entry.get("layers") or {}
    total = int(target_folder.text_config(found.target)["num_hidden_layers"])
    served = found.config.get("eagle_aux_hidden_state_layer_ids")
    report = aux_layers.check_names(named.get("vllm_ids", []), named.get("output_indices", []), total, served)
    if report.passed:
        return passed(GATE, report.sentence)
    return failed(GATE, LAYERS, report.sentence)


def _norms(found: Case) -> GateReport:
    """Config, weights, training and engine name the same norms."""
    asked = {name: bool(found.config.get(name)) for name in engine_norms.NORMS}
    for name in asked:
        trained = bool(getattr(found.made, name))
        if asked[name] != trained:
            how = "with" if trained else "without"
            return failed(GATE, NORM, f"The draft model was trained {how} {name}, and its config says {asked[name]}.")
    report = draft_folder.check(found.draft, target_folder.text_config(found.target))
    if not report.passed and "norm" in report.sentence.partition(": ")[2]:
        return failed(GATE, NORM, report.sentence)
    report = engine_norms.check(found.config, engine_norms.engine_sources(found.site))
    return passed(GATE, report.sentence) if report.passed else failed(GATE, NORM, report.sentence)


def _vocabulary(found: Case) -> GateReport:
    """d2t leads each row of the draft's head to the row of the target's head that it was made of."""
    import torch
    from safetensors import safe_open

    from pipeline.weights import Weights

    with safe_open(found.draft / "model.safetensors", framework="pt") as file:
        if "d2t" not in file.keys():  # noqa: SIM118
            return passed(GATE, "The draft model has the target's own vocabulary.")
        d2t, t2d, head = (file.get_tensor(name) for name in ("d2t", "t2d", "lm_head.weight"))
    fault = draft_folder.mapping_fault(d2t, t2d, len(d2t))
    if fault:
        return failed(GATE, VOCABULARY, f"{found.draft}: {fault}.")
    weights = Weights(found.target)
    own = weights.tensor((weights.head(target_folder.text_config(found.target)).name,)).float()
    rows = torch.arange(0, len(d2t), max(1, len(d2t) // 512))
    named = rows + d2t[rows]
    like = torch.nn.functional.normalize(head.float()[rows], dim=1) @ torch.nn.functional.normalize(own, dim=1).T
    away = int((like.argmax(1) != named).sum())
    if away > len(rows) // 2:
        return failed(
            GATE,
            VOCABULARY,
            f"{away} of {len(rows)} rows of the draft's head are nearest to another row of the target's head than d2t "
            "leads to: the mapping is of another draft vocabulary.",
        )
    return passed(GATE, f"{len(rows) - away} of {len(rows)} rows of the draft's head are the target's rows of d2t.")


def _lessons(found: Case, simulation: Simulation) -> tuple[list[Lesson], list[GateReport]]:
    """The samples as lessons, and what comparing their states with a forward of the target says."""
    import torch

    model = simulation.target.model
    served = list(found.config["eagle_aux_hidden_state_layer_ids"])
    reports: list[GateReport] = []
    lessons = []
    for sample in found.samples:
        path = found.states / f"hs_{sample.index}.safetensors"
        if not path.is_file():  # a disk may have been cleared of them once there is a draft model
            continue
        with states.opened(path) as file:
            stored = file.all().to(model.device)
        ids = torch.tensor(sample.token_ids, device=model.device)
        with torch.no_grad():
            output = model(ids[None], output_hidden_states=True, use_cache=False)
        reference = torch.stack([layer[0] for layer in output.hidden_states], dim=1)
        reports += _compare(sample, stored, reference, served)
        dtype = model.dtype
        lessons.append(
            Lesson(
                ids,
                torch.tensor(sample.loss_mask, device=model.device),
                reference[:, served].flatten(1).to(dtype),  # as an engine hands them out
                output.logits[0].argmax(-1),
                stored[:, -1].to(dtype),
            )
        )
    first = next((report for report in reports if not report.passed), None)
    if not lessons:
        note(f"No states of the samples looked at are in {found.states} any more: layers and rotary are not tested.")
        return [], []
    return lessons, [first or passed(GATE, f"The states of {len(lessons)} samples are the target's own.")]


def _compare(sample: Sample, stored: Any, reference: Any, served: Sequence[int]) -> list[GateReport]:
    report = aux_layers.check(stored[:, : len(served)], reference, served)
    if not report.passed:
        told = f"Sample {sample.index} was trained on with other layers than are served. {report.sentence}"
        return [failed(GATE, LAYERS, told)]
    if len(stored) > 1:
        report = rotary.check(stored[:, : len(served)], reference[:, list(served)].to(stored.dtype))
        if not report.passed:
            told = f"Sample {sample.index} was trained on with other states than are served. {report.sentence}"
            return [failed(GATE, ROTARY, told)]
    return []


def _altered(found: Case, simulation: Simulation, lessons: Sequence[Lesson]) -> list[GateReport]:
    """Whether another draft model than the one in the config is the one that was trained: by its loss."""
    draft = simulation.draft(found.draft)
    as_it_is = teacher.score(draft, lessons)
    reports: list[GateReport] = []
    here = draft.config.transformer_layer_config.rope_parameters
    with target_folder.readable(found.target) as readable:
        right = draft_model.decoder(found.target, readable, found.made).rope_parameters
    if dict(here) != dict(right):
        with teacher.rotated(draft, right):
            other = teacher.score(draft, lessons)
        told = (
            f"The draft's positions are rotated with {dict(here)}, and those of a draft for this target are with "
            f"{dict(right)}; with these its loss is {other.loss:.3g} and not {as_it_is.loss:.3g} "
            f"(right at each step: {other.told} and {as_it_is.told})."
        )
        reports.append(failed(GATE, ROTARY, told) if other.loss < BETTER * as_it_is.loss else passed(GATE, told))
    with teacher.norm_output(draft):
        other = teacher.score(draft, lessons)
    if other.loss < BETTER * as_it_is.loss:
        told = f"With norm_output switched over the draft's loss is {other.loss:.3g} and not {as_it_is.loss:.3g}."
        reports.append(failed(GATE, NORM, told))
    return reports
