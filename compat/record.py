"""One attempt's `events.jsonl`: a line an event, each written whole with a single O_APPEND write."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any, Literal

from compat.patch import Applied

ATTEMPT = "EYAS_ATTEMPT"
FILE = "events.jsonl"


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


def active_patches() -> list[str]:
    """Ids of the patches that any process of this attempt has reported as active, in the order of the reports."""
    path = Path(os.environ[ATTEMPT]) / FILE
    events = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return list(dict.fromkeys(e["id"] for e in events if e["kind"] == "patch" and e["state"] == "active"))


def patch(applied: Applied, process: Literal["driver", "worker"]) -> None:
    """Reports what activation did for one patch in this process."""
    append(
        "patch",
        id=applied.id,
        state=applied.state,
        reason=applied.reason,
        digest=applied.digest,
        replaced_digest=applied.replaced_digest,
        process=process,
    )
