"""What is on the disk as it was written, and still no hidden states, does not pass for them."""

from __future__ import annotations

from pathlib import Path

from saved_states import save

from pipeline.dataset import Sample
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
