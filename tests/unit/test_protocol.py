"""Frames and views survive the wire, whatever the chunking and whatever the other end's age."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remote.logs.findings import Findings, Frame, Traceback
from remote.protocol import LINE_CAP, Decoder, ProtocolError, RemoteError, encode
from remote.views import AttemptView, GpuView, RunView, StageView, TelemetryView
from remote.wire import from_wire, to_wire

TRACEBACK = Traceback("AssertionError", "", (Frame("a.py", 3, "f", "assert x"),), worker="Worker_TP0")
VIEW = RunView(
    run="r",
    project="p",
    created=1.5,
    pair="seed",
    versions={"vllm": "0.16.0"},
    stages=(
        StageView(
            "extract",
            "Extract",
            state="failed",
            attempts=(AttemptView(1, "exited", rc=1, patches_off=("prefix-caching",)),),
            findings=Findings(tracebacks=(TRACEBACK,), root_cause=0),
        ),
    ),
)


def test_a_view_comes_back_from_the_wire_as_it_went() -> None:
    assert from_wire(RunView, json.loads(json.dumps(to_wire(VIEW)))) == VIEW


def test_a_missing_figure_stays_missing_and_zero_stays_zero() -> None:
    sample = TelemetryView(at=1.0, gpus=(GpuView(0, "GPU-1", "H200", memory_used=0, missing={"power_w": "why"}),))
    back = from_wire(TelemetryView, json.loads(json.dumps(to_wire(sample))))
    assert back.gpus is not None
    assert (back.gpus[0].memory_used, back.gpus[0].power_w, back.gpus[0].missing["power_w"]) == (0, None, "why")
    assert from_wire(TelemetryView, {"at": 1.0, "gpu_reason": "no driver"}).gpus is None


def test_unknown_keys_of_a_newer_agent_are_ignored() -> None:
    assert from_wire(AttemptView, {"number": 1, "state": "running", "mood": "fine"}) == AttemptView(1, "running")


@given(st.lists(st.dictionaries(st.text(), st.text()), min_size=1), st.integers(1, 50))
def test_any_chunking_gives_the_same_frames(frames: list[dict[str, str]], size: int) -> None:
    data = b"".join(encode(frame) for frame in frames)
    decoder = Decoder()
    got = [frame for i in range(0, len(data), size) for frame in decoder.feed(data[i : i + size])]
    assert got == frames


def test_a_line_that_never_ends_is_refused_before_it_fills_the_memory() -> None:
    decoder = Decoder()
    with pytest.raises(ProtocolError):
        for _ in range(40):
            decoder.feed(b"x" * (LINE_CAP // 20))


@pytest.mark.parametrize("line", [b"nonsense\n", b"[1]\n", b"[" * 100_000 + b"\n"])
def test_what_is_no_frame_is_refused(line: bytes) -> None:
    with pytest.raises(ProtocolError):
        Decoder().feed(line)


def test_a_frame_over_the_cap_is_not_sent() -> None:
    with pytest.raises(ProtocolError):
        encode({"data": "x" * LINE_CAP})


def test_a_refusal_keeps_its_remedy() -> None:
    error = RemoteError.from_wire(RemoteError("busy", "It runs.", "Stop it.").to_wire())
    assert (error.kind, error.message, error.remedy) == ("busy", "It runs.", "Stop it.")


def test_a_run_is_as_its_stages_are() -> None:
    def run(*states: str) -> str:
        return RunView("r", "p", 0.0, "seed", stages=tuple(StageView(s, s, state=s) for s in states)).state

    assert run("done", "running", "waiting") == "running"
    assert run("done", "failed", "waiting") == "failed"
    assert run("done", "waiting") == "waiting"
    assert run("done", "done") == "done"
    assert run("done", "lost") == "lost"
