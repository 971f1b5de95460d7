"""Stage `verify`: proves the hidden states, or names what is wrong with them and stops the run.

First every file is read; then a small part of the data is extracted again by the engine that made it, alone and in a
batch; then it is held against a plain forward of transformers, where the target fits. A fault condemns the samples that
it spoils: `extract`, relaunched, does them again.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import compat
from compat.switches import VARIABLE
from pipeline import (
    dataset,
    environments,
    extracting,
    model_folder,
    origin,
    products,
    scratch,
    settings,
    stages,
    store,
    verified,
)
from pipeline.dataset import Sample
from pipeline.engine import backend
from pipeline.engine.driver import activate_driver
from pipeline.gates import attribution, aux_layers, final_norm, loss_mask, rotary
from pipeline.gates.numbers import EIGHT_BITS
from pipeline.gates.report import GateReport
from pipeline.problem import Problem
from pipeline.report import Pace, StageError, artifact, attempt, metric, note, progress
from pipeline.sample_files import FP8
from pipeline.settings import Settings
from pipeline.verified import Verdict
from pipeline.verifying import files, head, masks, portion, reference, remedies, repeated

EXPLAINED = {"rows missing", "rows too many"}
"""Faults of single files that the engine is asked about all the same: it shows how they came about."""
TOLD = 100
"""Words of progress about the files, at the most."""


@dataclass
class Judged:
    """What the gates have said so far."""

    reports: list[GateReport] = field(default_factory=list)
    spoilt: dict[int, str] = field(default_factory=dict)
    """Index of each sample whose own file has a fault → the fault."""
    about: dict[str, Any] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    """Gate → why it had nothing to judge."""

    cause: GateReport | None = None
    """What the engine computes wrongly of a prompt by itself: where rows stand follows from it, for wrong numbers may
    change with the batch."""

    @property
    def faults(self) -> list[GateReport]:
        return [report for report in self.reports if not report.passed]

    def add(self, reports: Sequence[GateReport], gate: str = "", why: str = "") -> None:
        self.reports += reports
        if why:
            self.left_out[gate] = why


def main() -> None:
    wanted = settings.of_attempt()
    samples = dataset.read(products.dataset())
    target, folder = products.target(wanted), products.hidden_states()
    if not (folder / store.MANIFEST).exists():
        raise StageError(f"There are no hidden states in {folder}; run the stage extract first.")
    model_folder.require(target)
    require_others(wanted, samples, folder)
    truth = origin.of(wanted, target)
    digest, code = store.data_digest(folder, samples), _code(truth)
    stamps = _stamps(folder, samples)
    if _passed_before(digest, code, stamps):
        return
    judged = Judged(about={"attempt": attempt(), "code": code, "stamps": stamps})
    _judge(judged, wanted, samples, target, truth)
    _conclude(judged, samples, digest)


def require_others(wanted: Settings, samples: Sequence[Sample], folder: Path) -> None:
    """Raises StageError while other runs that share the samples are still to extract some of theirs: this run's own
    extract cannot do those."""
    share = wanted.extract
    if share.world_size == 1:
        return
    known = store.entries(folder)
    every = enumerate(extracting.batches(samples, wanted.batch_size))
    lacking = {share.rank_of(number) for number, batch in every if any(s.index not in known for s in batch)}
    if others := sorted(lacking - {share.rank}):
        ranks = ", ".join(map(str, others))
        raise StageError(
            f"{folder} lacks samples of rank {ranks} of {share.world_size}: not all of theirs are extracted. Let those "
            "runs end, then relaunch the stage verify."
        )


def _judge(judged: Judged, wanted: Settings, samples: Sequence[Sample], target: Path, truth: Mapping[str, Any]) -> None:
    folder, layers = products.hidden_states(), origin.layers(wanted, target)
    reports, why = masks.check(products.dataset(), samples)
    judged.add(reports, loss_mask.GATE, why)
    pace = Pace("reading the hidden states", len(samples), "samples")
    found = files.look(folder, samples, store.entries(folder), truth, len(layers.vllm_ids), pace.step, TOLD)
    judged.add(found.reports(samples))
    judged.spoilt = found.faulty()
    config = origin.text_config(target)
    total = int(config["num_hidden_layers"])
    served = layers.vllm_ids[:-1] if wanted.layers else None
    judged.add([aux_layers.check_names(layers.vllm_ids, layers.output_indices, total, served)])
    if not {report.fault for report in judged.faults} <= EXPLAINED:
        return  # the engine need not be loaded to see it
    chosen, again, before = _repeat(judged, wanted, samples, target)
    whole = {s.index: before[s.index] for s in chosen.samples if len(before[s.index]) == len(s.token_ids)}
    # 8-bit floats are too coarse for a distribution; that they keep what was extracted is the gate attribution's.
    last = again.alone if _least(wanted) else whole
    asked = [one for one in again.next_tokens if one.sample in whole]
    reports, why = head.check(target, config, last, asked, _trainer(wanted))
    judged.add(reports, final_norm.GATE, why)
    room = reference.room(target)
    if not room.fits:
        judged.add([], aux_layers.GATE, f"compared by names alone: {room.told}")
        judged.add([], rotary.GATE, f"no reference forward: {room.told}")
        return
    progress("comparing with a plain forward", 0, None)
    norm = head.final_norm_of(target, config)
    reports, why = reference.check(target, layers, chosen.samples, whole, norm, _least(wanted))
    judged.add(reports, rotary.GATE, why)
    judged.about["reference"] = "" if why else f"transformers on the host, in 32-bit floats; {room.told}"
    if any(report.gate == attribution.GATE for report in judged.faults):
        alone = {s.index: again.alone[s.index] for s in chosen.samples}
        alone = {s.index: alone[s.index] for s in chosen.samples if len(alone[s.index]) == len(s.token_ids)}
        reports, _ = reference.check(target, layers, chosen.samples, alone, norm, _least(wanted))
        judged.cause = next((report for report in reports if report.fault == rotary.GATE), None)


def _repeat(
    judged: Judged, wanted: Settings, samples: Sequence[Sample], target: Path
) -> tuple[portion.Portion, repeated.Repeated, dict[int, Any]]:
    """The part of the data that was extracted again, what came of it, and its stored states."""
    chosen_backend = backend.choose(wanted.backend, endpoint=wanted.extract.endpoint)
    note(f"Extracting a part of the data again, backend {chosen_backend}.")
    activate_driver()
    progress("loading the target", 0, None)
    layers = origin.layers(wanted, target)
    with (
        scratch.own(products.hidden_states()) as folder,
        extracting.load(wanted, chosen_backend, target, layers, folder) as engine,
    ):
        part = portion.choose(samples, wanted.max_length, engine.step_tokens, judged.spoilt)
        before = repeated.stored(products.hidden_states(), part.samples)
        walk = repeated.Repetition(engine, part, before, _least(wanted), lambda label: progress(label, 0, None))
        again = walk.run(lambda sample: _batch_of(sample, samples, wanted.batch_size), samples)
        judged.about |= {
            "backend": chosen_backend,
            "step_tokens": engine.step_tokens,
            "repeated": [sample.index for sample in part.samples],
            "made_prompts": len(part.made) + len(part.fillers),
            "next_tokens": f"the engine's own ({chosen_backend})",
        }
    judged.add(again.reports)
    return part, again, before


def _least(wanted: Settings) -> float:
    """The error that the form of the stored states allows, beside that of their numbers."""
    return EIGHT_BITS if wanted.extract.states == FP8 else 0.0


def _batch_of(sample: Sample, samples: Sequence[Sample], size: int) -> dict[int, Any]:
    """The stored states of the samples that `extract` makes in one batch with this one."""
    place = next(k for k, one in enumerate(samples) if one.index == sample.index) // size * size
    return repeated.stored(products.hidden_states(), samples[place : place + size])


def _conclude(judged: Judged, samples: Sequence[Sample], digest: str) -> None:
    """Writes the verdict and what it condemns. Raises StageError when there is a fault."""
    folder = products.hidden_states()
    for gate, why in judged.left_out.items():
        note(f"Gate {gate} was left out: {why}.")
    tokens = sum(len(sample.token_ids) for sample in samples)
    about = {**judged.about, "left_out": judged.left_out, "samples": len(samples), "tokens": tokens}
    if not judged.faults:
        pardoned = store.pardon(folder)
        if pardoned:
            note(f"{pardoned} samples that were condemned before have passed.")
        verified.write(Verdict(digest, tuple(judged.reports), about))
        artifact(products.verdict())
        metric("samples_verified", len(samples))
        note(f"{len(samples)} samples, {tokens} tokens: {len(judged.reports)} verdicts of the gates, no fault.")
        return
    cause = judged.cause or remedies.first(judged.faults)
    condemned = dict(judged.spoilt)
    if remedies.of(cause).wide:
        condemned = {sample.index: cause.fault for sample in samples}
    verified.write(Verdict(digest, tuple(judged.reports), about))  # before the lines: a kill between leaves it failed
    artifact(products.verdict())
    store.condemn(folder, condemned, attempt())
    for report in judged.faults:
        note(f"{report.gate}: {report.fault}. {report.sentence}")
    raise StageError(f"{remedies.sentence(judged.faults, cause)} Till then nothing is learnt from {folder}.")


def _passed_before(digest: str, code: str, stamps: str) -> bool:
    """Whether the same code has passed the same data, and no file was touched since."""
    try:
        verdict = verified.read()
    except StageError:
        return False
    if verdict is None or not verdict.passed or verdict.data != digest:
        return False
    if verdict.about.get("code") != code or verdict.about.get("stamps") != stamps:
        return False
    note(f"These hidden states have passed already ({verdict.about.get('attempt')}), and nothing changed since.")
    progress("verified", 1, 1)
    artifact(products.verdict())
    return True


def _code(truth: Mapping[str, Any]) -> str:
    """sha256 over what a verdict depends on beside the data: the stages' code, patches, environment and origin."""
    found = hashlib.sha256()
    for package in (Path(__file__).parent, Path(str(compat.__file__)).parent):
        for path in sorted(package.rglob("*.py")):
            found.update(path.read_bytes())
    found.update(json.dumps([truth, os.environ.get(VARIABLE, ""), sys.executable]).encode())
    return found.hexdigest()


def _stamps(folder: Path, samples: Sequence[Sample]) -> str:
    """sha256 over the files' stamps: whoever writes to one of them changes it."""
    found = hashlib.sha256()
    for sample in samples:
        try:
            stamp = store.stamp_of((folder / f"hs_{sample.index}.safetensors").stat())
        except OSError:
            stamp = []
        found.update(json.dumps([sample.index, stamp]).encode())
    return found.hexdigest()


def _trainer(wanted: Settings) -> Path | None:
    """site-packages of the environment that will train; None where it is not made yet."""
    own = wanted.environment(stages.DRAFT_PAIR).python
    try:
        if own:
            return environments.site_of(stages.DRAFT_PAIR, own)
        made = environments.of(wanted, stages.DRAFT_PAIR)
    except Problem:
        return None
    return made.site if made.complete else None
