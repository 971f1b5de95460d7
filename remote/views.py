"""What the console sees of a host: runs, stages, attempts, telemetry. Made by the agent, read by the console."""

from __future__ import annotations

from dataclasses import dataclass, field

from remote.logs.findings import Findings

WAITING, RUNNING, STOPPING, DONE, FAILED, STOPPED, LOST = (
    "waiting",
    "running",
    "stopping",
    "done",
    "failed",
    "stopped",
    "lost",
)
"""States of a stage, as the rail shows them."""

LIVE_STAGE_STATES = frozenset({RUNNING, STOPPING})


@dataclass(frozen=True)
class AttemptView:
    """One execution of a stage, as its files on the host tell it."""

    number: int
    state: str
    """created, starting, running, stopping, exited, signaled, failed_to_start, lost_supervisor, lost, lost_reboot."""
    rc: int | None = None
    signal: int | None = None
    witness: str | None = None
    """Who saw the exit: supervisor or shim."""
    started: float | None = None
    """Host wall clock, seconds since the epoch."""
    elapsed: float | None = None
    """Seconds, from the host's boot clock: right across clock steps."""
    error: str | None = None
    """Why it failed to start, or why it counts as lost."""
    stop_requested: bool = False
    clean: bool = False
    """True when every process of its tree is proved gone."""
    log_bytes: int = 0
    log_id: str | None = None
    """dev:inode of stdout.log; a resumed tail must find the same."""
    patches_off: tuple[str, ...] = ()


@dataclass(frozen=True)
class StageProgress:
    """What the stage itself reports in events.jsonl (latest)."""

    label: str
    done: float
    total: float | None = None
    unit: str = ""
    eta_s: float | None = None


@dataclass(frozen=True)
class ExceptionReport:
    """An exception that the stage reported itself, in full."""

    type: str
    message: str
    text: str
    """The whole formatted traceback, chains included."""


@dataclass(frozen=True)
class PatchReport:
    """What the processes of one kind did about a compat patch, as they reported it."""

    id: str
    process: str
    """driver or worker."""
    state: str
    """active, off, refused; what did not apply is not told."""
    reason: str = ""
    digest: str = ""
    """sha256 of the patch's own source file."""
    replaced_digest: str = ""
    """sha256 of the source of the code that it replaced."""
    processes: int = 1
    """How many reported the same."""


TELLING = ("refused", "active", "off")
"""States of a patch: where a stage's processes differ, the first of these speaks for the stage."""


@dataclass(frozen=True)
class StageView:
    name: str
    title: str
    state: str = WAITING
    attempts: tuple[AttemptView, ...] = ()
    progress: StageProgress | None = None
    metrics: dict[str, float] = field(default_factory=dict)
    artifacts: tuple[str, ...] = ()
    patches: tuple[PatchReport, ...] = ()
    """As the latest attempt's processes reported them."""
    notes: tuple[str, ...] = ()
    """Short sentences the stage wants the operator to see (sizes before a download, reuse of a cache, …)."""
    exception: ExceptionReport | None = None
    findings: Findings = field(default_factory=Findings)
    """Of the latest attempt's log."""

    @property
    def latest(self) -> AttemptView | None:
        return self.attempts[-1] if self.attempts else None

    @property
    def patch_states(self) -> dict[str, str]:
        """Patch id -> its most telling state in the latest attempt."""
        return {r.id: r.state for state in reversed(TELLING) for r in self.patches if r.state == state}


@dataclass(frozen=True)
class RunView:
    """One walk through the pipeline."""

    run: str
    project: str
    created: float
    pair: str
    versions: dict[str, str] = field(default_factory=dict)
    """Distribution -> version of the pair."""
    stages: tuple[StageView, ...] = ()
    folder: str = ""
    """On the host."""
    error: str | None = None
    """Why the run folder cannot be read whole (shown, never hidden)."""
    sweep: str = ""
    """The sweep that it is a point of."""
    point: dict[str, float] = field(default_factory=dict)
    """Its values in that sweep."""

    def stage(self, name: str) -> StageView | None:
        return next((s for s in self.stages if s.name == name), None)

    @property
    def failed_stage(self) -> StageView | None:
        """The latest stage that did not succeed and is not running."""
        return next((s for s in reversed(self.stages) if s.state in (FAILED, STOPPED, LOST)), None)

    @property
    def live_stage(self) -> StageView | None:
        return next((s for s in self.stages if s.state in LIVE_STAGE_STATES), None)

    @property
    def state(self) -> str:
        """running, failed, stopped, lost, done, or waiting (between or before stages)."""
        if self.live_stage:
            return RUNNING
        if self.failed_stage:
            return self.failed_stage.state
        return DONE if self.stages and all(s.state == DONE for s in self.stages) else WAITING


@dataclass(frozen=True)
class CurveView:
    """Points of one figure that an attempt reported, or those from `start` on that the console has not got yet."""

    stage: str
    attempt: int
    name: str
    stride: int = 1
    """Every stride-th report is a point."""
    start: int = 0
    """Place of the first point given among all that are kept."""
    steps: tuple[float, ...] = ()
    values: tuple[float, ...] = ()
    reports: int = 0
    """Finite values reported so far, those between the points included."""
    broken: int = 0
    """Reports of a value that is no finite number."""
    stepped: bool = False
    """False: the stage gave no steps, and they are the numbers of the reports."""
    last_step: float | None = None
    last_value: float | None = None
    """The latest report, a point or not."""

    @property
    def key(self) -> str:
        return f"{self.stage}/{self.attempt}/{self.name}"


@dataclass(frozen=True)
class PointView:
    """One run of a sweep."""

    run: str
    values: dict[str, float] = field(default_factory=dict)
    """Axis -> value."""
    state: str = WAITING
    stage: str = ""
    """The one that runs, failed or comes next."""
    progress: StageProgress | None = None
    error: str = ""
    """Why it could not begin, or cannot be read."""
    metrics: dict[str, float] = field(default_factory=dict)
    """Latest figures of training and evaluation."""
    curve: str = ""
    """Name of the figure whose course is given."""
    steps: tuple[float, ...] = ()
    course: tuple[float, ...] = ()


@dataclass(frozen=True)
class SweepView:
    """Runs over one data set that differ in a few settings."""

    sweep: str
    base: str
    """The run whose data they share."""
    created: float
    slots: int = 1
    """Points that run at a time."""
    stopped: bool = False
    """No further point begins."""
    points: tuple[PointView, ...] = ()


@dataclass(frozen=True)
class GpuView:
    """One GPU. Every figure may be None: not available, with the reason in `missing`. Zero is a value."""

    index: int
    uuid: str
    name: str
    memory_used: int | None = None
    """Bytes."""
    memory_total: int | None = None
    utilization: int | None = None
    """Percent of time in which any kernel ran."""
    power_w: float | None = None
    power_limit_w: float | None = None
    temperature_c: int | None = None
    sm_clock_mhz: int | None = None
    throttle: tuple[str, ...] | None = None
    ecc_errors: int | None = None
    pids: tuple[int, ...] | None = None
    missing: dict[str, str] = field(default_factory=dict)
    """Field -> why it is not available."""


@dataclass(frozen=True)
class ProcessView:
    """A process of a running stage's tree."""

    pid: int
    name: str
    rss: int | None = None
    """Bytes."""
    cpu_percent: float | None = None
    read_bytes: int | None = None
    """Bytes this process has asked to read (rchar): the honest per-rank load progress."""


@dataclass(frozen=True)
class TelemetryView:
    """One sample of the host. `gpus` None means: no GPU figures at all, `gpu_reason` says why."""

    at: float
    """Host wall clock."""
    gpus: tuple[GpuView, ...] | None = None
    gpu_reason: str = ""
    memory_total: int | None = None
    memory_available: int | None = None
    load: tuple[float, float, float] | None = None
    cpus: int | None = None
    disk_total: int | None = None
    """Of the file system that holds the runs, bytes."""
    disk_free: int | None = None
    processes: dict[str, tuple[ProcessView, ...]] = field(default_factory=dict)
    """Running stage (`RUN/STAGE/ATTEMPT`) -> its process tree."""
