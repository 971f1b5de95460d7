"""Stands in for a dead supervisor: ends what is left of its attempt and proves it gone."""

from __future__ import annotations

import signal
import time

from remote.agent import files, processes
from remote.agent.escalation import Escalation
from remote.agent.layout import Attempt
from remote.agent.status import FINAL, Status
from remote.agent.supervisor import WATCHED, Ack


def stand_in(attempt: Attempt, ack: Ack) -> None:
    """TERM, grace and KILL for every process that evidence ties to the attempt; then the state is final and clean."""
    spec = files.read_json(attempt.spec) or {}
    before = files.read_json(attempt.status) or {"seq": 0}
    main = processes.Identity.from_json(before.get("main"))
    shim = processes.Identity.from_json(before.get("shim"))
    status = Status(attempt, files.Record(attempt.record), before)
    ended = before.get("state") in FINAL or files.read_record(attempt.record) is not None
    signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)

    def living() -> set[int]:
        found = processes.belonging(main, attempt.log, processes.snapshot())
        return found - ({shim.pid} if shim else set())

    if not ended:
        status.save(state="stopping", stop_requested=time.time())
    ack.send(ok=True, state=status.fields.get("state"))
    end = Escalation(living)
    end.begin(float(spec.get("grace_s", 30)))
    while left := living():
        end.step()
        trouble = end.stubborn(left)
        if trouble and trouble != status.fields.get("trouble"):
            status.save(trouble=trouble)
        signal.sigtimedwait(WATCHED, end.wait)
    # The shim writes its record after main has ended: give it that moment before calling the exit lost.
    until = files.boottime() + 5.0
    while shim is not None and processes.alive(shim) and files.boottime() < until:
        time.sleep(0.05)
    seen = files.read_record(attempt.record) or {}
    if seen.get("state") in FINAL:
        kept = ("state", "rc", "signal", "error", "witness", "ended", "ended_boot")
        status.save(**{key: seen[key] for key in kept if key in seen}, clean=True)
    elif before.get("state") in FINAL:
        status.save(clean=True)
    else:
        status.save(state="lost", error="supervisor and shim died before either saw how the stage ended", clean=True)
