"""A supervisor's last act: the stage after its own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from remote.agent import files
from remote.agent.attempts import Order, begin, refuse_while_live
from remote.agent.layout import Attempt, Run
from remote.protocol import RemoteError


def next_stage(attempt: Attempt, secrets: Mapping[str, str]) -> str | None:
    """Start the stage that follows `attempt` in run.json's plan. Returns STAGE/N, None when there is none to start.

    Nothing follows a stage that was asked to stop. Raises RemoteError, files.Unreadable, TimeoutError.
    """
    run = Run(attempt.run_folder)
    with files.locked(run.lock):
        # Under the lock, so that a stop request comes either before this or finds the next stage.
        if os.path.lexists(attempt.stop_request):
            return None
        described = files.read_json(run.json)
        if described is None:
            raise files.Unreadable("run.json is missing")
        spec = files.read_json(attempt.spec) or {}
        plan: list[dict[str, Any]] = described["plan"]
        names = [stage["name"] for stage in plan]
        following = plan[names.index(attempt.stage) + 1 :][:1]
        if not following:
            return None
        if run.attempts(attempt.stage)[-1].number != attempt.number:
            raise RemoteError("busy", f"stage {attempt.stage} was started again meanwhile")
        refuse_while_live(run, names, apart_from=attempt)
        order = Order(
            stage=following[0],
            request_id=f"after {attempt.key}",
            switches=spec.get("switches") or {},
            settings=described.get("settings") or {},
            bundle=str(described.get("bundle", "")),
        )
        begun = begin(run, order, secrets)
        return f"{begun.stage}/{begun.number}"
