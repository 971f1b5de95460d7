"""`eyas logs` with a place or a pattern: the host looks it up, only what was asked for is printed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from workstation import Workstation

RUN = "20260101T000000Z-00000000"
LINES = [f"INFO 11-29 {n // 60:02}:{n % 60:02}:00 [a.py:1] step {n}\x1b]0;x\x07" for n in range(600)]


@pytest.fixture
def workstation(tmp_path: Path) -> Workstation:
    made = Workstation(tmp_path)
    (made.folder / "eyas.toml").write_text('project = "browse"\n[host.box]\nembedded = true\n', encoding="utf-8")
    attempt = made.runs / RUN / "extract" / "1"
    attempt.mkdir(parents=True)
    (made.runs / RUN / "run.json").write_text(json.dumps({"v": 1, "run": RUN, "project": "browse"}))
    (attempt / "stdout.log").write_text("\n".join(LINES) + "\n")
    return made


def said(workstation: Workstation, *words: str) -> str:
    done = workstation.eyas("logs", "extract", "--run", RUN, *words, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("place", [("--around", "301"), ("--time", "05:00")])
def test_lines_around_a_place_are_printed_with_their_numbers_and_safe(
    workstation: Workstation, place: tuple[str, str]
) -> None:
    lines = said(workstation, *place).splitlines()
    assert len(lines) == 41
    assert lines[20] == "     301  INFO 11-29 05:00:00 [a.py:1] step 300␛"


def test_an_offset_and_a_search_answer_in_json(workstation: Workstation) -> None:
    at = [json.loads(line) for line in said(workstation, "--at", "0", "--json").splitlines()]
    assert [row["line"] for row in at] == list(range(1, 22))
    assert at[1] == {"line": 2, "offset": len(LINES[0]) + 1, "text": LINES[1]}
    hits = [json.loads(line) for line in said(workstation, "--search", r"step \d+7\b", "--json").splitlines()]
    assert [hit["line"] for hit in hits] == list(range(18, 600, 10))


def test_one_way_at_a_time(workstation: Workstation) -> None:
    done = workstation.eyas("logs", "--around", "3", "--search", "x", timeout=120)
    assert (done.returncode, done.stdout) == (2, "")
    assert "one way at a time" in done.stderr
