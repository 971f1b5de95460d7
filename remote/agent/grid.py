"""A sweep on disk: which runs belong to it, which begins next, and in which slot of the host.

A sweep is a file, STATE/sweeps/ID/sweep.json, and as many ordinary runs as it has points. There is no process of its
own: the supervisor that ends a point's last stage begins the next point in the slot that became free. Nothing follows
a stage that was asked to stop.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from remote.agent import files
from remote.agent.attempts import Order, begin, readings
from remote.agent.layout import Run, State
from remote.agent.reading import Reading, World
from remote.agent.shared import THROUGH
from remote.protocol import RemoteError

VISIBLE = "CUDA_VISIBLE_DEVICES"
AXES: Mapping[str, tuple[str, ...]] = {
    "lr": ("stage", "train", "lr"),
    "ttt_steps": ("stage", "train", "ttt_steps"),
    "epochs": ("stage", "train", "epochs"),
    "draft_vocabulary": ("run", "draft_vocabulary"),
}
"""Axis -> the setting that it varies."""


class Grid:
    """The folder of one sweep. Read and written under its lock."""

    def __init__(self, state: State, sweep: str) -> None:
        self.state, self.id = state, sweep
        self.folder = os.path.join(state.folder, "sweeps", sweep)

    @property
    def json(self) -> str:
        return os.path.join(self.folder, "sweep.json")

    @property
    def lock(self) -> str:
        return os.path.join(self.folder, "lock")

    def read(self) -> dict[str, Any]:
        """Raises RemoteError when it cannot be read."""
        try:
            described = files.read_json(self.json)
            if described is None or not isinstance(described.get("points"), list):
                raise files.Unreadable("sweep.json is missing or holds no points")
        except files.Unreadable as error:
            raise RemoteError("internal", f"sweep {self.id} cannot be read: {error}") from None
        return described

    def run(self, point: Mapping[str, Any]) -> Run:
        return Run(os.path.join(self.state.runs, str(point["run"])))

    def begin_free(self, secrets: Mapping[str, str], ended: str | None = None) -> list[str]:
        """Begin a waiting point in every slot that is free; gives their runs. Raises OSError, TimeoutError.

        `ended`: the run whose supervisor asks; its slot counts as free though that process still lives.
        """
        begun: list[str] = []
        with files.locked(self.lock):
            described = self.read()
            if described.get("stopped"):
                return []
            taken = {p["slot"] for p in described["points"] if p.get("slot") is not None and self._busy(p, ended)}
            for slot in range(len(described["slots"])):
                if slot not in taken and (run := self._begin_next(described, slot, secrets)):
                    begun.append(run)
        return begun

    def stop(self) -> None:
        """Nothing begins any more."""
        with files.locked(self.lock):
            files.write_json(self.json, {**self.read(), "stopped": True})

    def resume(self) -> None:
        """Points may begin again, stopped ones where they were. Raises RemoteError while one is still ending."""
        with files.locked(self.lock):
            described = self.read()
            for point in described["points"]:
                point.pop("error", None)
                for reading in self._latest(point):
                    stopped = reading.view.stop_requested
                    if not reading.over and (
                        stopped or os.path.exists(reading.attempt.stop_request) or not reading.live
                    ):
                        name = f"stage {reading.attempt.stage} of run {point['run']}"
                        raise RemoteError("busy", f"{name} is still ending", "try again in a few seconds")
                    if stopped:
                        point["again"] = {"stage": reading.attempt.stage, "attempt": reading.attempt.number}
            files.write_json(self.json, {**described, "stopped": False})

    def _latest(self, point: Mapping[str, Any]) -> list[Reading]:
        run = self.run(point)
        return readings(run, run.stage_folders(), World())

    def _busy(self, point: Mapping[str, Any], ended: str | None) -> bool:
        return point["run"] != ended and any(not reading.over for reading in self._latest(point))

    def _begin_next(self, described: dict[str, Any], slot: int, secrets: Mapping[str, str]) -> str | None:
        """The first point that waits and can begin; what keeps one from it stands beside it."""
        for point in described["points"]:
            if point.get("error") or (point.get("slot") is not None and "again" not in point):
                continue
            try:
                begun = self._begin(point, described["slots"][slot], secrets)
            except (RemoteError, OSError, TimeoutError, files.Unreadable) as error:
                point["error"] = str(error)
                files.write_json(self.json, described)
                continue
            relaunched = point.pop("again", None) and not begun  # by the operator, in the slot that it had
            if not relaunched:
                point["slot"] = slot
            files.write_json(self.json, described)
            if not relaunched:
                return str(point["run"])
        return None

    def _begin(self, point: Mapping[str, Any], gpus: list[str], secrets: Mapping[str, str]) -> bool:
        """False when the operator has begun it by hand."""
        run = self.run(point)
        with files.locked(run.lock):
            described = files.read_json(run.json)
            if described is None:
                raise files.Unreadable("run.json is missing")
            plan = pinned(described["plan"], gpus)
            again = point.get("again") or {}
            stage = next((stage for stage in plan if stage["name"] == again.get("stage")), plan[0])
            known, made = int(again.get("attempt", 0)), run.attempts(stage["name"])
            if made and made[-1].number != known:
                return False
            files.write_json(run.json, {**described, "plan": plan, "gpus": gpus})
            order = Order(
                stage=stage,
                request_id=f"{self.id}/{run.id}/{known}" if known else f"{self.id}/{run.id}",
                switches=described.get("switches") or {},
                settings=described.get("settings") or {},
                bundle=str(described.get("bundle", "")),
            )
            begin(run, order, secrets)
            return True


def pinned(plan: list[dict[str, Any]], gpus: list[str]) -> list[dict[str, Any]]:
    """The stages on these GPUs alone; as they are where there are none."""
    if not gpus:
        return plan
    return [{**stage, "env": {**(stage.get("env") or {}), VISIBLE: ",".join(gpus)}} for stage in plan]


def after_data(stages: list[dict[str, Any]], gpus: list[str] | None = None) -> list[dict[str, Any]]:
    """The part of a plan that comes after the shared data. Raises RemoteError when nothing does."""
    names = [stage["name"] for stage in stages]
    rest = stages[names.index(THROUGH) + 1 :] if THROUGH in names else []
    if not rest:
        raise RemoteError("bad_settings", f"no stage follows {THROUGH} in this run", "leave run.until out")
    if any(os.path.isabs(stage["argv"][0]) and not os.path.exists(stage["argv"][0]) for stage in rest):
        # The base ended before an environment of the draft stages was needed.
        rest = [*(stage for stage in stages if stage["name"] == "provision"), *rest]
    return pinned(rest, gpus or [])


def with_values(settings: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The base's settings with one point's values; a base that ended before training goes on to the end."""
    changed: dict[str, Any] = dict(settings)
    changed["run"] = dict(settings.get("run") or {})
    for name, value in values.items():
        *tables, key = AXES[name]
        inner = changed
        for table in tables:
            inner[table] = dict(inner.get(table) or {})
            inner = inner[table]
        inner[key] = value
    if changed["run"].get("until") in ("provision", "target", "prepare", "extract", THROUGH):
        changed["run"].pop("until")
    return changed


def go_on(run: Run, secrets: Mapping[str, str]) -> list[str]:
    """What the supervisor does once a point has ended: the next points begin. [] for a run of no sweep."""
    described = files.read_json(run.json) or {}
    sweep = described.get("sweep")
    if not isinstance(sweep, str) or not sweep:
        return []
    state = State(os.path.dirname(os.path.dirname(run.folder)))
    return Grid(state, os.path.basename(sweep)).begin_free(secrets, ended=run.id)
