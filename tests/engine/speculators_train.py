"""Run in the draft stages' environment: `speculators train` as it is, with the patches of CPU hosts alone.

Prints `STEPS A B`: seconds from the process's start to the first step, and from there to the last.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class Watch(logging.Handler):
    """Notes when the trainer tells a step's figures."""

    def __init__(self) -> None:
        super().__init__()
        self.times: list[float] = []

    def emit(self, record: logging.LogRecord) -> None:
        if isinstance(record.msg, Mapping) and "train" in record.msg:
            self.times.append(time.time())


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
    from speculators.cli import app
    from speculators.train import cli

    set_up = cli.setup_metric_logger

    def and_watch(*given: Any, **named: Any) -> None:
        set_up(*given, **named)  # throws out what was there before
        logging.getLogger("speculators.metrics").addHandler(watch)

    cli.setup_metric_logger = and_watch
    app(["train", *sys.argv[1:]], standalone_mode=False)
    print(f"STEPS {watch.times[0] - started():.3f} {watch.times[-1] - watch.times[0]:.3f}", flush=True)


if __name__ == "__main__":
    main()
