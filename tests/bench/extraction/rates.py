"""Run in a stage environment: `rates.py current|seed PRODUCTS WORK ROUNDS [ENDPOINT]` extracts the same samples again
and again, in turn with what it is compared with, in one process.

Prints `RESULT {"seconds": {what: [of each round]}, "tokens"}`. `extract` is the stage's own loop: its batches, checks,
digests, syncs, manifest. In `current` beside it: `prefill`, vLLM's plain prefill of the same prompts in one call, and,
with a server that extracts, `offline`, `speculators generate-offline-data`, and `served`, the stage's loop over that
server. In `seed`: `loop`, speculators 0.3.0's own loop on the same engine, with `torch.save` in four threads.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

DTYPE = "float32"
SAVERS = 4
BATCH = 8
"""Of speculators 0.3.0's loop."""


def extracting(engine: Any, samples: Sequence[Any], work: Path) -> Callable[[], float]:
    """The stage's loop, with batches of its default size."""
    from pipeline import extracting as loop
    from pipeline import scratch
    from pipeline.settings import Settings
    from pipeline.store import Store
    from pipeline.writing import Writer

    def once() -> float:
        folder = work / "extracted"
        shutil.rmtree(folder, ignore_errors=True)
        store = Store(folder, {})
        began = time.perf_counter()
        with scratch.own(folder) as half, Writer(store, lambda saved: None, half) as writer:
            todo = loop.batches(samples, Settings.batch_size)
            loop._Loop(engine, writer, {sample.index for sample in samples}).run(todo)
        taken = time.perf_counter() - began
        assert len(list(folder.glob("hs_*"))) == len(samples)
        return taken

    return once


def default_layers(target: Path) -> Any:
    from pipeline import layers, origin

    return layers.choose(origin.text_config(target)["num_hidden_layers"], None)


def current(products: Path, samples: Sequence[Any], work: Path, endpoint: str) -> dict[str, Callable[[], float]]:
    import torch
    from vllm import LLM, SamplingParams

    from pipeline import store, training_data
    from pipeline.engine import native, served

    target, longest = products / "target", max(len(sample.token_ids) for sample in samples)
    layers = default_layers(target).vllm_ids
    plain = LLM(
        model=str(target),
        dtype=DTYPE,
        max_model_len=longest + 1,
        enforce_eager=True,
        enable_prefix_caching=False,
        disable_log_stats=True,
        attention_config={} if torch.cuda.is_available() else {"backend": "CPU_MLA"},
    )
    prompts: list[Any] = [{"prompt_token_ids": list(sample.token_ids)} for sample in samples]

    def prefill() -> float:
        began = time.perf_counter()
        plain.generate(prompts, SamplingParams(max_tokens=1, temperature=0, detokenize=False), use_tqdm=False)
        return time.perf_counter() - began

    engine = native.Engine(target, layers, longest, 1, DTYPE, work)
    found = {"prefill": prefill, "extract": extracting(engine, samples, work)}
    if endpoint:
        training_data.write(samples, work / "data", store.data_digest(work, samples))
        found["served"] = extracting(served.Engine(target, layers, longest, DTYPE, endpoint), samples, work)
        found["offline"] = lambda: offline(work, endpoint)
    return found


def offline(work: Path, endpoint: str) -> float:
    """Its own word of how long it took: without its start."""
    shutil.rmtree(work / "offline", ignore_errors=True)
    command = [sys.executable, "-m", "speculators", "generate-offline-data", "--endpoint", endpoint]
    command += ["--preprocessed-data", str(work / "data"), "--output", str(work / "offline"), "--validate-outputs"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    told = re.search(r"Timing: ([\d.]+)s elapsed", re.sub(r"\s+", " ", done.stdout + done.stderr))
    assert told, done.stdout + done.stderr
    return float(told[1])


def seed(products: Path, samples: Sequence[Any], work: Path, endpoint: str) -> dict[str, Callable[[], float]]:
    import torch

    from compat.activate import activate
    from compat.patch import Switches
    from pipeline.engine import generator

    activate("driver", Switches(), lambda applied: None)
    longest = max(len(sample.token_ids) for sample in samples)
    engine = generator.Engine(
        products / "target", default_layers(products / "target").output_indices, longest, 1, DTYPE
    )

    def loop() -> float:
        folder = work / "saved"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        began = time.perf_counter()
        with ThreadPoolExecutor(SAVERS) as pool:
            for start in range(0, len(samples), BATCH):
                batch = samples[start : start + BATCH]
                results = engine._generator.generate([list(sample.token_ids) for sample in batch])
                for sample, result in zip(batch, results, strict=True):
                    result["loss_mask"] = torch.tensor(sample.loss_mask)
                    pool.submit(torch.save, result, folder / f"data_{sample.index}.pt")
        return time.perf_counter() - began

    return {"loop": loop, "extract": extracting(engine, samples, work)}


def main() -> None:
    pair, products, work, rounds, endpoint = [*sys.argv[1:], ""][:5]
    from pipeline import dataset

    samples = dataset.read(Path(products) / "dataset")
    made = {"current": current, "seed": seed}[pair](Path(products), samples, Path(work), endpoint)
    for once in made.values():
        once()  # warm
    found: dict[str, list[float]] = {name: [] for name in made}
    for _ in range(int(rounds)):
        for name, once in made.items():
            found[name].append(once())
    print("RESULT " + json.dumps({"seconds": found, "tokens": sum(len(s.token_ids) for s in samples)}), flush=True)


if __name__ == "__main__":
    main()
