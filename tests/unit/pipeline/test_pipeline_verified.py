"""Nothing is learnt from data that the gates have not passed, or that changed since."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from saved_states import save

from pipeline import products, store, verified
from pipeline.dataset import Sample
from pipeline.gates.report import failed, passed
from pipeline.report import StageError
from pipeline.verified import Verdict

SAMPLES = [Sample(i, tuple(range(i + 3)), (0, *[1] * (i + 2))) for i in range(3)]
GOOD = passed("rows", "All rows.")


@pytest.fixture(autouse=True)
def states(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> store.Store:
    monkeypatch.setenv("EYAS_RUN", str(tmp_path))
    made = store.Store(products.hidden_states(), {"target": "a"})
    for sample in SAMPLES:
        save(made, sample, b"states %d" % sample.index)
    return made


def digest() -> str:
    return store.data_digest(products.hidden_states(), SAMPLES)


def test_the_digest_of_data_that_passed_is_given() -> None:
    verified.write(Verdict(digest(), (GOOD,), {"attempt": "R/verify/1"}))
    assert verified.require(SAMPLES) == digest()
    assert verified.read() == Verdict(digest(), (GOOD,), {"attempt": "R/verify/1"})


def test_data_that_nobody_verified_is_refused() -> None:
    with pytest.raises(StageError, match="not verified; run the stage verify first"):
        verified.require(SAMPLES)


def test_data_with_a_fault_is_refused_by_its_name() -> None:
    verified.write(Verdict(digest(), (GOOD, failed("finite", "NaN", "3 values are NaN."))))
    with pytest.raises(StageError, match="verify found NaN"):
        verified.require(SAMPLES)
    verified.write(Verdict(digest(), ()))
    with pytest.raises(StageError, match="verify found nothing"):
        verified.require(SAMPLES)


def test_data_that_changed_since_is_refused(states: store.Store) -> None:
    verified.write(Verdict(digest(), (GOOD,)))
    with pytest.raises(StageError, match="changed since verify"):
        verified.require(SAMPLES[:2])
    with pytest.raises(StageError, match="changed since verify"):
        verified.require([replace(SAMPLES[0], loss_mask=(1, 1, 1)), *SAMPLES[1:]])
    save(states, SAMPLES[0], b"other states")
    with pytest.raises(StageError, match="changed since verify"):
        verified.require(SAMPLES)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"data": "d", "passed": true, "reports": []}'])
def test_a_file_that_is_no_verdict_is_refused(text: str) -> None:
    products.verdict().write_text(text)
    with pytest.raises(StageError, match="run the stage verify again"):
        verified.require(SAMPLES)


def test_a_file_that_is_gone_or_cut_short_since_is_named_before_anything_is_learnt() -> None:
    verified.require_files(SAMPLES)
    path = products.hidden_states() / "hs_1.safetensors"
    path.write_bytes(b"stat")
    with pytest.raises(
        StageError, match=r"hs_1\.safetensors has 4 of 8 bytes since verify passed it; relaunch extract"
    ):
        verified.require_files(SAMPLES)
    path.unlink()
    with pytest.raises(StageError, match=r"hs_1\.safetensors cannot be read \(No such file or directory\)"):
        verified.require_files(SAMPLES)
