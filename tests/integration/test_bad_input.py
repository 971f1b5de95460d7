"""Bad input at the command line: one clear sentence with its remedy, exit status 2, everything left as it was."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from workstation import Workstation

EMBEDDED = "[host.box]\nembedded = true\n"


@pytest.fixture
def workstation(tmp_path: Path) -> Workstation:
    return Workstation(tmp_path)


def refusal(workstation: Workstation, toml: str, *command: str) -> str:
    """What `eyas` says on standard error when it refuses; nothing is said elsewhere, nothing is left on the host."""
    (workstation.folder / "eyas.toml").write_text(f'project = "bad"\n{toml}', encoding="utf-8")
    done = workstation.eyas(*command, timeout=300)
    assert done.returncode == 2, f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}"
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert not list(workstation.runs.glob("*"))
    return done.stderr


@pytest.mark.parametrize(
    ("toml", "command", "words"),
    [
        ('[host.box]\nssh = "no-such-host.invalid"\n', ["status"], ["no-such-host.invalid", "Check the spelling"]),
        ('[host.box]\nssh = "-oProxyCommand=x"\n', ["status"], ["no name of a host", "user@name:port"]),
        (f'{EMBEDDED}python = "/none/python3"\n', ["status"], ["/none/python3", 'Set python = "/path/to/python3"']),
        (f'{EMBEDDED}[run]\ntarget = "/no/such/model"\n', ["run"], ["/no/such/model", "run.target"]),
        (f"{EMBEDDED}[run]\nsampels = 3\n", ["run"], ["`run.sampels`", "Did you mean `samples`?"]),
        (EMBEDDED, ["status"], ["has no run on box yet", "`eyas run`"]),
        (EMBEDDED, ["status", "--run", "20260101T000000Z-00000000"], ["20260101T000000Z-00000000", "status --all"]),
        (EMBEDDED, ["status", "--run", "../../etc"], ["'../../etc'", "status --all"]),
        (EMBEDDED, ["patches", "on", "prefx-caching"], ["`prefx-caching`", "Did you mean `prefix-caching`?"]),
        (EMBEDDED, ["patches", "off", "aux-layers"], ["`aux-layers` has no switch: nothing at run time mends it"]),
        (
            EMBEDDED + '[patches]\noff = ["prefx-caching"]\n',
            ["patches"],
            ["`prefx-caching`, which patches.off of", "eyas.toml names", "Did you mean `prefix-caching`?"],
        ),
        (EMBEDDED, ["demo", "--break", "rely-rank"], ["`rely-rank`", "Did you mean `reply-rank`?"]),
        (EMBEDDED, ["demo", "--pair", "newest"], ["no pair `newest`", "seed"]),
        (EMBEDDED, ["demo", "--target", "tinny"], ["no target `tinny`", "Did you mean `tiny`?"]),
        (
            EMBEDDED,
            ["demo", "--pair", "current", "--break", "prefix-caching"],
            ["Without `prefix-caching` nothing fails in this demo", "Use `--pair seed`"],
        ),
        (EMBEDDED, ["demo", "--until", "extrakt"], ["no stage `extrakt`", "Did you mean `extract`?"]),
        (
            EMBEDDED + '[stage.train]\npair = "seed"\n',
            ["run"],
            ["tage.train.pair is 'seed'", "needs the modules of the current pair", "environment.current.python"],
        ),
        (EMBEDDED + '[stage.train]\npair = "sed"\n', ["run"], ["`stage.train.pair` is wrong", "'sed'"]),
        (
            EMBEDDED + '[host.box.environment.current]\nbuild = "rocm"\n',
            ["run"],
            ["`host.box.environment.current.build` is wrong", "'rocm'"],
        ),
        (EMBEDDED, ["status", "--host", "bx"], ["no host `bx`", "Did you mean `box`?"]),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else None,
)
def test_one_sentence_the_remedy_and_status_2(
    workstation: Workstation, toml: str, command: list[str], words: list[str]
) -> None:
    said = refusal(workstation, toml, *command)
    assert said.startswith("eyas: ") and said.count("\n") == 1
    for word in words:
        assert word in said


def test_a_truncated_shard_is_named_before_anything_starts(workstation: Workstation) -> None:
    target = workstation.folder / "model"
    target.mkdir()
    (target / "config.json").write_text('{"architectures": ["LlamaForCausalLM"], "num_hidden_layers": 8}')
    (target / "tokenizer.json").write_text("{}")
    header = b'{"w":{"dtype":"F32","shape":[256],"data_offsets":[0,1024]}}'
    (target / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + b"\0" * 1000)
    said = refusal(workstation, f'{EMBEDDED}[run]\ntarget = "{target}"\n', "run")
    assert "model.safetensors" in said and "Copy that file again" in said


def test_a_stage_that_does_not_exist_is_named_with_the_nearest_one(workstation: Workstation) -> None:
    """With a run to relaunch a stage of: its first stage fails at once, so no engine is needed."""
    python = workstation.folder / "python"
    python.write_text('#!/bin/sh\ncase "$1" in -c) echo /nowhere ;; *) exit 1 ;; esac\n', encoding="utf-8")
    python.chmod(0o755)
    toml = f'project = "bad"\n{EMBEDDED}[host.box.environment.seed]\npython = "{python}"\n'
    (workstation.folder / "eyas.toml").write_text(toml, encoding="utf-8")
    before = workstation.json("run", status=1)
    assert before["failed_stage"] == "provision"
    refused = workstation.eyas("relaunch", "extarct")
    assert refused.returncode == 2
    assert "no stage `extarct`" in refused.stderr and "Did you mean `extract`?" in refused.stderr
    after = workstation.json("status")
    assert [len(stage["attempts"]) for stage in after["stages"]] == [1, *[0] * 9]
