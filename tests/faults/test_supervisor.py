"""Supervisor and shim under real kills: exit codes are kept or called lost, never guessed; trees are proved gone."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from faults.fake_host import FakeHost, kill, py, sh, until

from remote.agent import files, processes, shim
from remote.agent.launch import CODE, ENTRY, NotBegun, launch
from remote.protocol import RemoteError

DEAF_GRANDCHILDREN = """
import os, signal, sys, time
if os.fork() == 0:
    os.setsid()
    for _ in range(2):
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            os.write(1, b"worker %d" % os.getpid() + bytes([10]))  # whole, where print may write in parts
            time.sleep(600)
            os._exit(0)
    time.sleep(600)
    os._exit(0)
print("main", os.getpid(), flush=True)
for _ in range(12_000):  # for ten minutes: nothing outlives a test run that was ended
    if len(sys.argv) > 1 and os.path.exists(sys.argv[1]):
        break
    time.sleep(0.05)
sys.exit(7)
"""


def workers(host: FakeHost, attempt: Any) -> list[int]:
    found = [int(line.split()[1]) for line in host.log(attempt).splitlines() if line.startswith("worker ")]
    return found if len(found) == 2 else []


def started(host: FakeHost, *stages: dict[str, Any], **more: Any) -> Any:
    run = host.start(*stages, **more)
    attempt = host.attempt(run, stages[0]["name"])
    until(lambda: Path(attempt.status).exists())
    return attempt


@pytest.mark.parametrize(
    ("script", "expected"),
    [("exit 0", ("exited", 0, None)), ("exit 42", ("exited", 42, None)), ("kill -SEGV $$", ("signaled", None, 11))],
)
def test_the_exit_is_recorded_as_it_was(host: FakeHost, script: str, expected: tuple[Any, ...]) -> None:
    view = host.over(started(host, sh("one", script))).view
    assert (view.state, view.rc, view.signal) == expected
    assert view.witness == "supervisor"
    assert view.clean


def test_the_supervisor_is_no_descendant_of_who_started_it_and_holds_none_of_its_descriptors(host: FakeHost) -> None:
    attempt = started(host, sh("one", "echo up; sleep 600"))
    host.logged(attempt, "up")
    status = host.status(attempt)
    below = processes.descendants([os.getpid()], processes.snapshot())
    for role in ("supervisor", "shim", "main"):
        pid = status[role]["pid"]
        assert pid not in below
        targets = list(_targets(pid))
        assert not [t for t in targets if t.startswith(("pipe:", "socket:"))], f"{role} holds {targets}"


def _targets(pid: int) -> Iterator[str]:
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile: one of the supervisor's looks at /proc
            yield str(fd.readlink())


def test_starting_answers_long_before_the_stage_ends(host: FakeHost) -> None:
    """Regression: the shim inherited the launcher's ack pipe, so that `start` hung as long as the run."""
    attempt = started(host, sh("one", "sleep 600"))
    assert host.reading(attempt).view.state == "running"


def test_a_killed_supervisor_leaves_the_stage_running_and_the_shim_keeps_its_code(host: FakeHost) -> None:
    gate = host.folder / "gate"
    attempt = started(host, sh("one", f"echo begin; while [ ! -e {gate} ]; do sleep 0.05; done; echo end; exit 33"))
    host.logged(attempt, "begin")
    kill(host.status(attempt)["supervisor"])
    view = host.reading(attempt).view
    assert view.state == "lost_supervisor"
    assert host.view(attempt.run).stages[0].state == "running"
    gate.touch()
    view = host.over(attempt).view
    assert (view.state, view.rc, view.witness) == ("exited", 33, "shim")
    assert host.log(attempt) == "begin\nend\n"


def test_a_killed_shim_leaves_the_supervisor_to_see_the_exit(host: FakeHost) -> None:
    gate = host.folder / "gate"
    attempt = started(host, sh("one", f"while [ ! -e {gate} ]; do sleep 0.05; done; exit 21"))
    kill(host.status(attempt)["shim"])
    assert host.reading(attempt).view.state == "running"
    gate.touch()
    view = host.over(attempt).view
    assert (view.state, view.rc, view.witness) == ("exited", 21, "supervisor")


def test_a_stopped_shim_does_not_keep_a_finished_stage_for_ever(host: FakeHost) -> None:
    gate = host.folder / "gate"
    attempt = started(host, sh("one", f"while [ ! -e {gate} ]; do sleep 0.05; done; exit 5"))
    os.kill(host.status(attempt)["shim"]["pid"], signal.SIGSTOP)
    gate.touch()
    view = host.over(attempt).view
    assert (view.state, view.rc) == ("exited", 5)


def test_with_both_witnesses_killed_the_code_is_lost_not_guessed(host: FakeHost) -> None:
    gate = host.folder / "gate"
    attempt = started(host, sh("one", f"echo up; while [ ! -e {gate} ]; do sleep 0.05; done; exit 0"))
    host.logged(attempt, "up")
    status = host.status(attempt)
    kill(status["supervisor"])
    kill(status["shim"])
    assert host.reading(attempt).view.state == "lost_supervisor"
    with pytest.raises(RemoteError) as refused:
        host.relaunch(attempt.run, "one")
    assert refused.value.kind == "busy"
    gate.touch()
    view = host.over(attempt).view
    assert (view.state, view.rc, view.signal) == ("lost", None, None)
    assert view.error
    assert host.view(attempt.run).stages[0].state == "lost"
    assert host.relaunch(attempt.run, "one")["attempt"] == 2


def test_stop_ends_what_dead_witnesses_left_and_calls_it_lost(host: FakeHost) -> None:
    attempt = started(host, py("one", DEAF_GRANDCHILDREN, grace_s=0.5))
    left = until(lambda: workers(host, attempt))
    status = host.status(attempt)
    kill(status["supervisor"])
    kill(status["shim"])
    assert host.runs.stop(attempt.run) == {"stage": "one", "attempt": 1}
    view = host.over(attempt).view
    assert (view.state, view.rc, view.stop_requested, view.clean) == ("lost", None, True, True)
    assert not any(processes.identify(pid) for pid in left)


def test_stop_after_the_supervisor_died_still_learns_the_signal_from_the_shim(host: FakeHost) -> None:
    attempt = started(host, sh("one", "echo up; exec sleep 600"))
    host.logged(attempt, "up")
    kill(host.status(attempt)["supervisor"])
    host.runs.stop(attempt.run)
    view = host.over(attempt).view
    assert (view.state, view.signal, view.witness, view.clean) == ("signaled", 15, "shim", True)
    assert host.view(attempt.run).stages[0].state == "stopped"


def test_stop_kills_a_tree_that_ignores_term_and_left_its_session(host: FakeHost) -> None:
    attempt = started(host, py("one", DEAF_GRANDCHILDREN, grace_s=0.5))
    left = until(lambda: workers(host, attempt))
    host.runs.stop(attempt.run)
    view = host.over(attempt).view
    assert (view.state, view.signal, view.stop_requested, view.clean) == ("signaled", 15, True, True)
    assert not any(processes.identify(pid) for pid in left)
    assert host.view(attempt.run).stages[0].state == "stopped"


def test_a_main_that_ignores_term_is_killed_after_its_grace(host: FakeHost) -> None:
    attempt = started(host, sh("one", "trap '' TERM; echo up; while :; do sleep 0.1; done", grace_s=0.5))
    host.logged(attempt, "up")
    host.runs.stop(attempt.run)
    view = host.over(attempt).view
    assert (view.state, view.signal) == ("signaled", 9)


def test_a_frozen_main_is_killed_too(host: FakeHost) -> None:
    attempt = started(host, sh("one", "echo up; exec sleep 600", grace_s=0.5))
    host.logged(attempt, "up")
    os.kill(host.status(attempt)["main"]["pid"], signal.SIGSTOP)
    host.runs.stop(attempt.run)
    assert host.over(attempt).view.signal == 9


def test_workers_that_outlive_a_failed_main_are_ended_before_it_counts_as_clean(host: FakeHost) -> None:
    gate = host.folder / "gate"
    stage = py("one", DEAF_GRANDCHILDREN, grace_s=0.5)
    stage["argv"].append(str(gate))
    attempt = started(host, stage)
    left = until(lambda: workers(host, attempt))
    gate.touch()
    view = host.over(attempt).view
    assert (view.state, view.rc, view.clean) == ("exited", 7, True)
    assert not any(processes.identify(pid) for pid in left)


def test_a_stop_signal_to_the_supervisor_is_a_stop_request(host: FakeHost) -> None:
    script = "trap 'exit 0' TERM; echo up; while :; do sleep 0.05; done"
    attempt = started(host, sh("one", script), sh("two", "echo never"))
    host.logged(attempt, "up")
    os.kill(host.status(attempt)["supervisor"]["pid"], signal.SIGTERM)
    view = host.over(attempt).view
    assert (view.state, view.rc, view.stop_requested) == ("exited", 0, True)
    assert [a.stage for a in host.every_attempt()] == ["one"]


def test_a_program_that_does_not_exist_is_failed_to_start_with_its_name_and_errno(host: FakeHost) -> None:
    view = host.over(started(host, {"name": "one", "argv": ["/nonexistent/prog"]})).view
    assert view.state == "failed_to_start"
    assert view.rc is None
    assert view.error == "cannot run /nonexistent/prog: No such file or directory (ENOENT)"
    assert view.clean


def test_a_working_folder_that_does_not_exist_is_named(host: FakeHost) -> None:
    view = host.over(started(host, sh("one", "true", cwd="/nonexistent/folder"))).view
    assert view.state == "failed_to_start"
    assert "/nonexistent/folder" in (view.error or "")


def test_the_shim_alone_keeps_the_reason_of_a_failed_start_and_the_code_of_an_exit(tmp_path: Path) -> None:
    log = os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT)
    for argv, expected in (
        (["/nonexistent/prog"], ("failed_to_start", None)),
        (["/bin/sh", "-c", "exit 6"], ("exited", 6)),
        (["/bin/sh", "-c", "kill -9 $$"], ("signaled", None)),
    ):
        path = str(tmp_path / argv[-1].replace("/", "_"))
        pid, _, _ = shim.start({"argv": argv}, dict(os.environ), files.Record(path), log)
        os.waitpid(pid, 0)
        seen = files.read_record(path) or {}
        assert (seen["state"], seen.get("rc")) == expected
        assert seen["witness"] == "shim"
    os.close(log)


def test_an_attempt_whose_lock_is_held_is_not_started(host: FakeHost) -> None:
    attempt = started(host, sh("one", "echo began"))
    host.over(attempt)
    for name in ("status.json", "exit.rec", "stdout.log"):
        (Path(attempt.folder) / name).unlink()
    with files.locked(attempt.lock), pytest.raises(NotBegun) as refused:
        launch(attempt, {})
    assert refused.value.kind == "busy"
    assert not Path(attempt.status).exists()
    assert host.log(attempt) == ""


def test_of_many_racing_supervisors_exactly_one_starts_the_stage(host: FakeHost) -> None:
    attempt = started(host, sh("one", "exit 0"))
    host.over(attempt)
    for name in ("status.json", "exit.rec", "stdout.log", "lock"):
        (Path(attempt.folder) / name).unlink(missing_ok=True)
    spec = json.loads(Path(attempt.spec).read_text())
    spec["argv"] = ["/bin/sh", "-c", "echo began; sleep 1"]
    Path(attempt.spec).write_text(json.dumps(spec))
    racing = [
        subprocess.Popen(
            [sys.executable, "-I", "-c", ENTRY, CODE, attempt.folder, "run"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        for _ in range(6)
    ]
    answers = [json.loads(process.communicate()[0]) for process in racing]
    assert sorted(answer["ok"] for answer in answers) == [False] * 5 + [True]
    assert {answer["kind"] for answer in answers if not answer["ok"]} == {"busy"}
    host.over(attempt)
    assert host.log(attempt) == "began\n"


def test_a_launcher_killed_before_the_ack_leaves_a_run_that_never_began_or_one_with_the_right_code(
    host: FakeHost,
) -> None:
    """Regression: the ack to a dead launcher raised EPIPE and ended the supervisor after the stage had started."""
    for number in range(10):
        attempt = host.attempt(host.start(sh("one", f"sleep 0.3; exit {50 + number}")), "one")
        host.over(attempt)
        for name in ("status.json", "exit.rec", "stdout.log"):
            (Path(attempt.folder) / name).unlink(missing_ok=True)
        launcher = subprocess.Popen(
            [sys.executable, "-I", "-c", ENTRY, CODE, attempt.folder, "run"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        assert launcher.stdout is not None
        launcher.stdout.close()  # the reader of the ack is gone from the start
        time.sleep(0.02 * number)
        launcher.kill()
        launcher.wait()
        _ended_right_or_never_began(host, attempt, 50 + number)


def _ended_right_or_never_began(host: FakeHost, attempt: Any, code: int) -> None:
    def supervised() -> bool:
        return any(attempt.folder in _arguments(pid) for pid in processes.snapshot())

    until(lambda: Path(attempt.status).exists() or not supervised())
    if Path(attempt.status).exists():
        view = host.over(attempt).view
        assert (view.state, view.rc, view.witness) == ("exited", code, "supervisor")


def _arguments(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace")
    except OSError:
        return ""


def test_a_recycled_pid_is_neither_believed_nor_signalled(host: FakeHost) -> None:
    attempt = started(host, sh("one", "exit 0"))
    host.over(attempt)
    bystander = subprocess.Popen(["sleep", "600"])
    try:
        forged = {"pid": bystander.pid, "start": 1, "boot": processes.boot_id()}
        fields = {**host.status(attempt), "state": "running", "supervisor": forged, "shim": forged, "main": forged}
        fields.pop("clean")
        Path(attempt.status).write_text(json.dumps(fields))
        Path(attempt.record).unlink()
        assert host.reading(attempt).view.state == "lost"
        with pytest.raises(RemoteError) as refused:
            host.runs.stop(attempt.run)
        assert refused.value.kind == "not_running"
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_another_boot_id_means_that_the_host_restarted(host: FakeHost) -> None:
    attempt = started(host, sh("one", "exit 0"))
    host.over(attempt)
    identity = {"pid": os.getpid(), "start": 1, "boot": "another"}
    fields = {**host.status(attempt), "state": "running", "boot": "another", "supervisor": identity, "main": identity}
    fields.pop("clean")
    Path(attempt.status).write_text(json.dumps(fields))
    Path(attempt.record).unlink()
    view = host.reading(attempt).view
    assert (view.state, view.clean) == ("lost_reboot", True)


def test_an_operators_tail_of_the_log_is_no_part_of_the_tree(host: FakeHost) -> None:
    attempt = started(host, sh("one", "echo up; exec sleep 600"))
    host.logged(attempt, "up")
    reader = subprocess.Popen(["tail", "-F", attempt.log], stdout=subprocess.DEVNULL)
    try:
        host.runs.stop(attempt.run)
        assert host.over(attempt).view.clean
        assert reader.poll() is None
    finally:
        reader.kill()
        reader.wait()


def test_a_worker_that_renames_itself_and_leaves_its_session_is_still_found_by_its_log(host: FakeHost) -> None:
    renaming = """
import ctypes, os, time
if os.fork() == 0:
    os.setsid()
    ctypes.CDLL(None).prctl(15, b"VLLM::Worker", 0, 0, 0)
    print("worker", os.getpid(), flush=True)
    time.sleep(600)
time.sleep(600)
"""
    attempt = started(host, py("one", renaming, grace_s=0.5))
    host.logged(attempt, "worker ")
    worker = int(host.log(attempt).split()[1])
    status = host.status(attempt)
    for role in ("supervisor", "shim", "main"):
        kill(status[role])
    assert processes.identify(worker), "the worker must have outlived them for this test to mean anything"
    assert not host.reading(attempt).view.clean
    host.runs.stop(attempt.run)
    assert host.over(attempt).view.clean
    assert processes.identify(worker) is None


def test_workers_left_by_a_stage_whose_supervisor_died_block_a_relaunch_until_they_are_stopped(host: FakeHost) -> None:
    gate = host.folder / "gate"
    stage = py("one", DEAF_GRANDCHILDREN, grace_s=0.5)
    stage["argv"].append(str(gate))
    attempt = started(host, stage)
    left = until(lambda: workers(host, attempt))
    kill(host.status(attempt)["supervisor"])
    gate.touch()
    view = until(lambda: (v := host.reading(attempt).view).state == "exited" and v)
    assert (view.rc, view.witness, view.clean) == (7, "shim", False)
    with pytest.raises(RemoteError) as refused:
        host.relaunch(attempt.run, "one")
    assert refused.value.kind == "busy" and "still there" in refused.value.message
    host.runs.stop(attempt.run)
    view = host.over(attempt).view
    assert (view.state, view.rc, view.witness, view.clean) == ("exited", 7, "shim", True)
    assert not any(processes.identify(pid) for pid in left)
    assert host.relaunch(attempt.run, "one")["attempt"] == 2


def test_secrets_reach_the_stage_and_no_file_and_no_command_line(host: FakeHost) -> None:
    secret = "hf_" + "x" * 30
    attempt = started(
        host,
        sh("one", 'echo "length ${#HF_TOKEN}"'),
        sh("two", 'echo "length ${#HF_TOKEN}"; exec sleep 600'),
        secrets={"HF_TOKEN": secret},
    )
    second = host.attempt(attempt.run, "two")
    host.logged(second, "length 33")
    assert host.log(attempt) == "length 33\n"
    for path in host.folder.rglob("*"):
        if path.is_file():
            assert secret.encode() not in path.read_bytes(), f"{path} holds the secret"
    for pid in processes.snapshot():
        assert secret not in _arguments(pid)
