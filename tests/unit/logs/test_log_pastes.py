"""Tracebacks that a paste, a notebook or another logger has changed."""

from __future__ import annotations

import pytest
from log_tools import PLAIN, only, read

from remote.logs.findings import Frame

SPACES = PLAIN.replace("             ^^^^^^^^^^^^^^^^^^^^^^^^^\n", "")


@pytest.mark.parametrize(
    "text",
    [
        "".join(line.lstrip() + "\n" for line in PLAIN.splitlines()),
        SPACES.replace("  File", " File").replace("    ", " "),
        SPACES.replace("  File", "\tFile").replace("    ", "\t\t"),
        PLAIN.replace("  File", "\u00a0\u00a0File").replace("    ", "\u00a0\u00a0\u00a0\u00a0"),
        PLAIN.replace(' File "', " File “").replace('", line', "”, line"),
        PLAIN.replace('"', "&quot;"),
    ],
    ids=["margin", "one blank", "tabs", "hard blanks", "curly quotes", "html"],
)
def test_frames_survive_what_a_paste_does(text: str) -> None:
    traceback = only(read(text))
    assert (traceback.exception_type, traceback.message) == ("AssertionError", "")
    assert [(frame.file, frame.line, frame.function) for frame in traceback.frames] == [
        (frame.file, frame.line, frame.function) for frame in only(read(PLAIN)).frames
    ]
    assert traceback.frames[0].source == "states = generator.generate(batch)"


def test_at_the_margin_a_source_line_is_not_taken_for_the_exception() -> None:
    frames = 'File "a.py", line 1, in f\nself.x.y\nFile "<string>", line 2, in g\n'
    text = f"Traceback (most recent call last):\n{frames}OSError: z\n"
    traceback = only(read(text))
    assert (traceback.exception_type, traceback.message) == ("OSError", "z")
    assert traceback.frames == (Frame("a.py", 1, "f", "self.x.y"), Frame("<string>", 2, "g"))


def test_colabs_frames_take_their_line_from_the_arrow() -> None:
    text = (
        "RuntimeError                              Traceback (most recent call last)\n"
        "[<ipython-input-1-dfa52d56a4c5>](https://localhost:8080/#) in <cell line: 12>()\n"
        '     10 prompt = "x"\n---> 12 output = llm.generate(prompt)\n\n10 frames\n'
        "[/env/vllm/spec_decode_worker.py](https://localhost:8080/#) in _run_no_spec(self, req)\n"
        "    648         if hs is not None:\n--> 650             hs = hs.reshape(b, -1)\n\n"
        "RuntimeError: shape is invalid\n"
    )
    assert only(read(text)).frames == (
        Frame("<ipython-input-1-dfa52d56a4c5>", 12, "<cell line: 12>", "output = llm.generate(prompt)"),
        Frame("/env/vllm/spec_decode_worker.py", 650, "_run_no_spec", "hs = hs.reshape(b, -1)"),
    )


def test_logurus_mark_and_values_do_not_hide_frames() -> None:
    text = (
        "2025-01-01 10:00:00.123 | ERROR    | __main__:<module>:9 - failed\nTraceback (most recent call last):\n\n"
        '  File "/w/a.py", line 12, in <module>\n    main()\n    └ <function main at 0x7f>\n\n'
        '> File "/w/a.py", line 15, in main\n    go(x)\n    │  └ 3\n    └ <function go at 0x7f>\n\nValueError: x\n'
    )
    assert only(read(text)).frames == (
        Frame("/w/a.py", 12, "<module>", "main()"),
        Frame("/w/a.py", 15, "main", "go(x)"),
    )


def test_a_header_right_behind_a_bar_begins_a_traceback() -> None:
    found = read("Extracting:  30%|███       | 3/10 [00:03<00:07,  1.00s/it]" + PLAIN)
    assert (len(only(found).frames), found.progress[0].done) == (2, 3)


def test_a_failed_log_call_is_not_why_the_run_failed() -> None:
    log_call = PLAIN.replace("AssertionError", "TypeError: not all arguments converted").replace("line 238", "line 9")
    assert read(f"--- Logging error ---\n{log_call}Message: 'a'\nArguments: (1,)\n{PLAIN}").root_cause == 1


def test_a_web_consoles_own_lines_between_do_not_end_a_traceback() -> None:
    text = "".join(f"2026-03-18 05:25:02\n\n2855e530…vdumckda\n{line}\n" for line in PLAIN.splitlines())
    assert only(read(text)).frames == only(read(PLAIN)).frames


def test_a_box_inside_a_log_table_ends_at_its_indentation() -> None:
    box = (
        "╭─ Traceback (most recent call last) ─╮",
        "│ /w/gen.py:12 in main                 │",
        "│ ❱ 12 │   go()                        │",
        "╰──────────────────────────────────────╯",
        "ValueError: x",
    )
    lines = "".join(f"{'':20}{line}{'':16}\n" for line in box)
    traceback = only(read(f"[10:00:01] ERROR    failed                train.py:33\n{lines}"))
    assert (traceback.exception_type, traceback.message, len(traceback.frames)) == ("ValueError", "x", 1)


@pytest.mark.parametrize("cut", ["line 238", "/v1/core", "238, in"])
@pytest.mark.parametrize("blank", ["", " "], ids=["within", "at a blank"])
def test_a_frame_that_a_terminal_wrapped_is_one(cut: str, blank: str) -> None:
    at = PLAIN.index(cut) + len(cut)
    if blank:
        at = PLAIN.index(" ", at) if " " in PLAIN[at : PLAIN.index("\n", at)] else PLAIN.rindex(" ", 0, at)
    wrapped = PLAIN[:at] + "\n" + PLAIN[at:].removeprefix(blank)
    assert only(read(wrapped)).frames == only(read(PLAIN)).frames


def test_the_source_of_a_frame_made_into_html_is_as_printed() -> None:
    text = PLAIN.replace("(batch)", "(batch, 'x' < \"y\")")
    mangled = text.replace('"', "&quot;").replace("<", "&lt;").replace("'", "&#39;")
    assert only(read(mangled)).frames == only(read(text)).frames
