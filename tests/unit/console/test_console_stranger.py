"""A traceback that no patch explains: it is said, and the drift probe's findings about its functions are offered."""

from __future__ import annotations

from dataclasses import replace

import pytest
from console_fakes import DRIFT, FakeSession, failed_run
from console_pilot import opened, screen_text, session, until

from console import reports
from console.stranger import SHOWN, findings_about, told
from remote import protocol
from remote.logs.findings import Findings, Traceback
from remote.protocol import RemoteError


def strange() -> FakeSession:
    """Extract failed with an error that the catalogue does not know, in functions that the probe knows."""
    run = failed_run()
    frames = run.stages[3].findings.tracebacks[0].frames
    odd = Traceback("OddError", "never seen", frames, line=3)
    extract = replace(run.stages[3], findings=Findings((odd,), root_cause=0, reason="it is the only one"))
    return session(replace(run, stages=(*run.stages[:3], extract)))


def test_findings_are_those_about_the_functions_of_the_traceback() -> None:
    frames = failed_run().stages[3].findings.tracebacks[0].frames
    assert findings_about(DRIFT, frames) == DRIFT[:1]
    lines = list(told(DRIFT[:1]))
    assert lines[0] == "what the drift probe finds about the functions in its frames:"
    assert lines[1].startswith(
        "  fails: speculators/data_generation/vllm_hidden_states_generator.py:148 calls Scheduler"
    )
    assert lines[1].endswith("(patch scheduler-block-size)")
    assert next(told(())) == "the drift probe finds nothing amiss about the functions in its frames"
    assert list(told(DRIFT[1:] * (SHOWN + 2)))[-1] == "  … and 2 more: `eyas check --drift`"


def test_a_report_knows_a_stranger_and_tells_what_the_probe_said() -> None:
    view = strange().run
    assert view
    report = reports.tracebacks_json(view, view.stages[3])
    assert reports.is_strange(report)
    text = reports.tracebacks_text(report, ["the probe's word"])
    assert "no patch of the catalogue is known to mend this\nthe probe's word" in text
    known = reports.tracebacks_json(failed_run(), failed_run().stages[3])
    assert not reports.is_strange(known)


@pytest.mark.parametrize("size", [(80, 24), (200, 60)])
async def test_p_on_a_stranger_asks_the_drift_probe_once_and_shows_its_findings(size: tuple[int, int]) -> None:
    host = strange()
    async with opened(host, size) as (app, pilot):
        await pilot.press("t")
        await until(pilot, lambda: "asks the drift probe" in screen_text(app), "the offer")
        assert not host.asked(protocol.DRIFT)
        await pilot.press("p")
        await until(pilot, lambda: "fails: speculators/data_generation" in screen_text(app), "the finding")
        await pilot.press("p")
        await pilot.pause()
        assert len(host.asked(protocol.DRIFT)) == 1
        assert app.view == "tracebacks"


async def test_a_host_that_cannot_tell_leaves_the_offer_and_says_why() -> None:
    host = strange()
    host.refuse[protocol.DRIFT] = RemoteError("bad_settings", "The environment is not made yet.", "start a run")
    async with opened(host) as (app, pilot):
        await pilot.press("t", "p")
        await until(pilot, lambda: "The environment is not made yet." in screen_text(app), "the reason")
        assert app.snapshot.drift is None
