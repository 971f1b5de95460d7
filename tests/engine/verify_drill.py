"""Run in a stage environment: real stages in one process that share one engine, so that a drill of many runs is quick.

`verify_drill.py clean BACKEND TARGET FOLDER SEEDS FRESH` prepares, extracts and verifies a data set of its own for each
seed, and with FRESH = 1 a target of its own. `verify_drill.py spoilt BACKEND RUN FAULT…` verifies copies of a run that
`spoil.py` has spoilt. Both print `RESULT {name: {"fault", "sentence", "reports": [[gate, fault, sentence]…]}}`.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pipeline import corpus, extract, prepare, verify
from pipeline.engine import backend
from pipeline.gates.report import GateReport
from pipeline.report import StageError

SAMPLES, LENGTH = 6, 128


class Lent:
    """An engine that outlives the stages which it is lent to."""

    def __init__(self, engine: Any) -> None:
        self.engine = engine

    def __enter__(self) -> Any:
        return self.engine

    def __exit__(self, *error: object) -> None:
        pass


class Lender:
    """In the place of `backend.engine`: starts an engine once for each target."""

    def __init__(self, scratch: Path) -> None:
        self._start = backend.engine
        self._scratch = scratch
        self._lent: dict[str, Any] = {}
        self.starts = 0

    def __call__(self, name: str, target: Path, *asked: Any) -> Lent:
        same = asked[:4]  # a stage's own scratch folder is gone before the engine is
        key = repr((name, str(target), same))
        if key not in self._lent:
            self.close()
            self.starts += 1
            self._lent[key] = self._start(name, target, *same, self._scratch).__enter__()  # type: ignore[arg-type]
        return Lent(self._lent[key])

    def close(self) -> None:
        for engine in self._lent.values():
            engine.__exit__(None, None, None)
        self._lent.clear()


def stage(main: Callable[[], None], name: str, run: Path, settings: dict[str, Any]) -> str:
    """Runs a stage's `main`; the message with which it stopped, or ""."""
    attempt = run / name / str(1 + len(list((run / name).glob("*"))))
    attempt.mkdir(parents=True)
    (attempt / "spec.json").write_text(json.dumps({"settings": settings}))
    os.environ.update(EYAS_RUN=str(run), EYAS_ATTEMPT=str(attempt))
    try:
        main()
    except StageError as error:
        return str(error)
    return ""


def verdict(run: Path, message: str) -> dict[str, Any]:
    from pipeline.verifying import remedies

    written = json.loads((run / "products" / "verify.json").read_text())
    reports = [GateReport(**one) for one in written["reports"]]
    faults = [report for report in reports if not report.passed]
    told = [[report.gate, report.fault, report.sentence] for report in reports]
    return {"fault": remedies.first(faults).fault if faults else "", "sentence": message, "reports": told}


def clean(chosen: str, target: Path, folder: Path, seeds: range, fresh: bool) -> dict[str, Any]:
    result = {}
    own = varied(target, folder / "target", seeds[0])
    for seed in seeds:
        run = folder / str(seed)
        if fresh:
            own = varied(target, folder / f"target-{seed}", seed)
        conversations = folder / f"{seed}.jsonl"
        rows = [{"messages": messages} for messages in corpus.conversations(SAMPLES, seed)]
        conversations.write_text("".join(json.dumps(row) + "\n" for row in rows))
        asked = {"target": str(own), "conversations": str(conversations), "samples": SAMPLES, "max_length": LENGTH}
        settings = {"run": {**asked, "batch_size": 4}, "stage": {"extract": {"backend": chosen}}}
        for main, name in ((prepare.main, "prepare"), (extract.main, "extract")):
            stopped = stage(main, name, run, settings)
            assert not stopped, stopped
        result[str(seed)] = verdict(run, stage(verify.main, "verify", run, settings))
        shutil.rmtree(run)
    return result


def varied(target: Path, folder: Path, seed: int) -> Path:
    """A target of other weights: each tensor moved, the norms far from 1."""
    import torch
    from safetensors.torch import load_file, save_file

    shutil.copytree(target, folder)
    torch.manual_seed(seed)
    for shard in folder.glob("*.safetensors"):
        tensors = {}
        for name, tensor in load_file(shard).items():
            by = torch.empty(tensor.shape).uniform_(0.6, 1.4) if "norm" in name else 1 + 0.1 * torch.randn(tensor.shape)
            tensors[name] = (tensor.float() * by).to(tensor.dtype)
        save_file(tensors, shard, metadata={"format": "pt"})
    return folder


def spoilt(chosen: str, run: Path, faults: list[str]) -> dict[str, Any]:
    import spoil

    settings = json.loads((run / "settings.json").read_text())
    target = run / "products" / "target"
    settings["run"]["target"] = str(target)
    settings.setdefault("stage", {}).setdefault("extract", {})["backend"] = chosen
    result = {}
    for fault in faults:
        copy = run.with_name(f"{run.name}-{fault}")
        copy.mkdir()
        shutil.copytree(run / "products", copy / "products")
        if fault != "clean":
            getattr(spoil, fault)(spoil.Products(copy / "products"))
        result[fault] = verdict(copy, stage(verify.main, "verify", copy, settings))
        shutil.rmtree(copy)
    return result


def main() -> None:
    what, chosen, *rest = sys.argv[1:]
    os.environ["EYAS_SWITCHES"] = json.dumps({"mode": "auto"})  # by which vLLM's processes know a stage
    scratch = Path(rest[0] if what == "spoilt" else rest[1]).with_name(f"scratch-{os.getpid()}")
    scratch.mkdir(parents=True)
    lender = Lender(scratch)
    backend.engine = lender  # type: ignore[assignment]
    try:
        if what == "spoilt":
            result = spoilt(chosen, Path(rest[0]), rest[1:])
        else:
            target, folder, seeds, fresh = rest
            Path(folder).mkdir(parents=True, exist_ok=True)
            first, last = map(int, seeds.split("-"))
            result = clean(chosen, Path(target), Path(folder), range(first, last + 1), fresh == "1")
    finally:
        lender.close()
        shutil.rmtree(scratch, ignore_errors=True)
    print("RESULT " + json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
