"""Sweeps over one base run, with real supervisors and shell stages: points begin one after another, by themselves."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from faults.fake_host import FakeHost, kill, py, sh, until

from remote.agent import grid, shared, sweeps
from remote.agent.layout import Run
from remote.agent.sweeps import Sweeps
from remote.protocol import RemoteError
from remote.views import GpuView, SweepView

DATA = """
mkdir -p "$EYAS_RUN/products/hidden_states" "$EYAS_RUN/products/dataset"
echo states > "$EYAS_RUN/products/hidden_states/hs_0.safetensors"
echo '{}' > "$EYAS_RUN/products/hidden_states/manifest.jsonl"
echo '{"data": "d1ge57", "passed": PASSED}' > "$EYAS_RUN/products/verify.json"
"""
TRAIN = """
import json, os, time
from pathlib import Path
attempt, run = Path(os.environ["EYAS_ATTEMPT"]), Path(os.environ["EYAS_RUN"])
asked = json.loads((attempt / "spec.json").read_text())["settings"]["stage"]["train"]
assert (run / "products/hidden_states/hs_0.safetensors").read_text() == "states\\n"
with open(attempt / "events.jsonl", "a") as out:
    for step in range(5):
        value = asked["lr"] * step
        out.write(json.dumps({"kind": "metric", "name": "acceptance", "value": value, "step": step}) + "\\n")
    out.write(json.dumps({"kind": "metric", "name": "val/acceptance", "value": 1.0, "step": 4}) + "\\n")
print("trained on", os.environ.get("CUDA_VISIBLE_DEVICES"), flush=True)
while (gate := run.parent.parent / "gate").exists() and not (run / "go").exists():
    time.sleep(0.05)
if (run.parent.parent / "break").exists():
    raise SystemExit(3)
"""


def base(host: FakeHost, passed: str = "true", train: str = TRAIN, **of_train: Any) -> str:
    verify = sh("verify", DATA.replace("PASSED", passed))
    stages = [sh("prepare", "true"), verify, py("train", train), sh("evaluate", ":")]
    given = {"stages": stages, "run": {}, "stage": {"train": {"lr": 1.0, "epochs": 2, **of_train}}}
    run = host.runs.start(given, project="demo", request_id=os.urandom(4).hex(), switches={}, secrets={})
    until(lambda: host.view(run).state in ("done", "failed"), "the base run")
    return run


def begin(host: FakeHost, run: str, axes: dict[str, Any], request: str = "") -> tuple[Sweeps, SweepView]:
    made = Sweeps(host.state, host.runs)
    sweep = made.start(run, axes, "demo", request or os.urandom(4).hex(), {}, {})["sweep"]
    return made, made.show(sweep, "demo")


def states(made: Sweeps, view: SweepView) -> list[str]:
    return [point.state for point in made.show(view.sweep, "").points]


def test_every_point_runs_after_the_one_before_with_nobody_connected(host: FakeHost) -> None:
    made, view = begin(host, base(host), {"lr": [0.1, 0.2], "epochs": [1, 2]})
    assert [point.values for point in view.points] == [
        {"lr": 0.1, "epochs": 1},
        {"lr": 0.1, "epochs": 2},
        {"lr": 0.2, "epochs": 1},
        {"lr": 0.2, "epochs": 2},
    ]
    until(lambda: set(states(made, view)) == {"done"}, "every point")
    shown = made.show(None, "demo")
    assert [round(point.metrics["acceptance"], 3) for point in shown.points] == [0.4, 0.4, 0.8, 0.8]
    assert (shown.points[0].curve, shown.points[0].steps) == ("acceptance", (0, 1, 2, 3, 4))
    begun = [host.reading(host.attempt(point.run, "train")).view for point in shown.points]
    ended = [host.reading(host.attempt(point.run, "evaluate")).view for point in shown.points]
    for before, after in zip(ended, begun[1:], strict=False):
        assert before.started is not None and after.started is not None and before.started <= after.started
    assert [stage.name for stage in host.view(shown.points[0].run).stages] == ["train", "evaluate"]


def test_the_data_are_shared_and_its_records_are_not(host: FakeHost) -> None:
    run = base(host)
    _, view = begin(host, run, {"lr": [0.1]})
    first, child = (Path(host.folder) / "runs" / name / "products" for name in (run, view.points[0].run))
    inode = [(p / "hidden_states" / "hs_0.safetensors").stat().st_ino for p in (first, child)]
    assert inode[0] == inode[1]
    (first / "hidden_states" / "manifest.jsonl").write_text('{"condemned": true}\n')
    assert (child / "hidden_states" / "manifest.jsonl").read_text() == "{}\n"
    described = json.loads((child.parent / "run.json").read_text())
    assert described["base"] == {"run": run, "data": "d1ge57"}
    assert host.view(view.points[0].run).point == {"lr": 0.1}


def test_data_that_lie_in_a_folder_of_the_operator_s_are_shared_too(host: FakeHost) -> None:
    run = base(host)
    folder = host.folder / "runs" / run / "products" / "hidden_states"
    folder.rename(host.folder / "shared")
    folder.symlink_to(host.folder / "shared")
    made, view = begin(host, run, {"lr": [0.1]})
    until(lambda: states(made, view) == ["done"], "the point")
    child = host.folder / "runs" / view.points[0].run / "products" / "hidden_states"
    assert not child.is_symlink() and (child / "manifest.jsonl").read_text() == "{}\n"


def test_without_hard_links_the_data_are_pointed_to(host: FakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*_: Any) -> None:
        raise OSError(1, "not permitted")

    run = base(host)
    monkeypatch.setattr(shared.os, "link", no_links)
    made, view = begin(host, run, {"lr": [0.1]})
    until(lambda: states(made, view) == ["done"], "the point")


def test_a_point_that_fails_does_not_hold_the_others_up(host: FakeHost) -> None:
    run = base(host)
    (host.folder / "gate").touch()
    (host.folder / "break").touch()
    made, view = begin(host, run, {"lr": [0.1, 0.2]})
    first, second = (Path(host.folder) / "runs" / point.run for point in view.points)
    (first / "go").touch()
    until(lambda: states(made, view) == ["failed", "running"], "the second")
    (host.folder / "break").unlink()
    (second / "go").touch()
    until(lambda: states(made, view) == ["failed", "done"], "the end")
    host.relaunch(first.name, "train")
    until(lambda: states(made, view) == ["done", "done"], "the relaunched point")
    assert [stage.name for stage in host.view(first.name).stages] == ["train", "evaluate"]


def test_a_point_that_is_relaunched_keeps_its_values_whatever_the_project_s_settings_are(host: FakeHost) -> None:
    run = base(host)
    made, view = begin(host, run, {"lr": [0.1], "epochs": [7]})
    point = view.points[0].run
    host.over(host.attempt(point, "evaluate"))
    described = Path(host.folder) / "runs" / run / "run.json"
    project = json.loads(described.read_text())["settings"]
    project["stage"]["train"] |= {"lr": 0.9, "epochs": 1, "patience": 2}
    host.relaunch(point, "train", settings=project)
    host.over(host.attempt(point, "evaluate", 2))
    assert states(made, view) == ["done"]
    asked = json.loads(Path(host.attempt(point, "train", 2).folder, "spec.json").read_text())["settings"]
    assert asked["stage"]["train"] == {"lr": 0.1, "epochs": 7, "patience": 2}
    assert json.loads((described.parent.parent / point / "run.json").read_text())["settings"] == asked


def test_a_point_over_an_archive_s_run_keeps_the_archive_s_settings_too(host: FakeHost) -> None:
    run = base(host)
    described = host.folder / "runs" / run / "run.json"
    about = json.loads(described.read_text())
    described.write_text(json.dumps({**about, "repeats": "20260301T031500Z-5eed0001"}))
    _, view = begin(host, run, {"lr": [0.1]})
    point = view.points[0].run
    host.over(host.attempt(point, "evaluate"))
    host.relaunch(point, "train", settings={**about["settings"], "stage": {"train": {"lr": 0.9, "patience": 2}}})
    host.over(host.attempt(point, "evaluate", 2))
    first, second = (json.loads(Path(host.attempt(point, "train", n).spec).read_text())["settings"] for n in (1, 2))
    assert first["stage"]["train"]["lr"] == 0.1
    assert second["stage"] == first["stage"]


def stopped(host: FakeHost) -> tuple[Sweeps, SweepView]:
    """A sweep of two points that was stopped while the first trained."""
    run = base(host)
    (host.folder / "gate").touch()
    made, view = begin(host, run, {"lr": [0.1, 0.2]})
    host.logged(host.attempt(view.points[0].run, "train"), "trained")
    assert made.stop(view.sweep, True, {})["runs"] == [view.points[0].run]
    host.over(host.attempt(view.points[0].run, "train"))
    return made, view


def test_nothing_begins_after_a_stop_and_it_goes_on_when_asked(host: FakeHost) -> None:
    made, view = stopped(host)
    assert states(made, view) == ["stopped", "waiting"]
    assert made.show(view.sweep, "").stopped
    (host.folder / "gate").unlink()
    assert made.stop(view.sweep, False, {})["runs"] == [view.points[0].run]
    until(lambda: states(made, view) == ["done", "done"], "both points")
    first, second = (host.view(point.run).stages[0] for point in view.points)
    assert ([a.number for a in first.attempts], [a.number for a in second.attempts]) == ([1, 2], [1])


def test_a_stopped_point_that_the_operator_has_relaunched_is_left_to_him(host: FakeHost) -> None:
    made, view = stopped(host)
    first, second = (point.run for point in view.points)
    (Path(host.folder) / "runs" / first / "go").touch()
    host.relaunch(first, "train")
    until(lambda: states(made, view)[0] == "done", "the relaunched point")
    host.over(host.attempt(first, "evaluate"))
    (host.folder / "gate").unlink()
    assert made.stop(view.sweep, False, {})["runs"] == [second]
    until(lambda: states(made, view) == ["done", "done"], "the second point")
    assert len(host.view(first).stages[0].attempts) == 2


def test_a_point_that_the_operator_has_begun_is_not_begun_again(host: FakeHost) -> None:
    made, view = stopped(host)
    first, second = (point.run for point in view.points)
    (host.folder / "gate").unlink()
    host.relaunch(second, "train")
    host.over(host.attempt(second, "evaluate"))
    made.stop(view.sweep, False, {})
    host.over(host.attempt(first, "evaluate"))
    assert states(made, view) == ["done", "done"]
    assert [len(host.view(name).stages[0].attempts) for name in (first, second)] == [2, 1]


def test_a_point_that_is_still_ending_is_waited_for(host: FakeHost) -> None:
    run = base(host, train="import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)" + TRAIN)
    (host.folder / "gate").touch()
    made, view = begin(host, run, {"lr": [0.1, 0.2]})
    host.logged(host.attempt(view.points[0].run, "train"), "trained")
    made.stop(view.sweep, True, {})
    with pytest.raises(RemoteError, match="still ending"):
        made.stop(view.sweep, False, {})
    assert made.show(view.sweep, "").stopped
    (Path(host.folder) / "runs" / view.points[0].run / "go").touch()
    host.over(host.attempt(view.points[0].run, "train"))


def test_a_killed_supervisor_leaves_a_sweep_that_goes_on_when_asked(host: FakeHost) -> None:
    run = base(host)
    (host.folder / "gate").touch()
    made, view = begin(host, run, {"lr": [0.1, 0.2]})
    attempt = host.attempt(view.points[0].run, "train")
    host.logged(attempt, "trained")
    kill(host.status(attempt)["supervisor"])
    kill(host.status(attempt)["main"])
    until(lambda: host.view(view.points[0].run).state in ("failed", "lost"), "the loss is seen")
    (host.folder / "gate").unlink()
    made.stop(view.sweep, False, {})
    until(lambda: states(made, view)[1] == "done", "the second point")


def test_the_same_request_gives_the_same_sweep(host: FakeHost) -> None:
    run = base(host)
    _, first = begin(host, run, {"lr": [0.1]}, "again")
    made, second = begin(host, run, {"lr": [0.1]}, "again")
    assert first.sweep == second.sweep
    until(lambda: states(made, second) == ["done"], "the point")
    assert len(host.view(second.points[0].run).stages[0].attempts) == 1


def test_points_run_beside_each_other_on_free_gpus(host: FakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    free = {f"GPU-{i}": (0 if i != 1 else 60 << 30) for i in range(3)}
    gpus = tuple(GpuView(i, uuid, "H200", used, 140 << 30) for i, (uuid, used) in enumerate(free.items()))
    monkeypatch.setattr(sweeps.GpuSampler, "sample", lambda self: (gpus, ""))
    run = base(host)
    (host.folder / "gate").touch()
    made, view = begin(host, run, {"lr": [0.1, 0.2, 0.3]})
    until(lambda: states(made, view) == ["running", "running", "waiting"], "two points at once")
    host.logged(host.attempt(view.points[0].run, "train"), "trained on GPU-0")
    host.logged(host.attempt(view.points[1].run, "train"), "trained on GPU-2")
    (Path(host.folder) / "runs" / view.points[1].run / "go").touch()
    host.over(host.attempt(view.points[1].run, "evaluate"))
    host.logged(host.attempt(view.points[2].run, "train"), "trained on GPU-2")
    (host.folder / "gate").unlink()
    until(lambda: set(states(made, view)) == {"done"}, "the end")


def test_a_point_has_as_many_gpus_as_its_training_asks_for(host: FakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = tuple(GpuView(i, f"GPU-{i}", "H200", 0, 140 << 30) for i in range(3))
    monkeypatch.setattr(sweeps.GpuSampler, "sample", lambda self: (gpus, ""))
    made, view = begin(host, base(host, gpus=2), {"lr": [0.1]})
    assert view.slots == 1
    until(lambda: states(made, view) == ["done"], "the point")
    host.logged(host.attempt(view.points[0].run, "train"), "trained on GPU-0,GPU-1")
    with pytest.raises(RemoteError, match="3 of 3 GPUs are free, and a point needs 4"):
        begin(host, base(host, gpus=4), {"lr": [0.1]})


@pytest.mark.parametrize(
    ("axes", "why"),
    [
        ({}, "0 points"),
        ({"lr": []}, "list of different numbers"),
        ({"lr": [0.1, 0.1]}, "list of different numbers"),
        ({"lr": ["0.1"]}, "list of different numbers"),
        ({"lr": [True]}, "list of different numbers"),
        ({"momentum": [0.1]}, "no axis 'momentum'"),
        ({"lr": [i / 100 for i in range(9)], "epochs": list(range(1, 10))}, "81 points"),
    ],
)
def test_a_grid_that_makes_no_sense_is_refused_and_leaves_nothing(host: FakeHost, axes: Any, why: str) -> None:
    run = base(host)
    with pytest.raises(RemoteError, match=why):
        begin(host, run, axes)
    assert host.state.run_ids() == [run] and not list((host.folder / "sweeps").glob("*"))


def test_data_that_is_not_verified_is_refused(host: FakeHost) -> None:
    refused = base(host, passed="false")
    with pytest.raises(RemoteError, match="refused by verify"):
        begin(host, refused, {"lr": [0.1]})
    unfinished = host.start(sh("prepare", "true"))
    with pytest.raises(RemoteError, match="has not passed verify"):
        begin(host, unfinished, {"lr": [0.1]})


def test_a_plan_that_is_refused_leaves_nothing(host: FakeHost) -> None:
    run = base(host)
    described = Path(host.folder) / "runs" / run / "run.json"
    asked = json.loads(described.read_text())
    asked["settings"]["refuse"] = {"kind": "bad_settings", "message": "no such thing", "remedy": ""}
    described.write_text(json.dumps(asked))
    with pytest.raises(RemoteError, match="no such thing"):
        begin(host, run, {"lr": [0.1]})
    assert host.state.run_ids() == [run]


def test_a_run_of_no_sweep_begins_nothing(host: FakeHost) -> None:
    assert grid.go_on(Run(str(Path(host.folder) / "runs" / base(host))), {}) == []
    assert signal.SIGTERM  # the base above ended by itself
