"""Runs as the agent makes, repeats and stops them. Everything here is files and supervisors: no state of its own."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from remote.agent import files, processes, provenance
from remote.agent.attempts import Order, begin, ensure_begun, no_space, refuse_while_live
from remote.agent.grid import after_data, with_values
from remote.agent.launch import CODE, NotBegun, launch
from remote.agent.layout import Run, State, is_stage_name, new_run_id
from remote.agent.plan import Plan, make_plan
from remote.agent.reading import Reading, World, read_attempt
from remote.protocol import RemoteError

STOP_SIGNAL = signal.SIGUSR1
"""Wakes the supervisor, which would otherwise look for the request within half a second."""


class Runs:
    """The runs below one state folder. `bundle` is the code that plans and stages use."""

    def __init__(self, state: State, bundle: str = CODE) -> None:
        self.state = state
        self.bundle = bundle

    def start(
        self,
        settings: Mapping[str, Any],
        project: str,
        request_id: str,
        switches: Mapping[str, Any],
        secrets: Mapping[str, str],
        repeats: str = "",
    ) -> str:
        """Plan a run and start its first stage. Returns the run's id; a request_id seen before gives the same run.
        `repeats` names the run whose archive has these settings: a relaunch keeps them.

        Raises RemoteError and leaves nothing on disk.
        """
        known = self._requested(request_id)
        if known is not None:
            return self._begun_again(known, secrets)
        run = Run(os.path.join(self.state.runs, new_run_id()))
        plan = make_plan(settings, run.folder, self.bundle)
        described = {
            "v": files.VERSION,
            "run": run.id,
            "project": project,
            "created": time.time(),
            "request_id": request_id,
            **({"repeats": repeats} if repeats else {}),
            **self._asked(plan, settings, switches),
        }
        try:
            os.makedirs(self.state.runs, 0o700, exist_ok=True)
            with files.locked(self.state.lock):
                known = self._requested(request_id)
                if known is None:
                    self._create(run, described)
            if known is not None:
                return self._begun_again(known, secrets)
            with files.locked(run.lock):
                try:
                    if not run.attempts(plan.stages[0]["name"]):
                        begin(run, self._order(plan.stages[0], request_id, switches, settings), secrets)
                except RemoteError:
                    if not run.stage_folders():
                        shutil.rmtree(run.folder, ignore_errors=True)
                    raise
        except OSError as error:
            raise no_space(self.state.runs, error) from None
        return run.id

    def relaunch(
        self,
        run_id: object,
        stage: object,
        request_id: str,
        switches: Mapping[str, Any],
        secrets: Mapping[str, str],
        settings: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """A new attempt of `stage` from the current bundle; the stages after it follow.

        Returns {"run", "stage", "attempt"}. Raises RemoteError: no_such_run, no_such_stage, busy, and those of a plan.
        """
        run = self.state.run(run_id)
        described = self._described(run)
        if not is_stage_name(stage) or stage not in [s["name"] for s in described["plan"]]:
            named = ", ".join(s["name"] for s in described["plan"])
            raise RemoteError("no_such_stage", f"run {run.id} has no stage {str(stage)[:80]!r}", f"its stages: {named}")
        name = str(stage)
        again = self._attempt_requested(run, name, request_id)
        if again is None:
            refuse_while_live(run, [s["name"] for s in described["plan"]])
        given = dict(settings) if settings is not None else dict(described.get("settings") or {})
        if described.get("point"):  # of a sweep: its values are its own, whatever the project's settings say
            given = with_values(given, described["point"])
        if described.get("repeats"):  # an archive's run: the settings of the project that it is in are of other runs
            given = {**(described.get("settings") or {}), "environment": given.get("environment") or {}}
        plan = self._plan(given, run, described) if again is None else None
        with self._lock(run):
            again = self._attempt_requested(run, name, request_id)
            if again is not None:
                ensure_begun(again.attempt, secrets)
                return {"run": run.id, "stage": name, "attempt": again.view.number}
            if plan is None:
                raise RemoteError("busy", f"the attempt that request {request_id} made was removed meanwhile")
            chosen = next((s for s in plan.stages if s["name"] == name), None)
            if chosen is None:
                raise RemoteError("no_such_stage", f"with these settings the pipeline has no stage {name!r}")
            names = {s["name"] for s in described["plan"]} | {s["name"] for s in plan.stages}
            refuse_while_live(run, sorted(names))
            try:
                kept = {"patches": provenance.gather(run, described)}
                files.write_json(run.json, {**described, **self._asked(plan, given, switches), **kept})
            except OSError as error:
                raise no_space(run.folder, error) from None
            try:
                attempt = begin(run, self._order(chosen, request_id, switches, given), secrets)
            except NotBegun:
                with contextlib.suppress(OSError):
                    files.write_json(run.json, described)
                raise
            return {"run": run.id, "stage": name, "attempt": attempt.number}

    def stop(self, run_id: object) -> dict[str, Any]:
        """Ask the live stage to end, or end what a dead supervisor left. Returns {"stage", "attempt"}.

        Raises RemoteError not_running.
        """
        run = self.state.run(run_id)
        with self._lock(run):
            stages = self.stage_names(run)
            found = [r for name in stages for r in self._latest(run, name) if not r.over]
            if not found:
                raise RemoteError("not_running", f"no stage of run {run.id} is running")
            reading = next((r for r in found if r.live), found[-1])
            attempt = reading.attempt
            try:
                os.makedirs(attempt.control, 0o700, exist_ok=True)
                files.write_json(attempt.stop_request, {"t": time.time()})
            except OSError as error:
                if reading.supervisor is None:
                    raise no_space(run.folder, error) from None
                # On a full disk the signal alone says it.
            if reading.supervisor is not None:
                processes.send(reading.supervisor, STOP_SIGNAL)
            elif reading.view.state != "created":
                launch(attempt, {}, "stand-in")
            return {"stage": attempt.stage, "attempt": attempt.number}

    def stage_names(self, run: Run) -> list[str]:
        """In the order of the plan; from the folders when run.json cannot be read."""
        try:
            described = files.read_json(run.json) or {}
            return [stage["name"] for stage in described.get("plan") or [] if is_stage_name(stage.get("name"))]
        except files.Unreadable:
            return run.stage_folders()

    def _create(self, run: Run, described: Mapping[str, Any]) -> None:
        """The run's folder appears whole or not at all."""
        fresh = os.path.join(self.state.runs, f".{run.id}.tmp")
        try:
            os.mkdir(fresh, 0o700)
            os.mkdir(os.path.join(fresh, "products"), 0o700)
            files.write_json(os.path.join(fresh, "run.json"), described)
            os.rename(fresh, run.folder)
            files.sync_folder(self.state.runs)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)

    def _asked(self, plan: Plan, settings: Mapping[str, Any], switches: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "pair": plan.pair,
            "versions": plan.versions,
            "plan": plan.stages,
            "settings": settings,
            "switches": switches,
            "bundle": self.bundle,
        }

    def _plan(self, settings: Mapping[str, Any], run: Run, described: Mapping[str, Any]) -> Plan:
        """The plan anew; a point of a sweep has only what comes after its base's data, on its own GPUs."""
        plan = make_plan(settings, run.folder, self.bundle)
        return replace(plan, stages=after_data(plan.stages, described.get("gpus"))) if described.get("base") else plan

    def _order(
        self, stage: Mapping[str, Any], request_id: str, switches: Mapping[str, Any], settings: Mapping[str, Any]
    ) -> Order:
        return Order(stage, request_id, switches, settings, self.bundle)

    def _described(self, run: Run) -> dict[str, Any]:
        try:
            described = files.read_json(run.json)
            if described is None or not isinstance(described.get("plan"), list):
                raise files.Unreadable("run.json is missing or holds no plan")
        except files.Unreadable as error:
            raise RemoteError("internal", f"run {run.id} cannot be relaunched: {error}", "start a new run") from None
        return described

    def _requested(self, request_id: str) -> Run | None:
        """The run that an earlier request with this id made."""
        for run_id in self.state.run_ids():
            run = Run(os.path.join(self.state.runs, run_id))
            try:
                described = files.read_json(run.json)
            except files.Unreadable:
                continue
            if request_id and described is not None and described.get("request_id") == request_id:
                return run
        return None

    def _begun_again(self, run: Run, secrets: Mapping[str, str]) -> str:
        """The same request once more: its acknowledgement was lost, or its agent died before the first stage."""
        described = self._described(run)
        with self._lock(run):
            if any(run.attempts(stage["name"])[1:] for stage in described["plan"]):
                return run.id
            first = described["plan"][0]
            begun = run.attempts(first["name"])
            if begun:
                ensure_begun(begun[0], secrets)
            else:
                order = Order(
                    first, described["request_id"], described["switches"], described["settings"], described["bundle"]
                )
                begin(run, order, secrets)
        return run.id

    def _attempt_requested(self, run: Run, stage: str, request_id: str) -> Reading | None:
        for attempt in reversed(run.attempts(stage)):
            reading = read_attempt(attempt, World())
            if request_id and reading.spec.get("request_id") == request_id:
                return reading
        return None

    def _latest(self, run: Run, stage: str) -> list[Reading]:
        return [read_attempt(attempt, World()) for attempt in run.attempts(stage)[-1:]]

    def _lock(self, run: Run) -> _Locked:
        return _Locked(run)


class _Locked:
    """A run's lock; TimeoutError and a full disk become RemoteErrors."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._held = files.locked(run.lock)

    def __enter__(self) -> None:
        try:
            self._held.__enter__()
        except TimeoutError as error:
            raise RemoteError("busy", str(error)) from None
        except OSError as error:
            raise no_space(self._run.folder, error) from None

    def __exit__(self, *error: Any) -> None:
        self._held.__exit__(*error)
