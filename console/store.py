"""What the console knows, as one immutable value, and the pure functions that make the next one.

No textual, no I/O, no awaiting: a frame of the host in, a Snapshot out. Every string of a frame is sanitised here,
before it becomes part of a Snapshot, so nothing that reads a Snapshot meets hostile text.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol

from compat.patch import PatchStatus
from console.curves import Curves, take
from console.logwindow import LogKey, LogWindow
from console.patching import Told, in_run
from console.sanitise import sanitise, sanitise_json
from console.shape import build
from remote import protocol
from remote.views import AttemptView, CurveView, RunView, StageView, SweepView, TelemetryView

if TYPE_CHECKING:
    from compat.drift.finding import Finding

Phase = Literal["connecting", "connected", "waiting", "refused", "closed"]
Switch = Literal["auto", "on", "off"]
NEXT_SWITCH: dict[Switch, Switch] = {"auto": "off", "off": "on", "on": "auto"}
TELEMETRY_PERIOD = 1.0
MALFORMED_REMEDY = "What is shown may be old. If it stays, the host's Eyas is of another version: reconnect."
ASKING_DRIFT = "asking the drift probe"
"""The command, in words, as it stands in `pending`."""
STALE_AFTER = 3 * TELEMETRY_PERIOD


class LinkLike(Protocol):
    """`remote.session`'s LinkState."""

    @property
    def phase(self) -> str: ...
    @property
    def detail(self) -> str: ...
    @property
    def remedy(self) -> str: ...
    @property
    def retry_in(self) -> float | None: ...
    @property
    def host(self) -> str: ...


@dataclass(frozen=True)
class Link:
    phase: str = "connecting"
    host: str = ""
    detail: str = ""
    remedy: str = ""
    retry_at: float | None = None
    """On the console's clock."""


@dataclass(frozen=True)
class Problem:
    """Something that the operator asked for and did not get."""

    message: str
    remedy: str = ""


@dataclass(frozen=True)
class Snapshot:
    project: str = ""
    link: Link = Link()
    runs_known: bool = False
    """False until the host has told its runs once: "no run" is not said before."""
    watching: str = ""
    """Id of the run that is shown; its view may still be on the way."""
    run: RunView | None = None
    run_at: float = 0.0
    """Console clock when `run` came: a running attempt's elapsed time goes on from there."""
    telemetry: TelemetryView | None = None
    telemetry_at: float = 0.0
    log: LogWindow = field(default_factory=LogWindow)
    """The end of the log that is shown, as it grows."""
    browsed: LogWindow | None = None
    """Another part of that log: where the operator reads."""
    looking: str = ""
    """What is being looked up in it, in words."""
    patches: tuple[PatchStatus, ...] | None = None
    """None until the host has answered."""
    troubles: tuple[str, ...] = ()
    """What of the environment is missing or cannot be known."""
    patches_problem: Problem | None = None
    drift: tuple[Finding, ...] | None = None
    """What the drift probe found in the environment; None until it was asked."""
    curves: Curves = field(default_factory=dict)
    """What the run's stages have measured, as far as it was asked for."""
    curves_of: dict[str, tuple[int, dict[str, float]]] = field(default_factory=dict)
    """The latest figures of the stages when that was asked for: `curves.measured`."""
    sweep: SweepView | None = None
    """As it was when it was last looked at."""
    sweep_problem: Problem | None = None
    problem: Problem | None = None
    pending: tuple[str, ...] = ()
    """Commands under way, in words."""

    @property
    def live(self) -> StageView | None:
        return self.run.live_stage if self.run else None

    @property
    def patches_in_run(self) -> tuple[PatchStatus, ...]:
        """The patches as the run that is shown has them."""
        return in_run(self.patches or (), self.run)

    def patch(self, patch_id: str) -> PatchStatus | None:
        return next((p for p in self.patches_in_run if p.id == patch_id), None)

    def shown_attempt(self) -> tuple[StageView, AttemptView] | None:
        """The stage and attempt that the log shows."""
        key = self.log.key
        if key is None or self.run is None or key.run != self.run.run:
            return None
        stage = self.run.stage(key.stage)
        attempt = next((a for a in stage.attempts if a.number == key.attempt), None) if stage else None
        return (stage, attempt) if stage and attempt else None

    def elapsed(self, attempt: AttemptView, now: float) -> float | None:
        """Seconds that an attempt has taken; a running one's go on while the link is up."""
        if attempt.elapsed is None:
            return None
        running = attempt.state in ("starting", "running", "stopping") and self.link.phase == "connected"
        return attempt.elapsed + (max(0.0, now - self.run_at) if running else 0.0)

    def telemetry_age(self, now: float) -> float | None:
        return None if self.telemetry is None else max(0.0, now - self.telemetry_at)


def reduce_link(snapshot: Snapshot, state: LinkLike, now: float) -> Snapshot:
    link = Link(
        phase=sanitise(state.phase),
        host=sanitise(state.host) or snapshot.link.host,
        detail=sanitise(state.detail, newlines=True),
        remedy=sanitise(state.remedy, newlines=True),
        retry_at=None if state.retry_in is None else now + state.retry_in,
    )
    return replace(snapshot, link=link)


def reduce_frame(snapshot: Snapshot, frame: Mapping[str, Any], now: float) -> Snapshot:
    """One push of the host. An unknown one changes nothing: the host may be newer. A malformed one is only said."""
    try:
        match frame.get("ev"):
            case protocol.RUN:
                return reduce_run(snapshot, frame["run"], now)
            case protocol.SAMPLE:
                return reduce_sample(snapshot, frame["sample"], now)
            case protocol.DATA:
                return reduce_data(snapshot, frame)
            case protocol.FAILED:
                error = protocol.RemoteError.from_wire(frame["error"])
                return reduce_problem(snapshot, error.message, error.remedy)
            case protocol.END if frame.get("tail") == snapshot.log.tail:
                return replace(snapshot, log=replace(snapshot.log, ended=True))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        if snapshot.problem is None:
            what = str(frame.get("ev"))
            return reduce_problem(snapshot, f"The host sent a `{what}` that this Eyas cannot read.", MALFORMED_REMEDY)
    return snapshot


def reduce_run(snapshot: Snapshot, run: Mapping[str, Any], now: float) -> Snapshot:
    """A new view of the run that is shown; a late one of another run is not taken."""
    view = build(RunView, sanitise_json(run))
    if view.run != snapshot.watching:
        return snapshot
    return replace(snapshot, run=view, run_at=now)


def show_run(snapshot: Snapshot, run_id: str) -> Snapshot:
    """Turn to a run ('' for none): what was of another one goes."""
    snapshot = replace(snapshot, watching=run_id, runs_known=True)
    return (
        snapshot
        if snapshot.run and snapshot.run.run == run_id
        else replace(snapshot, run=None, log=LogWindow(), browsed=None, curves={}, curves_of={})
    )


def reduce_sample(snapshot: Snapshot, sample: Mapping[str, Any], now: float) -> Snapshot:
    return replace(snapshot, telemetry=build(TelemetryView, sanitise_json(sample)), telemetry_at=now)


def reduce_data(snapshot: Snapshot, frame: Mapping[str, Any]) -> Snapshot:
    if frame.get("tail") != snapshot.log.tail or not snapshot.log.tail:
        return snapshot
    data = base64.b64decode(frame["data"], validate=True)
    log_id = frame.get("log_id")
    return replace(snapshot, log=snapshot.log.feed(int(frame["offset"]), None if log_id is None else str(log_id), data))


def open_log(snapshot: Snapshot, log: LogWindow) -> Snapshot:
    return replace(snapshot, log=log, browsed=None, looking="")


def reduce_patches(snapshot: Snapshot, answer: Mapping[str, Any]) -> Snapshot:
    told = build(Told, sanitise_json(answer))
    return replace(snapshot, patches=told.patches, troubles=told.troubles, patches_problem=None)


def reduce_drift(snapshot: Snapshot, answer: Mapping[str, Any]) -> Snapshot:
    from compat.drift.report import Judged  # the probe is not needed to start

    return replace(snapshot, drift=build(Judged, sanitise_json(answer)["drift"]).report.findings)


def reduce_curves(
    snapshot: Snapshot, run_id: str, answer: Mapping[str, Any], of: dict[str, tuple[int, dict[str, float]]]
) -> Snapshot:
    """Curves, or what is new of them; of another run than the one that is shown they are not taken."""
    if run_id != snapshot.watching:
        return snapshot
    news = [build(CurveView, sanitise_json(curve)) for curve in answer["curves"]]
    return replace(snapshot, curves=take(snapshot.curves, news), curves_of=of)


def reduce_sweep(snapshot: Snapshot, answer: Mapping[str, Any]) -> Snapshot:
    return replace(snapshot, sweep=build(SweepView, sanitise_json(answer["sweep"])), sweep_problem=None)


def reduce_switch(snapshot: Snapshot, patch_id: str, to: Switch) -> Snapshot:
    """Show a switch as turned at once; what it does is known when the host has answered again."""
    patches = tuple(replace(p, switch=to) if p.id == patch_id else p for p in snapshot.patches or ())
    return snapshot if snapshot.patches is None else replace(snapshot, patches=patches)


def reduce_problem(snapshot: Snapshot, message: str, remedy: str = "") -> Snapshot:
    problem = Problem(sanitise(message, newlines=True), sanitise(remedy, newlines=True))
    return replace(snapshot, problem=problem)


def log_target(run: RunView | None) -> LogKey | None:
    """The attempt whose log is worth showing: the live one, else the one that failed, else the latest there is."""
    if run is None:
        return None
    with_attempts = [stage for stage in run.stages if stage.attempts]
    stage = run.live_stage or run.failed_stage or (with_attempts[-1] if with_attempts else None)
    return LogKey(run.run, stage.name, stage.attempts[-1].number) if stage and stage.attempts else None


def neighbour_attempt(snapshot: Snapshot, step: int) -> LogKey | None:
    """The attempt before (-1) or after (1) the one whose log is shown, over all stages of the run."""
    run = snapshot.run
    if run is None:
        return None
    keys = [LogKey(run.run, stage.name, attempt.number) for stage in run.stages for attempt in stage.attempts]
    if snapshot.log.key not in keys:
        return keys[-1] if keys else None
    place = keys.index(snapshot.log.key) + step
    return keys[place] if 0 <= place < len(keys) else None
