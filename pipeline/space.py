"""Free space on the disk of a folder: asked for before hours of work, and watched while they go on."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

from pipeline.report import StageError

RESERVE = 64 << 20
"""Bytes left free, for the logs and the manifest that have to be written to the end."""
_FULL = {
    errno.ENOSPC: "is full",
    errno.EDQUOT: "has no quota left",
    errno.EFBIG: "takes no file of that size (`ulimit -f`)",
}


def require(folder: Path, needed: int) -> None:
    """Raises StageError unless `needed` bytes fit and RESERVE stays free."""
    free = shutil.disk_usage(folder).free
    if needed > free - RESERVE:
        left = f"{told(RESERVE)} left over"
        wanted = f"{told(needed)} are to be written, with {left}" if needed else f"there are to be {left}"
        raise StageError(
            f"The disk of {folder} has {told(free)} free, and {wanted}. What is on disk stays: free some space, or "
            "lower run.samples, and relaunch the stage."
        )


def explained(error: OSError, folder: Path) -> Exception:
    """What to raise for an error of writing into the folder: a sentence where the disk is full, else itself."""
    if error.errno not in _FULL:
        return error
    return StageError(
        f"The disk of {folder} {_FULL[error.errno]}. What is on disk stays: free some space and relaunch the stage."
    )


def told(size: float) -> str:
    """`1.2 GB`, in powers of 1024, as `du -h` counts them."""
    for unit in ("bytes", "KB", "MB", "GB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TB"
