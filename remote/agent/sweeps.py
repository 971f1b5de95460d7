"""Sweeps as the agent starts, shows and stops them. A point is an ordinary run that shares its base's data."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import time
from collections.abc import Iterable, Mapping
from typing import Any

from remote.agent import files
from remote.agent.curves import AttemptCurves, Curve
from remote.agent.gpus import GpuSampler
from remote.agent.grid import AXES, Grid, after_data, with_values
from remote.agent.layout import RUN_ID, Run, State, new_run_id
from remote.agent.plan import make_plan
from remote.agent.runs import Runs
from remote.agent.shared import data_of, share
from remote.agent.view import RunReader
from remote.protocol import RemoteError
from remote.views import PointView, SweepView

POINTS_MAX = 64
FREE_MEMORY = 0.05
"""Share of a GPU's memory up to which nobody counts as using it: the driver takes some itself."""
TOLD = ("train", "evaluate")
"""Stages whose figures are compared."""
CURVES = ("val/acceptance", "acceptance", "val/loss", "loss")
"""The first of these that a point has reported is its curve."""
SHORTEST = 3
"""Points that a curve has, if any of them has: few epochs give few on held-out samples."""
CURVE_POINTS = 100


class Sweeps:
    def __init__(self, state: State, runs: Runs) -> None:
        self._state, self._runs = state, runs
        self._readers: dict[str, RunReader] = {}
        self._curves: dict[str, AttemptCurves] = {}

    def start(
        self,
        base_id: object,
        axes: Mapping[str, Any],
        project: str,
        request_id: str,
        switches: Mapping[str, Any],
        secrets: Mapping[str, str],
    ) -> dict[str, Any]:
        """`{"sweep", "runs"}`. A request_id seen before gives the same sweep. Raises RemoteError, leaving nothing."""
        known = self._requested(request_id)
        if known is None:
            known = self._make(self._state.run(base_id), axes, project, request_id, switches)
        known.begin_free(secrets)
        return {"sweep": known.id, "runs": [point["run"] for point in known.read()["points"]]}

    def stop(self, sweep: object, stopped: bool, secrets: Mapping[str, str]) -> dict[str, Any]:
        """Let no further point begin and stop those that run; or, `stopped` False, go on with them and the others."""
        grid = self._grid(sweep)
        if not stopped:
            grid.resume()
            return {"sweep": grid.id, "runs": grid.begin_free(secrets)}
        grid.stop()
        ended = []
        for point in grid.read()["points"]:
            with contextlib.suppress(RemoteError):
                self._runs.stop(point["run"])
                ended.append(point["run"])
        return {"sweep": grid.id, "runs": ended}

    def show(self, sweep: object, project: str) -> SweepView:
        """The sweep named, else the project's newest."""
        for name in [str(sweep)] if sweep else self._names():
            described = self._grid(name).read()
            if sweep or described.get("project") == project:
                trainings = [self._training(Grid(self._state, name).run(point)) for point in described["points"]]
                compared = _compared(trainings)
                points = tuple(
                    self._point(point, compared, curves.get(compared))
                    for point, curves in zip(described["points"], trainings, strict=True)
                )
                return SweepView(
                    sweep=name,
                    base=str(described.get("base", "")),
                    created=float(described.get("created", 0.0)),
                    slots=len(described["slots"]),
                    stopped=bool(described.get("stopped")),
                    points=points,
                )
        why = f"project {project} has no sweep on this host"
        raise RemoteError("no_such_run", why, "start one: `eyas sweep --lr …`")

    # Making ------------------------------------------------------------------------------------------------

    def _make(
        self, base: Run, axes: Mapping[str, Any], project: str, request_id: str, switches: Mapping[str, Any]
    ) -> Grid:
        data = data_of(base)
        given = (files.read_json(base.json) or {}).get("settings") or {}
        points = list(_points(axes))
        grid = Grid(self._state, new_run_id())
        made: list[Run] = []
        try:
            os.makedirs(grid.folder, 0o700)
            listed = []
            for values in points:
                run = Run(os.path.join(self._state.runs, new_run_id()))
                settings = with_values(given, values)
                plan = after_data(make_plan(settings, run.folder, self._runs.bundle).stages)
                made.append(run)
                self._create(run, base, data, grid, values, settings, plan, project, switches)
                listed.append({"run": run.id, "values": values, "slot": None})
            files.write_json(
                grid.json,
                {
                    "v": files.VERSION,
                    "sweep": grid.id,
                    "base": base.id,
                    "data": data,
                    "project": project,
                    "created": time.time(),
                    "request_id": request_id,
                    "slots": _slots(_gpus_of_a_point(given)),
                    "points": listed,
                },
            )
        except BaseException:
            for run in made:
                shutil.rmtree(run.folder, ignore_errors=True)
            shutil.rmtree(grid.folder, ignore_errors=True)
            raise
        return grid

    def _create(
        self,
        run: Run,
        base: Run,
        data: str,
        grid: Grid,
        values: Mapping[str, Any],
        settings: Mapping[str, Any],
        plan: list[dict[str, Any]],
        project: str,
        switches: Mapping[str, Any],
    ) -> None:
        """The run's folder appears whole, with the data of its base, or not at all."""
        fresh = os.path.join(self._state.runs, f".{run.id}.tmp")
        base_json = files.read_json(base.json) or {}
        described = {
            "v": files.VERSION,
            "run": run.id,
            "project": project,
            "created": time.time(),
            "request_id": f"{grid.id}/{run.id}",
            "pair": base_json.get("pair", ""),
            "versions": base_json.get("versions") or {},
            "plan": plan,
            "settings": settings,
            "switches": switches,
            "bundle": self._runs.bundle,
            "sweep": grid.id,
            "point": dict(values),
            "base": {"run": base.id, "data": data},
        }
        if repeats := base_json.get("repeats"):
            described["repeats"] = repeats
        try:
            os.makedirs(os.path.join(fresh, "products"), 0o700)
            share(base, os.path.join(fresh, "products"))
            files.write_json(os.path.join(fresh, "run.json"), described)
            os.rename(fresh, run.folder)
            files.sync_folder(self._state.runs)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)

    # Looking -----------------------------------------------------------------------------------------------

    def _names(self) -> list[str]:
        """Newest first."""
        try:
            found = os.listdir(os.path.join(self._state.folder, "sweeps"))
        except OSError:
            return []
        return sorted((name for name in found if RUN_ID.fullmatch(name)), reverse=True)

    def _grid(self, sweep: object) -> Grid:
        if isinstance(sweep, str) and RUN_ID.fullmatch(sweep):
            grid = Grid(self._state, sweep)
            if os.path.isfile(grid.json):
                return grid
        raise RemoteError("no_such_run", f"there is no sweep {str(sweep)[:80]!r} on this host", "`eyas sweep --show`")

    def _requested(self, request_id: str) -> Grid | None:
        for name in self._names():
            grid = Grid(self._state, name)
            with contextlib.suppress(RemoteError):
                if request_id and grid.read().get("request_id") == request_id:
                    return grid
        return None

    def _point(self, point: Mapping[str, Any], compared: str, curve: Curve | None) -> PointView:
        run_id = str(point["run"])
        values = {str(k): float(v) for k, v in point["values"].items()}
        try:
            run = self._state.run(run_id)
        except RemoteError:
            return PointView(run=run_id, values=values, state="lost", error="its run is gone")
        view = self._readers.setdefault(run_id, RunReader(run, findings=False)).look_at_all()
        stage = view.live_stage or view.failed_stage or next((s for s in view.stages if s.state != "done"), None)
        steps, course = _course(curve)
        return PointView(
            run=run_id,
            values=values,
            state=view.state,
            stage=stage.name if stage else "",
            progress=stage.progress if stage and stage.state == "running" else None,
            error=str(point.get("error") or view.error or ""),
            metrics={k: v for s in view.stages if s.name in TOLD for k, v in s.metrics.items()},
            curve=compared if course else "",
            steps=steps,
            course=course,
        )

    def _training(self, run: Run) -> dict[str, Curve]:
        """What the latest attempt of training has reported."""
        attempts = run.attempts("train")
        if not attempts:
            return {}
        curves = self._curves.setdefault(attempts[-1].key, AttemptCurves(attempts[-1]))
        while curves.read():
            continue
        return curves.curves


def _compared(trainings: Iterable[Mapping[str, Curve]]) -> str:
    """The figure by whose course the points are compared: one for all, and a course rather than a single value."""
    found = list(trainings)
    for least in (SHORTEST, 1):
        for name in CURVES:
            if any(name in curves and len(curves[name].steps) >= least for curves in found):
                return name
    return ""


def _course(curve: Curve | None) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Steps and values, CURVE_POINTS or a little more of them, the latest among them."""
    if curve is None or curve.last is None:
        return (), ()
    every = -(-len(curve.steps) // CURVE_POINTS) or 1
    points = list(zip(curve.steps, curve.values, strict=True))[::every]
    points += [curve.last] if points[-1] != curve.last else []
    return tuple(step for step, _ in points), tuple(value for _, value in points)


def _points(axes: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every combination of the axes' values. Raises RemoteError for a grid that makes no sense."""
    for name, values in axes.items():
        if name not in AXES:
            raise RemoteError("bad_request", f"there is no axis {str(name)[:40]!r}", f"use: {', '.join(AXES)}")
        good = isinstance(values, list) and values and all(type(v) in (int, float) for v in values)
        if not good or len(set(values)) != len(values):
            raise RemoteError("bad_request", f"axis {name} must be a list of different numbers")
    found = [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]
    if not axes or not 1 <= len(found) <= POINTS_MAX:
        count = len(found) if axes else 0
        raise RemoteError("bad_request", f"the grid has {count} points", f"1 to {POINTS_MAX} are taken")
    return found


def _gpus_of_a_point(settings: Mapping[str, Any]) -> int:
    """GPUs that a point needs: its engines take run.tensor_parallel, its training stage.train.gpus."""
    train = (settings.get("stage") or {}).get("train") or {}
    return max(int((settings.get("run") or {}).get("tensor_parallel") or 1), int(train.get("gpus") or 1))


def _slots(size: int) -> list[list[str]]:
    """Groups of `size` free GPUs by UUID, a slot each; one slot without any on a host without GPUs.

    Raises RemoteError when there are GPUs and too few are free.
    """
    gpus, _ = GpuSampler().sample()
    if not gpus:
        return [[]]
    free = [g.uuid for g in gpus if g.memory_used is None or g.memory_used <= FREE_MEMORY * (g.memory_total or 1)]
    slots = [free[at : at + size] for at in range(0, len(free) - size + 1, size)]
    if not slots:
        why = f"{len(free)} of {len(gpus)} GPUs are free, and a point needs {size}"
        raise RemoteError("busy", why, "try again once more are")
    return slots
