"""The patches of a stage's own process."""

from __future__ import annotations

import os

from compat import record
from compat.activate import activate
from compat.switches import VARIABLE, parse


def activate_driver() -> None:
    """Puts them in force and on record. Call it before speculators or vLLM are imported."""
    activate("driver", parse(os.environ.get(VARIABLE, "")), lambda applied: record.patch(applied, "driver"))
