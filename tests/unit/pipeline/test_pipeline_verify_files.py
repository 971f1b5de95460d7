"""What is on the disk as it was written, and still no hidden states, does not pass for them; nor what is missing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from safetensors_files import write_model
from saved_states import save

from pipeline import dataset, origin, products, verify
from pipeline.dataset import Sample
from pipeline.extract_settings import ExtractSettings
from pipeline.report import StageError
from pipeline.settings import Settings
from pipeline.store import Store, entries
from pipeline.verifying import files

SAMPLES = [Sample(index, (index, 7), (0, 1)) for index in range(3)]


def test_a_file_that_cannot_be_read_is_a_fault_although_its_checksum_is_right(tmp_path: Path) -> None:
    store = Store(tmp_path, {})
    for sample in SAMPLES:
        save(store, sample, b"no safetensors")
    told: list[int] = []
    found = files.look(tmp_path, SAMPLES, entries(tmp_path), {}, 4, told.append, 100)
    faults = {report.gate: report for report in found.reports(SAMPLES) if not report.passed}
    assert list(faults) == ["rows"]
    assert faults["rows"].fault == "unreadable file"
    assert "3 of 3 samples" in faults["rows"].sentence and "cannot be read as hidden states" in faults["rows"].sentence
    assert found.faulty() == dict.fromkeys(range(3), "unreadable file")
    assert sum(told) == 3


def test_a_target_that_has_lost_a_shard_is_not_called_another_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = write_model(tmp_path / "model")
    attempt = tmp_path / "run" / "verify" / "1"
    attempt.mkdir(parents=True)
    (attempt / "spec.json").write_text(json.dumps({"settings": {"run": {"target": str(target)}}}))
    monkeypatch.setenv("EYAS_RUN", str(tmp_path / "run"))
    monkeypatch.setenv("EYAS_ATTEMPT", str(attempt))
    dataset.write(products.dataset(), SAMPLES, {})
    save(Store(products.hidden_states(), origin.of(Settings(), target)), SAMPLES[0], b"states")
    shard = target / "model-00002-of-00003.safetensors"
    shard.unlink()
    with pytest.raises(StageError, match=f"lacks 1 of 3 shards; the first is {shard.name}"):
        verify.main()


def test_a_run_that_shares_its_samples_is_told_which_ranks_are_not_done(tmp_path: Path) -> None:
    samples = [Sample(index, (index,), (1,)) for index in range(7)]
    wanted = Settings(batch_size=2, extract=ExtractSettings(world_size=3, rank=0, folder=str(tmp_path)))
    store = Store(tmp_path, {})
    for index in (0, 1, 2, 6):  # ranks 0, 0, 1, 0
        save(store, samples[index], b"states")
    with pytest.raises(StageError, match=r"lacks samples of rank 1, 2 of 3: .* relaunch the stage verify"):
        verify.require_others(wanted, samples, tmp_path)
    verify.require_others(Settings(batch_size=2), samples, tmp_path)  # alone: the gates name what is missing
    for index in (3, 4):
        save(store, samples[index], b"states")
    with pytest.raises(StageError, match="rank 2 of 3"):
        verify.require_others(wanted, samples, tmp_path)
    save(store, samples[5], b"states")
    verify.require_others(wanted, samples, tmp_path)
