"""One engine's share of the stage `extract`, in a process of its own: `python -m pipeline.share FD`.

Standard input brings one line, `{"batches": [numbers], "missing": [indices], "backend", "engine"}`, and stays open for
as long as the stage lives. FD takes `{"ready": seconds}` and `{"saved": [indices]}`, a line each.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Sequence
from typing import Any

from compat import record
from pipeline import dataset, extracting, origin, products, settings
from pipeline.dataset import Sample
from pipeline.engine.driver import activate_driver
from pipeline.report import attempt
from pipeline.store import Store


def main() -> None:
    share = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_die_with_the_stage, name="lifeline", daemon=True).start()
    wanted = settings.of_attempt()
    samples = dataset.read(products.dataset())
    target = products.target(wanted)
    store = Store(products.hidden_states(), origin.of(wanted, target))
    every = extracting.batches(samples, wanted.batch_size)
    activate_driver()

    def begin() -> None:
        store.begin(attempt(), share["backend"], record.active_patches(), engine=share["engine"])

    extracting.run(
        wanted,
        share["backend"],
        target,
        origin.layers(wanted, target),
        store,
        [every[number] for number in share["batches"]],
        set(share["missing"]),
        _Told(int(sys.argv[1])),
        begin,
    )


class _Told:
    def __init__(self, handle: int) -> None:
        self._handle = handle

    def ready(self, seconds: float) -> None:
        self._tell({"ready": seconds})

    def saved(self, samples: Sequence[Sample]) -> None:
        self._tell({"saved": [sample.index for sample in samples]})

    def _tell(self, line: dict[str, Any]) -> None:
        os.write(self._handle, json.dumps(line).encode() + b"\n")


def _die_with_the_stage() -> None:
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    from pipeline.report import run_stage

    run_stage("pipeline.share")
