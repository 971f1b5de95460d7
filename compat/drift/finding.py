"""What the probe reports: one place where the caller and the installed callee no longer fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["fails", "may fail", "silent"]
SEVERITIES: tuple[Severity, ...] = ("fails", "may fail", "silent")

KINDS: dict[str, str] = {
    "stale-copy": "a copy of the callee's code that has changed there since",
    "changed-default": "a default that the caller leaves alone has another value",
    "needed-step": "a step that the callee's own driver does and the caller never does",
    "changed-return": "a result that the caller uses has another type",
    "narrow-override": "code of the caller's that replaces the callee's takes less",
    "missing-override": "a method that the callee's base class newly demands",
    "missing-attribute": "an attribute that the callee does not have",
    "missing-method": "a method that the callee does not have",
    "unknown-rpc": "a worker's method, called by its name, that no worker has",
    "extension-clash": "a worker extension's method whose name the worker has itself",
    "unsupported-architecture": "an assumption about the target model that its class does not meet",
    "missing-import": "a name that the callee does not have",
    "missing-argument": "an argument that the callee requires",
    "unknown-argument": "an argument that the callee does not take",
    "too-many-arguments": "more positional arguments than the callee takes",
}
"""Kind → what it means. In order of how little such a failure explains itself when it comes: a default or a step
that nobody's message names first, a TypeError that names its argument last. Within a severity the ranking keeps it."""


@dataclass(frozen=True)
class Place:
    """A line of the caller's."""

    file: str
    """Relative to site-packages."""
    line: int
    function: str
    """Qualified, `VllmHiddenStatesGenerator.generate`; '' at module level."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Finding:
    severity: Severity
    kind: str
    callee: str
    """As in `compat.patch.Sign`: `Scheduler.__init__`, `CacheConfig`, `get_kv_cache_config_from_groups`."""
    name: str
    """The parameter, field, method or attribute."""
    message: str
    """One sentence."""
    place: Place
    at: str = ""
    """`file:line` of the callee's."""
    weight: int = 0
    """Ranks findings of one severity and kind: how many branches of the callee's it decides."""
    known: bool = False
    """True when it was so in the version that the caller declares: no drift, but a limit of the caller's."""
    patch: str = ""
    """Id of the catalogue entry that it belongs to; '' when it is uncatalogued."""
    others: tuple[str, ...] = ()
    """Further lines of the caller's with the same finding."""
