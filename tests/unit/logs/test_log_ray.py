"""Ray raises a worker's exception again in the driver, and prints one line for many processes."""

from __future__ import annotations

import pytest
from log_tools import PLAIN, read

DRIVER = """Traceback (most recent call last):
  File "/srv/driver.py", line 4, in main
    ray.get(refs)
ray.exceptions.RayTaskError(ValueError): ray::Worker.run() (pid=270291, ip=192.0.2.17, actor_id=ab, repr=<Worker()>)
"""
BODY = """  File "/srv/worker.py", line 9, in run
    self.step()
  File "/srv/worker.py", line 19, in step
    raise ValueError('bad')
ValueError: bad
"""
DIRECT = "\nThe above exception was the direct cause of the following exception:\n\n"


def prefixed(text: str, pid: int, suffix: str = "") -> str:
    return "".join(f"(RayWorkerWrapper pid={pid}, ip=192.0.2.{pid}) {line}{suffix}\n" for line in text.splitlines())


def test_the_workers_own_exception_is_the_cause_of_rays() -> None:
    found = read(DRIVER + BODY)
    driver, worker = found.tracebacks
    assert driver.exception_type == "ray.exceptions.RayTaskError(ValueError)"
    assert driver.message.startswith("ray::Worker.run() (pid=270291") and "\n" not in driver.message
    assert (len(driver.frames), driver.chained_from, driver.chain_kind) == (1, 1, "remote")
    assert (worker.exception_type, worker.message, len(worker.frames)) == ("ValueError", "bad", 2)
    assert (worker.innermost and worker.innermost.line, worker.chained_from, found.root_cause) == (19, None, 1)


def test_an_actors_error_at_its_creation_is_the_cause_of_its_death() -> None:
    told = "ActorDiedError: The actor died because of an error raised in its creation task, ray::Worker.__init__() (pid"
    found = read(DRIVER.replace("RayTaskError(ValueError): ray::Worker.run() (pid", told) + BODY)
    assert [(item.chained_from, item.wrapper) for item in found.tracebacks] == [(1, True), (None, False)]
    assert found.root_cause == 1


def test_marks_that_lost_their_frames_do_not_part_the_two() -> None:
    found = read(DRIVER + "           ^^^^^^^^^^^^^^^^^\n           ^^^^^^^\n" + BODY)
    assert [(item.chained_from, len(item.frames)) for item in found.tracebacks] == [(1, 1), (None, 2)]
    assert "^" not in found.tracebacks[0].message


def test_a_chain_inside_the_worker_ends_at_rays_exception() -> None:
    second = (
        'ray::Worker.run() (pid=270291, ip=192.0.2.17)\n  File "/srv/worker.py", line 29, in run\nRuntimeError: x\n'
    )
    found = read(DRIVER + BODY + DIRECT + second)
    assert [(item.chained_from, item.chain_kind) for item in found.tracebacks] == [
        (2, "remote"),
        (None, None),
        (1, "cause"),
    ]
    assert found.root_cause == 1


def test_a_chain_in_the_driver_goes_on_from_rays_exception() -> None:
    found = read(DRIVER + BODY + DIRECT + PLAIN)
    assert [(item.chained_from, item.chain_kind) for item in found.tracebacks] == [
        (1, "remote"),
        (None, None),
        (0, "cause"),
    ]
    assert found.root_cause == 1


def test_an_exception_of_rays_own_has_no_body() -> None:
    (traceback,) = read(DRIVER.replace("RayTaskError(ValueError)", "GetTimeoutError")).tracebacks
    assert traceback.chained_from is None


@pytest.mark.parametrize(
    "hint", ["", " (Ray deduplicates logs by default. Set RAY_DEDUP_LOGS=0 to disable log deduplication, or x)"]
)
def test_lines_that_stand_for_many_processes_count_as_many(hint: str) -> None:
    text = PLAIN.replace("AssertionError", "ValueError: bad 3")
    found = read(prefixed(text, 11) + prefixed(text, 12, " [repeated 7x across cluster]" + hint))
    (traceback,) = found.tracebacks
    assert (traceback.message, traceback.printed, traceback.processes) == ("bad 3", 8, 8)
    assert [frame.function for frame in traceback.frames] == ["main", "cache_full_blocks"]
    assert traceback.frames[0].source == "states = generator.generate(batch)"


def test_the_count_at_the_exceptions_line_is_the_one_that_counts() -> None:
    lines = prefixed(PLAIN.replace("AssertionError", "ValueError: bad 3"), 12).splitlines()
    lines[0] += " [repeated 9x across cluster]"
    lines[-1] += " [repeated 3x across cluster]"
    first = prefixed(PLAIN.replace("AssertionError", "ValueError: bad 3"), 11)
    (traceback,) = read(first + "\n".join(lines) + "\n").tracebacks
    assert (traceback.printed, traceback.processes) == (4, 4)


def test_an_exceptions_line_alone_can_stand_for_other_processes() -> None:
    first = prefixed(PLAIN.replace("AssertionError", "ValueError: bad"), 11)
    found = read(first + "(RayWorkerWrapper pid=12, ip=192.0.2.12) ValueError: bad [repeated 7x across cluster]\n")
    assert [(item.printed, item.processes) for item in found.tracebacks] == [(8, 8)]


def test_processes_are_the_workers_where_nothing_was_left_out() -> None:
    (one,) = read(PLAIN).tracebacks
    (two,) = read(prefixed(PLAIN, 11) + prefixed(PLAIN, 12)).tracebacks
    assert (one.processes, two.processes) == (1, 2)


RAYLET = (
    "(raylet) [2025-04-02 15:02:00,117 E 13 13] (raylet) node_manager.cc:3069: 1 Workers (tasks / actors) killed due "
    "to memory pressure (OOM), 0 Workers crashed due to other reasons at node (ID: abd4, IP: 192.0.2.26)\n"
)
OOM = (
    "Task was killed due to the node running low on memory.\n"
    "Memory on the node (IP: 192.0.2.26, ID: e5) where the task (task ID: 43, name=run, pid=11362, memory used=1.25GB) "
    "was running was 27.71GB / 28.80GB (0.962273), which exceeds the memory usage threshold of 0.95.\n"
)
MONITOR = "(run pid=11362) [2025-04-02 15:01:59,117 E 11362] memory_monitor.cc:55: " + OOM.partition("\n")[0] + "\n"
OUT_OF_MEMORY = DRIVER[: DRIVER.index("ray.exceptions")] + "ray.exceptions.OutOfMemoryError: " + OOM
ENDED = "(raylet) A worker died or was killed while executing a task by an unexpected system error. Worker ID: 6f "
CRASHED = ENDED + "Worker PID: 11362 Worker exit type: SYSTEM_ERROR Worker exit detail: End of file.\n"
LOW = ENDED + "Worker PID: 11362 Worker exit type: NODE_OUT_OF_MEMORY Worker exit detail: Task was killed.\n"
ACTOR = DRIVER[: DRIVER.index("ray.exceptions")] + (
    "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n\tpid: 11362\n"
    f"The actor is dead. Worker exit type: NODE_OUT_OF_MEMORY Worker exit detail: {OOM}"
)
REPORT = DRIVER[: DRIVER.index("ray.exceptions")] + "ray.exceptions.WorkerCrashedError: The worker died unexpectedly.\n"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (RAYLET, OUT_OF_MEMORY),
        (OUT_OF_MEMORY, RAYLET),
        (RAYLET, OUT_OF_MEMORY * 2),
        (RAYLET, CRASHED),
        (CRASHED, RAYLET),
        (LOW, RAYLET),
        (CRASHED, OUT_OF_MEMORY),
        (MONITOR, RAYLET + OUT_OF_MEMORY),
        (RAYLET, ACTOR),
        (MONITOR, CRASHED),
    ],
    ids=range(10),
)
def test_a_kill_that_several_tell_of_is_one(first: str, second: str) -> None:
    (kill,) = read(first + second).fatal
    assert (kill.kind, kill.count, kill.line) == ("ray_oom", 1, 4 if first is OUT_OF_MEMORY else 1)


def test_a_kill_has_the_words_of_all_who_tell_of_it() -> None:
    (kill,) = read(RAYLET + OUT_OF_MEMORY * 2).fatal
    assert kill.text.startswith("1 Workers (tasks / actors) killed due to memory pressure")
    assert " | ray.exceptions.OutOfMemoryError: Task was killed" in kill.text
    assert kill.text.count("pid=11362, memory used=1.25GB") == 1
    assert kill.pid == 11362
    (kill,) = read(RAYLET + CRASHED).fatal
    assert " | A worker died or was killed" in kill.text and kill.pid == 11362


def test_kills_of_two_processes_are_two() -> None:
    other = OUT_OF_MEMORY.replace("11362", "11363")
    for data in (OUT_OF_MEMORY + other, RAYLET + RAYLET + OUT_OF_MEMORY, RAYLET.replace(": 1 W", ": 2 W") + other):
        (kill,) = read(data).fatal
        assert kill.count == 2


def test_a_worker_that_died_of_something_else_stays() -> None:
    other = CRASHED.replace("11362", "99")
    for data in (RAYLET + OUT_OF_MEMORY + other, other + OUT_OF_MEMORY + RAYLET + CRASHED):
        assert sorted(item.kind for item in read(data).fatal) == ["ray_oom", "ray_worker_died"]
    assert [item.pid for item in read(RAYLET + CRASHED + other).fatal if item.kind == "ray_worker_died"] == [99]


def test_a_crash_that_the_driver_only_reports_is_not_the_cause() -> None:
    found = read(RAYLET + REPORT)
    assert (found.root_cause, found.root_cause_fatal, found.failure_kind) == (None, 0, "host_out_of_memory")
