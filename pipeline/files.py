"""Files that are either whole or not there."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(path: Path, data: bytes) -> None:
    """Writes through a hidden sibling, fsync and rename, so that no reader and no crash ever sees a part of it."""
    half = path.with_name(f".{path.name}.tmp")
    with half.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    half.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Makes renames inside the folder last through a power cut."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
