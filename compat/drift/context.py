"""What every check is given."""

from __future__ import annotations

from dataclasses import dataclass

from compat.drift.callers import Caller
from compat.drift.classes import Classes
from compat.drift.driver import Driver
from compat.drift.facts import Facts
from compat.drift.library import Library


@dataclass(frozen=True)
class Context:
    caller: Caller
    library: Library
    """The callee."""
    classes: Classes
    driver: Driver
    baseline: Facts | None
    """Of the version that the caller declares; None when it is not known."""
    architecture: str = ""
    """Class of the target model, as its config.json names it; '' when it is not known."""
