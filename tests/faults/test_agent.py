"""The agent and its runs when agents, links and launchers die: runs go on, nothing is started twice."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shutil
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from faults.agent_link import AgentLink
from faults.fake_host import FakeHost, kill, sh, until

from remote import protocol
from remote.agent.layout import State
from remote.agent.runs import Runs
from remote.protocol import RemoteError


@pytest.fixture
def link(host: FakeHost) -> Iterator[AgentLink]:
    made = AgentLink.to(host)
    yield made
    if made.process.poll() is None:
        made.kill()


def request(*stages: dict[str, Any], request_id: str = "r1") -> dict[str, Any]:
    settings = {"stages": list(stages)}
    return {"settings": settings, "project": "demo", "request_id": request_id, "switches": {}, "secrets": {}}


def test_the_pipeline_walks_on_after_the_agent_was_killed(host: FakeHost, link: AgentLink) -> None:
    gate = host.folder / "gate"
    run = link.ask(
        protocol.START,
        **request(
            sh("one", f"while [ ! -e {gate} ]; do sleep 0.05; done; echo one"),
            sh("two", "echo two"),
            sh("three", "echo three; exit 3"),
            sh("four", "echo never"),
        ),
    )["run"]
    link.kill()
    gate.touch()
    host.over(host.attempt(run, "three"))
    again = AgentLink.to(host)
    try:
        shown = again.ask(protocol.SHOW, run=run)["run"]
        assert [stage["state"] for stage in shown["stages"]] == ["done", "done", "failed", "waiting"]
        assert again.tail(run, "two") == b"two\n"
    finally:
        again.kill()


def test_the_agent_ends_when_its_console_closes_the_link_and_the_run_does_not(host: FakeHost, link: AgentLink) -> None:
    run = link.ask(protocol.START, **request(sh("one", "echo up; exec sleep 600")))["run"]
    assert link.close() == 0
    assert host.reading(host.attempt(run, "one")).view.state == "running"


def test_a_request_repeated_after_its_answer_was_lost_gives_the_same_run(host: FakeHost, link: AgentLink) -> None:
    asked = request(sh("one", "sleep 600"))
    link.send(protocol.START, **asked)
    until(lambda: host.every_attempt() and Path(host.every_attempt()[0].status).exists())
    link.kill()
    again = AgentLink.to(host)
    try:
        assert [again.ask(protocol.START, **asked)["run"]] == host.state.run_ids()
        assert len(host.every_attempt()) == 1
    finally:
        again.kill()


@pytest.mark.parametrize("delay", [0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.6])
def test_an_agent_killed_while_it_starts_a_run_starts_it_once_when_asked_again(
    host: FakeHost, link: AgentLink, delay: float
) -> None:
    """Regression: "never started" and "started but its ack was lost" look alike; the request's id tells them apart."""
    asked = request(sh("one", "echo began; sleep 0.2; exit 9"))
    link.send(protocol.START, **asked)
    time.sleep(delay)
    link.kill()
    again = AgentLink.to(host)
    try:
        run = again.ask(protocol.START, **asked)["run"]
        assert host.state.run_ids() == [run]
        assert host.over(host.attempt(run, "one")).view.rc == 9
        assert host.log(host.attempt(run, "one")) == "began\n"
        assert len(host.every_attempt()) == 1
    finally:
        again.kill()


def test_consoles_that_start_with_one_request_id_at_once_get_one_run(host: FakeHost) -> None:
    links = [AgentLink.to(host) for _ in range(4)]
    try:
        asked = request(sh("one", "sleep 600"))
        sent = [(link, link.send(protocol.START, **asked)) for link in links]
        assert len({link.answer(identity)["run"] for link, identity in sent}) == 1
        assert len(host.every_attempt()) == 1
    finally:
        for link in links:
            link.kill()


def test_consoles_that_relaunch_at_once_get_one_attempt(host: FakeHost) -> None:
    run = host.start(sh("one", "[ -e again ] || { touch again; exit 1; }; sleep 600"))
    host.over(host.attempt(run, "one"))
    links = [AgentLink.to(host) for _ in range(4)]
    try:
        sent = [
            (link, link.send(protocol.RELAUNCH, run=run, stage="one", request_id=f"r{n}", switches={}, secrets={}))
            for n, link in enumerate(links)
        ]
        won, lost = [], []
        for link, identity in sent:
            try:
                won.append(link.answer(identity))
            except RemoteError as error:
                lost.append(error.kind)
        assert [answer["attempt"] for answer in won] == [2]
        assert lost == ["busy"] * 3
    finally:
        for link in links:
            link.kill()


def test_a_frozen_console_is_given_up_and_the_run_goes_on(host: FakeHost, link: AgentLink) -> None:
    run = link.ask(protocol.START, **request(sh("one", "exec sleep 600")))["run"]
    assert link.process.wait(60) == 0  # nothing is sent to it any more
    assert host.reading(host.attempt(run, "one")).view.state == "running"


def test_a_console_that_stops_reading_does_not_stop_the_agent_from_hearing_it(host: FakeHost, link: AgentLink) -> None:
    run = link.ask(protocol.START, **request(sh("one", "yes 0123456789 | head -c 3000000; exec sleep 600")))["run"]
    until(lambda: Path(host.attempt(run, "one").log).stat().st_size == 3000000)
    link.send(protocol.TAIL, tail="t", run=run, stage="one", attempt=1, credit=1 << 30)
    assert link.process.stdout is not None
    until(lambda: unread(link.process.stdout) > 60000)
    link.send(protocol.STOP, run=run)  # its answer is not read, nor is the log
    assert host.over(host.attempt(run, "one")).view.stop_requested


def unread(pipe: Any) -> int:
    """Bytes that wait in a pipe."""
    return struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4))[0]


def test_an_answer_overtakes_a_burst_of_log(host: FakeHost, tmp_path: Path) -> None:
    run = host.start(sh("one", "yes 0123456789 | head -c 8000000"))
    host.over(host.attempt(run, "one"))
    tail = {"id": 1, "op": protocol.TAIL, "tail": "t", "run": run, "stage": "one", "attempt": 1, "credit": 1 << 30}
    end, asking = os.pipe()
    fcntl.fcntl(asking, fcntl.F_SETPIPE_SZ, 1 << 20)  # all of it waits there: the agent alone decides what comes first
    # So much in between that the ping is read only after the log has begun to flow.
    os.write(
        asking,
        protocol.encode(tail)
        + protocol.encode({"ev": "beat", "pad": "x" * 100000})
        + protocol.encode({"id": 2, "op": protocol.PING}),
    )
    said = tmp_path / "said"
    argv = [sys.executable, "-m", "remote.agent", "--state", str(host.folder), "--bundle", str(host.bundle)]
    with said.open("wb") as out:  # a file takes everything at once: nothing but the agent itself holds the log back
        agent = subprocess.Popen(argv, stdin=end, stdout=out, cwd=host.bundle)
        os.close(end)
        try:
            until(lambda: b'"id":2,' in said.read_bytes())
        finally:
            os.close(asking)
            agent.wait(60)
    frames = [json.loads(line) for line in said.read_bytes().splitlines()]
    answered = next(at for at, frame in enumerate(frames) if frame.get("id") == 2)
    pieces = sum(frame.get("ev") == protocol.DATA for frame in frames[:answered])
    assert 0 < pieces < 8000000 // protocol.TAIL_CHUNK // 2


def test_the_log_is_whole_and_never_twice_when_agents_die_in_the_middle_of_it(host: FakeHost, link: AgentLink) -> None:
    script = "i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done"
    run = link.ask(protocol.START, **request(sh("one", script)))["run"]
    expected = "".join(f"line {n}\n" for n in range(20000)).encode()
    got, log_id = b"", None
    while True:
        link.ask(protocol.TAIL, tail="t", run=run, stage="one", attempt=1, offset=len(got), log_id=log_id, credit=50000)
        try:
            link.push(protocol.END, patience=1.0)
            over = True
        except AssertionError:
            over = False
        for frame in link.pushes:
            if frame["ev"] == protocol.DATA:
                assert frame["offset"] == len(got)
                got += base64.b64decode(frame["data"])
                log_id = frame["log_id"]
        link.kill()
        if over:
            break
        link = AgentLink.to(host)
    assert got == expected


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 512 KiB."""
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=512k,mode=700", "tmpfs", str(place)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip(f"a small file system needs the right to mount: {mounted.stderr.decode().strip()}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.fixture
def small_host(host: FakeHost, small_disk: Path) -> Iterator[FakeHost]:
    """The fake host with its state on the small file system."""
    host.folder = small_disk
    host.state = State(str(small_disk))
    host.runs = Runs(host.state, str(host.bundle))
    yield host
    host.clear()


def fill(folder: Path) -> Path:
    place = folder / "filler"
    with place.open("wb", buffering=0) as target:
        for size in (65536, 4096, 1):
            try:
                while True:
                    target.write(b"x" * size)
            except OSError:
                continue
    return place


def test_an_exit_on_a_full_disk_keeps_its_code(small_host: FakeHost) -> None:
    host = small_host
    gate = host.bundle / "gate"
    run = host.start(sh("one", f"while [ ! -e {gate} ]; do sleep 0.05; done; exit 9"))
    attempt = host.attempt(run, "one")
    filler = fill(host.folder)
    assert shutil.disk_usage(host.folder).free == 0
    gate.touch()
    view = until(lambda: (v := host.reading(attempt).view).clean and v)
    assert (view.state, view.rc) == ("exited", 9)
    assert json.loads(Path(attempt.status).read_text())["state"] == "running", "the disk was not full after all"
    filler.unlink()
    assert host.over(attempt).view.rc == 9
    assert host.status(attempt)["state"] == "exited"


def test_a_stop_works_on_a_full_disk(small_host: FakeHost) -> None:
    host = small_host
    run = host.start(sh("one", "exec sleep 600"))
    filler = fill(host.folder)
    host.runs.stop(run)
    view = until(lambda: (v := host.reading(host.attempt(run, "one")).view).clean and v)
    assert (view.state, view.signal, view.stop_requested) == ("signaled", 15, True)
    filler.unlink()


def leave(folder: Path, free: int) -> None:
    """Fill the file system but for `free` bytes."""
    filler = fill(folder)
    os.truncate(filler, filler.stat().st_size - free)
    assert shutil.disk_usage(folder).free == free


ROOM = range(0, 65536, 4096)
"""Free space from none to more than enough: each write on the way meets the full disk once."""


def test_a_start_on_a_full_disk_is_refused_and_leaves_nothing(small_host: FakeHost) -> None:
    host = small_host
    host.over(host.attempt(host.start(sh("one", "true")), "one"))
    before = sorted(host.folder.rglob("*"))
    refused = 0
    for free in ROOM:
        leave(host.folder, free)
        try:
            run = host.start(sh("one", "true"))
        except RemoteError as error:
            assert error.kind == "no_space", error.message
            assert sorted(p for p in host.folder.rglob("*") if p.name != "filler") == before
            refused += 1
        else:
            (host.folder / "filler").unlink()
            assert host.over(host.attempt(run, "one")).view.rc == 0
            break
    assert refused >= 3


def test_a_relaunch_on_a_full_disk_is_refused_and_leaves_the_run_as_it_was(small_host: FakeHost) -> None:
    host = small_host
    run = host.start(sh("one", "exit 1"))
    host.over(host.attempt(run, "one"))
    described = (host.folder / "runs" / run / "run.json").read_bytes()
    before = sorted(host.folder.rglob("*"))
    refused = 0
    for free in ROOM:
        leave(host.folder, free)
        try:
            host.relaunch(run, "one", switches={"mode": "off"})
        except RemoteError as error:
            assert error.kind == "no_space", error.message
            assert sorted(p for p in host.folder.rglob("*") if p.name != "filler") == before
            assert (host.folder / "runs" / run / "run.json").read_bytes() == described
            refused += 1
        else:
            break
    assert refused >= 3


def test_the_next_stage_that_finds_no_space_is_said_so(small_host: FakeHost) -> None:
    host = small_host
    gate = host.bundle / "gate"
    run = host.start(sh("one", f"while [ ! -e {gate} ]; do sleep 0.05; done"), sh("two", "true"))
    filler = fill(host.folder)
    gate.touch()
    notes = until(lambda: host.view(run).stages[0].notes)
    assert "no space left" in notes[0]
    filler.unlink()
    host.over(host.attempt(run, "one"))
    view = host.view(run)
    assert [stage.state for stage in view.stages] == ["done", "waiting"]
    assert view.stages[0].notes == notes


def test_a_supervisor_killed_before_it_could_chain_leaves_a_word_about_it(host: FakeHost) -> None:
    gate = host.folder / "gate"
    run = host.start(sh("one", f"while [ ! -e {gate} ]; do sleep 0.05; done"), sh("two", "true"))
    kill(host.status(host.attempt(run, "one"))["supervisor"])
    gate.touch()
    host.over(host.attempt(run, "one"))
    view = host.view(run)
    assert [stage.state for stage in view.stages] == ["done", "waiting"]
    assert any("supervisor died" in note for note in view.stages[0].notes)
    host.relaunch(run, "two")
    assert host.over(host.attempt(run, "two")).view.rc == 0
