"""The backends, each on the pair that has it, give the same states as a plain forward of transformers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from engine_run import Run

pytestmark = pytest.mark.engine


def extracted(seed: Run, folder: Path, pair: str, backend: str) -> Run:
    """A run of its own over the target and the data set of `seed`, in 32-bit floats."""
    given = {**seed.settings["run"], "pair": pair, "dtype": "float32"}
    made = Run(folder, {"run": given, "stage": {"extract": {"backend": backend}}})
    assert made.stage("provision").rc == 0
    made.products.mkdir()
    for product in ("target", "dataset"):
        (made.products / product).symlink_to(seed.products / product)
    attempt = made.stage("extract")
    assert attempt.rc == 0, attempt.log
    return made


@pytest.mark.parametrize("pair, backend", [("seed", "generator"), ("current", "native")])
def test_a_backend_agrees_with_a_plain_forward(run: Run, tmp_path: Path, pair: str, backend: str) -> None:
    taken = extracted(run, tmp_path / "auto", pair, "auto")
    plain = extracted(run, tmp_path / "plain", pair, "transformers")
    used = [
        json.loads((one.products / "hidden_states" / "manifest.jsonl").read_text().splitlines()[0])["backend"]
        for one in (taken, plain)
    ]
    assert used == [backend, "transformers"]
    told = plain.script("difference.py", str(taken.products), str(plain.products))
    found = json.loads(told.rpartition("RESULT ")[2])
    assert found["samples"] == 12
    assert found["tokens"] > 500
    assert min(found["size"]) > 1
    assert max(found["diff"]) < 2e-5 * max(found["size"])
    print(f"\n{pair}, {backend}: largest differences {found['diff']}, largest values {found['size']}")
