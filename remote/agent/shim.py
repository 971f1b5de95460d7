"""The second witness: a process between supervisor and stage that does nothing but see how the stage ends.

    supervisor → shim → main (the stage itself, leader of its own session)

When the supervisor is killed, the stage goes on and the shim still records its exit. When the shim is killed, main
becomes the supervisor's own child (it is a subreaper) and the supervisor sees the exit itself.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import signal
import time
from collections.abc import Mapping
from typing import Any, NoReturn

from remote.agent import files

REPORT_MAX = 4096


def outcome(status: int) -> dict[str, Any]:
    """A wait status as the fields of an exit."""
    if os.WIFSIGNALED(status):
        return {"state": "signaled", "signal": os.WTERMSIG(status)}
    return {"state": "exited", "rc": os.WEXITSTATUS(status)}


def now() -> dict[str, float]:
    return {"ended": time.time(), "ended_boot": files.boottime()}


def start(spec: Mapping[str, Any], env: Mapping[str, str], record: files.Record, log: int) -> tuple[int, int, str]:
    """Fork the shim, and main below it. Returns (shim's pid, main's pid, '' or why main could not be run).

    Raises OSError when not even the shim can be forked.
    """
    read, write = os.pipe2(os.O_CLOEXEC)
    shim = os.fork()
    if shim == 0:
        _as_shim(spec, env, record, log, write)
    os.close(write)
    report = b""
    while part := os.read(read, REPORT_MAX):
        report += part
    os.close(read)
    pid, _, error = report.decode("utf-8", "replace").partition("\n")
    if not pid.isdigit():
        return shim, 0, error or "its shim died before the stage began"
    return shim, int(pid), error


def _as_shim(spec: Mapping[str, Any], env: Mapping[str, str], record: files.Record, log: int, report: int) -> NoReturn:
    try:
        os.setsid()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(number, signal.SIG_IGN)
        # Above all the launcher's ack pipe: a write end left open here makes `start` hang as long as the run.
        _close_all_but({0, 1, 2, record.fd, log, report})
        main, error = _fork_main(spec, env, log)
        os.close(log)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # its memory holds the stage's secrets
        if error:
            with contextlib.suppress(OSError):
                record.write(
                    {"v": files.VERSION, "state": "failed_to_start", "error": error, "witness": "shim", **now()}
                )
        with contextlib.suppress(OSError):
            os.write(report, f"{main}\n{error}".encode()[:REPORT_MAX])
        os.close(report)
        if main and not error:
            # WNOWAIT leaves main for the supervisor to reap: there is no moment at which its status is known
            # only to a process that may be killed.
            seen = os.waitid(os.P_PID, main, os.WEXITED | os.WNOWAIT)
            if seen is not None:
                ended = (
                    {"state": "exited", "rc": seen.si_status}
                    if seen.si_code == os.CLD_EXITED
                    else {"state": "signaled", "signal": seen.si_status}
                )
                record.write({"v": files.VERSION, "witness": "shim", **ended, **now()})
    finally:
        os._exit(0)


def _fork_main(spec: Mapping[str, Any], env: Mapping[str, str], log: int) -> tuple[int, str]:
    """(pid, '') once main runs its program; (pid or 0, why) when it cannot."""
    read, write = os.pipe2(os.O_CLOEXEC)
    try:
        main = os.fork()
    except OSError as error:
        return 0, f"cannot start a process for the stage: {_named(error)}"
    if main == 0:
        _as_main(spec, env, log, write)
    os.close(write)
    report = b""
    while part := os.read(read, REPORT_MAX):
        report += part
    os.close(read)
    return main, report.decode("utf-8", "replace")


def _as_main(spec: Mapping[str, Any], env: Mapping[str, str], log: int, error_pipe: int) -> NoReturn:
    argv = list(spec["argv"])
    folder = spec.get("cwd") or "/"
    try:
        os.setsid()
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        for number in (*_IGNORED_HERE, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.umask(0o077)
        try:
            os.chdir(folder)
        except OSError as error:
            raise _CannotRun(f"cannot enter the stage's working folder {folder}: {_named(error)}") from None
        try:
            os.execvpe(argv[0], argv, dict(env))
        except OSError as error:
            raise _CannotRun(_exec_sentence(argv, env, error)) from None
    except BaseException as error:  # this process must never return into the supervisor's code
        text = str(error) if isinstance(error, _CannotRun) else f"{type(error).__name__}: {error}"
        with contextlib.suppress(OSError):
            os.write(error_pipe, text.encode("utf-8", "replace")[: REPORT_MAX - 32])
    os._exit(127)


_IGNORED_HERE = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


class _CannotRun(Exception):
    pass


def _exec_sentence(argv: list[str], env: Mapping[str, str], error: OSError) -> str:
    program = argv[0]
    if error.errno == errno.ENOENT and os.path.exists(program):
        return f"cannot run {program}: the interpreter that its first line names does not exist ({_code(error)})"
    if error.errno == errno.ENOENT and "/" not in program:
        return f"cannot run {program}: it is not on the host's PATH, {env.get('PATH', '')!r} ({_code(error)})"
    return f"cannot run {program}: {_named(error)}"


def _named(error: OSError) -> str:
    return f"{error.strerror} ({_code(error)})"


def _code(error: OSError) -> str:
    return errno.errorcode.get(error.errno or 0, str(error.errno))


def _close_all_but(keep: set[int]) -> None:
    top = max(keep) + 1
    for fd in range(top):
        if fd not in keep:
            with contextlib.suppress(OSError):
                os.close(fd)
    os.closerange(top, min(resource.getrlimit(resource.RLIMIT_NOFILE)[0], 65536))
