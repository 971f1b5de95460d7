"""Deaths that leave no traceback, as kernels, shells, schedulers, launchers and parents tell them."""

from __future__ import annotations

import pytest
from log_tools import PLAIN, read

from remote.logs.deaths import RULES, SIGNALS
from remote.logs.findings import Fatal


def one(text: str) -> Fatal:
    (death,) = read(text).fatal
    return death


@pytest.mark.parametrize(
    ("text", "kind", "signal", "code", "pid"),
    [
        ("zsh: killed     python train.py", "oom_kill", 9, 137, None),
        ("[1]  + 4242 killed     python train.py", "oom_kill", 9, 137, 4242),
        ("      Reason:       OOMKilled", "oom_kill", 9, 137, None),
        ("vllm-0   0/1   OOMKilled   1   3m", "oom_kill", 9, 137, None),
        ("[1.5] Memory cgroup out of memory: Killed process 4242 (python) total-vm:1kB", "oom_kill", 9, 137, 4242),
        ("kernel: oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),task=python,pid=4242,uid=0",
         "oom_kill", 9, 137, 4242),
        ("x.service: A process of this unit has been killed by the OOM killer.", "oom_kill", 9, 137, None),
        ("srun: error: gpu01: task 3: Out Of Memory", "oom_kill", 9, 137, None),
        ("srun: error: gpu01: tasks 0-3: Killed", "oom_kill", 9, 137, None),
        ("make: *** [Makefile:12: train] Killed", "oom_kill", 9, 137, None),
        ("Command terminated by signal 9", "oom_kill", 9, 137, None),
        ("command terminated with exit code 137", "oom_kill", 9, 137, None),
        ("fish: Job 1, 'python train.py' terminated by signal SIGKILL (Forced quit)", "oom_kill", 9, None, None),
        ("E0909 09:36:56.1 140 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: -9) "
         "local_rank: 7 (pid: 3309) of binary: /usr/bin/python3", "oom_kill", 9, -9, 3309),
        ("slurmstepd: error: *** STEP 1.0 ON gpu01 CANCELLED AT 2026-01-01T10:00:00 DUE TO TIME LIMIT ***",
         "time_limit", 15, None, None),
        ("[2023-09-10 11:45:59,754] [ERROR] [launch.py:434:sigkill_handler] ['python', '-u', 'train.py'] exits with "
         "return code = -9", "oom_kill", 9, -9, None),
        ("mpirun noticed that process rank 3 with PID 0 on node gpu01 exited on signal 11 (Segmentation fault).",
         "segfault", 11, None, None),
        ("[rank2]:[E909 08:45:31.97 ProcessGroupNCCL.cpp:1870] [PG ID 0 PG GUID 0 Rank 2] Received a dump signal due "
         "to a collective timeout from this local rank and we will try our best", "nccl_timeout", None, None, None),
        ("==42==ERROR: AddressSanitizer: SEGV on unknown address 0x000 (pc 0x7f T0)", "segfault", 11, None, 42),
        ("2025-10-02 10:11:00 Fatal Python error: Bus error", "bus_error", 7, None, None),
        ("Oct  2 10:11:00 terminate called after throwing an instance of 'c10::Error'",
         "cpp_terminate", None, None, None),
        ("2024-04-02 16:24:19,702\tWARNING worker.py:1986 -- A worker died or was killed while executing a task by an "
         "unexpected system error. Worker PID: 37880 Worker exit type: SYSTEM_ERROR",
         "ray_worker_died", None, None, 37880),
        ("srun: error: gpu01: task 0: Segmentation fault (core dumped)", "segfault", 11, None, None),
        ("container exited with code 139", "segfault", 11, 139, None),
        ("Illegal instruction (core dumped)", "illegal_instruction", 4, 132, None),
        ("Floating point exception(core dumped)", "floating_point_exception", 8, 136, None),
        ("/run.sh: line 3:    99 Aborted                 (core dumped) python x.py", "abort", 6, 134, 99),
        ("Fatal Python error: Aborted", "abort", 6, None, None),
        ("Fatal Python error: _Py_CheckRecursiveCall: Cannot recover from stack overflow.",
         "stack_overflow", 6, None, None),
        ("terminate called without an active exception", "cpp_terminate", None, None, None),
        ("[12345.1] python3[4242]: segfault at 10 ip 00007f12 sp 00007f13 error 4 in libtorch_cuda.so[7f12+1000]",
         "segfault", 11, None, 4242),
        ("Oct 02 10:11:00 gpu01 kernel: traps: python3[4243] general protection fault ip:7f sp:7f error:0 in libx.so",
         "segfault", 11, None, 4243),
        ("Oct 02 10:11:00 gpu01 kernel: traps: python3[4243] trap invalid opcode ip:7f sp:7f error:0 in libx.so[7f+1]",
         "illegal_instruction", 4, None, 4243),
        ("Timeout (0:05:00)!", "timeout_dump", None, None, None),
        ("[ 1.4] NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus.", "xid", None, None, None),
        ("(raylet) A worker died or was killed while executing a task by an unexpected system error. "
         "Worker ID: 40 Worker IP address: 192.0.2.1 Worker PID: 270291 Worker exit type: SYSTEM_ERROR",
         "ray_worker_died", None, None, 270291),
        ("ERROR 11-29 15:30:26 [core_client.py:6] Engine core proc EngineCore_DP0 died unexpectedly, shutting down",
         "worker_died", None, None, None),
    ],
)  # fmt: skip
def test_a_death(text: str, kind: str, signal: int | None, code: int | None, pid: int | None) -> None:
    death = one(text + "\n")
    assert (death.kind, death.signal, death.exit_code, death.pid) == (kind, signal, code, pid)
    assert death.remedy


@pytest.mark.parametrize(
    "text",
    [
        "INFO 11-29 15:30:26 [async_llm.py:1] Aborted request cmpl-1.",
        "the job was killed by its owner",
        "failed (exitcode: 1) local_rank: 0 (pid: 7) of binary: python",
        "W1 api.py:897] Sending process 3310 closing signal SIGTERM",
        "command terminated with exit code 1",
        "Illegal instructions are explained in the manual",
    ],
)
def test_a_line_that_tells_of_no_death(text: str) -> None:
    assert read(text + "\n").fatal == ()


@pytest.mark.parametrize(
    ("status", "kinds"),
    [
        ("code=dumped, status=11/SEGV", ["segfault", "service_exit"]),
        ("code=killed, status=9/KILL", ["oom_kill", "service_exit"]),
        ("code=killed, status=15/TERM", ["service_exit"]),
        ("code=exited, status=1/FAILURE", ["service_exit"]),
    ],
)
def test_what_ended_a_service_is_told_by_its_signal(status: str, kinds: list[str]) -> None:
    found = read(f"Aug 19 18:34:31 gpu01 systemd[1]: vllm.service: Main process exited, {status}\n")
    assert [item.kind for item in found.fatal] == kinds


def test_every_kind_of_death_has_a_remedy() -> None:
    assert all(rule.remedy for rule in RULES)
    assert all(signal.remedy for signal in SIGNALS.values())


def test_what_a_cpp_exception_says_is_part_of_its_finding() -> None:
    head = "terminate called after throwing an instance of 'c10::Error'\n"
    death = one(head + "  what():  CUDA error: uncorrectable ECC error encountered\n")
    assert death.text.endswith("what():  CUDA error: uncorrectable ECC error encountered")
    assert "hardware" in death.remedy
    assert "CUDA_LAUNCH_BLOCKING" in one(head + "  what():  an illegal memory access was encountered\n").remedy
    assert "what()" in one(head).remedy


def test_the_thread_that_died_is_named_though_another_is_dumped_first() -> None:
    dump = (
        "Fatal Python error: Bus error\n\nThread 0x00007f01 (most recent call first):\n"
        '  File "/env/idle.py", line 3 in wait\n\nCurrent thread 0x00007f02 (most recent call first):\n'
        '  File "/env/shm_broadcast.py", line 96 in __init__\n  File "/env/a.py", line 1 in f\n'
    )
    assert one(dump).text == "Fatal Python error: Bus error in __init__ (/env/shm_broadcast.py:96)"


def test_the_rank_that_the_others_waited_for_is_named() -> None:
    text = "".join(
        f"[rank{rank}]:[E321 02:07:08.4 ProcessGroupNCCL.cpp:607] [Rank {rank}] Watchdog caught collective operation "
        f"timeout: WorkNCCL(SeqNum=1580)\n[rank{rank}]:[E321 02:07:08.5 ProcessGroupNCCL.cpp:1664] [PG 1 Rank {rank}] "
        f"Exception detected by watchdog at work: 1580, last completed NCCL work: {done}.\n"
        for rank, done in ((0, 1579), (4, 1577), (5, 1579))
    )
    death = one(text)
    assert death.ranks == (0, 4, 5)
    assert death.remedy.endswith("Furthest behind is rank 4, which completed 1577.")


def test_no_rank_is_named_while_all_are_equally_far() -> None:
    text = "".join(
        f"[Rank {rank}] Watchdog caught collective operation timeout\n[Rank {rank}] last completed NCCL work: 7\n"
        for rank in (0, 4)
    )
    assert "Furthest" not in one(text).remedy


def test_an_engine_core_that_was_killed_is_the_cause_behind_its_parents_error() -> None:
    told = (
        "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {'EngineCore': -9}"
    )
    found = read(PLAIN.replace("AssertionError", told))
    assert [(item.kind, item.worker, item.exit_code) for item in found.fatal] == [("oom_kill", "EngineCore", -9)]
    assert (found.root_cause, found.root_cause_fatal) == (None, 0)


def test_a_child_that_was_killed_is_the_cause_behind_its_parents_error() -> None:
    told = "subprocess.CalledProcessError: Command '['python', 'x.py']' died with <Signals.SIGKILL: 9>."
    found = read(PLAIN.replace("AssertionError", told))
    assert found.tracebacks[0].wrapper
    assert (found.fatal[0].kind, found.root_cause, found.root_cause_fatal) == ("oom_kill", None, 0)


def test_a_child_that_ended_by_itself_leaves_its_parents_error_as_it_is() -> None:
    told = "subprocess.CalledProcessError: Command '['ninja']' returned non-zero exit status 1."
    found = read(PLAIN.replace("AssertionError", told))
    assert (found.tracebacks[0].wrapper, found.root_cause, found.fatal) == (False, 0, ())


def test_an_abort_that_the_log_explains_is_no_second_finding() -> None:
    table = "train.py FAILED\nFailures:\n[1]:\n  rank      : 4 (local_rank: 4)\n  exitcode  : -6 (pid: 904)\n=======\n"
    cause = "terminate called after throwing an instance of 'c10::Error'\n"
    assert [item.kind for item in read(cause + table).fatal] == ["cpp_terminate", "elastic_failure_table"]
    assert [item.kind for item in read(table).fatal] == ["abort", "elastic_failure_table"]


STUCK = """Timeout (0:00:30.500000)!
Thread 0x00007f01 (most recent call first):
  File "/env/idle.py", line 3 in wait

Thread 0x00007f02 (most recent call first):
  File "/env/shm_broadcast.py", line 96 in acquire_read
  File "/env/a.py", line 1 in <module>
"""


@pytest.mark.parametrize("head", ["", "(Worker_TP0 pid=7) "])
def test_where_a_process_was_stuck_when_its_time_was_up(head: str) -> None:
    later = ["went on", "Thread 0x00007f03 (most recent call first):", '  File "/b.py", line 5 in g']
    found = read("".join(f"{head}{line}\n" for line in [*STUCK.splitlines(), *later]))
    (death,) = found.fatal
    assert death.text == "Timeout (0:00:30.500000)! in acquire_read (/env/shm_broadcast.py:96)"
    assert (found.root_cause_fatal, found.failure_kind) == (0, "hang")


def test_a_timeout_is_no_cause_beside_an_error() -> None:
    found = read(STUCK + PLAIN)
    assert (found.root_cause, found.root_cause_fatal, len(found.fatal)) == (0, None, 1)


def test_a_pool_whose_process_was_killed_is_not_the_cause() -> None:
    told = "concurrent.futures.process.BrokenProcessPool: A process in the process pool was terminated abruptly"
    found = read(PLAIN.replace("AssertionError", told) + "[1.5] Out of memory: Killed process 4242 (python)\n")
    assert (found.root_cause, found.root_cause_fatal, found.failure_kind) == (None, 0, "host_out_of_memory")
