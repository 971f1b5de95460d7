"""Stage `export`: the trained draft model as a folder that vLLM serves by itself, with a model card and a plain form.

    export/              config.json and model.safetensors in speculators' form; README.md, the model card
    export/plain/        the same weights for `--speculative-config`

What is exported is what was measured, to the byte.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

from pipeline import dataset, evaluate, files, identity, origin, products, settings, verified, vocabulary
from pipeline.dataset import Sample
from pipeline.draft import card, checkpoints, plain, profile, target_folder
from pipeline.gates import draft_folder
from pipeline.report import StageError, artifact, note, progress
from pipeline.settings import Settings

MARKER = "eyas-export.json"
WEIGHTS = "model.safetensors"


def main() -> None:
    wanted = settings.of_attempt()
    samples = dataset.read(products.dataset())
    data = verified.require(samples)
    target, folder = products.target(wanted), products.export()
    best = checkpoints.best(products.checkpoints())
    training = evaluate.trained_on(products.checkpoints(), data, target)
    measured = _measured(best)
    bound = hashlib.sha256(
        json.dumps([measured, str(target), profile.serving(wanted).engine], sort_keys=True).encode()
    ).hexdigest()
    if _is_made(folder, bound):
        note(f"The draft model in {folder} is this one; keeping it.")
        return
    progress("writing the draft model's folder", 0, 1)
    half = folder.with_name(".export.tmp")
    shutil.rmtree(half, ignore_errors=True)
    half.mkdir(parents=True)
    shutil.copyfile(best / WEIGHTS, half / WEIGHTS)
    config = {**target_folder.config(best), "architectures": ["Eagle3Speculator"]}
    config.pop("auto_map", None)  # it leads to code that does not travel with the folder
    config["speculators_config"]["verifier"]["name_or_path"] = str(target)
    if profile.serving(wanted).old_rope:
        config["transformer_layer_config"] = plain.with_old_rope(config["transformer_layer_config"])
    files.write_whole(half / "config.json", json.dumps(config, indent=2).encode())
    report = draft_folder.check(half, target_folder.text_config(target))
    if not report.passed:
        raise StageError(f"The draft model is not one that can be served: {report.sentence}")
    plain.write(half, half / "plain")
    facts = _facts(wanted, samples, data, target, config, measured, training)
    files.write_whole(half / "README.md", card.write(facts).encode())
    written = {path: files.sha256(half / path) for path in ("config.json", WEIGHTS, "plain/config.json")}
    files.write_whole(half / MARKER, json.dumps({"bound": bound, "sha256": written}, indent=1).encode())
    shutil.rmtree(folder, ignore_errors=True)
    half.rename(folder)
    files.sync_folder(folder.parent)
    progress("writing the draft model's folder", 1, 1)
    artifact(folder)
    artifact(folder / "README.md")
    note(f"The draft model is in {folder}; `vllm serve {folder}` serves it. README.md there has its figures.")


def _measured(best: Path) -> dict[str, Any]:
    """The evaluation of this very draft model. Raises StageError when there is none."""
    path = products.evaluation()
    found = evaluate.read(path)
    if found is None:
        raise StageError(f"There is no evaluation {path}; run the stage evaluate first.")
    if found.get("draft_sha256") != files.sha256(best / WEIGHTS):
        raise StageError(f"{path} is of another draft model than {best}; run the stage evaluate again.")
    if not found.get("passed"):
        raise StageError(
            f"{path} says that a gate did not pass, or names a cause of too little acceptance; do what it says, and "
            "run the stage evaluate again."
        )
    return found


def _is_made(folder: Path, bound: str) -> bool:
    try:
        marker = json.loads((folder / MARKER).read_text(encoding="utf-8"))
        whole = all(files.sha256(folder / path) == digest for path, digest in marker["sha256"].items())
    except (OSError, ValueError, KeyError, AttributeError):
        return False
    return whole and bool(marker["bound"] == bound)


def _facts(
    wanted: Settings,
    samples: list[Sample],
    data: str,
    target: Path,
    config: dict[str, Any],
    measured: dict[str, Any],
    training: dict[str, Any],
) -> card.Facts:
    path = Path(os.environ["EYAS_RUN"]) / "run.json"
    run = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    chosen = vocabulary.require(products.vocabulary(), data)
    named = (target_folder.config(target).get("architectures") or [""])[0]
    return card.Facts(
        name=target.name,
        target=str(target),
        architecture=named,
        config=config,
        evaluation=measured,
        training=training.get("best") or {},
        vocabulary={"coverage": chosen.coverage},
        data={
            "digest": data,
            "samples": len(samples),
            "tokens": sum(len(sample.token_ids) for sample in samples),
            "source": wanted.conversations,
            "target": identity.digest(target),
            "tokenizer": identity.tokenizer_digest(target),
            "layers": origin.layers(wanted, target).to_json(),
            "max_length": wanted.max_length,
        },
        run=run,
        engine=profile.serving(wanted).engine,
    )
