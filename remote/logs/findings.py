"""What the log reader recognises: tracebacks, progress bars, milestones, deaths without a traceback."""

from __future__ import annotations

from dataclasses import dataclass, field

UNKNOWN = -1
"""An offset that is not known: the log was decoded before it was read."""


@dataclass(frozen=True)
class Frame:
    """One printed frame line. `source` is the line printed below it, '' when the log has none."""

    file: str
    line: int
    function: str
    source: str = ""


@dataclass(frozen=True)
class Traceback:
    """One traceback of the log, in the order of the first header line, folded over the workers that printed it."""

    exception_type: str | None
    """As printed, qualified or not; None only when the log was cut before it."""
    message: str
    """Every line of the message, joined by newlines; '' for a bare `assert`."""
    frames: tuple[Frame, ...]
    """Outermost first, as Python prints them."""
    worker: str | None = None
    """Label of the first worker that printed it, without its pid (`Worker_TP3`); None without a prefix."""
    workers: tuple[str, ...] = ()
    """Every worker that printed it."""
    chained_from: int | None = None
    """Index of the traceback that this one was chained to (the one printed before it)."""
    chain_kind: str | None = None
    """cause ("direct cause of"), context ("during handling of") or remote."""
    wrapper: bool = False
    """True when it only says that something else failed ("Worker failed with error …")."""
    caused_by: int | None = None
    """For a wrapper: the index of the traceback it is about, None when that is not in the log."""
    truncated: bool = False
    syntax_file: str = ""
    """For a SyntaxError: the file that it is about, which is no frame."""
    syntax_line: int = 0
    line: int = 0
    """Line number of the header in the log, from 1."""
    offset: int = 0
    """Byte offset of the header line in the log, or UNKNOWN."""
    printed: int = 1
    """How many times the log has it, over all workers."""
    processes: int = 1
    """How many processes printed it: the workers, and those that Ray only counted ("repeated 7x across cluster")."""

    @property
    def innermost(self) -> Frame | None:
        return self.frames[-1] if self.frames else None

    @property
    def message_first_line(self) -> str:
        return self.message.split("\n", 1)[0]

    @property
    def headline(self) -> str:
        """`Type: message`, or the failing source line where the message is empty."""
        name = (self.exception_type or "cut off before its exception").rsplit(".", 1)[-1]
        if self.message_first_line:
            where = f" ({self.syntax_file}:{self.syntax_line})" if self.syntax_file else ""
            return f"{name}: {self.message_first_line}{where}"
        if self.innermost and self.innermost.source:
            return f"{name} at `{self.innermost.source.strip()}`"
        return name


@dataclass(frozen=True)
class Progress:
    """The last state of one bar of one worker."""

    kind: str
    """What moves, stable for tests: `safetensors_shards`, `cudagraph_capture`, `generic_tqdm`, …"""
    done: int | None
    total: int | None
    worker: str | None = None
    percent: int | None = None
    rate: float | None = None
    """Steps per second, as the bar shows it."""
    eta_s: float | None = None
    """Seconds to the end, as the bar shows it: it jumps with every slow step."""
    seconds: float | None = None
    """Elapsed seconds that the bar shows."""
    label: str = ""
    """The bar's own words."""
    step_s: float | None = None
    """Seconds a step takes, median of the latest ones; None while not known."""
    eta_median_s: float | None = None
    """Seconds to the end at that pace."""
    phase: str = ""
    """At 100 %: what its worker does since ("processing the loaded weights"), '' once it went on."""


@dataclass(frozen=True)
class Phase:
    """What one worker is doing, by the latest of its bars and figures."""

    name: str
    worker: str | None = None
    line: int = 0
    """Line of the log that began it."""


@dataclass(frozen=True)
class Stall:
    """A bar that got no new step for far longer than usual, by the log's own clocks."""

    text: str
    """One sentence with the step, the gap and the usual gap."""
    kind: str
    """The bar's kind."""
    done: int
    """Steps done when it began."""
    total: int | None
    gap_s: float
    """Seconds without a step, at least."""
    usual_s: float
    """Seconds that usually lie between two steps."""
    worker: str | None = None
    label: str = ""
    ended: bool = False
    """True when the bar moved again."""
    line: int = 0
    """Line of the last step before it."""
    remedy: str = ""


@dataclass(frozen=True)
class Milestone:
    """A one-off figure the engine reports: `load_weights_done` (s), `model_loaded` (GiB; s), `kv_cache` (tokens) …"""

    kind: str
    value: float
    unit: str
    worker: str | None = None


@dataclass(frozen=True)
class Fatal:
    """A death that left no Python traceback: a signal, an OOM kill, a C++ abort."""

    kind: str
    text: str
    signal: int | None = None
    exit_code: int | None = None
    remedy: str = ""
    line: int = 0
    worker: str | None = None
    pid: int | None = None
    count: int = 1
    """Times seen, or processes lost."""
    ranks: tuple[int, ...] = ()
    """Ranks that report it."""
    root_rank: int | None = None
    """The rank that failed first, where the log says so."""


@dataclass(frozen=True)
class Findings:
    """Everything recognised in one log so far. Immutable; a new one is made when something changed."""

    tracebacks: tuple[Traceback, ...] = ()
    progress: tuple[Progress, ...] = ()
    milestones: tuple[Milestone, ...] = ()
    fatal: tuple[Fatal, ...] = ()
    phases: tuple[Phase, ...] = ()
    stalls: tuple[Stall, ...] = ()
    root_cause: int | None = None
    """Index into `tracebacks`; None when the log has no failure, or its cause is not in the log."""
    root_cause_fatal: int | None = None
    reason: str = ""
    """Why that one is the root cause, in one sentence."""
    failure_kind: str = ""
    """What kind of failure it is (`cuda_out_of_memory`, `nccl`, …), '' for one that is not known."""
    remedy: str = ""
    """What helps against that kind."""
    restarted: str = ""
    """Why the log was read anew ("rotated"), '' when it was not; what was found before is gone."""
    bytes_read: int = 0
    lines_read: int = field(default=0)
