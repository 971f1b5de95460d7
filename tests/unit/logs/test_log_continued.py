"""Records of several lines with a prefix before the first one only: journalctl indents the others, syslog does not."""

from __future__ import annotations

import pytest
from log_tools import PLAIN, only, place, read

from remote.logs.reader import LogReader

HEAD = "Oct 02 10:11:00 gpu01 vllm[77]: "
CAUSE = "KeyError: 'k'\n\nThe above exception was the direct cause of the following exception:\n\n"


def indented(text: str, head: str = HEAD) -> str:
    """One record as journalctl prints it."""
    return head + text.rstrip("\n").replace("\n", "\n" + " " * len(head)) + "\n"


@pytest.mark.parametrize("head", [HEAD, "2025-10-02T10:11:00+0000 gpu01 vllm[77]: ", "[12345.678901] gpu01 vllm[77]: "])
@pytest.mark.parametrize("bare", [False, True], ids=["indented", "bare"])
def test_a_record_goes_on_without_its_prefix(head: str, bare: bool) -> None:
    data = head + "starting\n" + (head + PLAIN if bare else indented(PLAIN, head)) + head + "all is well\n"
    traceback = only(read(data))
    assert traceback.frames == only(read(PLAIN)).frames
    assert (traceback.exception_type, traceback.message) == ("AssertionError", "")
    assert place(data.encode(), traceback).endswith(b"Traceback (most recent call last):")


@pytest.mark.parametrize("named", ["(APIServer pid=7) ", ""], ids=["each", "first"])
def test_the_worker_of_a_record_is_that_of_its_first_line(named: str) -> None:
    text = indented("(APIServer pid=7) " + PLAIN.rstrip().replace("\n", f"\n{named}"))
    traceback = only(read(text + HEAD + "bye\n"))
    assert (traceback.worker, len(traceback.frames)) == ("APIServer", 2)


@pytest.mark.parametrize("bare", [False, True], ids=["indented", "bare"])
def test_the_next_record_is_no_part_of_the_message(bare: bool) -> None:
    text = PLAIN.replace("AssertionError", "a.b.ValidationError: 1 error\nmodel\n  Field required")
    record = HEAD + text if bare else indented(text)
    assert only(read(record + HEAD + "the next record\n")).message == "1 error\nmodel\n  Field required"


@pytest.mark.parametrize("bare", [False, True], ids=["indented", "bare"])
def test_a_chain_inside_a_record_is_kept(bare: bool) -> None:
    text = PLAIN.replace("AssertionError\n", CAUSE + PLAIN)
    found = read((HEAD + text if bare else indented(text)) + HEAD + "bye\n")
    assert [(item.exception_type, item.chained_from, item.truncated) for item in found.tracebacks] == [
        ("KeyError", None, False),
        ("AssertionError", 0, False),
    ]


def test_a_line_that_another_program_writes_between_is_not_the_records() -> None:
    first, rest = PLAIN.split("\n", 1)
    lines = [HEAD + line for line in rest.rstrip().split("\n")]
    told = f"{HEAD}{first}\nGracefully stopping... (press Ctrl+C again to force)\n" + "\n".join(lines) + "\n"
    assert len(only(read(told)).frames) == 2
    record = PLAIN.replace("AssertionError", "ValueError: x")
    each = "".join(f"{HEAD}{line}\n" for line in record.splitlines())
    assert only(read(each + "Gracefully stopping...\n")).message == "x"


def test_a_record_at_the_margin_ends_where_its_traceback_does() -> None:
    record = f"{HEAD}(APIServer pid=7) {PLAIN}"
    found = read(record + "all is well\nstill well\n" + PLAIN.replace("238", "9"))
    assert [item.worker for item in found.tracebacks] == ["APIServer", None]


def test_a_group_is_read_through_the_indentation() -> None:
    group = """  + Exception Group Traceback (most recent call last):
  |   File "a.py", line 192, in __call__
  |     await response()
  | ExceptionGroup: two (1 sub-exception)
  +-+---------------- 1 ----------------
    | RuntimeError: sizes differ
    +------------------------------------
"""
    for text in (indented(group), HEAD + group):
        found = read(text + HEAD + "bye\n")
        assert [(item.exception_type, len(item.frames)) for item in found.tracebacks] == [
            ("ExceptionGroup", 1),
            ("RuntimeError", 0),
        ]


def test_a_record_goes_on_after_a_restore() -> None:
    data = (HEAD + "boom\n" + indented(PLAIN) + HEAD + "bye\n").encode()
    whole = read(data)
    for cut in range(0, len(data), 7):
        reader = LogReader()
        reader.feed(data[:cut])
        reader = LogReader.restore(reader.save())
        reader.feed(data[cut:])
        assert reader.finish() == whole
