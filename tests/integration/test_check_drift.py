"""`eyas check --drift` as its users run it: through the agent on a host, and on a folder of this machine."""

from __future__ import annotations

import json
import venv
from pathlib import Path

import pytest
from drift_pair import GENERATOR, SCHEDULER, Pair
from workstation import Workstation


@pytest.fixture
def workstation(tmp_path: Path) -> Workstation:
    return Workstation(tmp_path)


@pytest.fixture
def pair(workstation: Workstation) -> Pair:
    """An environment of the operator's own on the embedded host, with a pair that fits."""
    folder = workstation.folder / "environment"
    venv.create(folder, symlinks=True)
    made = Pair(next(folder.glob("lib/python3*/site-packages")))
    made.write()
    (workstation.folder / "eyas.toml").write_text(
        f'project = "drift"\n[host.box]\nembedded = true\n[host.box.environment.seed]\npython = "{folder}/bin/python"\n'
    )
    return made


def test_the_hosts_environment_is_checked_through_the_agent(workstation: Workstation, pair: Pair) -> None:
    fits = workstation.json("check", "--drift", timeout=300)
    assert fits["report"]["callers"] == ["speculators 0.3.0"]
    assert (fits["report"]["findings"], fits["verdict"]) == ([], 0)
    pair.change(GENERATOR, "return replies[0]", "return self.executor.gone()")
    fails = workstation.json("check", "--drift", status=1, timeout=300)
    assert [(f["kind"], f["name"], f["patch"]) for f in fails["report"]["findings"]] == [("missing-method", "gone", "")]
    said = workstation.eyas("check", "--drift", "--host", "box", timeout=300)
    assert said.returncode == 1
    assert "Surely fails (1):" in said.stdout and f"{GENERATOR}:" in said.stdout


def test_a_patch_that_is_off_fails_the_check(workstation: Workstation, pair: Pair) -> None:
    pair.change(SCHEDULER, "vllm_config, log_stats", "vllm_config, block_size, log_stats")
    found = workstation.json("check", "--drift", status=1, timeout=300)
    assert [f["patch"] for f in found["report"]["findings"]] == ["scheduler-block-size"]


def test_the_targets_class_comes_from_its_folder(workstation: Workstation, pair: Pair) -> None:
    target = workstation.folder / "model"
    target.mkdir()
    (target / "config.json").write_text(json.dumps({"architectures": ["NoSuchForCausalLM"]}))
    with (workstation.folder / "eyas.toml").open("a") as toml:
        toml.write(f'[run]\ntarget = "{target}"\n')
    found = workstation.json("check", "--drift", status=1, timeout=300)
    assert [f["callee"] for f in found["report"]["findings"]] == ["NoSuchForCausalLM"]


def test_a_folder_on_this_machine_needs_no_project(workstation: Workstation, tmp_path: Path) -> None:
    made = Pair(tmp_path / "site")
    made.write()
    assert workstation.json("check", "--drift", "--site", str(made.site), timeout=300)["verdict"] == 0
    (made.site / SCHEDULER).write_text("def f(:")
    assert workstation.json("check", "--drift", "--site", str(made.site), status=2, timeout=300)["report"]["unread"]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["check"], "`eyas check --drift`"),
        (["check", "--drift", "--site", "/no/such"], "no folder /no/such"),
        (["check", "--drift", "--site", "/"], "vLLM is not installed"),
    ],
)
def test_what_cannot_be_checked_is_one_sentence_and_status_2(
    workstation: Workstation, command: list[str], words: str
) -> None:
    done = workstation.eyas(*command, timeout=300)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr and done.stderr.count("\n") == 1
