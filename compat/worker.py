"""The worker's side: a vLLM general plugin (see `compat/plugin`).

vLLM loads general plugins in every process it starts, helpers that only inspect a model class included. So the
plugin does no work by itself: each patch waits until the module that it concerns has been imported.
"""

from __future__ import annotations

import os

from compat import record
from compat.activate import activate
from compat.switches import VARIABLE, parse


def plugin() -> None:
    """Entry point in the group `vllm.general_plugins`."""
    if VARIABLE in os.environ:  # else this vLLM is no stage of ours
        activate("worker", parse(os.environ[VARIABLE]), lambda applied: record.patch(applied, "worker"))
