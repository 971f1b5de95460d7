"""A chain can begin with an exception that was never raised: only its line stands before the chain's words."""

from __future__ import annotations

import subprocess
import sys

import pytest
from log_tools import PLAIN, logged, place, read

from remote.logs.reader import LogReader

WORDS = "\n\nThe above exception was the direct cause of the following exception:\n\n"
CAUSE = "OSError: [Errno 28] No space left on device"
EFFECT = PLAIN.replace("AssertionError", "RuntimeError: not saved")


@pytest.mark.parametrize(
    "text",
    [
        CAUSE + WORDS + EFFECT,
        "all is well\n" * 3 + CAUSE + WORDS + EFFECT,
        "".join(f"(EngineCore_0 pid=9) {line}\n" for line in (CAUSE + WORDS + EFFECT).splitlines()),
        "".join(f"worker-1  | {line}\n" for line in (CAUSE + WORDS + EFFECT).splitlines()),
        logged("EngineCore_0 pid=9", "boom\n" + CAUSE + WORDS + EFFECT),
        (CAUSE + WORDS + EFFECT).replace("\n", "\r\n"),
    ],
    ids=["first", "later", "worker", "compose", "record", "crlf"],
)
def test_what_was_never_raised_is_the_cause(text: str) -> None:
    found = read(text)
    cause, effect = found.tracebacks
    assert (cause.exception_type, cause.message, cause.frames) == (*CAUSE.split(": "), ())
    assert (effect.message, effect.chained_from, effect.chain_kind) == ("not saved", 0, "cause")
    assert (found.root_cause, found.failure_kind, cause.worker) == (0, "disk_full", effect.worker)
    assert CAUSE.encode() in place(text.encode(), cause)


def test_it_is_found_whatever_the_pieces() -> None:
    data = ("x" * 50 + "\n" + CAUSE + WORDS + EFFECT + CAUSE + WORDS + EFFECT.replace("238", "239")).encode()
    whole = read(data)
    assert len(whole.tracebacks) == 3
    for size in (1, 2, 3, 7, 40, 100):
        reader = LogReader()
        for at in range(0, len(data), size):
            reader.feed(data[at : at + size])
            reader = LogReader.restore(reader.save()) if at % 9 == 0 else reader
        assert reader.finish() == whole


@pytest.mark.parametrize(
    "before", ["INFO all is well", "Done: 7 files", "x" * 2000 + "Error: y", "(Worker pid=3) OSError: not its own", ""]
)
def test_other_words_are_no_cause(before: str) -> None:
    assert [item.chained_from for item in read(before + WORDS + EFFECT).tracebacks] == [None]


def test_what_has_a_traceback_is_no_second_one() -> None:
    found = read(PLAIN.replace("AssertionError", CAUSE) + WORDS[1:] + EFFECT)
    assert [(len(item.frames), item.chained_from) for item in found.tracebacks] == [(2, None), (2, 0)]
    first = logged("W_0 pid=1", PLAIN.replace("AssertionError", CAUSE))
    found = read(first + logged("W_0 pid=1", WORDS[1:] + EFFECT))
    assert [(len(item.frames), item.chained_from) for item in found.tracebacks] == [(2, None), (2, 0)]


def test_what_this_python_prints_of_such_a_cause() -> None:
    code = "raise RuntimeError('x') from ValueError('y')"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    found = read(ran.stderr)
    assert [(item.exception_type, item.chained_from) for item in found.tracebacks] == [
        ("ValueError", None),
        ("RuntimeError", 0),
    ]
