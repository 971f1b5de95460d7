"""A needed patch is active once the run's latest attempt says that it applied it, and not before."""

from __future__ import annotations

from dataclasses import replace

from compat.patch import PatchStatus, State
from console.patching import as_ran, in_run
from remote.views import AttemptView, PatchReport, RunView, StageView

ACTIVE = PatchReport("reply-rank", "driver", "active", "needed then", digest="12ab")
REFUSED = PatchReport("reply-rank", "worker", "refused", "it is not in force")
OFF = PatchReport("reply-rank", "driver", "off")


def stage(*reported: PatchReport) -> StageView:
    return StageView("extract", "Extract", "done", (AttemptView(2, "exited", rc=0),), patches=reported)


def run(*reported: PatchReport) -> RunView:
    return RunView("r", "p", 0.0, "seed", stages=(stage(*reported),))


def row(state: State, digest: str = "12ab") -> PatchStatus:
    return PatchStatus("reply-rank", "", state, "as installed", digest=digest)


def told(patch: PatchStatus, *reported: PatchReport) -> tuple[str, str]:
    found = in_run([patch], run(*reported))[0]
    return found.state, found.reason


def test_what_an_attempt_applied_is_active_and_says_where() -> None:
    assert told(row("needed"), ACTIVE) == ("active", "applied in extract, attempt 2 (driver); as installed")


def test_an_active_patch_that_was_another_then_says_so() -> None:
    assert "(driver); the patch has changed since; as installed" in told(row("needed", digest="34cd"), ACTIVE)[1]


def test_what_one_process_refused_is_refused_whatever_the_others_said() -> None:
    wanted = ("refused", "refused in extract, attempt 2 (worker): it is not in force")
    assert told(row("needed"), ACTIVE, REFUSED) == wanted
    assert told(row("needed"), REFUSED, ACTIVE) == wanted


def test_what_no_attempt_applied_stays_as_the_host_says() -> None:
    assert told(row("needed")) == ("needed", "as installed")
    assert told(row("needed"), OFF) == ("needed", "as installed")
    assert told(row("needed"), replace(ACTIVE, id="another")) == ("needed", "as installed")
    assert in_run([row("needed")], None)[0].state == "needed"


def test_a_patch_switched_off_since_is_off() -> None:
    assert told(row("off"), ACTIVE) == ("off", "as installed")


def test_a_failed_attempt_is_judged_by_what_was_in_force_then() -> None:
    assert [p.state for p in as_ran([row("needed")], stage(OFF))] == ["off"]
    assert [p.state for p in as_ran([row("off")], stage(ACTIVE))] == ["active"]
    assert [p.state for p in as_ran([row("not applicable")], stage())] == ["not applicable"]


def test_of_an_earlier_attempt_only_the_switches_are_at_hand() -> None:
    first = AttemptView(1, "exited", rc=1, patches_off=("reply-rank",))
    both = replace(stage(ACTIVE), attempts=(first, AttemptView(2, "exited", rc=0)))
    assert [p.state for p in as_ran([row("needed")], both, 1)] == ["off"]
    assert [p.state for p in as_ran([row("needed")], both, 2)] == ["active"]
    assert [p.state for p in as_ran([row("not applicable")], both, 1)] == ["not applicable"]
