"""Conversations of this machine are put on the host, whole, once, by digest; what cannot be sent is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from console import sending
from console.errors import UserError
from remote import protocol
from remote.agent import uploads
from remote.agent.layout import State


class Host:
    """The agent's own code behind a request; `pieces` are the bytes of each that came."""

    def __init__(self, folder: Path) -> None:
        self.state = State(str(folder))
        self.pieces: list[int] = []

    def request(self, op: str, /, **params: Any) -> dict[str, Any]:
        assert op == protocol.UPLOAD and params.pop("request_id") and params.pop("timeout")
        if params["data"]:
            self.pieces.append(len(params["data"]))
        return uploads.take(self.state, **params)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path / "host")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "data").mkdir(parents=True)
    return folder


def asked(conversations: str) -> dict[str, Any]:
    run = {"target": "tiny", "conversations": conversations}
    return {"project": "p", "settings": {"run": run, "stage": {}}, "secrets": {}}


def place(host: Host, project: Path, conversations: str) -> str:
    params = sending.with_conversations(host.request, asked(conversations), project)
    assert params == asked(params["settings"]["run"]["conversations"])
    return str(params["settings"]["run"]["conversations"])


def test_a_file_of_the_project_is_sent_in_pieces_and_only_once(host: Host, project: Path) -> None:
    data = b'{"messages": []}\n' * 40_000
    (project / "data" / "chat.jsonl").write_bytes(data)
    there = place(host, project, "data/chat.jsonl")
    assert Path(there).is_absolute() and there.endswith(".jsonl") and Path(there).read_bytes() == data
    assert len(host.pieces) == 3
    assert place(host, project, "data/chat.jsonl") == there
    assert len(host.pieces) == 3


def test_a_file_of_the_home_folder_is_sent(host: Host, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(project))
    (project / "chat.json").write_text("[1]")
    assert Path(place(host, Path("/nowhere"), "~/chat.json")).read_text() == "[1]"


def test_a_full_path_is_the_host_s_and_stdlib_no_file(host: Host, project: Path) -> None:
    for given in ("/data/chat.jsonl", "stdlib"):
        assert place(host, project, given) == given
    assert not host.pieces


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("data/none.jsonl", "There is no file .*project/data/none.jsonl on this machine"),
        ("data", "cannot be read: Is a directory"),
        ("empty.jsonl", "is empty"),
        ("large.jsonl", "has 64 MB, and files of up to 64 MB are sent"),
    ],
)
def test_what_cannot_be_sent_is_named_with_the_remedy(host: Host, project: Path, given: str, words: str) -> None:
    (project / "empty.jsonl").write_text(" \n")
    with (project / "large.jsonl").open("wb") as file:
        file.truncate(sending.SIZE_MAX + 1)
    with pytest.raises(UserError, match=words) as caught:
        place(host, project, given)
    assert "run.conversations" in caught.value.message + caught.value.remedy
    assert sending.SIZE_MAX == uploads.SIZE_MAX
