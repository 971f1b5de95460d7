"""Starting, relaunching and stopping: what is refused, what is left on disk, what a repeated request does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from faults.fake_host import FakeHost, py, sh, until

from remote.agent.chain import next_stage
from remote.agent.layout import RUN_ID
from remote.protocol import RemoteError


def refusal(call: Any, *args: Any, **more: Any) -> RemoteError:
    with pytest.raises(RemoteError) as refused:
        call(*args, **more)
    return refused.value


def test_a_run_is_described_on_disk_and_its_first_stage_begins(host: FakeHost) -> None:
    run = host.start(sh("one", "true"), sh("two", "true"), request="r1")
    assert RUN_ID.fullmatch(run)
    described = json.loads((host.folder / "runs" / run / "run.json").read_text())
    assert described["project"] == "demo"
    assert described["request_id"] == "r1"
    assert described["bundle"] == str(host.bundle)
    assert [stage["name"] for stage in described["plan"]] == ["one", "two"]
    assert (host.folder / "runs" / run / "products").is_dir()
    assert host.over(host.attempt(run, "two")).view.rc == 0


def test_the_stage_gets_its_folders_its_switches_and_its_plan(host: FakeHost) -> None:
    script = (
        "import json, os, sys; print(json.dumps({**{k: os.environ[k] for k in "
        "('EYAS_RUN', 'EYAS_ATTEMPT', 'EYAS_SWITCHES', 'PYTHONPATH')}, 'cwd': os.getcwd(), 'stdin': sys.stdin.read(),"
        " 'umask': os.umask(0), 'sid': os.getsid(0) == os.getpid()}))"
    )
    switches = {"mode": "auto", "on": [], "off": ["prefix-caching"]}
    run = host.start(py("one", script), switches=switches)
    attempt = host.attempt(run, "one")
    view = host.over(attempt).view
    told = json.loads(host.log(attempt))
    assert told["EYAS_RUN"] == str(host.folder / "runs" / run)
    assert told["EYAS_ATTEMPT"] == attempt.folder
    assert json.loads(told["EYAS_SWITCHES"]) == switches
    assert told["PYTHONPATH"] == str(host.bundle)
    assert (told["cwd"], told["stdin"], told["umask"], told["sid"]) == (told["EYAS_RUN"], "", 0o077, True)
    assert view.patches_off == ("prefix-caching",)


REPORTS = """
import json, os
def say(**told):
    told = {"t": 1, "kind": "patch", "reason": "", "digest": "", "replaced_digest": "", **told}
    open(os.environ["EYAS_ATTEMPT"] + "/events.jsonl", "a").write(json.dumps(told) + chr(10))
say(id="one", process="driver", state="active", digest="12ab", replaced_digest="34cd")
say(id="two", process="worker", state="active", digest="56ef", replaced_digest="78ab")
say(id="two", process="worker", state="active", digest="56ef", replaced_digest="78ab")
say(id="three", process="driver", state="not applicable", reason="of other versions")
"""


def test_a_run_records_the_patches_of_each_attempt_by_digest_and_process(host: FakeHost) -> None:
    run = host.start(py("one", REPORTS), py("two", REPORTS + "raise SystemExit(1)"))
    host.over(host.attempt(run, "two"))
    described = json.loads((host.folder / "runs" / run / "run.json").read_text())
    assert set(described["patches"]) == {"one/1", "two/1"}
    told = [(p["id"], p["process"], p["digest"], p["replaced_digest"]) for p in described["patches"]["two/1"]]
    assert told == [("one", "driver", "12ab", "34cd"), ("two", "worker", "56ef", "78ab")]
    assert described["patches"]["two/1"][1]["processes"] == 2


def test_a_relaunch_keeps_the_records_and_makes_up_for_those_that_a_dead_supervisor_owes(host: FakeHost) -> None:
    run = host.start(py("one", REPORTS))
    host.over(host.attempt(run, "one"))
    path = host.folder / "runs" / run / "run.json"
    described = json.loads(path.read_text())
    path.write_text(json.dumps({key: value for key, value in described.items() if key != "patches"}))
    host.runs.relaunch(run, "one", "again", {}, {})
    assert json.loads(path.read_text())["patches"] == described["patches"]
    host.over(host.attempt(run, "one", 2))
    assert set(json.loads(path.read_text())["patches"]) == {"one/1", "one/2"}


def test_a_stage_that_fails_is_not_followed(host: FakeHost) -> None:
    run = host.start(sh("one", "exit 3"), sh("two", "true"))
    host.over(host.attempt(run, "one"))
    assert [a.stage for a in host.every_attempt()] == ["one"]


def test_a_stage_that_was_asked_to_stop_is_not_followed_even_when_it_ends_well(host: FakeHost) -> None:
    run = host.start(sh("one", "trap 'exit 0' TERM; echo up; while :; do sleep 0.05; done"), sh("two", "true"))
    host.logged(host.attempt(run, "one"), "up")
    host.runs.stop(run)
    view = host.over(host.attempt(run, "one")).view
    assert (view.rc, view.stop_requested) == (0, True)
    assert [a.stage for a in host.every_attempt()] == ["one"]
    assert host.view(run).stages[0].state == "stopped"


def test_a_stop_that_comes_between_a_stages_end_and_the_next_is_heeded(host: FakeHost) -> None:
    run = host.start(sh("one", "exit 3"), sh("two", "true"))
    attempt = host.attempt(run, "one")
    host.over(attempt)
    Path(attempt.stop_request).write_text("{}")
    assert next_stage(attempt, {}) is None
    assert [a.stage for a in host.every_attempt()] == ["one"]
    Path(attempt.stop_request).unlink()
    assert next_stage(attempt, {}) == "two/1"


def test_a_relaunch_is_a_new_attempt_with_the_switches_given_and_the_stages_after_it_follow(host: FakeHost) -> None:
    run = host.start(sh("one", "true"), sh("two", "test -e fixed"), sh("three", "true"))
    host.over(host.attempt(run, "two"))
    (host.folder / "runs" / run / "fixed").touch()
    switches = {"mode": "auto", "on": ["x"], "off": []}
    assert host.relaunch(run, "two", switches=switches) == {"run": run, "stage": "two", "attempt": 2}
    assert host.over(host.attempt(run, "two", 2)).view.rc == 0
    host.over(host.attempt(run, "three"))
    assert json.loads(Path(host.attempt(run, "three").spec).read_text())["switches"] == switches
    assert json.loads((host.folder / "runs" / run / "run.json").read_text())["switches"] == switches
    assert host.view(run).state == "done"
    assert [a.number for a in host.view(run).stages[1].attempts] == [1, 2]


def test_a_relaunch_of_an_archive_s_run_keeps_its_settings_but_takes_this_host_s_environments(host: FakeHost) -> None:
    run = host.start(sh("one", "exit 1"), repeats="20260301T031500Z-5eed0001")
    host.over(host.attempt(run, "one"))
    project = {
        "stages": [sh("one", "true")],
        "run": {"target": "another"},
        "environment": {"current": {"python": "/p"}},
    }
    host.relaunch(run, "one", settings=project)
    assert host.over(host.attempt(run, "one", 2)).view.rc == 1
    asked = json.loads(Path(host.attempt(run, "one", 2).spec).read_text())["settings"]
    assert asked == {"stages": [sh("one", "exit 1")], "environment": {"current": {"python": "/p"}}}


def test_a_relaunch_plans_anew_from_the_current_bundle(host: FakeHost, tmp_path: Path) -> None:
    run = host.start(sh("one", "exit 1"))
    host.over(host.attempt(run, "one"))
    newer = tmp_path / "newer"
    host.bundle.rename(newer)
    host.runs.bundle = str(newer)
    host.relaunch(run, "one")
    spec = json.loads(Path(host.attempt(run, "one", 2).spec).read_text())
    assert spec["env"]["PYTHONPATH"] == str(newer)
    assert spec["bundle"] == str(newer)
    assert json.loads((host.folder / "runs" / run / "run.json").read_text())["bundle"] == str(newer)


def test_a_relaunch_with_settings_runs_with_those(host: FakeHost) -> None:
    run = host.start(sh("one", "exit 1"))
    host.over(host.attempt(run, "one"))
    host.relaunch(run, "one", settings={"stages": [sh("one", "exit 0")]})
    assert host.over(host.attempt(run, "one", 2)).view.rc == 0


def test_a_relaunch_while_a_stage_is_live_is_refused_as_busy(host: FakeHost) -> None:
    run = host.start(sh("one", "true"), sh("two", "sleep 600"))
    host.over(host.attempt(run, "one"))
    until(lambda: Path(host.attempt(run, "two").status).exists())
    error = refusal(host.relaunch, run, "one")
    assert error.kind == "busy"
    assert error.message == f"stage two of run {run} is running" and error.remedy
    assert len(host.every_attempt()) == 2


def test_a_request_that_comes_twice_is_done_once(host: FakeHost) -> None:
    run = host.start(sh("one", "exit 1"), request="first")
    assert host.start(sh("one", "exit 1"), request="first") == run
    host.over(host.attempt(run, "one"))
    answer = host.relaunch(run, "one", request="second")
    assert host.relaunch(run, "one", request="second") == answer
    host.over(host.attempt(run, "one", 2))
    assert host.relaunch(run, "one", request="second") == answer
    assert len(host.every_attempt()) == 2


def test_a_run_that_does_not_exist_is_refused_whatever_it_is_called(host: FakeHost) -> None:
    real = host.start(sh("one", "true"))
    host.over(host.attempt(real, "one"))
    names = ("nothing", "../../etc", "20260101T000000Z-00000000", "", None, 3, "a\0b", ".")
    for run in (*names, f"./{real}", f"../runs/{real}", f"{real}/", str(host.folder / "runs" / real)):
        error = refusal(host.relaunch, run, "one")
        assert error.kind == "no_such_run", run
        assert error.remedy
        assert refusal(host.runs.stop, run).kind == "no_such_run", run


@pytest.mark.parametrize("stage", ["three", "../one", "products", "", None, "one/1"])
def test_a_stage_that_does_not_exist_is_refused_and_the_stages_are_named(host: FakeHost, stage: Any) -> None:
    run = host.start(sh("one", "true"))
    host.over(host.attempt(run, "one"))
    error = refusal(host.relaunch, run, stage)
    assert error.kind == "no_such_stage"
    assert "one" in error.remedy


def test_a_run_folder_that_is_a_symbolic_link_is_no_run(host: FakeHost, tmp_path: Path) -> None:
    run = host.start(sh("one", "true"))
    host.over(host.attempt(run, "one"))
    (host.folder / "runs" / run).rename(tmp_path / "elsewhere")
    (host.folder / "runs" / run).symlink_to(tmp_path / "elsewhere")
    assert refusal(host.relaunch, run, "one").kind == "no_such_run"


def test_a_plan_that_is_refused_leaves_nothing(host: FakeHost) -> None:
    error = {"kind": "no_target", "message": "there is no model in /m", "remedy": "set run.target"}
    refused = refusal(host.runs.start, {"refuse": error}, "demo", "r", {}, {})
    assert refused.to_wire() == error
    assert not (host.folder / "runs").exists() or not list((host.folder / "runs").iterdir())


@pytest.mark.parametrize(
    "settings",
    [
        {"crash": "no numpy"},
        {"stages": []},
        {"stages": [{"name": "../x", "argv": ["true"]}]},
        {"stages": [{"name": "x", "argv": []}]},
    ],
)
def test_a_pipeline_that_gives_no_plan_is_an_internal_error_with_its_last_words(
    host: FakeHost, settings: dict[str, Any]
) -> None:
    refused = refusal(host.runs.start, settings, "demo", "r", {}, {})
    assert refused.kind == "internal"
    if "crash" in settings:
        assert "RuntimeError: no numpy" in refused.message
    assert host.state.run_ids() == []


def test_nothing_running_cannot_be_stopped(host: FakeHost) -> None:
    run = host.start(sh("one", "true"))
    host.over(host.attempt(run, "one"))
    assert refusal(host.runs.stop, run).kind == "not_running"


def test_a_run_whose_description_is_damaged_is_not_relaunched(host: FakeHost) -> None:
    run = host.start(sh("one", "exit 1"))
    host.over(host.attempt(run, "one"))
    (host.folder / "runs" / run / "run.json").write_text('{"v": 1, "plan"')
    error = refusal(host.relaunch, run, "one")
    assert "run.json" in error.message
    assert len(host.every_attempt()) == 1


def test_two_runs_side_by_side_do_not_mix(host: FakeHost) -> None:
    first = host.start(sh("one", "sleep 600"))
    second = host.start(sh("one", "exit 4"))
    assert first != second
    assert host.over(host.attempt(second, "one")).view.rc == 4
    assert host.reading(host.attempt(first, "one")).view.state == "running"
