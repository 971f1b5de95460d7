"""A needed patch is active once the run's latest attempt says that it applied it, and not before."""

from __future__ import annotations

from compat.patch import PatchStatus, State
from console.patching import in_run
from remote.views import AttemptView, RunView, StageView


def run(reported: dict[str, str]) -> RunView:
    stage = StageView("extract", "Extract", "done", (AttemptView(2, "exited", rc=0),), patches=reported)
    return RunView("r", "p", 0.0, "seed", stages=(stage,))


def state(patch: State, reported: dict[str, str]) -> str:
    return in_run([PatchStatus("reply-rank", "", patch, "as installed")], run(reported))[0].state


def test_what_an_attempt_applied_is_active_and_says_where() -> None:
    patch = in_run([PatchStatus("reply-rank", "", "needed", "as installed")], run({"reply-rank": "active"}))[0]
    assert patch.state == "active"
    assert patch.reason == "applied in extract, attempt 2; as installed"


def test_what_no_attempt_applied_stays_as_the_host_says() -> None:
    assert state("needed", {}) == "needed"
    assert state("needed", {"reply-rank": "off"}) == "needed"
    assert in_run([PatchStatus("reply-rank", "", "needed", "")], None)[0].state == "needed"


def test_a_patch_switched_off_since_is_off() -> None:
    assert state("off", {"reply-rank": "active"}) == "off"
