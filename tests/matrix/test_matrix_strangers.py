"""Callers that the rules were not written with: on a vLLM that they declare, and so run on, nothing may surely fail.

The beam search plugin carries a scheduler of its own for each release of vLLM and chooses at run time, which the probe
does not follow: its false positives are counted in the report.
"""

from __future__ import annotations

import pytest
from cells import Matrix, Stranger

FIT = (
    Stranger("sendnn-inference", "sendnn_inference", "2.6.3", "0.26.0", "<0.28.1,>=0.26.0"),
    Stranger("sendnn-inference", "sendnn_inference", "2.6.3", "0.27.1", "<0.28.1,>=0.26.0"),
    Stranger("hs-connectors", "hs_connectors", "0.7.0", "0.22.1", "nothing"),
    Stranger("hs-connectors", "hs_connectors", "0.9.0", "0.32.0", "nothing"),
)
CHOOSES = tuple(
    Stranger("vllm-beam-search-plugin", "vllm_beam_search", "0.1.5", vllm, "<0.32.0,>=0.24.0")
    for vllm in ("0.24.0", "0.26.0", "0.29.0")
)


@pytest.mark.matrix
@pytest.mark.parametrize("stranger", FIT, ids=lambda stranger: stranger.name)
def test_a_caller_on_the_vllm_that_it_declares_has_nothing_that_fails(matrix: Matrix, stranger: Stranger) -> None:
    report = matrix.of_stranger(stranger)
    assert [f for f in report.findings if f.severity == "fails"] == []
    assert report.unread == ()


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("vllm", "expected"), [("0.22.1", False), ("0.27.1", False), ("0.29.0", True), ("0.32.0", True)]
)
def test_the_copied_reader_of_the_kv_cache_is_seen_where_the_layout_changed(
    matrix: Matrix, vllm: str, expected: bool
) -> None:
    report = matrix.of_stranger(Stranger("hs-connectors", "hs_connectors", "0.7.0", vllm, "nothing"))
    copies = [f.callee for f in report.findings if f.kind == "stale-copy"]
    assert copies == (["extract_from_kv_cache"] if expected else [])


@pytest.mark.matrix
@pytest.mark.parametrize("stranger", CHOOSES, ids=lambda stranger: stranger.name)
def test_what_is_wrong_of_a_caller_that_chooses_lies_in_what_it_chooses_from(
    matrix: Matrix, stranger: Stranger
) -> None:
    wrong = [f for f in matrix.of_stranger(stranger).findings if f.severity == "fails"]
    chosen = ("vendored_scheduler_v", "_ASYNC_UPDATE_SUPPORTS_STALE")
    files = {f.place.file: (matrix.folder / stranger.name / f.place.file).read_text() for f in wrong}
    assert all(any(word in file or word in text for word in chosen) for file, text in files.items())
