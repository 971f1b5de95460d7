"""One sample of a run's dataset, in words: which of its tokens are trained on."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline import dataset, environments, products, settings, stages
from pipeline.dataset import Sample
from pipeline.problem import Problem
from pipeline.report import StageError
from pipeline.settings import Settings

PATIENCE = 240.0
"""Seconds; the first import of transformers from a slow disk may take its time."""


def show(request: Mapping[str, Any]) -> dict[str, Any]:
    """`{"settings", "run_folder", "index"}` → `{"sample": …}`, in `runs` alike in the mask. Raises Problem."""
    wanted = settings.parse(request.get("settings") or {})
    os.environ["EYAS_RUN"] = str(request["run_folder"])
    sample = _sample(products.dataset(), int(request["index"]))
    runs = [
        (bool(trained), [token for token, _ in pairs])
        for trained, pairs in itertools.groupby(zip(sample.token_ids, sample.loss_mask, strict=True), lambda p: p[1])
    ]
    texts = _spelt(wanted, [ids for _, ids in runs])
    return {
        "sample": {
            "index": sample.index,
            "place": sample.place,
            "tokens": len(sample.token_ids),
            "trained": sum(sample.loss_mask),
            "runs": [
                {"trained": trained, "tokens": len(ids), "text": text}
                for (trained, ids), text in zip(runs, texts, strict=True)
            ],
        }
    }


def _sample(folder: Path, index: int) -> Sample:
    last = None
    try:
        for last in dataset.iterate(folder):
            if last.index == index:
                return last
    except StageError as error:
        raise Problem("bad_settings", str(error), "") from None
    count = last.index + 1 if last else 0
    raise Problem(
        "bad_request", f"The dataset has no sample {index}: it has {count}.", f"Give a number from 0 to {count - 1}."
    )


def _spelt(wanted: Settings, pieces: Sequence[Sequence[int]]) -> list[str]:
    """The texts of pieces of token ids, by the target's own tokenizer in the run's environment."""
    pair = stages.pair_at("prepare", wanted)
    python = wanted.environment(pair).python
    if python is None:
        environment = environments.of(wanted, pair)
        if not environment.complete:
            raise Problem(
                "bad_settings",
                f"The {pair} environment is not on this host any more, and with it no tokenizer.",
                "Start `eyas run`, whose first stage makes it.",
            )
        python = str(environment.python)
    command = [python, "-m", "pipeline.spell", str(products.target(wanted))]
    env = {**os.environ, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    try:
        done = subprocess.run(
            command, input=json.dumps(pieces), capture_output=True, text=True, env=env, timeout=PATIENCE, check=True
        )
        texts: list[str] = json.loads(done.stdout.splitlines()[-1])
    except subprocess.CalledProcessError as error:
        said = (error.stderr.strip().splitlines() or ["no word"])[-1]
        raise Problem("internal", f"The tokenizer did not load: {said[:500]}", "Relaunch the stage prepare.") from None
    except (OSError, subprocess.TimeoutExpired, ValueError, IndexError) as error:
        raise Problem("internal", f"The tokenizer did not answer: {error}", "Try again.") from None
    return texts
