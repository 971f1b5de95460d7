"""The agent over its pipes: curves, what travels of a run, files handed in, sweeps."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from faults.agent_link import AgentLink
from faults.fake_host import FakeHost, py, sh, until

from remote import protocol
from remote.protocol import RemoteError
from remote.views import CurveView, SweepView
from remote.wire import from_wire

VERIFY = """
mkdir -p "$EYAS_RUN/products"
echo '{"data": "d1ge57", "passed": true}' > "$EYAS_RUN/products/verify.json"
"""
TRAIN = """
import json, os
from pathlib import Path
with open(Path(os.environ["EYAS_ATTEMPT"]) / "events.jsonl", "a") as out:
    for step in range(5):
        out.write(json.dumps({"kind": "metric", "name": "loss", "value": 5 - step, "step": step}) + "\\n")
"""


@pytest.fixture
def link(host: FakeHost) -> Iterator[AgentLink]:
    made = AgentLink.to(host)
    yield made
    made.kill()


@pytest.fixture
def run(host: FakeHost, link: AgentLink) -> str:
    given = {"project": "demo", "request_id": os.urandom(4).hex(), "switches": {}, "secrets": {}}
    stages = [sh("verify", VERIFY), py("train", TRAIN)]
    made: str = link.ask(protocol.START, settings={"stages": stages}, **given)["run"]
    until(lambda: host.view(made).state == "done", "the run")
    return made


def test_curves_come_once_and_then_only_what_is_new(link: AgentLink, run: str) -> None:
    answer = link.ask(protocol.METRICS, run=run, have={})
    (curve,) = [from_wire(CurveView, wire) for wire in answer["curves"]]
    assert (curve.key, curve.values) == ("train/1/loss", (5, 4, 3, 2, 1))
    assert link.ask(protocol.METRICS, run=run, have={curve.key: [1, 5, 5]}) == {"curves": [], "more": False}


def test_what_travels_of_a_run_is_listed_and_fetched(link: AgentLink, run: str) -> None:
    listed = [entry["path"] for entry in link.ask(protocol.CARRIED, run=run)["files"]]
    assert "products/verify.json" in listed and "attempts/train/1/events.jsonl" in listed
    piece = link.ask(protocol.FETCH, run=run, path="products/verify.json", offset=0)
    assert b"d1ge57" in base64.b64decode(piece["data"])
    for path in ("../run.json", "attempts/train/1/stdout.log"):
        with pytest.raises(RemoteError, match="no file"):
            link.ask(protocol.FETCH, run=run, path=path, offset=0)


def test_a_file_is_handed_in(host: FakeHost, link: AgentLink) -> None:
    data = b'{"messages": []}\n'
    about: dict[str, Any] = {"digest": hashlib.sha256(data).hexdigest(), "suffix": ".jsonl", "size": len(data)}
    assert link.ask(protocol.UPLOAD, offset=0, data="", **about) == {"path": None, "have": 0}
    place = link.ask(protocol.UPLOAD, offset=0, data=base64.b64encode(data).decode(), **about)["path"]
    assert Path(place).read_bytes() == data and Path(place).is_relative_to(host.folder)


def test_a_sweep_runs_on_when_its_agent_is_killed(host: FakeHost, link: AgentLink, run: str) -> None:
    asked = {
        "base": run,
        "axes": {"lr": [0.1, 0.2]},
        "project": "demo",
        "request_id": "r",
        "switches": {},
        "secrets": {},
    }
    made = link.ask(protocol.SWEEP, **asked)
    link.kill()
    for point in made["runs"]:
        until(lambda point=point: host.view(point).state == "done", "every point")
    again = AgentLink.to(host)
    try:
        view = from_wire(SweepView, again.ask(protocol.SWEEPS, sweep=None, project="demo")["sweep"])
        assert [point.state for point in view.points] == ["done", "done"]
        assert again.ask(protocol.SWEEP_STOP, sweep=view.sweep)["runs"] == []
        assert from_wire(SweepView, again.ask(protocol.SWEEPS, sweep=view.sweep)["sweep"]).stopped
        with pytest.raises(RemoteError, match="no sweep"):
            again.ask(protocol.SWEEPS, sweep="../x", project="demo")
    finally:
        again.kill()
