"""Several processes in one folder of hidden states: no line is lost or torn, no file of another is removed."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from saved_states import save

from pipeline import manifest, scratch
from pipeline.dataset import Sample
from pipeline.manifest import MANIFEST
from pipeline.report import StageError
from pipeline.store import Store

ROOT = Path(__file__).parents[3]
WRITER = """
import sys
import threading
from pathlib import Path
from pipeline.dataset import Sample
from pipeline.store import Store
from saved_states import save
folder, first, count = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
store = Store(folder, {"dtype": "auto"})
store.begin(f"run/extract/{first}", "generator", [])
for index in range(first, first + count):
    save(store, Sample(index, (index,), (1,)), b"states of %d" % index * 50)
"""
HOLDER = """
import sys, time
from pathlib import Path
from pipeline import scratch
with scratch.own(Path(sys.argv[1])) as folder, scratch.claim(Path(sys.argv[1]), "rank 0 of 2"):
    (folder / "half").write_text("half")
    print(folder, flush=True)
    time.sleep(600)
"""


def process(code: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(Path(__file__).parent)])}
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)


def test_processes_that_write_at_once_lose_no_line(tmp_path: Path) -> None:
    writers = [process(WRITER, tmp_path, 40 * n, 40) for n in range(4)]
    assert [writer.wait(120) for writer in writers] == [0] * 4
    lines = [json.loads(line) for line in (tmp_path / MANIFEST).read_text().splitlines()]
    assert sorted(line["index"] for line in lines if "index" in line) == list(range(160))
    samples = [Sample(index, (index,), (1,)) for index in range(160)]
    assert Store(tmp_path, {"dtype": "auto"}).missing(samples) == []


def test_a_line_cut_off_by_a_crash_is_taken_away_by_the_next_that_writes(tmp_path: Path) -> None:
    store = Store(tmp_path, {})
    save(store, Sample(0, (1,), (1,)), b"states")
    other = Store(tmp_path, {})
    with (tmp_path / MANIFEST).open("a") as file:
        file.write('{"index":7,"fi')  # of a third process, killed in its write
    save(other, Sample(1, (1,), (1,)), b"states")
    save(store, Sample(2, (1,), (1,)), b"states")
    lines = [json.loads(line) for line in (tmp_path / MANIFEST).read_text().splitlines()]
    assert [line["index"] for line in lines] == [0, 1, 2]


def test_a_cut_line_longer_than_a_block_is_taken_away_whole(tmp_path: Path) -> None:
    (tmp_path / MANIFEST).write_text('{"index":0}\n' + "x" * 200_000)
    manifest.append(tmp_path, [{"index": 1}])
    assert (tmp_path / MANIFEST).read_text() == '{"index":0}\n{"index":1}\n'


def test_a_manifest_that_does_not_fit_on_the_disk_is_as_it_was(tmp_path: Path) -> None:
    code = """
import resource, signal, sys
from pathlib import Path
from pipeline import manifest
folder = Path(sys.argv[1])
manifest.append(folder, [{"index": 0}])
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
manifest.append(folder, [{"index": n} for n in range(1, 50)])
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, stderr=subprocess.PIPE, text=True, timeout=60
    )
    assert "takes no file of that size" in done.stderr
    assert (tmp_path / MANIFEST).read_text() == '{"index":0}\n'


def test_a_scratch_folder_lives_as_long_as_its_process(tmp_path: Path) -> None:
    holder = process(HOLDER, tmp_path)
    try:
        assert holder.stdout is not None
        theirs = Path(holder.stdout.readline().strip())
        with scratch.own(tmp_path) as mine:
            assert mine != theirs
            assert (theirs / "half").exists()
        assert not mine.exists()
        with pytest.raises(StageError, match=r"Another process extracts as rank 0 of 2 into .*rank"):
            scratch.claim(tmp_path, "rank 0 of 2").__enter__()
        holder.send_signal(signal.SIGKILL)
        holder.wait(60)
        with scratch.own(tmp_path), scratch.claim(tmp_path, "rank 0 of 2"):
            assert not theirs.exists()
    finally:
        holder.kill()
    assert [path.name for path in tmp_path.iterdir()] == []


@pytest.mark.parametrize("moment", ["made", "lock made"])
def test_a_scratch_folder_that_another_takes_for_a_dead_ones_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Two engines that begin at once: the other comes when this one's folder is there, and its lock is not taken."""
    take = fcntl.flock if moment == "lock made" else os.open
    others: list[str] = []

    def late(*given: Any, **named: Any) -> Any:
        if not others:
            others.append("come")
            with scratch.own(tmp_path):
                pass
        return take(*given, **named)

    monkeypatch.setattr(*((fcntl, "flock") if moment == "lock made" else (os, "open")), late)
    with scratch.own(tmp_path) as mine:
        (mine / "half").write_text("half")
        with scratch.own(tmp_path):
            assert (mine / "half").exists()
    assert others and not list(tmp_path.iterdir())


def test_another_hosts_scratch_folder_is_left_alone(tmp_path: Path) -> None:
    other = tmp_path / ".scratch-another-host-17"
    other.mkdir()
    left = tmp_path / f".scratch-{socket.gethostname()}-{os.getpid() + 1}"
    left.mkdir()
    with scratch.own(tmp_path):
        assert other.exists()
        assert not left.exists()


def test_an_append_waits_for_another_that_is_under_way(tmp_path: Path) -> None:
    path = tmp_path / MANIFEST
    path.write_text('{"index":0}\n')
    with path.open("r+") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        other.seek(0, os.SEEK_END)
        other.write('{"index":1')
        other.flush()  # half a line, and its writer alive
        writer = threading.Thread(target=manifest.append, args=(tmp_path, [{"index": 2}]))
        writer.start()
        writer.join(0.2)
        assert writer.is_alive()
        other.write("}\n")
        other.flush()
    writer.join(60)
    assert path.read_text() == '{"index":0}\n{"index":1}\n{"index":2}\n'
