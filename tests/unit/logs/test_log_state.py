"""A reader can be put away at any byte and taken up again by another process."""

from __future__ import annotations

import hashlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from log_tools import PLAIN, REAL_LOGS, logged, read, real

from remote.logs import state
from remote.logs.findings import Findings
from remote.logs.reader import LogReader
from remote.logs.state import StateError

WRAPPER = PLAIN.replace("AssertionError", "RuntimeError: Worker failed with error 'x', please check the stack trace")
RICH = (
    "Map:  10%|█         | 10/100 [00:01<00:09, 10.0 examples/s]\r"
    "Map:  50%|█████     | 50/100 [00:05<00:05, 10.0 examples/s]\r\n"
    + "".join(
        f"(Worker_TP0 pid=7) \rLoading safetensors checkpoint shards:  50% Completed | {n}/16 [00:0{n}<00:06, 1it/s]\n"
        for n in range(8)
    )
    + logged("Worker_TP0 pid=7", "WorkerProc hit an exception.\n" + PLAIN + PLAIN)
    + logged("Worker_TP1 pid=8", "WorkerProc hit an exception.\n" + PLAIN)
    + "(Worker_TP0 pid=7) (Worker_TP1 pid=8) ERROR 11-29 15:30:26 [core.py:1] Traceback (most recent call last):\n"
    + 'ERROR 11-29 15:30:26 [core.py:1]   File "/a.py", line 1, in f\n'
    + PLAIN.replace("AssertionError", "OSError: ß\nand more")
    + "\nThe above exception was the direct cause of the following exception:\n\n"
    + WRAPPER
    + "  + Exception Group Traceback (most recent call last):\n"
    '  |   File "/g.py", line 3, in <module>\n'
    "  | ExceptionGroup: two (1 sub-exception)\n"
    "  +-+---------------- 1 ----------------\n"
    "    | Traceback (most recent call last):\n"
    '    |   File "/g.py", line 1, in h\n'
    "    | ValueError: one\n"
    "    +------------------------------------\n"
    "(W pid=4) Fatal Python error: Segmentation fault\n(W pid=4)\n(W pid=4) Stack (most recent call first):\n"
    '(W pid=4)   File "/env/pynccl.py", line 257 in ncclAllReduce\n'
    "train.py FAILED\nFailures:\n[1]:\n  rank      : 4 (local_rank: 4)\n  exitcode  : -9 (pid: 904)\n====\n"
    "╭───── Traceback (most recent call last) ─────╮\n│ /env/a.py:3 in f │\n│ ❱ 3 boom() │\n╰─────╯\nTypeError: box\n"
    "ValueError               Traceback (most recent call last)\nFile /n.py:3, in f(x)\n----> 3 boom\nValueError: n\n"
    "half a line of a bar: Extracting hidden states:   1%|▏  | 32/7043 [00:41<2:29:42,   1.28s/it]"
).encode()


def put_away(data: bytes, cut: int) -> Findings:
    """Read `data`, changing the reader at byte `cut`."""
    reader = LogReader()
    reader.feed(data[:cut])
    other = LogReader.restore(reader.save())
    assert other.findings() == reader.findings()
    other.feed(data[cut:])
    return other.finish()


def saved(data: bytes) -> bytes:
    reader = LogReader()
    reader.feed(data)
    return reader.save()


def test_a_reader_put_away_at_any_byte_finds_the_same() -> None:
    whole = read(RICH)
    assert len(whole.tracebacks) >= 7 and len(whole.fatal) >= 2 and len(whole.progress) == 3
    for cut in range(0, len(RICH) + 1, 7):
        assert put_away(RICH, cut) == whole, f"put away at byte {cut}"


@pytest.mark.parametrize("name", sorted(path.name for path in REAL_LOGS.glob("*.log")))
@settings(max_examples=5, deadline=None)
@given(choice=st.data())
def test_a_reader_of_a_real_log_put_away_again_and_again_finds_the_same(name: str, choice: st.DataObject) -> None:
    data = real(name)
    reader, place = LogReader(), 0
    for cut in sorted(choice.draw(st.lists(st.integers(0, len(data)), max_size=6))):
        reader.feed(data[place:cut])
        reader, place = LogReader.restore(reader.save()), cut
    reader.feed(data[place:])
    assert reader.finish() == read(data)


def test_a_saved_state_names_its_place_in_the_log() -> None:
    assert LogReader.restore(saved(RICH[:777])).findings().bytes_read == 777


def test_saving_changes_nothing_and_gives_the_same_bytes() -> None:
    reader = LogReader()
    reader.feed(RICH)
    first = reader.save()
    assert reader.save() == first
    assert reader.finish() == read(RICH)


def test_a_finished_reader_stays_finished() -> None:
    reader = LogReader()
    reader.feed(RICH)
    whole = reader.finish()
    other = LogReader.restore(reader.save())
    assert other.finish() == whole
    with pytest.raises(ValueError, match="finished"):
        other.feed(b"more")


@pytest.mark.parametrize("data", [b"", b"\x80\x04.", b"{}", b"hello\nworld", b"eyas-log-reader\n[]"])
def test_bytes_that_are_no_state_are_refused(data: bytes) -> None:
    with pytest.raises(StateError, match="no saved state"):
        LogReader.restore(data)


def test_another_versions_state_is_refused() -> None:
    data = saved(RICH)
    other = data.replace(b"eyas-log-reader %d " % state.VERSION, b"eyas-log-reader 999 ", 1)
    with pytest.raises(StateError, match=r"version 999.*version \d"):
        LogReader.restore(other)


def test_a_state_with_any_byte_changed_or_cut_off_is_refused() -> None:
    data = saved(PLAIN.encode())
    for place in range(0, len(data), 7):
        with pytest.raises(StateError):
            LogReader.restore(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        with pytest.raises(StateError):
            LogReader.restore(data[:place])


def forged(table: object) -> bytes:
    body = json.dumps(table).encode()
    return b"eyas-log-reader %d %s\n" % (state.VERSION, hashlib.sha256(body).hexdigest().encode()) + body


@pytest.mark.parametrize(
    "table",
    [
        {},
        [],
        [["LogReader"]],
        [["Popen", {"args": "touch x"}]],
        [["LogReader", {"_fold": ["method", 0, "__init__"]}]],
        [["LogReader", {"_fold": ["method", 0, "feed"]}]],
        [["LogReader", {"__class__": 1}]],
        [["LogReader", {"_fold": ["at", 99]}]],
        [["LogReader", {"_fold": ["at", -1]}]],
        [["LogReader", {"_fold": ["call", "os.system", "true"]}]],
        [["Origin", {}]],
        [["dict", [[["at", 0], 1]]]],
        [["list", []]],
        [["bytearray", "!"]],
    ],
)
def test_a_forged_state_is_refused(table: object) -> None:
    with pytest.raises(StateError):
        LogReader.restore(forged(table))
