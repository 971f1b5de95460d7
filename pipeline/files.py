"""Files that are either whole or not there."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from pipeline import space


@contextmanager
def whole(path: Path) -> Iterator[BinaryIO]:
    """A file to write, in place once the block is through; after an exception in it nothing is there.

    Goes through a hidden sibling, fsync and rename, so that no reader and no crash ever sees a part of it. Raises
    StageError on a full disk.
    """
    half = path.with_name(f".{path.name}.tmp")
    try:
        with half.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        half.replace(path)
    except OSError as error:
        raise space.explained(error, path.parent) from error
    finally:
        half.unlink(missing_ok=True)
    sync_folder(path.parent)


def write_whole(path: Path, data: bytes) -> None:
    with whole(path) as file:
        file.write(data)


def sync(path: Path) -> None:
    """Brings a file that another wrote to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_folder(folder: Path) -> None:
    """Makes renames inside the folder last through a power cut."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sha256(path: Path) -> str:
    """Digest of a file's content, read block by block."""
    found = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            found.update(block)
    return found.hexdigest()
