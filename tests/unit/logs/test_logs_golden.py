"""What the reader finds in every real log, line for line. `golden.py` beside this file writes the texts anew."""

from __future__ import annotations

import difflib

import golden
import pytest

LOGS = golden.logs()


@pytest.mark.parametrize("name", sorted(LOGS))
def test_the_findings_of_a_real_log_are_as_they_were(name: str) -> None:
    kept = golden.golden(name).read_text(encoding="utf-8").splitlines()
    now = golden.text(golden.read(LOGS[name])).splitlines()
    changes = "\n".join(difflib.unified_diff(kept, now, "as it was", "as it is now", lineterm="", n=1))
    if changes:
        pytest.fail(f"the findings of {name} changed:\n{changes}\n\nMeant? {golden.__doc__}", pytrace=False)


def test_every_kept_text_belongs_to_a_log() -> None:
    assert sorted(golden.FOLDER.glob("*.txt")) == sorted(map(golden.golden, LOGS))


@pytest.mark.parametrize("name", sorted(LOGS))
def test_a_real_log_has_tracebacks_exactly_when_it_has_a_header(name: str) -> None:
    """Looked for the simple way, so that a golden text written from a blind reader is noticed."""
    assert bool(golden.read(LOGS[name]).tracebacks) == (b"Traceback (most recent call last)" in LOGS[name])
