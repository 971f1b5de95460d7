"""Run in the draft stages' environment: `speculators train` as it is, with the patches of CPU hosts alone.

Prints `STEP seconds` when the first optimizer step is over, counted from this process's start, and `RATE tokens/s`.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path


class Watch(logging.Handler):
    """Takes the trainer's own figures."""

    def __init__(self) -> None:
        super().__init__()
        self.rates: list[float] = []

    def emit(self, record: logging.LogRecord) -> None:
        if isinstance(record.msg, Mapping) and "train" in record.msg:
            if not self.rates:
                print(f"STEP {time.time() - started():.3f}", flush=True)
            self.rates.append(record.msg["profile"]["tokens_per_s"])


def started() -> float:
    """When this process began, in seconds since the epoch."""
    ticks = int(Path("/proc/self/stat").read_text().rsplit(")", 1)[1].split()[19])
    up = float(Path("/proc/uptime").read_text().split()[0])
    return time.time() - up + ticks / os.sysconf("SC_CLK_TCK")


def main() -> None:
    from compat.activate import activate
    from compat.patch import Switches

    activate("driver", Switches(), lambda applied: None)
    watch = Watch()
    logging.getLogger("speculators").addHandler(watch)
    from speculators.cli import app

    begun = time.monotonic()
    try:
        app(["train", *sys.argv[1:]], standalone_mode=False)
    finally:
        print(f"STEPS {len(watch.rates)} {time.monotonic() - begun:.3f}", flush=True)


if __name__ == "__main__":
    main()
