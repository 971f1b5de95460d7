"""Folders for half-made files and locks on shares of work, both freed by the kernel when their process dies."""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import tempfile
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
        _remove_unless_held(other)
    mine, lock = _made(folder, f"{prefix}{os.getpid()}-")
    try:
        yield mine
    finally:
        shutil.rmtree(mine, ignore_errors=True)
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


def _made(folder: Path, prefix: str) -> tuple[Path, int]:
    """A new folder and the handle that holds it. Until its lock is taken, another process may take it for a dead one's
    and remove it: then another."""
    while True:
        made = Path(tempfile.mkdtemp(prefix=prefix, dir=folder))
        try:
            lock = _take(made / _LOCK)
        except FileNotFoundError:
            continue
        if lock is not None:
            return made, lock


def _remove_unless_held(folder: Path) -> None:
    """The lock is held meanwhile, so that nobody begins to work in what is being removed."""
    try:
        lock = _take(folder / _LOCK)
    except FileNotFoundError:  # its owner, or another, has removed it
        return
    if lock is not None:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


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
