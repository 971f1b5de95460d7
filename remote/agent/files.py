"""Files that survive a crash, a full disk and a torn write."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping
from typing import Any

VERSION = 1
"""Of every JSON file below STATE/runs."""
RECORD_SIZE = 4096
LINE_MAX = 8 << 20
"""A longer line of events.jsonl is passed over."""
FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


class Unreadable(Exception):
    """A file that is there but cannot be understood; the message names it and says why."""


def boottime() -> float:
    """Seconds since the host started, sleep included: right across clock steps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def open_read(path: str) -> int:
    """A descriptor for reading that never follows a symbolic link and never blocks. Raises OSError (ELOOP)."""
    return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)


def file_id(facts: os.stat_result) -> str:
    """dev:inode: what a resumed tail must find again."""
    return f"{facts.st_dev:x}:{facts.st_ino:x}"


def write_json(path: str, value: Mapping[str, Any]) -> None:
    """Replace `path` whole: tmp, fsync, rename, fsync of the folder. On OSError the old file is untouched."""
    fresh = f"{path}.{os.getpid()}.tmp"
    data = json.dumps(value, sort_keys=True, indent=1).encode() + b"\n"
    try:
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            write_all(fd, data)
            os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(fresh, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(fresh)
        raise
    sync_folder(os.path.dirname(path))


def write_all(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


def sync_folder(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def read_json(path: str) -> dict[str, Any] | None:
    """The object in `path`; None when there is no such file. Raises Unreadable."""
    name = os.path.basename(path)
    try:
        with open(open_read(path), "rb") as source:
            data = source.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Unreadable(f"{name} cannot be read: {error.strerror}") from None
    return _parse(name, data)


def _parse(name: str, data: bytes) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        raise Unreadable(f"{name} is no JSON: it was cut short or altered") from None
    if not isinstance(value, dict):
        raise Unreadable(f"{name} is no JSON object")
    version = value.get("v", VERSION)
    if not isinstance(version, int) or version > VERSION:
        raise Unreadable(f"{name} has format {version}, and this Eyas reads up to {VERSION}: update Eyas to see it")
    return value


class Record:
    """A JSON object in blocks that were reserved beforehand, so that it can still be written on a full disk."""

    def __init__(self, path: str) -> None:
        """Reserve it, or open it when it is there. Raises OSError."""
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        if os.fstat(self.fd).st_size < RECORD_SIZE:
            os.pwrite(self.fd, b" " * RECORD_SIZE, 0)
            os.fsync(self.fd)

    def write(self, value: Mapping[str, Any]) -> None:
        """Overwrite in place. Long texts are cut so that the rest always fits."""
        data = json.dumps(value).encode()
        if len(data) > RECORD_SIZE:
            data = json.dumps({k: v[:200] if isinstance(v, str) else v for k, v in value.items()}).encode()
        os.pwrite(self.fd, data.ljust(RECORD_SIZE)[:RECORD_SIZE], 0)
        os.fsync(self.fd)


def read_record(path: str) -> dict[str, Any] | None:
    """What a Record holds; None when nothing was written. Raises Unreadable."""
    name = os.path.basename(path)
    try:
        with open(open_read(path), "rb") as source:
            data = source.read(RECORD_SIZE)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Unreadable(f"{name} cannot be read: {error.strerror}") from None
    return _parse(name, data) if data.strip(b" \0\n") else None


def read_lines(path: str, offset: int, budget: int = 1 << 20) -> tuple[list[dict[str, Any]], int]:
    """JSON objects of the whole lines after `offset`, and the offset to go on from.

    A line without its end is left for the next call; one that is no JSON object (torn by a crash) is passed over.
    """
    try:
        fd = open_read(path)
    except OSError:
        return [], offset
    try:
        data = os.pread(fd, budget, offset)
        while b"\n" not in data and len(data) >= budget and len(data) < LINE_MAX:
            budget *= 4
            data = os.pread(fd, budget, offset)
    finally:
        os.close(fd)
    end = data.rfind(b"\n") + 1
    if not end and len(data) >= LINE_MAX:
        return [], offset + len(data)
    found = []
    for line in data[:end].splitlines():
        with contextlib.suppress(ValueError, RecursionError):
            value = json.loads(line)
            if isinstance(value, dict):
                found.append(value)
    return found, offset + end


@contextlib.contextmanager
def locked(path: str, patience: float = 30.0) -> Iterator[None]:
    """Hold an flock on `path`. Raises TimeoutError when another process keeps it for `patience` seconds."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        until = time.monotonic() + patience
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise TimeoutError(f"another agent has held {path} for {patience:.0f} s") from None
                time.sleep(0.02)
        yield
    finally:
        os.close(fd)
