"""What /proc says about processes, and signals that cannot hit the wrong one."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import signal
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

DEAD = frozenset("ZX")


@dataclass(frozen=True)
class Identity:
    """One process, never mistaken for a later one with the same pid."""

    pid: int
    start: int
    """Clock ticks after boot (field 22 of /proc/PID/stat)."""
    boot: str

    def to_json(self) -> dict[str, Any]:
        return {"pid": self.pid, "start": self.start, "boot": self.boot}

    @classmethod
    def from_json(cls, data: Any) -> Identity | None:
        if not isinstance(data, Mapping):
            return None
        pid, start, boot = data.get("pid"), data.get("start"), data.get("boot")
        # A pid below 2 would address a group or init: no stage is that.
        if type(pid) is not int or pid < 2 or type(start) is not int or not isinstance(boot, str):
            return None
        return cls(pid, start, boot)


@dataclass(frozen=True)
class Facts:
    """/proc/PID/stat."""

    pid: int
    name: str
    state: str
    parent: int
    session: int
    cpu_ticks: int
    """User and system time."""
    start: int
    rss_pages: int


@functools.cache
def boot_id() -> str:
    with open("/proc/sys/kernel/random/boot_id") as source:
        return source.read().strip()


def facts(pid: int) -> Facts | None:
    """None when there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as source:
            data = source.read()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name may hold blanks and parentheses itself.
    left, right = data.index(b"("), data.rindex(b")")
    rest = data[right + 2 :].split()
    return Facts(
        pid=pid,
        name=data[left + 1 : right].decode("utf-8", "replace"),
        state=rest[0].decode(),
        parent=int(rest[1]),
        session=int(rest[3]),
        cpu_ticks=int(rest[11]) + int(rest[12]),
        start=int(rest[19]),
        rss_pages=int(rest[21]),
    )


def identify(pid: int) -> Identity | None:
    """None when the process is gone or a zombie."""
    found = facts(pid)
    return None if found is None or found.state in DEAD else Identity(pid, found.start, boot_id())


def alive(identity: Identity | None) -> bool:
    return identity is not None and identify(identity.pid) == identity


def snapshot() -> dict[int, Facts]:
    """Every process of the host that is not a zombie."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                one = facts(int(name))
                if one is not None and one.state not in DEAD:
                    found[one.pid] = one
    return found


def descendants(roots: Iterable[int], world: Mapping[int, Facts]) -> set[int]:
    """Pids below `roots`, the roots themselves left out."""
    children: dict[int, list[int]] = {}
    for one in world.values():
        children.setdefault(one.parent, []).append(one.pid)
    found: set[int] = set()
    todo = list(roots)
    while todo:
        for pid in children.get(todo.pop(), ()):
            if pid not in found:
                found.add(pid)
                todo.append(pid)
    return found


def writers(path: str, world: Mapping[int, Facts]) -> set[int]:
    """Pids that hold `path` open for writing. Readers (an operator's tail -F) do not count."""
    try:
        wanted = os.stat(path, follow_symlinks=False)
    except OSError:
        return set()
    return {pid for pid in world if _writes(pid, wanted)}


def _writes(pid: int, wanted: os.stat_result) -> bool:
    try:
        for fd in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(FileNotFoundError):
                seen = os.stat(f"/proc/{pid}/fd/{fd}")
                same = (seen.st_dev, seen.st_ino) == (wanted.st_dev, wanted.st_ino)
                if same and _flags(pid, fd) & os.O_ACCMODE != os.O_RDONLY:
                    return True
    except OSError:
        pass  # it is another user's, or gone
    return False


def _flags(pid: int, fd: str) -> int:
    with open(f"/proc/{pid}/fdinfo/{fd}") as source:
        return next((int(line.split()[1], 8) for line in source if line.startswith("flags:")), 0)


def belonging(main: Identity | None, log: str, world: Mapping[int, Facts]) -> set[int]:
    """Pids of an attempt's tree, known by evidence that survives renaming, setsid and a dead supervisor.

    That is: main itself, what descends from it, what shares its session, and what writes to the attempt's log.
    Neither names nor environments count: setproctitle alters both.
    """
    found = writers(log, world)
    if main is not None and main.boot == boot_id():
        found |= {one.pid for one in world.values() if one.session == main.pid and one.start >= main.start}
        if main.pid in world and world[main.pid].start == main.start:
            found.add(main.pid)
    found |= descendants(found, world)
    return found - {os.getpid()}


def read_bytes(pid: int) -> int | None:
    """Bytes that the process asked to read so far (rchar). None when the kernel does not say."""
    try:
        with open(f"/proc/{pid}/io") as source:
            return next((int(line.split()[1]) for line in source if line.startswith("rchar:")), None)
    except OSError:
        return None


def send(identity: Identity, number: int) -> bool:
    """Signal exactly this process. False when it is gone."""
    try:
        handle = os.pidfd_open(identity.pid)
    except (ProcessLookupError, AttributeError, OSError) as error:
        if isinstance(error, ProcessLookupError):
            return False
        if isinstance(error, OSError) and error.errno not in (errno.ENOSYS, errno.EINVAL, errno.EPERM):
            raise
        return _send_by_pid(identity, number)
    try:
        # The handle pins the process, so what is checked now is what gets the signal.
        if not alive(identity):
            return False
        signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(handle)
    return True


def _send_by_pid(identity: Identity, number: int) -> bool:
    """For kernels before 5.3: checked right before, which leaves a window of microseconds."""
    if not alive(identity):
        return False
    try:
        os.kill(identity.pid, number)
    except ProcessLookupError:
        return False
    return True
