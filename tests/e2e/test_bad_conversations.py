"""Conversations from the operator's own folder: sent to the host, and what is wrong with them told by place."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from workstation import Workstation

pytestmark = pytest.mark.engine

TALK = {"messages": [{"role": "user", "content": "Rain?"}, {"role": "assistant", "content": "No rain."}]}
UNKNOWN = {"messages": [{"role": "critic", "content": "Rain?"}, TALK["messages"][1]]}
PICTURE = {"messages": [{"role": "user", "content": [{"type": "image_url"}]}, TALK["messages"][1]]}
CALL = {"function": {"name": "weather", "arguments": "{}"}}
CALLING = {"messages": [TALK["messages"][0], {"role": "assistant", "content": "", "tool_calls": [CALL]}]}


def write(workstation: Workstation, target: str, lines: list[str]) -> None:
    (workstation.folder / "chat.jsonl").write_text("\n".join(lines), encoding="utf-8")
    (workstation.folder / "eyas.toml").write_text(
        f'project = "chat"\n[host.box]\nembedded = true\n[run]\npair = "current"\ntarget = "{target}"\nsamples = 4\n'
        'conversations = "chat.jsonl"\nmax_length = 64\nuntil = "prepare"\n[stage.target]\nsteps = 1\n',
        encoding="utf-8",
    )


@pytest.fixture(scope="module")
def prepared(make_workstation: Callable[..., Workstation]) -> tuple[Workstation, Path]:
    """A workstation whose run read a file of its own folder, and the target that the run made."""
    workstation = make_workstation("chat")
    parts = {"messages": [{"role": "user", "content": [{"type": "text", "text": "Rain?"}]}, TALK["messages"][1]]}
    write(workstation, "tiny", [json.dumps(TALK), json.dumps(parts)])
    run = workstation.json("run")
    folder = Path(run["folder"]) / "products"
    rows = [json.loads(line) for line in (folder / "dataset" / "dataset.jsonl").read_text().splitlines()]
    assert len(rows) == 2
    assert rows[0]["token_ids"] == rows[1]["token_ids"]
    sent = Path(rows[1]["place"].removesuffix(":2"))
    assert sent.read_bytes() == (workstation.folder / "chat.jsonl").read_bytes()
    assert sent.is_relative_to(workstation.folder / "state")
    return workstation, folder / "target"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"messages": [}', ":2 is no JSON (Expecting value"),
        ('{"messages": []}', ":2 is an empty conversation; leave it out"),
        (json.dumps(PICTURE), ':2 has a part of the type "image_url" in turn 1'),
        (json.dumps(UNKNOWN), ":2 cannot be used: turn 1 has the role 'critic', which Kimi-K2 does not know; use one"),
        (json.dumps(CALLING), ":2 cannot be used: the assistant's turn 1 calls the tool 'weather', which the chat"),
    ],
    ids=["no JSON", "empty", "picture", "role", "tool"],
)
def test_a_row_that_cannot_be_used_is_named_by_its_line(
    prepared: tuple[Workstation, Path], line: str, words: str
) -> None:
    workstation, target = prepared
    write(workstation, str(target), [json.dumps(TALK), line])
    run = workstation.json("run", status=1)
    assert run["failed_stage"] == "prepare"
    found = workstation.json("tracebacks")
    root = found["tracebacks"][found["root_cause"]]
    assert root["exception_type"].endswith("StageError")
    assert words in root["message"]


def test_a_model_without_a_chat_template_is_refused(prepared: tuple[Workstation, Path], tmp_path: Path) -> None:
    workstation, target = prepared
    base = tmp_path / "base"
    shutil.copytree(target, base)
    (base / "chat_template.jinja").unlink()
    write(workstation, str(base), [json.dumps(TALK)])
    assert workstation.json("run", status=1)["failed_stage"] == "prepare"
    found = workstation.json("tracebacks")
    message = found["tracebacks"][found["root_cause"]]["message"]
    assert f"The tokenizer in {base} has no chat template" in message and "take the instruct model" in message


def test_a_file_that_is_not_there_is_refused_before_anything_starts(prepared: tuple[Workstation, Path]) -> None:
    workstation, target = prepared
    write(workstation, str(target), [json.dumps(TALK)])
    (workstation.folder / "chat.jsonl").unlink()
    before = len(list(workstation.runs.iterdir()))
    done = workstation.eyas("run")
    assert done.returncode == 2
    assert f"There is no file {workstation.folder / 'chat.jsonl'} on this machine" in done.stderr
    assert len(list(workstation.runs.iterdir())) == before
