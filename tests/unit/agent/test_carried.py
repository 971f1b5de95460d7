"""What travels of a run, and what never does; files handed in by their digest."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from remote.agent import carried, uploads
from remote.agent.carried import Carried
from remote.agent.layout import Run, State
from remote.protocol import RemoteError


@pytest.fixture
def run(tmp_path: Path) -> Run:
    folder = tmp_path / "runs" / "20260301T031500Z-5eed0001"
    products = folder / "products"
    for name in ("dataset", "hidden_states", "checkpoints/3"):
        (products / name).mkdir(parents=True)
    (products / "dataset" / "dataset.jsonl").write_text("{}\n")
    (products / "hidden_states" / "manifest.jsonl").write_text("{}\n")
    (products / "hidden_states" / "hs_0.safetensors").write_bytes(b"states")
    (products / "checkpoints" / "3" / "training.json").write_text("{}")
    (products / "checkpoints" / "3" / "model.safetensors").write_bytes(b"weights")
    (tmp_path / "secret.json").write_text("{}")
    (products / "link.json").symlink_to(tmp_path / "secret.json")
    (products / "checkpoints" / "best").symlink_to("3")
    chat = tmp_path / "my chat.jsonl"
    chat.write_text('{"messages": []}\n')
    attempt = folder / "train" / "1"
    attempt.mkdir(parents=True)
    for name in (*carried.ATTEMPT_FILES, "stdout.log"):
        (attempt / name).write_text("{}")
    (folder / "run.json").write_text(json.dumps({"settings": {"run": {"conversations": str(chat)}}, "plan": []}))
    return Run(str(folder))


def paths(listing: dict[str, Any]) -> list[str]:
    return [entry["path"] for entry in listing["files"]]


def test_records_and_small_products_travel_weights_states_and_links_do_not(run: Run) -> None:
    assert paths(Carried(run).listing()) == [
        "attempts/train/1/events.jsonl",
        "attempts/train/1/spec.json",
        "attempts/train/1/status.json",
        "conversations/my-chat.jsonl",
        "products/checkpoints/3/training.json",
        "products/dataset/dataset.jsonl",
        "products/hidden_states/manifest.jsonl",
        "run.json",
    ]


def test_the_manifest_travels_where_the_states_lie_elsewhere(run: Run, tmp_path: Path) -> None:
    states = Path(run.folder) / "products" / "hidden_states"
    states.rename(tmp_path / "shared")
    states.symlink_to(tmp_path / "shared")
    assert "products/hidden_states/manifest.jsonl" in paths(Carried(run).listing())
    piece = Carried(run).piece("products/hidden_states/manifest.jsonl", 0)
    assert base64.b64decode(piece["data"]) == b"{}\n"


def test_what_is_too_large_is_named_with_its_place(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carried, "FILE_MAX", 10)
    listing = Carried(run).listing()
    left_out = {entry["path"]: entry["why"] for entry in listing["left_out"]}
    assert "my chat.jsonl" in left_out["conversations/my-chat.jsonl"]
    assert "run.json" in left_out and "run.json" not in paths(listing)


@pytest.mark.parametrize(
    "path",
    [
        "../../secret.json",
        "/etc/passwd",
        "products/link.json",
        "products/hidden_states/hs_0.safetensors",
        "attempts/train/1/stdout.log",
        "products/../run.json",
    ],
)
def test_nothing_else_is_ever_read(run: Run, path: str) -> None:
    with pytest.raises(RemoteError, match="no file"):
        Carried(run).piece(path, 0)


def test_a_file_comes_by_pieces(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carried, "PIECE", 4)
    whole, offset = b"", 0
    while part := base64.b64decode(Carried(run).piece("run.json", offset)["data"]):
        assert len(part) <= 4
        whole, offset = whole + part, offset + len(part)
    assert whole == Path(run.json).read_bytes()


def send(state: State, data: bytes, digest: str, piece: int = 3) -> dict[str, Any]:
    answer = uploads.take(state, digest, ".jsonl", len(data), 0, "")
    while not answer["path"]:
        at = answer["have"]
        encoded = base64.b64encode(data[at : at + piece]).decode()
        answer = uploads.take(state, digest, ".jsonl", len(data), at, encoded)
    return answer


def test_a_file_is_handed_in_by_pieces_once(tmp_path: Path) -> None:
    state, data = State(str(tmp_path)), b'{"messages": []}\n'
    digest = hashlib.sha256(data).hexdigest()
    place = send(state, data, digest)["path"]
    assert Path(place).read_bytes() == data
    assert uploads.take(state, digest, ".jsonl", len(data), 0, "")["path"] == place
    assert [p.name for p in Path(place).parent.iterdir()] == [f"{digest}.jsonl"]


def test_a_broken_hand_in_goes_on_and_a_repeated_piece_changes_nothing(tmp_path: Path) -> None:
    state, data = State(str(tmp_path)), b"0123456789"
    digest = hashlib.sha256(data).hexdigest()
    first = base64.b64encode(data[:4]).decode()
    for _ in range(2):
        assert uploads.take(state, digest, "", len(data), 0, first) == {"path": None, "have": 4}
    assert uploads.take(State(str(tmp_path)), digest, "", len(data), 0, "")["have"] == 4


def test_other_bytes_than_the_digest_says_are_thrown_away(tmp_path: Path) -> None:
    state = State(str(tmp_path))
    with pytest.raises(RemoteError, match="not the file"):
        uploads.take(state, "0" * 64, "", 2, 0, base64.b64encode(b"ab").decode())
    assert list((tmp_path / "uploads").iterdir()) == []
    for digest, suffix in (("../x", ""), ("0" * 64, "/../x"), ("0" * 64, ".JSONL")):
        with pytest.raises(RemoteError, match="sha256"):
            uploads.take(state, digest, suffix, 2, 0, "")
