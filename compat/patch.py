"""What a compat entry is: one incompatibility between speculators and vLLM, how to know it, how to mend it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol


class FrameLike(Protocol):
    """A frame of a traceback, as `remote.logs` gives it."""

    @property
    def file(self) -> str: ...
    @property
    def function(self) -> str: ...
    @property
    def source(self) -> str: ...


@dataclass(frozen=True)
class Symptom:
    """How the incompatibility shows itself in a traceback. Every given part must fit.

    `exception` is the class name without its module; `message` and `source` are regular expressions (searched),
    the latter against the innermost frame's source line; `functions` must all occur among the frames.
    """

    exception: str
    message: str | None = None
    source: str | None = None
    innermost: str | None = None
    functions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Sign:
    """How the drift probe sees the incompatibility: a finding of that kind about that part of the callee.

    `kind` is one of `compat.drift.finding.KINDS`; `callee` is a dotted name inside vLLM without its module
    (`Scheduler.__init__`, `CacheConfig`) and `name` the parameter, field, method or attribute. "" fits any.
    """

    kind: str
    callee: str = ""
    name: str = ""


@dataclass(frozen=True)
class Probe:
    """A decision made from installed sources alone, without importing torch or vllm."""

    needed: bool
    reason: str
    """One sentence with the file and line that decided it."""


Where = Literal["driver", "worker", "both"]
State = Literal["needed", "active", "off", "not applicable", "refused"]


@dataclass(frozen=True)
class Patch:
    """A catalogue entry: `probe` gets site-packages; `apply` and `verify` run in the process that is to be mended."""

    id: str
    drift: str
    """Number in the catalogue of incompatibilities, `D07`."""
    title: str
    speculators: str
    """PEP 440 range it concerns, `==0.3.0`."""
    vllm: str
    cause: str
    mend: str
    """What the patch does, in one sentence; where `apply` is None, what to do instead."""
    probe: Callable[[Path], Probe]
    apply: Callable[[], None] | None = None
    """Called once, after the code to be replaced was found to be what it was `written_for`. None: nothing at run time
    mends it."""
    verify: Callable[[], str] | None = None
    """Called after `apply`: "" when the patch is in force, else one sentence that says what is wrong."""
    where: Where = "driver"
    after: str = ""
    """The module after whose import the patch is applied; it imports nothing earlier than the process does."""
    replaces: str = ""
    """The dotted name of the code that it replaces or wraps; for advice, of the code that breaks."""
    written_for: tuple[str, ...] = ()
    """sha256 of each source of `replaces` that the patch was written for; any other source is refused."""
    symptoms: tuple[Symptom, ...] = ()
    signs: tuple[Sign, ...] = ()
    """What the drift probe finds where this entry is live; () for what no reading of sources can see."""
    silent: bool = False
    """True when nothing is ever raised: only the data is wrong."""
    gate: str = ""
    """The gate (`pipeline/gates/`) that catches a silent entry."""
    architectures: tuple[str, ...] = ()
    """Classes of target models that it concerns; () for all."""
    cpu_only: bool = False
    """True when only a CPU build of vLLM needs it."""
    story: str = ""
    """What the account that this project starts from says of it, and where it errs."""
    risk: str = ""
    references: tuple[str, ...] = ()


@dataclass(frozen=True)
class Switches:
    """Per-project switches. A patch not named follows `mode`: auto applies what its probe finds needed."""

    mode: Literal["auto", "off"] = "auto"
    on: tuple[str, ...] = ()
    off: tuple[str, ...] = ()


@dataclass(frozen=True)
class PatchStatus:
    """A patch against one environment, with the project's switches."""

    id: str
    title: str
    state: State
    reason: str
    drift: str = ""
    switch: Literal["auto", "on", "off"] = "auto"
    silent: bool = False
    speculators: str = ""
    vllm: str = ""
    since: str = ""
    """Both ranges in words."""
    symptoms: tuple[str, ...] = ()
    """How it shows itself, in words with the patterns that it is known by."""
    cause: str = ""
    mend: str = ""
    where: Where = "driver"
    advice: bool = False
    """True when nothing at run time mends it: `mend` says what to do instead."""
    code: str = ""
    """What the patch does: its own source; '' for advice."""
    digest: str = ""
    """sha256 of the patch's own source file."""
    replaces: str = ""
    replaced_code: str = ""
    """Source of the code that is replaced, as installed; '' where it cannot be read."""
    replaced_at: str = ""
    """`file:line` of that code."""
    gate: str = ""
    architectures: tuple[str, ...] = ()
    story: str = ""
    references: tuple[str, ...] = ()
    risk: str = ""


@dataclass(frozen=True)
class Match:
    """A patch that explains a traceback."""

    patch: str
    why: str
    state: State | Literal[""] = ""
    """Of the patch in the environment in which the traceback was printed; "" where that is not known."""


@dataclass(frozen=True)
class Applied:
    """What activation did for one patch in one process."""

    id: str
    state: State
    reason: str = ""
    digest: str = ""
    """sha256 of the patch's own source file."""
    replaced_digest: str = ""
    """sha256 of the source of the code that it replaced."""
