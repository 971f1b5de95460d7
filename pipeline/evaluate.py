"""Stage `evaluate`: how many of the trained draft model's tokens the target accepts, here and as vLLM serves it.

Both count on the same prompts, in sets that are named, and must agree to the last accepted token. The untrained draft
model is the baseline. Where the figures are suspicious, the alarm looks for the cause and names it.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
import traceback
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from compat.switches import VARIABLE
from pipeline import dataset, files, loadcheck, products, settings, verified
from pipeline.dataset import Sample
from pipeline.draft import acceptance, alarm, checkpoints, measure, prompts, serve
from pipeline.draft.acceptance import Answer
from pipeline.draft.measure import Simulation, Task
from pipeline.draft.prompts import PromptSet
from pipeline.engine.driver import activate_driver
from pipeline.gates.report import GateReport
from pipeline.report import Pace, StageError, artifact, metric, note, progress
from pipeline.settings import Settings
from pipeline.stages import has_gpu

NO_SPEED = "Speed-up is not measured: {}."


@dataclass
class Found:
    """What was found on one set of prompts; simulated answers are missing where nothing is simulated."""

    prompts: PromptSet
    alone: list[tuple[int, ...]] | None = None
    simulated: list[Answer] | None = None
    untrained: dict[str, Any] | None = None
    served: list[Answer] = field(default_factory=list)
    seconds: float = 0.0
    """That the engine took for them."""
    alone_seconds: float | None = None


def main() -> None:
    wanted = settings.of_attempt()
    samples = dataset.read(products.dataset())
    data = verified.require(samples)
    target = products.target(wanted)
    folder = checkpoints.best(products.checkpoints())
    training = trained_on(products.checkpoints(), data, target)
    about = json.loads((products.dataset() / dataset.ABOUT).read_text(encoding="utf-8"))
    asked = measure.task(wanted, samples, about)
    if not asked.sets:
        raise StageError(
            f"No set of prompts leaves room for an answer within run.max_length, {wanted.max_length} tokens; raise "
            "it, or lower stage.evaluate.max_tokens."
        )
    bound = _binding(wanted, folder, asked)
    done = read(products.evaluation())
    if done and done.get("bound") == bound and done.get("passed"):
        note(f"{products.evaluation()} is of this draft model and these prompts; nothing to measure.")
        _metrics(done)
        _judge_length(wanted, done)
        return
    activate_driver()
    progress("loading the target", 0, None)
    simulation = measure.simulation(wanted, target, asked, loadcheck.number_format(wanted))
    found = [Found(one) for one in asked.sets]
    if simulation:
        _simulate(simulation, folder, found)
    _serve(wanted, target, folder, asked, found)
    if simulation:
        _untrained(simulation, asked, found)
    reports = _gates(wanted, found)
    result = {
        "bound": bound,
        "data": data,
        "draft": str(folder),
        "draft_sha256": files.sha256(folder / "model.safetensors"),
        "versions": loadcheck.versions(),
        "dtype": loadcheck.number_format(wanted),
        "proposed": asked.proposed,
        "max_tokens": asked.max_tokens,
        "training": training.get("best") or {},
        "sets": [_to_json(one, asked) for one in found],
        "speed": None if found[0].alone_seconds is not None else NO_SPEED.format(_why_no_speed(wanted)),
        "reports": [asdict(report) for report in reports],
    }
    _conclude(wanted, result, reports, _alarm(wanted, samples, about, folder, simulation, result, found))


def read(path: Path) -> dict[str, Any] | None:
    """What an evaluation found; None where there is none that can be read."""
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def trained_on(folder: Path, data: str, target: Path) -> dict[str, Any]:
    """What training.json says. Raises StageError unless it was trained on this data, of this target."""
    from pipeline import identity

    try:
        found: dict[str, Any] = json.loads((folder / "training.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise StageError(f"{folder / 'training.json'} cannot be read ({error}); run the stage train again.") from error
    if found.get("data") != data:
        raise StageError(f"The draft model in {folder} was trained on other data; run the stage train again.")
    if found.get("target", "") not in ("", identity.digest(target)):
        raise StageError(f"The draft model in {folder} was trained for another target; run the stage train again.")
    return found


def _binding(wanted: Settings, folder: Path, asked: Task) -> str:
    parts = {
        "draft": files.sha256(folder / "model.safetensors"),
        "config": files.sha256(folder / "config.json"),
        "sets": [one.to_json() for one in asked.sets],
        "asked": [
            asked.proposed,
            asked.max_tokens,
            sorted(asked.ends),
            wanted.evaluate.simulate,
            wanted.evaluate.speed,
        ],
        "versions": loadcheck.versions(),
        "dtype": loadcheck.number_format(wanted),
        "switches": os.environ.get(VARIABLE, ""),
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _simulate(simulation: Simulation, folder: Path, found: Sequence[Found]) -> None:
    draft = simulation.draft(folder)
    pace = Pace("simulating", 2 * sum(len(one.prompts.prompts) for one in found), "answers")
    for one in found:
        one.alone = simulation.alone(one.prompts, pace.step)
        one.simulated = simulation.answers(draft, one.prompts, pace.step)


def _untrained(simulation: Simulation, asked: Task, found: Sequence[Found]) -> None:
    """The baseline: the load check's where it served this very set, else simulated."""
    before = loadcheck.checked(products.untrained())
    baseline = before["baseline"] if before else None
    draft = None
    for one in found:
        same = baseline and baseline["set"]["digest"] == one.prompts.digest
        if baseline and same and (baseline["proposed"], baseline["max_tokens"]) == (asked.proposed, asked.max_tokens):
            keys = ("acceptance_length", "rounds", "accepted", "per_position")
            one.untrained = {**{key: baseline[key] for key in keys}, "by": "served"}
        elif before:
            draft = draft or simulation.draft(products.untrained())
            answers = simulation.answers(draft, one.prompts)
            one.untrained = {**acceptance.total(answers, asked.proposed).to_json(), "by": "simulated"}


def _serve(wanted: Settings, target: Path, folder: Path, asked: Task, found: Sequence[Found]) -> None:
    with loadcheck.engine(wanted, folder, asked) as engine:
        one_by_one = engine.one_by_one
        pace = Pace("serving", sum(len(one.prompts.prompts) for one in found), "answers")
        for one in found:
            started = time.monotonic()
            one.served = engine.answer(one.prompts.prompts, asked.max_tokens, asked.ends)
            one.seconds = time.monotonic() - started
            pace.step(len(one.prompts.prompts))
    if not _measures_speed(wanted):
        return
    progress("serving the target alone", 0, None)
    try:
        plain = serve.Plain(
            target,
            asked.max_length,
            dtype=loadcheck.number_format(wanted),
            tensor_parallel=wanted.tensor_parallel,
            one_by_one=one_by_one,
        )
    except Exception as error:  # whatever vLLM raises; what was served is worth more than how much faster it was
        traceback.print_exc()
        note(f"vLLM does not serve the target alone ({type(error).__name__}: {error}); the traceback is above.")
        return
    with plain as alone:
        for one in found:
            started = time.monotonic()
            answers = alone.answer(one.prompts.prompts, asked.max_tokens, asked.ends)
            one.alone_seconds = time.monotonic() - started
            one.alone = one.alone or [answer.tokens for answer in answers]


def _measures_speed(wanted: Settings) -> bool:
    return wanted.evaluate.speed == "always" or (wanted.evaluate.speed == "auto" and has_gpu())


def _why_no_speed(wanted: Settings) -> str:
    if _measures_speed(wanted):
        return "the target alone could not be served"
    if has_gpu():
        return 'stage.evaluate.speed is "never"'
    return "without a GPU it says nothing of where the draft will be served"


def _gates(wanted: Settings, found: Sequence[Found]) -> list[GateReport]:
    """Served equals simulated, and no answer is another than the target's own: exact, so in 32-bit floats alone."""
    reports = []
    exact = loadcheck.number_format(wanted) == "float32"
    for one in found:
        name = one.prompts.name
        if one.simulated is not None:
            report = acceptance.compare(one.simulated, one.served, name)
            reports.append(report if exact else _softened(report))
        if one.alone is not None:
            answers = {"engine": one.served, "simulation": one.simulated or []}
            for who, given in answers.items():
                other = acceptance.lossless(given, one.alone) if given else None
                report = GateReport(
                    "lossless",
                    other is None,
                    "" if other is None else "other tokens",
                    f"The {who}'s answers to {len(one.alone)} prompts of {name} are the target's own."
                    if other is None
                    else f"The {who} answers prompt {other} of {name} otherwise than the target alone.",
                )
                reports.append(report if exact else _softened(report))
    return reports


def _softened(report: GateReport) -> GateReport:
    told = "" if report.passed else " (no fault in this number format: two orders of a sum may round to other tokens)"
    return GateReport(report.gate, True, "", report.sentence + told)


def _to_json(one: Found, asked: Task) -> dict[str, Any]:
    served = acceptance.total(one.served, asked.proposed)
    said = sum(len(answer.tokens) for answer in one.served)
    result = {
        **one.prompts.to_json(),
        "served": served.to_json(),
        "simulated": one.simulated and acceptance.total(one.simulated, asked.proposed).to_json(),
        "untrained": one.untrained,
        "lossless": None if one.alone is None else acceptance.lossless(one.served, one.alone) is None,
        "agree": None if one.simulated is None else one.simulated == one.served,
        "answered_tokens": said,
        "tokens_per_s": round(said / one.seconds, 1) if one.seconds else None,
    }
    if one.alone_seconds:
        result["speed_up"] = round(one.alone_seconds / one.seconds, 3)
    return result


def _alarm(
    wanted: Settings,
    samples: Sequence[Sample],
    about: dict[str, Any],
    folder: Path,
    simulation: Simulation | None,
    result: dict[str, Any],
    found: Sequence[Found],
) -> list[GateReport]:
    why = alarm.suspicion(result)
    if not why:
        return []
    note(f"{why} Looking for the cause.")
    case = alarm.case(wanted, samples, about, folder, simulation, [one.prompts for one in found])
    return alarm.examine(case)


def _conclude(
    wanted: Settings, result: dict[str, Any], reports: Sequence[GateReport], causes: Sequence[GateReport]
) -> None:
    """Writes and tells what was found. Raises StageError when a gate did not pass, the alarm named a cause, or too
    little is accepted: what is written says so too, that neither a relaunch nor `export` goes by it."""
    result["alarm"] = [asdict(report) for report in causes]
    result["passed"] = all(report.passed for report in (*reports, *causes))
    files.write_whole(products.evaluation(), json.dumps(result, indent=1).encode())
    artifact(products.evaluation())
    _metrics(result)
    _tell(result)
    _judge(wanted, reports, causes, result)


def _metrics(result: dict[str, Any]) -> None:
    for one in result["sets"]:
        for kind in ("simulated", "served", "untrained"):
            figures = one[kind]
            if figures:
                metric(f"acceptance/{one['name']}/{kind}", figures["acceptance_length"])
                for place, count in enumerate(figures["per_position"], 1):
                    rate = count / figures["rounds"] if figures["rounds"] else 0.0
                    metric(f"accuracy_{place}/{one['name']}/{kind}", round(rate, 4))


def _tell(result: dict[str, Any]) -> None:
    for one in result["sets"]:
        served, untrained = one["served"], one["untrained"]
        before = f", untrained {untrained['acceptance_length']:.2f}" if untrained else ""
        same = ", exactly as simulated" if one["agree"] else ""
        rates = " / ".join(f"{n / max(served['rounds'], 1):.0%}" for n in served["per_position"])
        note(
            f"{one['name']} ({one['prompts']} prompts): served {served['acceptance_length']:.2f} tokens a round"
            f"{same}{before}; accepted at each position: {rates}."
        )
    note(result["speed"] or "Speed-up: " + ", ".join(f"{o['name']} {o.get('speed_up')}" for o in result["sets"]) + ".")


def _judge(
    wanted: Settings, reports: Sequence[GateReport], causes: Sequence[GateReport], result: dict[str, Any]
) -> None:
    for report in (*reports, *causes):
        note(report.sentence)
    failed = next((report for report in reports if not report.passed), None)
    named = next((report for report in causes if not report.passed), None)
    told = f" The cause found: {named.fault}. {named.sentence}" if named else ""
    if failed:
        raise StageError(f"{failed.sentence}{told} All figures are in {products.evaluation()}.")
    if named:
        raise StageError(f"Too little is accepted.{told} All figures are in {products.evaluation()}.")
    _judge_length(wanted, result)


def _judge_length(wanted: Settings, result: dict[str, Any]) -> None:
    """Raises StageError when less is accepted than stage.evaluate.min_acceptance asks for."""
    held_out = next((one for one in result["sets"] if one["name"] == prompts.HELD_OUT), result["sets"][0])
    length = held_out["served"]["acceptance_length"]
    if length < wanted.evaluate.min_acceptance:
        raise StageError(
            f"The served acceptance length on {held_out['name']} is {length}, and stage.evaluate.min_acceptance asks "
            f"for {wanted.evaluate.min_acceptance:g}; train longer or on more data, or lower it."
        )
