"""Folders for half-made files and locks on shares of work, both freed by the kernel when their process dies."""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pipeline.manifest import unlockable
from pipeline.report import StageError

_LOCK = "owner.lock"


@contextmanager
def own(folder: Path) -> Iterator[Path]:
    """A folder inside `folder`, this process's alone and gone in the end. Those that dead processes of this host left
    are removed first; other processes may be at work in theirs."""
    prefix = f".scratch-{socket.gethostname()}-"
    for other in folder.glob(f"{prefix}*"):
        if not _is_held(other / _LOCK):
            shutil.rmtree(other, ignore_errors=True)
    mine = folder / f"{prefix}{os.getpid()}"
    shutil.rmtree(mine, ignore_errors=True)
    mine.mkdir()
    lock = _take(mine / _LOCK)
    try:
        yield mine
    finally:
        shutil.rmtree(mine, ignore_errors=True)
        if lock is not None:
            os.close(lock)


@contextmanager
def claim(folder: Path, what: str) -> Iterator[None]:
    """`what`, such as `rank 1 of 4`, is this process's alone in that folder. Raises StageError when it is another's."""
    path = folder / f".{what.replace(' ', '-')}.lock"
    lock = _take(path)
    if lock is None:
        raise StageError(
            f"Another process extracts as {what} into {folder}. Wait for it or stop it; on another host, give "
            "stage.extract.rank a number of its own."
        )
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(lock)


def _is_held(path: Path) -> bool:
    lock = _take(path) if path.exists() else None
    if lock is not None:
        os.close(lock)
        return False
    return path.exists()


def _take(path: Path) -> int | None:
    """The handle that holds the lock, or None when another holds it."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _same(path, handle):
            return handle
    except BlockingIOError:
        pass
    except OSError as error:
        os.close(handle)
        raise unlockable(path, error) from error
    os.close(handle)
    return None


def _same(path: Path, handle: int) -> bool:
    """False when the last owner removed the file between its opening and its locking here."""
    try:
        return path.stat().st_ino == os.fstat(handle).st_ino
    except FileNotFoundError:
        return False
