"""The findings of a log: read on where an agent before stopped, told how late it is, read anew when rewritten."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from faults.fake_host import FakeHost, sh

from remote.agent import log_findings, reader_state
from remote.agent.layout import Attempt
from remote.agent.log_findings import LogFindings
from remote.agent.outbox import Outbox
from remote.agent.reading import World
from remote.agent.watches import Watch
from remote.logs.findings import Findings
from remote.logs.reader import LogReader

TRACE = 'Traceback (most recent call last):\n  File "stage.py", line %d, in main\n    fail()\nValueError: %d\n'
LOG = "".join(f"INFO step {n}\n" * 50 + TRACE % (n, n) for n in range(8)).encode()


@pytest.fixture
def attempt(tmp_path: Path) -> Attempt:
    folder = tmp_path / "run" / "one" / "1"
    folder.mkdir(parents=True)
    (folder / "stdout.log").write_bytes(LOG)
    return Attempt(str(folder))


@pytest.fixture
def fed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sizes of what readers are fed, in the order that they are."""
    sizes: list[int] = []
    feed = LogReader.feed

    def counting(reader: LogReader, data: bytes, at: float | None = None) -> None:
        sizes.append(len(data))
        feed(reader, data, at)

    monkeypatch.setattr(LogReader, "feed", counting)
    monkeypatch.setattr(log_findings, "LOG_STEP", 256)
    monkeypatch.setattr(log_findings, "KEEP_EVERY", 1000)
    return sizes


class Clock:
    """A wall clock that stands until it is moved."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_800_000_000.0
        monkeypatch.setattr(log_findings, "time", SimpleNamespace(time=lambda: self.now))


def read(findings: LogFindings, over: bool = True) -> Findings:
    while findings.read(over):
        continue
    return findings.findings


def errors(found: Findings) -> list[str]:
    return [one.message for one in found.tracebacks]


def test_who_looks_next_reads_on_from_what_was_kept(attempt: Attempt, fed: list[int]) -> None:
    first = read(LogFindings(attempt))
    assert len(first.tracebacks) == 8
    assert sum(fed) == len(LOG)
    fed.clear()
    assert read(LogFindings(attempt)) == first
    assert sum(fed) <= 1000 + 256
    with Path(attempt.log).open("ab") as log:
        log.write(b"more\n" + (TRACE % (99, 99)).encode())
    fed.clear()
    assert errors(read(LogFindings(attempt)))[-1] == "99"
    assert sum(fed) <= 1000 + 256 + 200
    assert not list(Path(attempt.folder).glob("*.tmp"))


def test_a_short_log_keeps_nothing(attempt: Attempt) -> None:
    read(LogFindings(attempt))
    assert not Path(attempt.reader).exists()


def rewrite(path: Path, change: Callable[[bytes], bytes]) -> None:
    path.write_bytes(change(path.read_bytes()))


def head(data: bytes, **changed: object) -> bytes:
    first, _, rest = data.partition(b"\n")
    return json.dumps({**json.loads(first), **changed}).encode() + b"\n" + rest


@pytest.mark.parametrize(
    "change",
    [
        lambda data: b"",
        lambda data: data[:-1],
        lambda data: b"{}\n" + data.partition(b"\n")[2],
        lambda data: head(data, v=99),
        lambda data: head(data, code="an older Eyas"),
        lambda data: head(data, offset=17),
        lambda data: head(data, offset="x"),
        lambda data: data.replace(b"eyas-log-reader ", b"eyas-log-reader 9", 1),
        lambda data: b"[" * 3000 + data,
    ],
    ids=["empty", "cut", "no head", "format", "code", "offset", "no offset", "version", "deep"],
)
def test_a_state_that_does_not_fit_is_passed_over(
    attempt: Attempt, fed: list[int], change: Callable[[bytes], bytes]
) -> None:
    first = read(LogFindings(attempt))
    rewrite(Path(attempt.reader), change)
    fed.clear()
    assert read(LogFindings(attempt)) == first
    assert sum(fed) == len(LOG)


def test_a_state_behind_a_symbolic_link_is_not_followed(attempt: Attempt, fed: list[int]) -> None:
    read(LogFindings(attempt))
    elsewhere = Path(attempt.folder) / "elsewhere"
    Path(attempt.reader).rename(elsewhere)
    Path(attempt.reader).symlink_to(elsewhere)
    fed.clear()
    read(LogFindings(attempt))
    assert sum(fed) == len(LOG)


def test_a_folder_that_cannot_be_written_costs_only_the_state(
    attempt: Attempt, fed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_fd: int, _data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(reader_state.files, "write_all", full)
    assert len(read(LogFindings(attempt)).tracebacks) == 8
    assert [path.name for path in Path(attempt.folder).iterdir()] == ["stdout.log"]


@pytest.mark.parametrize(
    ("rewritten", "said"), [("shorter", "truncated"), ("longer", "truncated"), ("replaced", "rotated")]
)
def test_a_log_that_was_rewritten_while_nobody_looked_is_read_anew_and_says_so(
    attempt: Attempt, fed: list[int], rewritten: str, said: str
) -> None:
    read(LogFindings(attempt))
    new = b"another run\n" * (1 if rewritten == "shorter" else 2000) + (TRACE % (7, 77)).encode()
    if rewritten == "replaced":
        (Path(attempt.folder) / "next").write_bytes(new)
        (Path(attempt.folder) / "next").replace(attempt.log)
    else:
        Path(attempt.log).write_bytes(new)
    found = read(LogFindings(attempt))
    assert (errors(found), found.restarted) == (["77"], said)


def test_a_log_that_is_rewritten_meanwhile_is_read_anew_and_says_so(attempt: Attempt) -> None:
    """Truncated and grown beyond our place since: its size alone does not tell."""
    findings, log = LogFindings(attempt), Path(attempt.log)
    assert read(findings, over=False).restarted == ""
    log.write_text("another run\n" * 5000 + TRACE % (3, 33))
    found = read(findings, over=False)
    assert (errors(found), found.restarted) == (["33"], "truncated")
    (log.parent / "next").write_text("quiet\n")
    (log.parent / "next").replace(log)
    found = read(findings, over=False)
    assert (found.tracebacks, found.restarted) == ((), "rotated")


BARS = "".join(
    f"\rLoading safetensors checkpoint shards:  40% Completed | {n}/85 [{n // 2:02d}:{n % 2 * 30:02d}<30:11, 30.7s/it]"
    for n in range(34)
)


def test_a_stall_is_found_while_nothing_is_written(attempt: Attempt, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    Path(attempt.log).write_text(BARS + "\n")
    findings = LogFindings(attempt)
    assert not read(findings, over=False).stalls
    clock.now += 230
    assert not read(findings, over=False).stalls, "the usual step takes 30 s"
    clock.now += 20
    (stall,) = read(findings, over=False).stalls
    assert (stall.gap_s, stall.done, stall.ended) == (250.0, 33, False)


def test_a_stall_that_goes_on_is_pushed_now_and_then_and_silence_never(
    host: FakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    (host.folder / "bars").write_text(BARS + "\nloading\n")
    run = host.start(sh("one", f"cat {host.folder / 'bars'}; exec sleep 600"))
    host.logged(host.attempt(run, "one"), "\nloading")
    pushed: list[float] = []
    monkeypatch.setattr(Outbox, "latest", lambda *_: pushed.append(clock.now))
    monkeypatch.setattr("remote.agent.watches.INTERVAL", 0.0)
    monkeypatch.setattr("remote.agent.watches.PUSH_RATE", 1 << 60)
    with Path(os.devnull).open("wb") as nowhere:
        outbox = Outbox(nowhere.fileno())
    watch, world, begun = Watch(host.state.run(run)), World(), clock.now
    for _ in range(20):
        watch.look(world, outbox)
    first = len(pushed)
    for _ in range(1200):
        clock.now += 1
        watch.look(world, outbox)
    assert [at - begun for at in pushed[first:]] == [240, 256, 512, 1024]
