"""Next and previous error in a log of any size: what the reader found, with its line and offset."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from faults.agent_link import AgentLink
from faults.fake_host import FakeHost

from remote import protocol
from remote.agent import error_places, log_findings
from remote.agent.error_places import ErrorPlaces
from remote.agent.layout import Attempt
from remote.agent.pages import Pages

RUN = "20260101T000000Z-00000000"
FRAME = '  File "a.py", line %d, in f\n    f()\n'
QUIET = "".join(f"ERROR 11-29 this line is no error of its own {n}\n" for n in range(100))
CAUSE = "Traceback (most recent call last):\n" + FRAME % 1 + "ValueError: cause\n"
EFFECT = (
    "\nThe above exception was the direct cause of the following exception:\n\n"
    "Traceback (most recent call last):\n" + FRAME % 2 + "KeyError: 'effect'\n"
)
LOG = QUIET + CAUSE + EFFECT + QUIET + "Killed\n" + QUIET
LINES = LOG.splitlines(keepends=True)
WANTED = [("ValueError: cause", 101), ("KeyError: 'effect'", 108), ("oom", 212)]


@pytest.fixture
def attempt(host: FakeHost) -> Attempt:
    made = Attempt(f"{host.folder}/runs/{RUN}/one/1")
    Path(made.folder).mkdir(parents=True)
    Path(made.log).write_text(LOG)
    return made


@pytest.fixture
def link(host: FakeHost) -> Iterator[AgentLink]:
    made = AgentLink.to(host)
    yield made
    made.kill()


def offset(line: int) -> int:
    return sum(len(text) for text in LINES[: line - 1])


def lines(answer: dict[str, Any]) -> list[int]:
    return [hit["line"] for hit in answer["hits"]]


def test_every_error_is_listed_with_its_line_and_its_offset(attempt: Attempt, link: AgentLink) -> None:
    answer = link.ask(protocol.SEARCH, run=RUN, stage="one", attempt=1, errors=True)
    assert lines(answer) == [101, 108, 212]
    assert [hit["offset"] for hit in answer["hits"]] == [offset(line) for line in (101, 108, 212)]
    assert [hit["text"] for hit in answer["hits"][:2]] == ["ValueError: cause", "KeyError: 'effect'"]
    assert [hit["root"] for hit in answer["hits"]].count(True) == 1
    assert (answer["next"], answer["read"]) == (None, len(LOG))


def test_the_next_and_the_previous_error_of_a_place(attempt: Attempt) -> None:
    places = ErrorPlaces(Pages())
    found = [
        (lines(places.search(attempt, {"offset": offset(at), "back": back, "limit": 1})))
        for at, back in ((1, False), (101, False), (102, False), (300, False), (1, True), (108, True), (109, True))
    ]
    assert found == [[101], [101], [108], [], [], [101], [108]]
    assert lines(places.search(attempt, {"back": True})) == [212, 108, 101]


def test_a_limit_says_where_to_go_on(attempt: Attempt) -> None:
    places, seen, at = ErrorPlaces(Pages()), [], 0
    while at is not None:
        answer = places.search(attempt, {"offset": at, "limit": 1})
        seen += lines(answer)
        at = answer["next"]
    assert seen == [101, 108, 212]


def test_a_log_that_nobody_read_yet_takes_several_requests(attempt: Attempt, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(error_places, "SECONDS", 0.0)
    for name in (log_findings, error_places):
        monkeypatch.setattr(name, "LOG_STEP", 500)
    for request, wanted in (({"back": True, "limit": 1}, [212]), ({"offset": offset(102), "limit": 1}, [108])):
        places, answers = ErrorPlaces(Pages()), []
        while not answers or (not answers[-1]["hits"] and answers[-1]["next"] is not None):
            answers.append(places.search(attempt, request))
        assert lines(answers[-1]) == wanted
        assert len(answers) > 5
        assert [a["read"] for a in answers] == sorted(a["read"] for a in answers)


def test_errors_that_are_written_later_and_a_log_that_is_cut(attempt: Attempt, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(error_places, "read_attempt", lambda *_: SimpleNamespace(over=False))
    places, log = ErrorPlaces(Pages()), Path(attempt.log)
    assert lines(places.search(attempt, {"offset": offset(213)})) == []
    with log.open("a") as out:
        out.write(CAUSE.replace("cause", "later") + "end\n")
    assert lines(places.search(attempt, {"offset": offset(213)})) == [313]
    log.write_text("short\n" + CAUSE)
    assert lines(places.search(attempt, {})) == [2]
