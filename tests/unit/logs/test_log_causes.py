"""What is printed while a process goes down is not why; a SyntaxError says where it is."""

from __future__ import annotations

import pytest
from log_tools import PLAIN, only, read

AT_EXIT = PLAIN.replace("line 238", "line 9").replace(
    "AssertionError", "AttributeError: 'NoneType' has no attribute 'z'"
)


@pytest.mark.parametrize(
    "head",
    [
        "Error in atexit._run_exitfuncs:",
        "Error in sys.excepthook:",
        "Exception ignored in: <function LLM.__del__ at 0x7f>",
        "Exception ignored on threading shutdown <module 'threading'>:",
        "Exception ignored while calling deallocator <function Pool.__del__ at 0x7f>:",
        "Exception ignored in atexit callback <function stop at 0x7f>:",
    ],
)
@pytest.mark.parametrize("prefix", ["", "(EngineCore pid=3) "])
def test_a_crash_at_exit_never_outranks_the_failure(head: str, prefix: str) -> None:
    at_exit = "".join(f"{prefix}{line}\n" for line in f"{head}\n{AT_EXIT}".splitlines())
    before, after = read(at_exit + PLAIN), read(PLAIN + at_exit)
    assert (before.root_cause, after.root_cause) == (1, 0)
    assert [item.message for item in before.tracebacks] == ["'NoneType' has no attribute 'z'", ""]
    assert read(at_exit).root_cause == 0


def test_a_message_ends_where_an_exit_handler_fails() -> None:
    found = read(PLAIN.replace("AssertionError", "OSError: real") + "Error in atexit._run_exitfuncs:\n" + AT_EXIT)
    assert found.tracebacks[0].message == "real"


SYNTAX = '  File "/srv/b.py", line 7\n    def f(:\n          ^\nSyntaxError: invalid syntax\n'


def test_a_syntax_error_says_its_file_and_line() -> None:
    head = 'Traceback (most recent call last):\n  File "/srv/a.py", line 3, in <module>\n    import b\n'
    traceback = only(read(head + SYNTAX))
    assert (traceback.syntax_file, traceback.syntax_line) == ("/srv/b.py", 7)
    assert traceback.headline == "SyntaxError: invalid syntax (/srv/b.py:7)"
    assert [(frame.file, frame.line, frame.source) for frame in traceback.frames] == [("/srv/a.py", 3, "import b")]


def test_a_syntax_error_of_the_main_script_says_its_file_and_line() -> None:
    traceback = only(read(SYNTAX))
    assert (traceback.syntax_file, traceback.syntax_line, traceback.frames) == ("/srv/b.py", 7, ())


def test_other_errors_have_no_such_place() -> None:
    assert only(read(PLAIN)).syntax_file == ""
