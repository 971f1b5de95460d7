"""Pages and searches over the agent's pipes: little travels, and no log or pattern holds the agent up."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from faults.agent_link import AgentLink
from faults.fake_host import FakeHost

from remote import protocol
from remote.agent import pages
from remote.agent.layout import Attempt
from remote.agent.pages import Pages
from remote.logs import pages as pages_of_logs
from remote.protocol import RemoteError

RUN = "20260101T000000Z-00000000"
LINES = [b"(W pid=1) INFO 11-29 %02d:%02d:00 [a.py:1] step %d" % (n // 60 % 24, n % 60, n) for n in range(1440)]


@pytest.fixture
def attempt(host: FakeHost) -> Attempt:
    made = Attempt(f"{host.folder}/runs/{RUN}/one/1")
    Path(made.folder).mkdir(parents=True)
    write(made, b"\n".join(LINES) + b"\n")
    return made


@pytest.fixture
def link(host: FakeHost) -> Iterator[AgentLink]:
    made = AgentLink.to(host)
    yield made
    made.kill()


def write(attempt: Attempt, data: bytes) -> None:
    Path(attempt.log).write_bytes(data)


def texts(page: dict[str, Any]) -> list[str]:
    return [row["text"] for row in page["rows"]]


def asked(link: AgentLink, op: str, **more: Any) -> dict[str, Any]:
    answer: dict[str, Any] = link.ask(op, run=RUN, stage="one", attempt=1, **more)
    return answer


def test_the_end_is_shown_first_and_reading_back_and_forth_from_there_meets_every_line(
    attempt: Attempt, link: AgentLink
) -> None:
    page = asked(link, protocol.PAGE, before=50, rows=50)
    assert texts(page) == [line.decode() for line in LINES[-50:]]
    assert page["size"] == page["place"] == Path(attempt.log).stat().st_size
    earlier = asked(link, protocol.PAGE, offset=page["rows"][0]["offset"], before=10, rows=2)
    assert texts(earlier) == [line.decode() for line in LINES[-60:-48]]


@pytest.mark.parametrize("where", [{"line": 701}, {"time": "11-29 11:40"}, {"time": "11:40"}])
def test_a_line_or_a_time_is_gone_to_with_what_stands_before_it(
    attempt: Attempt, link: AgentLink, where: dict[str, Any]
) -> None:
    page = asked(link, protocol.PAGE, before=2, rows=3, **where)
    assert texts(page) == [line.decode() for line in LINES[698:703]]
    assert [row["line"] for row in page["rows"]] == [699, 700, 701, 702, 703]
    assert page["rows"][2]["offset"] == page["place"]


def test_an_offset_inside_a_line_shows_that_line(attempt: Attempt, link: AgentLink) -> None:
    assert texts(asked(link, protocol.PAGE, offset=len(LINES[0]) + 5, rows=1)) == [LINES[1].decode()]


def test_an_exact_offset_inside_a_long_line_goes_on_from_there(attempt: Attempt, link: AgentLink) -> None:
    write(attempt, b"first\n" + b"x" * 600_000 + b"\nlast\n")
    place = 6 + 300_000
    page = asked(link, protocol.PAGE, offset=place, exact=True, before=1, rows=2)
    assert [(row["offset"], row["size"], row["line"]) for row in page["rows"]] == [
        (place - pages_of_logs.WINDOW, pages_of_logs.WINDOW, 2),
        (place, pages_of_logs.WINDOW, 2),
    ]


@pytest.mark.parametrize("filler", [b"\0", b"\xff", "批".encode(), "\U0001f600".encode()])
def test_two_full_pages_of_the_costliest_characters_fit_into_a_frame(
    attempt: Attempt, link: AgentLink, filler: bytes
) -> None:
    write(attempt, (filler * (3000 // len(filler)) + b"\n") * 1000)
    page = asked(link, protocol.PAGE, offset=1_500_000, before=500, rows=500)
    assert len(page["rows"]) > 12


def test_a_search_gives_lines_with_their_numbers_and_goes_on_where_it_stopped(
    attempt: Attempt, link: AgentLink
) -> None:
    first = asked(link, protocol.SEARCH, pattern=r"step 1[12]\d$", limit=15)
    more = asked(link, protocol.SEARCH, pattern=r"step 1[12]\d$", offset=first["next"])
    assert [hit["line"] for hit in first["hits"] + more["hits"]] == list(range(111, 131))
    assert more["next"] is None
    back = asked(link, protocol.SEARCH, pattern="STEP 7$", back=True, ignore_case=True, limit=1)
    assert [hit["text"] for hit in back["hits"]] == [LINES[7].decode()]


def test_a_bad_pattern_is_refused_and_says_where_it_breaks(attempt: Attempt, link: AgentLink) -> None:
    with pytest.raises(RemoteError, match=r"'step \(' is no regular expression: .*position 5") as refused:
        asked(link, protocol.SEARCH, pattern="step (")
    assert refused.value.kind == "bad_request"


def test_a_catastrophic_pattern_is_stopped_while_the_agent_answers(attempt: Attempt, link: AgentLink) -> None:
    write(attempt, b"a" * 5000 + b"\n")
    slow = link.send(protocol.SEARCH, run=RUN, stage="one", attempt=1, pattern="(a+)+b")
    assert link.ask(protocol.PING)["now"]
    with pytest.raises(RemoteError, match="takes too long"):
        link.answer(slow)
    assert texts(asked(link, protocol.PAGE, offset=0, rows=1))[0].startswith("aaa")


def test_a_pattern_is_not_to_blame_for_a_host_that_is_busy(
    attempt: Attempt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = tmp_path / "python"
    slow.write_text(f'#!/bin/sh\nsleep 5\nexec {sys.executable} "$@"\n')
    slow.chmod(0o755)
    monkeypatch.setattr(pages.sys, "executable", str(slow))
    found = Pages().search(attempt, {"pattern": "step 700$", "offset": 0})
    assert [hit["text"] for hit in found["hits"]] == [LINES[700].decode()]


@pytest.mark.parametrize(
    ("op", "given", "said"),
    [
        (protocol.PAGE, {"line": 9999}, "the log has 1441 lines"),
        (protocol.PAGE, {"line": "7"}, "`line` must be a whole number"),
        (protocol.PAGE, {"rows": 501}, "`rows` must be a whole number from 0 to 500"),
        (protocol.PAGE, {"time": "noon"}, "'noon' is no time"),
        (protocol.SEARCH, {}, "`pattern` must be a text"),
        (protocol.SEARCH, {"pattern": "x", "offset": -1}, "`offset` must be"),
    ],
)
def test_nonsense_is_refused_in_words(
    attempt: Attempt, link: AgentLink, op: str, given: dict[str, Any], said: str
) -> None:
    with pytest.raises(RemoteError, match=said):
        asked(link, op, **given)


def test_a_large_log_is_indexed_over_several_requests(attempt: Attempt, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "INDEX_SECONDS", 0.0)
    monkeypatch.setattr(pages, "NUMBERS_SECONDS", 0.0)
    monkeypatch.setattr(pages, "PIECE", 1000)
    browsing, answers = Pages(), []
    while not answers or not answers[-1]["rows"]:
        answers.append(browsing.page(attempt, {"line": 1000, "rows": 1}))
    assert len(answers) > 10
    assert [a["indexed"] for a in answers] == sorted({a["indexed"] for a in answers})
    assert texts(answers[-1]) == [LINES[999].decode()]


def test_another_or_a_shorter_log_is_indexed_anew(attempt: Attempt) -> None:
    browsing = Pages()
    assert texts(browsing.page(attempt, {"line": 1440, "rows": 1})) == [LINES[1439].decode()]
    write(attempt, b"new\nshort\n")
    page = browsing.page(attempt, {"line": 2, "rows": 1})
    assert (texts(page), page["indexed"], page["size"]) == (["short"], 10, 10)
    Path(attempt.log).rename(f"{attempt.log}.1")
    write(attempt, b"rotated\nlog\nx\n" * 9)
    assert texts(browsing.page(attempt, {"line": 2, "rows": 1})) == ["log"]


def test_a_log_that_grows_is_indexed_on(attempt: Attempt) -> None:
    browsing = Pages()
    browsing.page(attempt, {"line": 1})
    with Path(attempt.log).open("ab") as log:
        log.write(b"later\n")
    page = browsing.page(attempt, {"line": 1441, "rows": 9})
    assert [(row["line"], row["text"]) for row in page["rows"]] == [(1441, "later")]


def test_files_are_kept_open_for_a_few_logs_only(host: FakeHost) -> None:
    browsing = Pages()
    before = len(list(Path("/proc/self/fd").iterdir()))
    for number in range(1, 3 * pages.KEPT):
        made = Attempt(f"{host.folder}/runs/{RUN}/one/{number}")
        Path(made.folder).mkdir(parents=True)
        write(made, b"x\n")
        browsing.page(made, {})
    assert len(list(Path("/proc/self/fd").iterdir())) - before <= pages.KEPT


def test_a_symbolic_link_or_a_missing_log_is_refused(attempt: Attempt, tmp_path: Path) -> None:
    Path(attempt.log).unlink()
    with pytest.raises(RemoteError, match="cannot be read: No such file"):
        Pages().page(attempt, {})
    Path(attempt.log).symlink_to(tmp_path)
    with pytest.raises(RemoteError, match="cannot be read: Too many levels"):
        Pages().page(attempt, {})
