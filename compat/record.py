"""One attempt's `events.jsonl`: a line an event, each written whole with a single O_APPEND write."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from compat.patch import Applied

ATTEMPT = "EYAS_ATTEMPT"
FILE = "events.jsonl"
Process = Literal["driver", "worker"]


@dataclass(frozen=True)
class Reported:
    """What the processes of one kind did about one patch; equal reports of several workers are one."""

    id: str
    process: str
    """`driver` or `worker`."""
    state: str
    reason: str = ""
    digest: str = ""
    """sha256 of the patch's own source file."""
    replaced_digest: str = ""
    """sha256 of the source of the code that it replaced."""


def append(kind: str, **fields: Any) -> None:
    """Adds an event. Does nothing outside an attempt (EYAS_ATTEMPT unset)."""
    folder = os.environ.get(ATTEMPT)
    if not folder:
        return
    line = json.dumps({"t": time.time(), "kind": kind, **fields}, ensure_ascii=True, separators=(",", ":")) + "\n"
    handle = os.open(Path(folder) / FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.write(handle, line.encode())
    finally:
        os.close(handle)


def patch(applied: Applied, process: Process) -> None:
    """Reports what activation did for one patch in this process."""
    append("patch", **{**asdict(applied), "process": process})


def patches(attempt: Path) -> tuple[Reported, ...]:
    """What the processes of an attempt have reported of each patch, in the order of the reports.

    Raises ValueError when the folder has no record.
    """
    try:
        lines = (attempt / FILE).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise ValueError(f"{attempt} has no record of an attempt ({FILE}: {error.strerror}).") from None
    return tuple(dict.fromkeys(_reported(lines)))


def active_patches() -> list[dict[str, str]]:
    """The patches in force in this attempt's processes so far: id, process, digest, replaced_digest of each."""
    found = patches(Path(os.environ[ATTEMPT]))
    return [
        {"id": r.id, "process": r.process, "digest": r.digest, "replaced_digest": r.replaced_digest}
        for r in found
        if r.state == "active"
    ]


def _reported(lines: Iterable[str]) -> Iterator[Reported]:
    for line in lines:
        try:
            event = json.loads(line)
            if event["kind"] == "patch":
                yield Reported(**{name: str(event[name]) for name in Reported.__dataclass_fields__})
        except (ValueError, KeyError, TypeError):  # a line cut off by a crash
            continue
