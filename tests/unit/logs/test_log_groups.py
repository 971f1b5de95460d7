"""Exception groups whose members, or which themselves, were never raised: they have no traceback of their own."""

from __future__ import annotations

import subprocess
import sys

import pytest
from log_tools import PLAIN, read

from remote.logs.reader import LogReader

GROUP = """  + Exception Group Traceback (most recent call last):
  |   File "a.py", line 4, in main
  |     raise ExceptionGroup("eg", errors)
  | ExceptionGroup: eg (3 sub-exceptions)
  +-+---------------- 1 ----------------
    | ValueError: one
    +---------------- 2 ----------------
    | TimeoutError
    +---------------- 3 ----------------
    | ExceptionGroup: inner (2 sub-exceptions)
    +-+---------------- 1 ----------------
      | OSError: [Errno 28] No space left on device
      +---------------- 2 ----------------
      | RuntimeError: three
      | a note
      +------------------------------------
"""
MEMBERS = [
    ("ExceptionGroup", "eg (3 sub-exceptions)"),
    ("ValueError", "one"),
    ("TimeoutError", ""),
    ("ExceptionGroup", "inner (2 sub-exceptions)"),
    ("OSError", "[Errno 28] No space left on device"),
    ("RuntimeError", "three\na note"),
]


def told(data: str) -> list[tuple[str | None, str]]:
    return [(item.exception_type, item.message) for item in read(data).tracebacks]


@pytest.mark.parametrize("head", ["", "(EngineCore_0 pid=9) ", "worker-1  | "])
def test_members_that_were_never_raised_are_found(head: str) -> None:
    found = read("".join(f"{head}{line}\n" for line in [*GROUP.splitlines(), "went on"]))
    assert [(item.exception_type, item.message) for item in found.tracebacks] == MEMBERS
    assert [len(item.frames) for item in found.tracebacks] == [1, 0, 0, 0, 0, 0]
    assert (found.tracebacks[0].caused_by, found.root_cause) == (1, 1)
    assert [item.line for item in found.tracebacks] == [1, 6, 8, 10, 12, 14]


def test_a_group_that_was_never_raised_is_found() -> None:
    alone = "".join(GROUP.splitlines(keepends=True)[3:])
    assert told("all is well\n" + alone + "went on\n") == MEMBERS


def test_a_member_with_frames_is_the_likelier_cause() -> None:
    member = "".join(f"    | {line}\n" for line in PLAIN.splitlines())
    found = read(GROUP.replace("    | TimeoutError\n", member))
    assert (found.root_cause, found.tracebacks[0].caused_by) == (2, 2)


def test_a_message_goes_on_without_the_border() -> None:
    text = GROUP.replace("ValueError: one\n", "ValueError: one\nand two\n    | a note\n")
    assert told(text + "went on\n")[1] == ("ValueError", "one\nand two\na note")
    assert len(told(text)) == len(MEMBERS)


def test_members_left_out_are_none() -> None:
    text = GROUP[: GROUP.index("    +---------------- 3")].replace("- 2 -", "- ... -")
    assert told(text.replace("TimeoutError", "and 5 more exceptions")) == MEMBERS[:2]
    assert told(text) == MEMBERS[:2]


def test_a_chain_of_exceptions_that_were_never_raised() -> None:
    chained = "ValueError: one\n    | \n    | The above exception was the direct cause of the following exception:\n"
    found = read(GROUP.replace("ValueError: one\n", chained + "    | \n    | RuntimeError: two\n"))
    assert [(item.exception_type, item.chained_from) for item in found.tracebacks[1:3]] == [
        ("ValueError", None),
        ("RuntimeError", 1),
    ]


def test_what_follows_from_a_group_is_chained_to_the_group() -> None:
    after = "\nThe above exception was the direct cause of the following exception:\n\n" + PLAIN
    outer = read(GROUP + after).tracebacks[-1]
    assert (outer.exception_type, outer.chained_from, outer.chain_kind) == ("AssertionError", 0, "cause")


def test_live_findings_hold_a_member_as_soon_as_it_is_read() -> None:
    reader = LogReader()
    reader.feed(GROUP[: GROUP.index("    +---------------- 2")].encode())
    assert [item.exception_type for item in reader.findings().tracebacks] == ["ExceptionGroup", "ValueError"]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="groups came with Python 3.11")
def test_what_this_python_prints_of_a_group() -> None:
    code = (
        "def f():\n    try: {}['a']\n    except KeyError as e: return e\n"
        "one = ValueError('one\\nmore'); one.add_note('a note')\n"
        "raise ExceptionGroup('eg', [one, f(), ExceptionGroup('in', [TypeError('t')])])\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, text=True)
    assert told(ran.stderr) == [
        ("ExceptionGroup", "eg (3 sub-exceptions)"),
        ("ValueError", "one\nmore\na note"),
        ("KeyError", "'a'"),
        ("ExceptionGroup", "in (1 sub-exception)"),
        ("TypeError", "t"),
    ]


def test_members_are_found_where_the_groups_head_is_missing() -> None:
    member = "".join(f"    | {line}\n" for line in PLAIN.splitlines())
    rest = member + GROUP[GROUP.index("    +---------------- 2") :]
    assert told(rest + "went on\n") == [("AssertionError", ""), *MEMBERS[2:]]
