"""Files that survive torn writes and full disks, and reads that no link or newer format can mislead."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from remote.agent import files


def test_a_replaced_file_is_old_or_new_and_leaves_no_scraps(tmp_path: Path) -> None:
    path = tmp_path / "status.json"
    files.write_json(str(path), {"v": 1, "a": 1})
    files.write_json(str(path), {"v": 1, "a": 2})
    assert files.read_json(str(path)) == {"v": 1, "a": 2}
    assert [p.name for p in tmp_path.iterdir()] == ["status.json"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_write_that_fails_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "status.json"
    files.write_json(str(path), {"a": 1})
    limited = f"""
import resource, signal
from remote.agent import files
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))
try:
    files.write_json({str(path)!r}, {{"a": "x" * 1000}})
except OSError:
    print("refused")
"""
    done = subprocess.run([sys.executable, "-c", limited], capture_output=True, text=True, check=True)
    assert done.stdout == "refused\n"
    assert files.read_json(str(path)) == {"a": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["status.json"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'{"v": 1, "state": "run', "cut short"),
        (b"", "cut short"),
        (b"[1]", "no JSON object"),
        (b'{"v": 2}', "format 2"),
        (b'{"v": "x"}', "format x"),
        (b"[" * 100000, "cut short"),
        (b"\xff\xfe", "cut short"),
    ],
)
def test_what_cannot_be_understood_is_named_with_its_reason(tmp_path: Path, content: bytes, reason: str) -> None:
    (tmp_path / "status.json").write_bytes(content)
    with pytest.raises(files.Unreadable, match="status.json .*" + reason):
        files.read_json(str(tmp_path / "status.json"))


def test_a_file_that_is_not_there_is_none(tmp_path: Path) -> None:
    assert files.read_json(str(tmp_path / "status.json")) is None
    assert files.read_record(str(tmp_path / "exit.rec")) is None


def test_a_symbolic_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "real.json").write_text("{}")
    (tmp_path / "status.json").symlink_to(tmp_path / "real.json")
    with pytest.raises(files.Unreadable, match="symbolic links"):
        files.read_json(str(tmp_path / "status.json"))


def test_a_record_is_written_in_the_blocks_it_reserved(tmp_path: Path) -> None:
    path = tmp_path / "exit.rec"
    record = files.Record(str(path))
    assert files.read_record(str(path)) is None
    before = path.stat()
    record.write({"state": "exited", "rc": 3, "error": "é" * 100000})
    after = path.stat()
    assert (after.st_size, after.st_blocks, after.st_ino) == (before.st_size, before.st_blocks, before.st_ino)
    seen = files.read_record(str(path))
    assert seen is not None and (seen["state"], seen["rc"]) == ("exited", 3)


def test_lines_are_read_whole_once_and_torn_ones_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b'{"n": 1}\n{"n": 2}\n{"n"')
    found, offset = files.read_lines(str(path), 0)
    assert [f["n"] for f in found] == [1, 2]
    with path.open("ab") as target:
        target.write(b": 3}\nnot json\n[]\n" + json.dumps({"n": 4}).encode() + b"\n")
    found, offset = files.read_lines(str(path), offset)
    assert [f["n"] for f in found] == [3, 4]
    assert files.read_lines(str(path), offset) == ([], path.stat().st_size)


def test_a_line_longer_than_the_budget_is_still_read(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text(json.dumps({"text": "x" * 5000}) + "\n")
    found, offset = files.read_lines(str(path), 0, budget=100)
    assert len(found[0]["text"]) == 5000
    assert offset == path.stat().st_size


def test_a_lock_that_another_process_holds_is_named(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    script = (
        "import fcntl, os, sys; f = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT); "
        "fcntl.flock(f, fcntl.LOCK_EX); print('held', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen([sys.executable, "-c", script, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(TimeoutError, match="lock"), files.locked(path, patience=0.1):
            pass
    finally:
        holder.communicate()
    with files.locked(path, patience=10):
        assert os.path.lexists(path)
