"""Who printed it: prefixes, weaving, folding, wrappers and the root cause."""

from __future__ import annotations

import pytest
from log_tools import PLAIN, logged, only, place, read, real

from remote.logs.prefixes import read_line

WRAPPER = PLAIN.replace(
    "AssertionError",
    "RuntimeError: Worker failed with error 'boom', please check the stack trace above for the root cause",
).replace("block_pool", "multiproc_executor")
FAILED = PLAIN.replace("AssertionError", "ValueError: boom")


@pytest.mark.parametrize(
    ("text", "label", "pid", "rest"),
    [
        ("(Worker_TP0 pid=12) INFO x", "Worker_TP0", 12, "INFO x"),
        ("(VllmWorkerProcess pid=9)   File", "VllmWorkerProcess", 9, "  File"),
        ("(VllmWorker rank=1 pid=9) x", "VllmWorker", 9, "x"),
        ("(VllmWorker TP0 pid=9) x", "VllmWorker TP0", 9, "x"),
        ("(Worker pid=3) (Worker_TP0 pid=3) x", "Worker_TP0", 3, "x"),
        ("(EngineCore_DP0 pid=3) (RayWorkerWrapper pid=8, ip=192.0.2.1) x", "RayWorkerWrapper", 8, "x"),
        ("[rank3]:   File", "rank3", None, "  File"),
        ("[default1]:[rank9]:   File", "rank9", None, "  File"),
        ("Aug 19 18:34:30 host vllm[87]: (APIServer pid=87)  y", "APIServer", 87, " y"),
        ("(head, rank=0, pid=3344) x", "head", 3344, "x"),
        ("(ServeReplica:default:VLLM pid=24) x", "ServeReplica:default:VLLM", 24, "x"),
        ("(pid=24, ip=192.0.2.3) x", None, 24, "x"),
        ("vllm_srv  | (EngineCore pid=194) y", "EngineCore", 194, "y"),
        ("2025-09-01T20:11:43.880255Z stderr F (EngineCore pid=1) y", "EngineCore", 1, "y"),
        ("[rank0]:[E321 02:07:08.4 P.cpp:607] x", None, None, "[rank0]:[E321 02:07:08.4 P.cpp:607] x"),
        ("print (a pid) x", None, None, "print (a pid) x"),
    ],
)
def test_prefixes(text: str, label: str | None, pid: int | None, rest: str) -> None:
    line = read_line(text)
    assert (line.origins[-1].label, line.origins[-1].pid, line.text) == (label, pid, rest)
    assert len(line.origins) == 1


def test_the_head_of_a_record_is_taken_off_with_one_space() -> None:
    line = read_line("(Worker_TP0 pid=1) ERROR 11-29 15:30:26 [multiproc_executor.py:863]     self.model(")
    assert (line.level, line.source, line.text) == ("ERROR", "multiproc_executor.py:863", "    self.model(")


@pytest.mark.parametrize(
    ("head", "worker"),
    [("[2025-03-11 15:02:53 DP1 TP0] ", "DP1 TP0"), ("[10/02/2025-10:11:12] [TRT-LLM] [RANK 3] [E] ", "rank3")],
)
def test_a_records_head_can_name_the_worker(head: str, worker: str) -> None:
    assert only(read(head + PLAIN)).worker == worker


def test_the_same_error_of_many_workers_is_one_finding() -> None:
    woven = [logged(f"Worker_TP{rank} pid={rank}", FAILED).splitlines(keepends=True) for rank in range(11)]
    data = "".join(line for group in zip(*woven, strict=True) for line in group)
    traceback = only(read(data))
    assert traceback.workers == tuple(f"Worker_TP{rank}" for rank in range(11))
    assert (traceback.worker, traceback.printed, len(traceback.frames)) == ("Worker_TP0", 11, 2)


def test_messages_that_differ_in_numbers_only_are_the_same_error() -> None:
    logs = [logged(f"W_{n} pid={n}", PLAIN.replace("AssertionError", f"KeyError: 'req-{n}7f'")) for n in (1, 2)]
    assert only(read("".join(logs))).workers == ("W_1", "W_2")


def test_messages_that_differ_in_units_only_are_the_same_error() -> None:
    told = [f"torch.OutOfMemoryError: Tried to allocate {size}. GPU 0 has" for size in ("1.91 GiB", "940.00 MiB")]
    logs = [logged(f"W_{n} pid={n}", PLAIN.replace("AssertionError", text)) for n, text in enumerate(told)]
    assert only(read("".join(logs))).workers == ("W_0", "W_1")


def test_different_errors_at_one_place_stay_apart() -> None:
    logs = [PLAIN.replace("AssertionError", f"AttributeError: no attribute {name}") for name in ("model", "layers")]
    assert len(read("".join(logs)).tracebacks) == 2


def test_one_effect_of_two_causes_is_two_errors() -> None:
    middle = "\nThe above exception was the direct cause of the following exception:\n\n"
    causes = [PLAIN.replace("AssertionError", f"OSError: {name}") for name in ("disk", "link")]
    found = read("".join(cause + middle + FAILED + "\n" for cause in causes))
    assert [item.chained_from for item in found.tracebacks] == [None, 0, None, 2]


def test_processes_that_share_a_name_are_told_apart_by_pid() -> None:
    data = "".join(logged(f"VllmWorkerProcess pid={pid}", FAILED) for pid in (307, 305))
    traceback = only(read(data))
    assert traceback.worker == "VllmWorkerProcess"
    assert traceback.workers == ("VllmWorkerProcess pid=305", "VllmWorkerProcess pid=307")


def test_a_note_that_repeats_the_traceback_is_not_a_second_failure() -> None:
    traceback = only(read(logged("Worker_TP0 pid=1", "WorkerProc hit an exception.\n" + FAILED + FAILED)))
    assert traceback.printed == 1


def test_a_wrapper_points_to_the_error_it_quotes() -> None:
    other = PLAIN.replace("AssertionError", "OSError: other").replace("line 238", "line 1")
    found = read(logged("Worker_TP0 pid=1", FAILED) + logged("Worker_TP1 pid=2", other) + WRAPPER)
    assert [item.wrapper for item in found.tracebacks] == [False, False, True]
    assert (found.tracebacks[2].caused_by, found.root_cause) == (0, 0)
    assert "Worker_TP0" in found.reason


def test_a_wrapper_whose_cause_is_missing_says_so() -> None:
    found = read(
        PLAIN.replace("AssertionError", "RuntimeError: Engine core initialization failed. See root cause above.")
    )
    assert (found.root_cause, only(found).caused_by) == (None, None)
    assert "not in this log" in found.reason


def test_an_error_at_exit_never_outranks_the_failure() -> None:
    at_exit = "Exception ignored in atexit callback: <bound method X>\n" + PLAIN.replace("line 238", "line 251")
    assert read(at_exit + FAILED).root_cause == 1
    assert read(FAILED + at_exit).root_cause == 0


def test_the_last_attempt_in_a_log_gives_the_root_cause() -> None:
    later = PLAIN.replace("AssertionError", "TypeError: later").replace("line 238", "line 5")
    assert read("=== attempt 1\n" + FAILED + "=== attempt 2\n" + later).root_cause == 1
    assert read(FAILED + later).root_cause == 0


def test_block_hash_failure_of_a_real_run() -> None:
    data = real("66_ladder_llama_tp2_blockhash_failure.log")
    found = read(data)
    traceback = only(found)
    assert (traceback.exception_type, traceback.message, traceback.printed) == ("AssertionError", "", 2)
    inner = traceback.innermost
    assert inner is not None
    assert (inner.function, inner.line, inner.source) == (
        "cache_full_blocks",
        238,
        "assert len(request.block_hashes) >= num_full_blocks",
    )
    assert inner.file.endswith("vllm/v1/core/block_pool.py")
    assert [frame.function for frame in traceback.frames] == [
        "main",
        "generate",
        "schedule",
        "allocate_slots",
        "cache_blocks",
        "cache_blocks",
        "cache_full_blocks",
    ]
    assert place(data, traceback) == b"Traceback (most recent call last):"
    assert found.root_cause == 0


def test_a_workers_error_and_its_report_by_the_parent_in_a_real_run() -> None:
    found = read(real("14_ladder_llama_sched.log"))
    worker, parent = found.tracebacks
    assert (worker.worker, worker.exception_type, len(worker.frames), worker.printed) == (
        "Worker",
        "AttributeError",
        11,
        1,
    )
    assert (parent.worker, parent.wrapper, parent.caused_by, parent.message.count("\n")) == (None, True, 0, 0)
    assert found.root_cause == 0


def test_three_reports_of_one_start_up_failure_in_a_real_run() -> None:
    found = read(real("06_offline_llama_tp2_default.log"))
    assert [item.wrapper for item in found.tracebacks] == [False, True, True, True]
    assert [item.caused_by for item in found.tracebacks] == [None, 0, 0, 0]
    assert found.tracebacks[0].printed == 2
    assert found.root_cause == 0


def test_two_workers_woven_inside_their_lines_in_a_real_run() -> None:
    data = real("tp2_worker_all.log")
    found = read(data)
    first = found.tracebacks[0]
    assert (first.exception_type, first.workers, first.printed) == ("RuntimeError", ("Worker_TP0", "Worker_TP1"), 4)
    assert [frame.function for frame in first.frames] == [
        "worker_busy_loop",
        "execute_model",
        "decorate_context",
        "execute_model",
        "decorate_context",
        "execute_model",
        "_model_forward",
        "_wrapped_call_impl",
        "_call_impl",
        "fwd",
    ]
    assert all(frame.source for frame in first.frames)
    assert [item.exception_type for item in found.tracebacks[1:]] == [
        "KeyError",
        "vllm.v1.engine.exceptions.EngineDeadError",
        "KeyError",
    ]
    assert (found.root_cause, found.tracebacks[2].caused_by) == (0, 0)


def test_a_damaged_shard_in_a_real_run_of_two_workers() -> None:
    found = read(real("tp2_trunc.log"))
    first = found.tracebacks[0]
    assert (first.workers, len(first.frames)) == (("Worker_TP0", "Worker_TP1"), 18)
    assert first.message == "Error while deserializing header: incomplete metadata, file not fully covered"
    assert [item.caused_by for item in found.tracebacks] == [None, 0, 0, 0]


def test_an_interrupted_training_in_a_real_run() -> None:
    found = read(real("train_stock_killed.log"))
    assert [(item.exception_type or "").rsplit(".", 1)[-1] for item in found.tracebacks] == [
        "ConnectionResetError",
        "TrainingInterruptedError",
        "RuntimeError",
    ]
    assert (found.tracebacks[2].chained_from, found.tracebacks[2].chain_kind) == (1, "context")
    assert found.root_cause == 1


def test_a_healthy_real_run_has_no_error() -> None:
    found = read(real("02_offline_llama_tp1_defaultenv.log"))
    assert (found.tracebacks, found.fatal, found.root_cause, found.reason) == ((), (), None, "")
