"""`eyas logs` with a place or a pattern: the host looks it up, only what was asked for is printed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from workstation import Workstation

RUN = "20260101T000000Z-00000000"
LINES = [f"INFO 11-29 {n // 60:02}:{n % 60:02}:00 [a.py:1] step {n}\x1b]0;x\x07" for n in range(600)]

BROKEN = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    f()\nValueError: bad \x1b[2J\n'


@pytest.fixture
def workstation(tmp_path: Path) -> Workstation:
    made = Workstation(tmp_path)
    (made.folder / "eyas.toml").write_text('project = "browse"\n[host.box]\nembedded = true\n', encoding="utf-8")
    lines = LINES + BROKEN.splitlines() + LINES + ["Killed"] + LINES
    attempt = made.runs / RUN / "extract" / "1"
    attempt.mkdir(parents=True)
    (made.runs / RUN / "run.json").write_text(json.dumps({"v": 1, "run": RUN, "project": "browse"}))
    (attempt / "stdout.log").write_text("\n".join(lines) + "\n")
    return made


def said(workstation: Workstation, *words: str) -> str:
    done = workstation.eyas("logs", "extract", "--run", RUN, *words, timeout=300)
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
    assert [hit["line"] for hit in hits] == [base + n for base in (0, 604, 1205) for n in range(18, 600, 10)]


def test_one_way_at_a_time(workstation: Workstation) -> None:
    done = workstation.eyas("logs", "--around", "3", "--search", "x", timeout=300)
    assert (done.returncode, done.stdout) == (2, "")
    assert "one way at a time" in done.stderr


def test_errors_are_listed_with_line_and_offset(workstation: Workstation) -> None:
    found = [json.loads(line) for line in said(workstation, "--errors", "--json").splitlines()]
    assert [(hit["line"], hit["root"]) for hit in found] == [(601, True), (1205, False)]
    assert found[0]["offset"] == sum(len(line) + 1 for line in LINES)
    listed = said(workstation, "--errors").splitlines()
    assert listed[0].split()[:2] == ["601", f"@{found[0]['offset']}"]
    assert "root cause: ValueError: bad" in listed[0]
    assert "\x1b" not in listed[0]


@pytest.mark.parametrize(
    ("way", "line"),
    [(("--next-error", "1"), 601), (("--next-error", "601"), 1205), (("--previous-error", "1205"), 601)],
    ids=["first", "next", "previous"],
)
def test_the_error_next_to_a_line_is_shown_with_what_stands_around_it(
    workstation: Workstation, way: tuple[str, str], line: int
) -> None:
    rows = [json.loads(text) for text in said(workstation, *way, "--json").splitlines()]
    assert [row["line"] for row in rows] == list(range(line - 20, line + 21))


def test_behind_the_last_error_there_is_none_and_that_is_said(workstation: Workstation) -> None:
    done = workstation.eyas("logs", "extract", "--run", RUN, "--next-error", "1205", timeout=300)
    assert (done.returncode, done.stdout) == (2, "")
    assert "no error behind line 1205 of extract, attempt 1" in done.stderr
