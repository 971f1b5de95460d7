"""One process an engine: their GPUs, their log, their end, and the one that fails."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pipeline import sharding
from pipeline.report import StageError

CHILD = """
import json, os, signal, sys, threading, time
share = json.loads(sys.stdin.readline())
def watch():
    while sys.stdin.read(1): pass
    os._exit(7)
threading.Thread(target=watch, daemon=True).start()
def tell(line):
    os.write(int(sys.argv[1]), json.dumps(line).encode() + b"\\n")
print("engine", share["engine"], os.environ.get("CUDA_VISIBLE_DEVICES"))
print("no line end", end="")
sys.stdout.flush()
tell({"ready": 1.0})
for index in share["batches"]:
    tell({"saved": [index]})
if share.get("fails"):
    while not os.path.exists(share["fails"]):
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGSEGV)
if share.get("stays"):
    def stop(*_):
        tell({"saved": [99]})
        sys.exit(143)
    signal.signal(signal.SIGTERM, stop)
    open(share["stays"], "w").close()
    time.sleep(600)
"""


class Heard(sharding.Listener):
    def __init__(self) -> None:
        self.lines: list[tuple[int, Mapping[str, Any]]] = []
        self._lock = threading.Lock()

    def heard(self, engine: int, line: Mapping[str, Any]) -> None:
        with self._lock:
            self.lines.append((engine, line))


@pytest.fixture(autouse=True)
def child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module of its own in the place of `pipeline.share`, which needs a stage environment."""
    (tmp_path / "a_share.py").write_text(CHILD)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(sharding, "SHARE", "a_share")


def share(engine: int, **more: object) -> dict[str, object]:
    return {"engine": engine, "batches": [engine, engine + 2], **more}


def test_each_engine_does_its_share_and_all_are_heard(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    heard = Heard()
    sharding.run([share(0), share(1)], [{"CUDA_VISIBLE_DEVICES": "0,1"}, {"CUDA_VISIBLE_DEVICES": "2,3"}], heard)
    assert sorted((e, line["saved"]) for e, line in heard.lines if "saved" in line) == [
        (0, [0]),
        (0, [2]),
        (1, [1]),
        (1, [3]),
    ]
    assert [line for _, line in heard.lines].count({"ready": 1.0}) == 2


def test_the_log_of_each_engine_is_marked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    log = tmp_path / "log"
    code = (
        "from pipeline import sharding\n"
        "sharding.SHARE = 'a_share'\n"
        "class Deaf(sharding.Listener):\n"
        "    def heard(self, engine, line): pass\n"
        "sharding.run([{'engine': 0, 'batches': []}, {'engine': 1, 'batches': []}], [{}, {}], Deaf())\n"
    )
    root = Path(__file__).parents[3]
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{root}")
    with log.open("wb") as file:
        subprocess.run([sys.executable, "-c", code], cwd=root, stdout=file, check=True, timeout=60)
    lines = sorted(log.read_text().split("(Engine"))
    assert [line.split(") ", 1)[-1].rstrip("\n") for line in lines[1:]] == [
        "engine 0 None",
        "no line end",
        "engine 1 None",
        "no line end",
    ]


def test_an_engine_that_fails_ends_the_others_which_write_what_they_have(tmp_path: Path) -> None:
    there = str(tmp_path / "there")
    heard = Heard()
    with pytest.raises(StageError, match=r"Engine 1 of 2 ended by signal 11; its lines .* begin with \(Engine1 pid="):
        sharding.run([share(0, stays=there), share(1, fails=there)], [{}, {}], heard)
    assert (0, {"saved": [99]}) in heard.lines


def test_engines_end_with_the_stage_also_when_it_is_killed(tmp_path: Path) -> None:
    code = (
        "import os\n"
        "from pipeline import sharding\n"
        "sharding.SHARE = 'a_share'\n"
        "class Deaf(sharding.Listener):\n"
        "    def heard(self, engine, line): print(engine, flush=True)\n"
        f"sharding.run([{{'engine': 0, 'batches': [], 'stays': {str(tmp_path / 'there')!r}}}], [{{}}], Deaf())\n"
    )
    root = Path(__file__).parents[3]
    env = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{root}"}
    stage = subprocess.Popen([sys.executable, "-c", code], cwd=root, stdout=subprocess.PIPE, text=True, env=env)
    assert stage.stdout is not None
    try:
        first = [stage.stdout.readline() for _ in range(2)]
        pid = int(next(line for line in first if "pid=" in line).partition("pid=")[2].partition(")")[0])
    finally:
        stage.send_signal(signal.SIGKILL)
        stage.wait(60)
    deadline = time.monotonic() + 60
    while _lives(pid):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _lives(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2]
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_gpus_are_dealt_out_in_order_and_too_few_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-a,GPU-b,GPU-c,GPU-d")
    dealt = sharding.environments(2, 2, on_gpus=True)
    assert [env["CUDA_VISIBLE_DEVICES"] for env in dealt] == ["GPU-a,GPU-b", "GPU-c,GPU-d"]
    with pytest.raises(StageError, match=r"engines is 3, of 2 GPUs each, and 4 can be used"):
        sharding.environments(3, 2, on_gpus=True)
    assert sharding.environments(3, 2, on_gpus=False) == [{}, {}, {}]
