"""The process that runs one attempt: starts it, ends it on request, records how it ended, starts the next stage.

There is one per attempt and no central daemon: it needs neither the agent nor the link once it has begun.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Mapping
from typing import Any

from remote.agent import files, processes, provenance, shim
from remote.agent.escalation import Escalation
from remote.agent.layout import Attempt, Run
from remote.agent.status import Status

PR_SET_CHILD_SUBREAPER = 36
STRAY_GRACE = 5.0
"""Seconds that processes get to leave by themselves after the stage's main process has ended."""
SHIM_PATIENCE = 2.0
SAVE_PATIENCE = 60.0
WATCHED = frozenset({signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1})
STOP_SIGNALS = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGUSR1})


class Ack:
    """The one line to the launcher, who may be dead by now."""

    def __init__(self, fd: int) -> None:
        self._fd: int | None = fd

    def send(self, **fields: Any) -> None:
        if self._fd is not None:
            # A dead launcher means EPIPE: the run goes on, and its request_id tells whoever asks again.
            with contextlib.suppress(OSError):
                os.write(self._fd, json.dumps(fields).encode() + b"\n")
            os.close(self._fd)
            self._fd = None


def main(folder: str, role: str) -> None:
    """Entry of the process that `launch` starts. `role` is run, or stand-in for a supervisor that is dead."""
    given = json.loads(sys.stdin.buffer.read() or b"{}")
    ack = Ack(_detach())
    attempt = Attempt(folder)
    try:
        lock = _take(attempt)
        if lock is None:
            ack.send(ok=False, kind="busy", error=f"attempt {attempt.key} is already supervised")
        elif role == "stand-in":
            from remote.agent.stand_in import stand_in

            stand_in(attempt, ack)
        else:
            _run(attempt, dict(given.get("secrets") or {}), ack)
    except BaseException as error:
        ack.send(ok=False, kind="internal", error=f"the supervisor failed: {type(error).__name__}: {error}")
        with contextlib.suppress(OSError), open(os.path.join(folder, "supervisor.err"), "a") as report:
            report.write(traceback.format_exc())
        os._exit(70)
    os._exit(0)


def _detach() -> int:
    """Leave the launcher's session and descriptors behind. Returns the descriptor of the ack pipe."""
    ack = os.dup(1)
    if os.fork():
        os._exit(0)
    os.setsid()
    if os.fork():
        os._exit(0)
    os.chdir("/")
    os.umask(0o077)
    # Or whoever waits for EOF on our standard streams (sshd does) waits as long as the run.
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.close(null)
    return ack


def _take(attempt: Attempt) -> int | None:
    """The attempt's lock, held until this process ends; None when another supervisor has it."""
    fd = os.open(attempt.lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    with contextlib.suppress(OSError):
        os.pwrite(fd, b"%d\n" % os.getpid(), 0)
    return fd


def _run(attempt: Attempt, secrets: dict[str, str], ack: Ack) -> None:
    if os.path.lexists(attempt.status):
        ack.send(ok=False, kind="busy", error=f"attempt {attempt.key} was started before")
        return
    try:
        spec = files.read_json(attempt.spec)
        if spec is None:
            raise files.Unreadable("spec.json is missing")
        record = files.Record(attempt.record)
        log = os.open(attempt.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        status = Status(attempt, record)
        status.save(state="starting")
        if status.unsaved:
            raise OSError(next(iter(files.FULL)), "the first status could not be written")
    except (OSError, files.Unreadable) as error:
        kind = "no_space" if isinstance(error, OSError) and error.errno in files.FULL else "internal"
        ack.send(ok=False, kind=kind, error=f"cannot prepare {attempt.folder}: {error}")
        return
    Supervisor(attempt, spec, secrets, status, record).run(log, ack)


class Supervisor:
    """One attempt from its first process to the proof that none is left."""

    def __init__(
        self,
        attempt: Attempt,
        spec: Mapping[str, Any],
        secrets: Mapping[str, str],
        status: Status,
        record: files.Record,
    ) -> None:
        self._attempt = attempt
        self._spec = spec
        self._secrets = secrets
        self._status = status
        self._record = record
        self._shim: processes.Identity | None = None
        self._main: processes.Identity | None = None
        self._main_pid = 0
        self._ended = False
        self._stopping = False
        self._zombie_since: float | None = None
        self._end = Escalation(self._living)

    def run(self, log: int, ack: Ack) -> None:
        if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "PR_SET_CHILD_SUBREAPER")
        signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)
        self._start(log, ack)
        while not self._over():
            self._wait()
            self._reap()
            self._mind_shim()
            if not self._stopping and not self._ended and os.path.lexists(self._attempt.stop_request):
                self._stop()
            self._end.step()
            if self._status.unsaved:
                self._status.settle()
        self._status.save(clean=True)
        with contextlib.suppress(OSError, TimeoutError, files.Unreadable):  # the attempt's own events have it all
            provenance.keep(Run(self._attempt.run_folder))
        self._chain()
        until = files.boottime() + SAVE_PATIENCE
        while self._status.unsaved and files.boottime() < until and not self._status.settle():
            time.sleep(0.5)  # a full disk: exit.rec has it all, but readers look at status.json first

    def _start(self, log: int, ack: Ack) -> None:
        started = {"started": time.time(), "started_boot": files.boottime()}
        try:
            shim_pid, self._main_pid, error = shim.start(self._spec, self._environment(), self._record, log)
        except OSError as failure:
            shim_pid, error = 0, f"cannot start a process for the stage: {failure.strerror} (errno {failure.errno})"
        os.close(log)  # or this process would count as one that writes to the log
        self._shim = processes.identify(shim_pid) if shim_pid else None
        self._main = self._identify_main()
        if error:
            self._ended = True
            self._status.save(state="failed_to_start", error=error, witness="supervisor", **started, **shim.now())
        else:
            self._status.save(
                state="running",
                shim=self._shim.to_json() if self._shim else None,
                main=self._main.to_json() if self._main else None,
                **started,
            )
        ack.send(ok=True, state=self._status.fields["state"])

    def _identify_main(self) -> processes.Identity | None:
        """Also of a main that is a zombie already: its session may live on."""
        found = processes.facts(self._main_pid) if self._main_pid else None
        return processes.Identity(found.pid, found.start, processes.boot_id()) if found else None

    def _environment(self) -> dict[str, str]:
        own = {
            "EYAS_RUN": self._attempt.run_folder,
            "EYAS_ATTEMPT": self._attempt.folder,
            "EYAS_SWITCHES": json.dumps(self._spec.get("switches") or {}),
        }
        return {**os.environ, **(self._spec.get("env") or {}), **self._secrets, **own}

    def _wait(self) -> None:
        seen = signal.sigtimedwait(WATCHED, self._end.wait)
        if seen is not None and seen.si_signo in STOP_SIGNALS and not self._stopping and not self._ended:
            self._stop()

    def _stop(self) -> None:
        self._stopping = True
        self._status.save(state="stopping", stop_requested=time.time())
        self._end.begin(float(self._spec.get("grace_s", 30)))

    def _reap(self) -> None:
        while True:
            try:
                pid, wait_status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self._main_pid and not self._ended:
                # The shim leaves main unreaped on purpose, so its true status arrives here in every case.
                self._ended = True
                self._status.save(**shim.outcome(wait_status), witness="supervisor", **shim.now())
                self._end.begin(min(float(self._spec.get("grace_s", 30)), STRAY_GRACE))

    def _mind_shim(self) -> None:
        """A shim that is stopped (SIGSTOP) would keep a dead main from us for ever: end it."""
        if self._ended or self._shim is None:
            return
        found = processes.facts(self._main_pid)
        if found is None or found.state not in processes.DEAD:
            self._zombie_since = None
        elif self._zombie_since is None:
            self._zombie_since = files.boottime()
        elif files.boottime() - self._zombie_since > SHIM_PATIENCE:
            processes.send(self._shim, signal.SIGKILL)

    def _living(self) -> set[int]:
        """Pids of the stage's tree, the shim left out: it ends by itself."""
        world = processes.snapshot()
        found = processes.descendants([os.getpid()], world)
        found |= processes.belonging(self._main, self._attempt.log, world)
        return found - {self._shim.pid if self._shim else 0}

    def _over(self) -> bool:
        if not self._ended:
            return False
        left = self._living()
        trouble = self._end.stubborn(left)
        if trouble and trouble != self._status.fields.get("trouble"):
            self._status.save(trouble=trouble)
        if left and not self._end.begun:
            self._end.begin(STRAY_GRACE)
        return not left

    def _chain(self) -> None:
        """The last act: the pipeline walks on with nobody connected."""
        fields = self._status.fields
        if self._stopping or not self._spec.get("chain"):
            return
        from remote.agent.chain import next_stage
        from remote.agent.grid import go_on

        followed: str | None = None
        try:
            if fields["state"] == "exited" and fields["rc"] == 0:
                followed = next_stage(self._attempt, self._secrets)
                self._status.save(chained=followed)
            if followed is None and not os.path.lexists(self._attempt.stop_request):
                go_on(Run(self._attempt.run_folder), self._secrets)
        except Exception as error:
            self._status.save(chain_error=f"the next stage could not be started: {error}")
