"""Tracebacks in every layout that the tools print."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from log_tools import PLAIN, logged, only, place, read

from remote.logs.findings import Frame


def test_frames_hold_file_line_function_and_source() -> None:
    assert only(read(PLAIN)).frames == (
        Frame("/srv/stage.py", 12, "main", "states = generator.generate(batch)"),
        Frame(
            "/env/vllm/v1/core/block_pool.py",
            238,
            "cache_full_blocks",
            "assert len(request.block_hashes) >= num_full_blocks",
        ),
    )


def test_an_empty_message_shows_the_failing_source_line() -> None:
    traceback = only(read(PLAIN + "[WARN] batch 0 failed: \n"))
    assert (traceback.exception_type, traceback.message) == ("AssertionError", "")
    assert traceback.headline == "AssertionError at `assert len(request.block_hashes) >= num_full_blocks`"


def test_a_record_with_a_head_on_each_line_is_read_like_a_bare_one() -> None:
    data = logged("Worker_TP0 pid=12", "WorkerProc hit an exception.\n" + PLAIN).encode()
    traceback = only(read(data))
    assert traceback.frames == only(read(PLAIN)).frames
    assert (traceback.worker, traceback.message) == ("Worker_TP0", "")
    assert place(data, traceback).endswith(b"Traceback (most recent call last):\r")


def test_a_record_ends_where_its_line_ends_without_a_carriage_return() -> None:
    first = logged("W_0 pid=1", PLAIN.replace("AssertionError", "ValueError: one\nand two"), "core.py:7")
    later = logged("W_0 pid=1", "not part of the message", "core.py:7")
    assert only(read(first + later)).message == "one\nand two"


@pytest.mark.parametrize(
    "before", ["Exception in worker W while processing method m: 40, ", "Scheduler hit an exception: "]
)
def test_a_header_can_end_a_line_of_prose(before: str) -> None:
    assert len(only(read(before + PLAIN)).frames) == 2


def test_a_chain_links_to_the_traceback_printed_before() -> None:
    cause = PLAIN.replace("AssertionError", "TimeoutError")
    effect = PLAIN.replace("AssertionError", "RuntimeError: timed out").replace("line 238", "line 9")
    middle = "\nThe above exception was the direct cause of the following exception:\n\n"
    found = read(logged("E pid=1", cause + middle + effect))
    assert [(item.chained_from, item.chain_kind) for item in found.tracebacks] == [(None, None), (0, "cause")]
    assert found.root_cause == 0
    context = read(cause + "\nDuring handling of the above exception, another exception occurred:\n\n" + effect)
    assert context.tracebacks[1].chain_kind == "context"


def test_back_to_back_tracebacks_are_not_a_chain() -> None:
    found = read(PLAIN + PLAIN.replace("line 238", "line 9"))
    assert [item.chained_from for item in found.tracebacks] == [None, None]


def test_a_message_keeps_its_lines_and_stops_at_the_next_log_line() -> None:
    text = PLAIN.replace("AssertionError", "RuntimeError: \n        An attempt\n\n            if x:\n")
    assert only(read(text + "ERROR 06-18 21:35:46 worker.py:120] died\n")).message == (
        "\n        An attempt\n\n            if x:"
    )


@pytest.mark.parametrize(
    "line", ["[2026-11-29 15:52:49] INFO a.py:49: x", "@@ x", "/a/b.py:9: UserWarning: x", "Killed"]
)
def test_a_log_line_of_another_format_ends_a_message(line: str) -> None:
    assert (
        only(read(PLAIN.replace("AssertionError", "ValueError: one\nand two") + line + "\n")).message == "one\nand two"
    )


def test_a_record_whose_last_line_is_the_exception_takes_no_more_message() -> None:
    first = logged("W_0 pid=1", PLAIN.replace("AssertionError", "ValueError: one"), "core.py:7")
    assert only(read(first + logged("W_0 pid=1", "Next record", "core.py:7"))).message == "one"


def test_a_bare_message_ends_when_another_process_speaks() -> None:
    text = PLAIN.replace("AssertionError", "ValueError: one")
    assert only(read(text + "(W pid=1) INFO 11-29 15:30:26 [a.py:1] x\nDone with it\n")).message == "one"


def test_a_log_with_crlf_everywhere_is_not_one_endless_record() -> None:
    text = PLAIN.replace("AssertionError", "ValueError: one") + "[INFO] Done with it\n"
    assert only(read(text.replace("\n", "\r\n"))).message == "one"


def test_frames_without_source_stay_without() -> None:
    text = """Traceback (most recent call last):
  File "<string>", line 1, in f
  [Previous line repeated 9 more times]
RecursionError: too deep
"""
    assert only(read(text)).frames == (Frame("<string>", 1, "f", ""),)


def test_unindented_message_lines_belong_to_the_message() -> None:
    text = PLAIN.replace("AssertionError", "a.b.ValidationError: 1 error\nmodel\n  Field required [type=missing]")
    traceback = only(read(text))
    assert traceback.exception_type == "a.b.ValidationError"
    assert traceback.message == "1 error\nmodel\n  Field required [type=missing]"


def test_text_that_looks_like_a_frame_after_the_exception_is_message() -> None:
    text = PLAIN.replace("AssertionError", 'AssertionError: x\nFile "batch", line 1, in build is not a frame')
    assert len(only(read(logged("W pid=1", text))).frames) == 2


def test_marks_elisions_and_repeats_are_not_frames() -> None:
    text = (
        "Traceback (most recent call last):\n"
        '  File "a.py", line 1, in f\n    raise ValueError(\n    ...<6 lines>...\n        f"y")\n'
        '  File "a.py", line 2, in f\n    g(x)\n    ~^^^\n'
        "  [Previous line repeated 971 more times]\n"
        '  File "uvloop/loop.pyx", line 1518, in uvloop.loop.run\n'
        '  File "b.py", line 3, in <listcomp>\n    h()\n'
        "RecursionError: maximum recursion depth exceeded\n"
    )
    assert [(frame.line, frame.source) for frame in only(read(text)).frames] == [
        (1, "raise ValueError("),
        (2, "g(x)"),
        (1518, ""),
        (3, "h()"),
    ]


def test_a_log_cut_inside_a_frame_gives_a_truncated_traceback_at_its_end() -> None:
    cut = PLAIN[: PLAIN.index("/v1/core")] + "/v..."
    traceback = only(read(cut), truncated=True)
    assert (traceback.truncated, traceback.exception_type, len(traceback.frames)) == (True, None, 1)


def test_a_traceback_overtaken_by_another_of_its_stream_is_truncated() -> None:
    cut = PLAIN[: PLAIN.index('  File "/env')]
    found = read(cut + PLAIN)
    assert [item.truncated for item in found.tracebacks] == [True, False]


def test_frames_without_their_header_count_once_an_exception_follows() -> None:
    traceback = only(read(PLAIN.split("\n", 1)[1]), truncated=True)
    assert (traceback.truncated, traceback.exception_type, len(traceback.frames)) == (True, "AssertionError", 2)


def test_native_frames_are_no_traceback() -> None:
    native = '!!!!!!! Segfault encountered !!!!!!!\n  File "<unknown>", line 0, in _PyEval_EvalFrameDefault\n'
    assert only(read(native * 2 + PLAIN)).exception_type == "AssertionError"
    assert read(native + "RuntimeError: not its own\n").tracebacks == ()


def test_a_syntax_error_of_the_main_script_has_no_header() -> None:
    text = '  File "/srv/a.py", line 88\n    def f(a b):\n          ^^^\nSyntaxError: invalid syntax\n'
    traceback = only(read(text))
    assert (traceback.exception_type, traceback.frames, traceback.line) == ("SyntaxError", (), 1)


def test_exception_groups_give_each_member() -> None:
    text = """  + Exception Group Traceback (most recent call last):
  |   File "a.py", line 192, in __call__
  |     await response()
  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "b.py", line 261, in wrap
    |     await func()
    | RuntimeError: sizes differ
    +------------------------------------
"""
    found = read(text)
    assert [(item.exception_type, len(item.frames)) for item in found.tracebacks] == [
        ("ExceptionGroup", 1),
        ("RuntimeError", 1),
    ]
    assert (found.root_cause, found.tracebacks[0].wrapper, found.tracebacks[0].caused_by) == (1, True, 1)
    assert found.tracebacks[0].message == "unhandled errors in a TaskGroup (1 sub-exception)"


def test_an_indented_traceback_is_read_at_its_indentation() -> None:
    text = "".join(f"{'':20}{line}{'':9}\n" for line in PLAIN.splitlines())
    assert only(read(text)).frames == only(read(PLAIN)).frames


def test_rich_boxes_give_frames_with_wrapped_paths() -> None:
    text = """╭───────────────────── Traceback (most recent call last) ──────────────────────╮
│ /env/speculators/cli/train.py:24 in train_command                            │
│                                                                              │
│   23 │                                                                       │
│ ❱ 24 │   main(TrainConfig.resolve(ctx.args))                                 │
│                                                                              │
│ /env/torch/_dynamo/side_effects.py:                                          │
│ 418 in _track_obj                                                            │
│                                                                              │
│    415 │   ) -> VariableTracker:                                             │
│ ❱  418 │   │   │   raise AssertionError(                                     │
│                                                                              │
│ /env/torch/_utils_internal_of_a_long_name_that_just_fits_in.py:96 in         │
│ wrapper                                                                      │
╰──────────────────────────────────────────────────────────────────────────────╯
AssertionError: already tracked
"""
    assert only(read(text)).frames == (
        Frame("/env/speculators/cli/train.py", 24, "train_command", "main(TrainConfig.resolve(ctx.args))"),
        Frame("/env/torch/_dynamo/side_effects.py", 418, "_track_obj", "raise AssertionError("),
        Frame("/env/torch/_utils_internal_of_a_long_name_that_just_fits_in.py", 96, "wrapper"),
    )


def test_notebook_style_gives_frames_at_the_arrows() -> None:
    text = (
        "RuntimeError                              Traceback (most recent call last)\n"
        "File <command-1>, line 12\n     11 \n---> 12 llm.generate(prompt)\n\n"
        "File /env/spec.py:650, in Worker._verify(self)\n--> 650 h.reshape(b, -1)\n\n"
        "RuntimeError: shape is invalid\n"
    )
    assert only(read(text)).frames == (
        Frame("<command-1>", 12, "<module>", "llm.generate(prompt)"),
        Frame("/env/spec.py", 650, "Worker._verify", "h.reshape(b, -1)"),
    )


def test_a_traceback_escaped_into_json_is_read() -> None:
    tail = PLAIN.replace("\n", "\\n").replace('"', '\\"')
    traceback = only(read('{"step": "x", "exc_info": "' + tail + '"}\n'))
    assert (traceback.exception_type, len(traceback.frames), traceback.line) == ("AssertionError", 2, 1)


def test_one_json_object_a_line_is_unwrapped() -> None:
    lines = [line.replace('"', '\\"') for line in PLAIN.splitlines()]
    wrapped = "".join('{"log": "' + line + '\\n", "stream": "stderr"}\n' for line in lines)
    assert only(read(wrapped)).frames == only(read(PLAIN)).frames


def test_colours_nuls_and_bad_utf8_do_not_hide_a_traceback() -> None:
    data = b"\0\0\0" + PLAIN.replace("main", "\x1b[35mmain\x1b[0m").encode().replace(b"states", b"s\0t\xffates")
    assert only(read(data)).frames[0] == Frame("/srv/stage.py", 12, "main", "st\ufffdates = generator.generate(batch)")


def test_what_this_python_prints_is_read_to_the_last_frame(tmp_path: object) -> None:
    code = (
        "def a():\n    try:\n        {}['k']\n    except KeyError as e:\n        raise ValueError('x' +\n"
        "            ' y') from e\ndef b(): a()\nb()\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    found = read(ran.stderr)
    assert [item.exception_type for item in found.tracebacks] == ["KeyError", "ValueError"]
    assert [frame.function for frame in found.tracebacks[1].frames] == ["<module>", "b", "a"]
    assert found.tracebacks[1].chained_from == 0


def test_a_message_that_quotes_a_header_is_still_a_message() -> None:
    quoting = PLAIN.replace("AssertionError", "RuntimeError: it said: Traceback (most recent call last):")
    found = read(quoting + PLAIN.split("\n", 1)[1])
    assert [(item.exception_type, len(item.frames), item.truncated) for item in found.tracebacks] == [
        ("RuntimeError", 2, False),
        ("AssertionError", 2, False),
    ]
    assert found.tracebacks[0].message == "it said: Traceback (most recent call last):"


def test_colours_inside_one_json_object_a_line_do_not_hide_a_traceback() -> None:
    lines = [json.dumps({"log": f"\x1b[36m(W_0 pid=1)\x1b[0m {line}\n"}) for line in PLAIN.splitlines()]
    traceback = only(read("\n".join(lines)))
    assert (traceback.worker, len(traceback.frames)) == ("W_0", 2)


@pytest.mark.parametrize(
    "line",
    [
        "##[error]Process completed with exit code 1.",
        "Exception in callback main.<locals>.<lambda>() at /a.py:6",
        "Task exception was never retrieved",
        "message repeated 3 times: [ ValueError: one]",
        "Call stack:",
    ],
)
def test_what_others_say_ends_a_message(line: str) -> None:
    assert only(read(PLAIN.replace("AssertionError", "ValueError: one\nand two") + line + "\n")).message == (
        "one\nand two"
    )


def test_torchs_further_paragraphs_belong_to_the_message() -> None:
    told = (
        'Unsupported: Graph break\n\nfrom user code:\n   File "/m.py", line 12, in forward\n    x.item()\n\n'
        "Set TORCHDYNAMO_VERBOSE=1 for more"
    )
    found = only(read(PLAIN.replace("AssertionError", told) + "\nand then all was well\n"))
    assert (found.message, len(found.frames)) == (told.removeprefix("Unsupported: "), 2)
