"""A live log is cut or replaced on the host: the tail, the pages and the findings all notice, and say so."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from faults.agent_link import AgentLink
from faults.fake_host import FakeHost, sh

from remote import protocol

BROKEN = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    f()\nValueError: %s\n'


@pytest.fixture
def link(host: FakeHost) -> Iterator[AgentLink]:
    made = AgentLink.to(host)
    yield made
    made.kill()


@pytest.mark.parametrize(
    ("how", "event", "said"), [("cut", protocol.TRUNCATED, "truncated"), ("replaced", protocol.ROTATED, "rotated")]
)
def test_a_live_log_that_is_rewritten_is_shown_from_its_new_start(
    host: FakeHost, link: AgentLink, how: str, event: str, said: str
) -> None:
    run = host.start(sh("one", "echo old; exec sleep 600"))
    attempt = host.attempt(run, "one")
    host.logged(attempt, "old")
    log = Path(attempt.log)
    with log.open("a") as out:
        out.write(BROKEN % "before")
    where = {"run": run, "stage": "one", "attempt": 1}
    link.ask(protocol.WATCH, run=run)
    link.ask(protocol.TAIL, tail="t", credit=1 << 16, **where)
    link.view(run, lambda view: [t.message for t in view.stages[0].findings.tracebacks] == ["before"])
    before = link.ask(protocol.PAGE, rows=0, before=9, **where)
    assert before["rows"][0]["text"] == "old"
    if how == "cut":
        os.truncate(log, 0)
        link.push(event, tail="t")
    else:
        log.rename(log.with_suffix(".1"))
        log.touch()
        link.push(event, tail="t")
    with log.open("a") as out:
        out.write("new\n" + BROKEN % "after")
    view = link.view(run, lambda view: [t.message for t in view.stages[0].findings.tracebacks] == ["after"])
    assert view.stages[0].findings.restarted == said
    assert link.push(protocol.DATA, offset=0)["data"]
    page = link.ask(protocol.PAGE, line=1, rows=9, **where)
    assert page["rows"][0]["text"] == "new"
    assert page["size"] == log.stat().st_size
    assert (page["log_id"] == before["log_id"]) == (how == "cut")
