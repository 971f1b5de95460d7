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


GONE = (
    "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.hpp:317, remote process exited or there was a "
    "network error, NCCL version 2.21.5"
)


@pytest.mark.parametrize("told", [GONE, "RuntimeError: [gloo/pair.cc:534] Connection closed by peer [192.0.2.1]:3"])
def test_that_another_rank_is_gone_is_not_why(told: str) -> None:
    gone = PLAIN.replace("AssertionError", told).replace("line 238", "line 9")
    assert (read(gone + PLAIN).root_cause, read(PLAIN + gone).root_cause, read(gone).root_cause) == (1, 0, 0)


@pytest.mark.parametrize("link", ["The above exception was the direct cause of", "During handling of the above"])
def test_what_stopped_a_task_says_more_than_that_it_was_stopped(link: str) -> None:
    links = {"T": f"\n{link} the following exception:\n\n", "D": f"\n{link} exception, another exception occurred:\n\n"}
    stopped = PLAIN.replace("AssertionError", "asyncio.exceptions.CancelledError").replace("line 238", "line 9")
    assert read(stopped + links[link[0]] + PLAIN).root_cause == 1


@pytest.mark.parametrize("head", ["Stack (most recent call last):", "Call stack:"])
def test_where_a_log_call_was_made_is_no_failure(head: str) -> None:
    frames = PLAIN.split("\n", 1)[1].replace("AssertionError", "Message: 'all is well'")
    found = read(f"INFO 11-29 15:30:26 [a.py:1] here\n{head}\n{frames}INFO 11-29 15:30:27 [a.py:1] on\n")
    assert (found.tracebacks, found.root_cause) == ((), None)


def test_a_table_of_failures_can_hold_the_traceback_of_its_rank() -> None:
    inner = PLAIN.replace("AssertionError", "ValueError: x").replace("\n", "\n  ")
    told = PLAIN.replace("AssertionError", "ChildFailedError: ").replace("line 238", "line 9")
    rule = "=" * 60
    found = read(
        f"{told}{rule}\ntrain.py FAILED\nRoot Cause (first observed failure):\n[0]:\n  rank      : 0 (local_rank: 0)\n"
        f"  exitcode  : 1 (pid: 12)\n  traceback : {inner}\n{rule}\n"
    )
    assert [(item.exception_type, item.message_first_line, len(item.frames)) for item in found.tracebacks] == [
        ("ChildFailedError", "", 2),
        ("ValueError", "x", 2),
    ]
    assert (found.root_cause, found.tracebacks[0].caused_by, found.fatal[0].root_rank) == (1, 1, 0)


def test_what_a_failed_log_call_is_chained_to_is_no_cause_either() -> None:
    cause = PLAIN.replace("AssertionError", "KeyError: 'k'").replace("238", "3")
    chained = cause + "\nThe above exception was the direct cause of the following exception:\n\n"
    told = "--- Logging error ---\n" + chained + PLAIN.replace("AssertionError", "ValueError: bad %s")
    found = read(told + 'Call stack:\n  File "/a.py", line 9, in f\n    f()\nMessage: x\n' + PLAIN)
    assert [item.exception_type for item in found.tracebacks] == ["KeyError", "ValueError", "AssertionError"]
    assert (found.root_cause, found.tracebacks[1].message) == (2, "bad %s")
