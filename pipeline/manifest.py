"""`manifest.jsonl` beside the hidden states: one file that all processes append to, lines whole and in one order.

An append takes the file's lock, so engines of one host and hosts of one shared folder may write at once; a line cut off
by a crash is always the last one, and the next that takes the lock removes it.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pipeline import space
from pipeline.files import sync_folder
from pipeline.report import StageError

MANIFEST = "manifest.jsonl"
UNSAID = {"states": "full"}
"""What older lines mean where they do not say it."""


def entries(folder: Path) -> dict[int, dict[str, Any]]:
    """Index → the latest line of the manifest of it; {} where there is none. Lines cut off by a crash are left out."""
    path = folder / MANIFEST
    found: dict[int, dict[str, Any]] = {}
    for line in path.read_bytes().split(b"\n") if path.exists() else ():
        try:
            entry = json.loads(line)
            found[int(entry["index"])] = entry
        except (ValueError, KeyError, TypeError):  # an attempt's line, or one cut off by a crash
            continue
    return found


def mend(folder: Path) -> None:
    """Removes a last line that a crash cut off."""
    if (folder / MANIFEST).exists():
        with _locked(folder / MANIFEST):
            pass


def append(folder: Path, lines: Sequence[Mapping[str, Any]]) -> None:
    """Adds lines; they are on the disk when this returns, all of them or none. Raises StageError on a full disk."""
    if not lines:
        return
    data = b"".join(json.dumps(line, separators=(",", ":")).encode() + b"\n" for line in lines)
    path = folder / MANIFEST
    new = not path.exists()
    with _locked(path) as handle:
        size = os.fstat(handle).st_size
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(handle, rest) :]
            os.fsync(handle)
        except OSError as error:
            os.ftruncate(handle, size)
            raise space.explained(error, folder) from error
    if new:
        sync_folder(folder)


@contextmanager
def _locked(path: Path) -> Iterator[int]:
    """The manifest, open at its end, nobody else in it, its last line whole."""
    handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
        except OSError as error:
            raise unlockable(path, error) from error
        _cut(handle)
        yield handle
    finally:
        os.close(handle)  # the lock goes with it


def unlockable(path: Path, error: OSError) -> Exception:
    """What to raise for a file that could not be locked."""
    if error.errno not in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):
        return error
    return StageError(
        f"The file system of {path} has no file locks ({error.strerror}), without which two processes could spoil each "
        "other's lines; mount it with locks (NFS: without nolock; Lustre: with flock), or use another folder."
    )


def _cut(handle: int) -> None:
    size = end = os.fstat(handle).st_size
    while end and os.pread(handle, 1, end - 1) != b"\n":
        block = os.pread(handle, min(end, 1 << 16), max(0, end - (1 << 16)))
        end = max(0, end - (1 << 16)) + block.rfind(b"\n") + 1
        if b"\n" in block:
            break
    if end != size:
        os.ftruncate(handle, end)
