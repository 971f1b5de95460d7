"""What shippers put before every line is taken off, known or not."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from log_tools import PLAIN, only, read

from remote.logs.reader import LogReader

SERVER = "".join(f"(APIServer pid=7) {line}\n" for line in PLAIN.splitlines())


def wrapped(head: Callable[[int], str], text: str = SERVER) -> str:
    return "".join(f"{head(number)}{line}\n" for number, line in enumerate(text.splitlines()))


@pytest.mark.parametrize(
    "head",
    [
        lambda n: "[pod/vllm-0/server] ",
        lambda n: "vllm-0 server ",
        lambda n: f"[pod/vllm-0/server] 2025-10-02T10:11:{n:02d}.123456789Z ",
        lambda n: f"2025-10-02T10:11:{n:02d}+0000 gpu01 vllm[77]: ",
        lambda n: f"Oct 02 10:11:{n:02d}.123456 gpu01 python3[77]: ",
        lambda n: f"[12345.{n:06d}] gpu01 vllm[77]: ",
        lambda n: f"<11>1 2025-10-02T10:11:{n:02d}.123456Z gpu01 vllm 77 - - ",
        lambda n: "3: ",
        lambda n: "gpu01: ",
        lambda n: f"2025-10-02T10:11:{n:02d}.123456Z 01O ",
        lambda n: f"Oct 02 10:11:{n:02d} ",
        lambda n: f"[2025-10-02 10:11:{n:02d}] ",
        lambda n: f'2025-10-02T10:11:{n:02d}Z {{app="vllm"}} ',
        lambda n: f"2025-10-02 10:11:{n:02d}.123\t",
        lambda n: f"{n + 98:4d}\t",
        lambda n: "> ",
        lambda n: "E   ",
    ],
)  # fmt: skip
@pytest.mark.parametrize("text", [SERVER, PLAIN], ids=["named", "bare"])
def test_what_stands_before_every_line_is_learnt(head: Callable[[int], str], text: str) -> None:
    traceback = only(read(wrapped(head, text)))
    assert traceback.frames == only(read(PLAIN)).frames
    assert (traceback.exception_type, traceback.message) == ("AssertionError", "")
    assert (traceback.worker, traceback.line) == ("APIServer" if text == SERVER else None, 1)


def test_prose_before_a_header_is_not_taken_for_a_wrapping() -> None:
    text = f"step 3: {PLAIN}step 4: all is well\n{PLAIN}"
    assert [(len(item.frames), item.printed) for item in read(text).tracebacks] == [(2, 2)]


def test_two_processes_that_say_the_same_before_their_headers_are_no_wrapping() -> None:
    said = "[2025-03-11 15:02:53 TP{}] Scheduler hit an exception: Traceback (most recent call last):\n"
    found = read(said.format(0) + said.format(1) + PLAIN.split("\n", 1)[1] + said.format(2) + PLAIN.split("\n", 1)[1])
    assert [(item.worker, len(item.frames)) for item in found.tracebacks] == [("TP1", 2)]
    assert found.tracebacks[0].workers == ("TP1", "TP2")


def test_tasks_of_one_job_are_told_apart_by_their_numbers() -> None:
    woven = zip(*(wrapped(lambda n, rank=rank: f"{rank}: ", PLAIN).splitlines() for rank in (3, 12)), strict=True)
    traceback = only(read("".join(f"{one}\n{other}\n" for one, other in woven)))
    assert (len(traceback.frames), traceback.printed) == (2, 2)


def test_a_box_behind_unknown_words_is_read() -> None:
    box = (
        "╭──────── Traceback (most recent call last) ─────────╮",
        "│ /srv/train.py:24 in main                           │",
        "│                                                    │",
        "│ ❱ 24 │   step()                                    │",
        "╰────────────────────────────────────────────────────╯",
        "ValueError: x",
    )
    traceback = only(read("".join(f"[gpu01] {line}\n" for line in box)))
    assert (traceback.exception_type, [frame.function for frame in traceback.frames]) == ("ValueError", ["main"])


def test_groups_inside_groups_are_no_wrapping() -> None:
    member = "".join(f"    | {line}\n" for line in PLAIN.splitlines())
    inner = member.replace("    | Traceback", "    | Exception Group Traceback").replace(
        "AssertionError", "ExceptionGroup: some (1 sub-exception)"
    )
    outer = '  + Exception Group Traceback (most recent call last):\n  |   File "a.py", line 1, in f\n'
    found = read(outer + "  | ExceptionGroup: x\n  +-+---------------- 1 ----------------\n" + inner)
    assert [item.exception_type for item in found.tracebacks] == ["ExceptionGroup", "ExceptionGroup"]


def test_a_header_that_ends_the_log_is_not_lost() -> None:
    reader = LogReader()
    reader.feed(b"Scheduler hit an exception: Traceback (most recent call last):\n")
    reader = LogReader.restore(reader.save())
    reader.feed(PLAIN.encode().split(b"\n", 1)[1])
    assert len(only(reader.finish()).frames) == 2
    alone = LogReader()
    alone.feed(b"Scheduler hit an exception: Traceback (most recent call last):\n")
    assert alone.finish().tracebacks == ()


@pytest.mark.parametrize("worker", ["", "(APIServer pid=7) "])
def test_a_record_that_syslog_made_one_line_is_read(worker: str) -> None:
    record = f"{worker}INFO all is well, Exception: {PLAIN}".rstrip().replace("\n", "#012")
    traceback = only(read(f"Oct  2 10:11:00 gpu01 vllm[77]: {record}\n"))
    assert traceback.frames == only(read(PLAIN)).frames
    assert traceback.worker == ("APIServer" if worker else None)


def test_an_object_behind_a_time_and_a_tag_holds_the_line() -> None:
    lines = [
        f"2025-10-02 10:11:00.123456789 +0000 docker.vllm: {json.dumps({'log': line})}" for line in SERVER.splitlines()
    ]
    assert only(read("\n".join(lines))).worker == "APIServer"


@pytest.mark.parametrize("key", ["exc_info", "exception", "stack_trace"])
def test_a_traceback_beside_the_message_of_a_json_record_is_read(key: str) -> None:
    record = json.dumps({"levelname": "ERROR", "message": "epoch failed", key: PLAIN.rstrip()})
    traceback = only(read(record + "\n"))
    assert (traceback.exception_type, len(traceback.frames), traceback.line) == ("AssertionError", 2, 1)


@pytest.mark.parametrize("end", ["", "\n"])
def test_a_traceback_as_a_list_of_lines_is_read(end: str) -> None:
    record = json.dumps({"level": "error", "stack": [line + end for line in PLAIN.splitlines()]})
    assert only(read(record + "\n")).frames == only(read(PLAIN)).frames


@pytest.mark.parametrize(
    "wrap",
    [
        lambda line: {"__REALTIME_TIMESTAMP": "1", "MESSAGE": line, "_PID": "77"},
        lambda line: {"textPayload": line, "timestamp": "x"},
        lambda line: {"jsonPayload": {"message": line}, "severity": "ERROR"},
        lambda line: {"body": line, "severity_text": "ERROR"},
    ],
    ids=["journal", "text payload", "json payload", "body"],
)
def test_the_line_stands_under_many_names(wrap: Callable[[str], object]) -> None:
    traceback = only(read("".join(f"{json.dumps(wrap(line))}\n" for line in SERVER.splitlines())))
    assert (traceback.worker, len(traceback.frames)) == ("APIServer", 2)


def test_what_closes_a_python_object_is_no_message() -> None:
    record = {"status": "failed", "traceback": PLAIN.replace("AssertionError", "ValueError: x"), "n": [1]}
    assert only(read(f"ERROR result: {record}\n")).message == "x\n', 'n': [1]}"
    del record["n"]
    assert only(read(f"ERROR result: {record}\n")).message == "x"
