"""Two H200s loading 24.55 GiB, as recorded: the same store and the same panel as for a live host."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from console_fakes import FakeProject
from console_pilot import screen_text, until

from console import store
from console.app import EyasApp
from console.logwindow import LogKey, LogWindow
from console.replay import RUN, STAGE, TAIL, Recording, ReplaySession
from console.store import Snapshot
from console.widgets.gpus import gpu_row
from remote import protocol
from remote.logs.findings import Findings
from remote.logs.reader import LogReader
from remote.protocol import RemoteError

DATA = Path(__file__).parents[2] / "data" / "gpu"


@pytest.fixture(scope="module")
def recording() -> Recording:
    return Recording.load(DATA / "nvml_c.jsonl.gz", DATA / "tp2_hs.jsonl.gz")


def reading() -> object:
    reader = LogReader()

    def read(data: bytes) -> Findings:
        reader.feed(data)
        return reader.findings()

    return read


def replayed(recording: Recording, until_second: float) -> Snapshot:
    """The Snapshot after so much of the recording."""
    snapshot = store.open_log(store.show_run(Snapshot(), RUN), LogWindow(LogKey(RUN, STAGE, 1), TAIL))
    for at, frame in recording.frames(reading()):  # type: ignore[arg-type]
        if at > until_second:
            break
        snapshot = store.reduce_frame(snapshot, frame, at)
    return snapshot


def test_the_recording_is_one_clock_in_order_with_one_sample_a_second(recording: Recording) -> None:
    times = [at for at, _ in recording.frames()]
    assert times == sorted(times)
    gaps = [b[0] - a[0] for a, b in zip(recording.samples, recording.samples[1:], strict=False)]
    assert all(0.95 < gap < 1.25 for gap in gaps)
    assert 40 < recording.seconds < 60


def test_the_whole_log_comes_byte_for_byte(recording: Recording) -> None:
    log = b"".join(line for _, line in recording.lines)
    frames = [frame for _, frame in recording.frames() if frame["ev"] == protocol.DATA]
    assert b"".join(base64.b64decode(frame["data"]) for frame in frames) == log
    snapshot = replayed(recording, 1e9)
    assert snapshot.log.count == log.count(b"\n")
    assert snapshot.log.next_offset == len(log)
    assert snapshot.log.ended


def test_while_the_shards_load_the_gpus_stand_still_and_the_bar_moves(recording: Recording) -> None:
    half = replayed(recording, 12.0)
    assert half.live is not None
    (bar,) = [p for p in half.live.findings.progress if p.total == 16]
    assert bar.worker == "Worker_TP0"
    assert 0 < (bar.done or 0) < 16
    assert half.telemetry is not None
    later = replayed(recording, 18.0)
    assert later.telemetry is not None
    used = [[gpu.memory_used for gpu in sample.gpus or ()] for sample in (half.telemetry, later.telemetry)]
    assert used[0] == used[1] == [16636641280, 16636641280]


def test_what_was_not_recorded_is_not_available_and_never_zero(recording: Recording) -> None:
    sample = recording.samples[12][1]
    for gpu in sample.gpus or ():
        row = gpu_row(gpu, 80, stale=False).plain
        assert row.rstrip().endswith("n/a")
        assert "0°C" not in row
        assert "15.5/140 GiB" in row


@pytest.mark.parametrize("size", [(80, 24), (200, 60)])
async def test_the_console_shows_a_replay_as_it_shows_a_host(recording: Recording, size: tuple[int, int]) -> None:
    factory = ReplaySession.factory(recording, speed=40.0, read=reading())  # type: ignore[arg-type]
    app = EyasApp(FakeProject(), factory)
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: app.snapshot.log.ended, "the end of the recording")
        await until(pilot, lambda: app.snapshot.log.count == 174, "every line once")
        rows = lambda: [row for row in screen_text(app).splitlines() if "/140 GiB" in row]  # noqa: E731
        await until(pilot, lambda: len(rows()) == 2, "both GPUs")
        assert "n/a" in rows()[0]


def test_nothing_can_be_started_on_a_recording(recording: Recording) -> None:
    session = ReplaySession(recording, lambda _: None, lambda _: None)
    with pytest.raises(RemoteError) as refused:
        session.request(protocol.START)
    assert refused.value.remedy
