"""A run's archive: deterministic, without a secret, read without trust; figures compared; what to start from it."""

from __future__ import annotations

import base64
import io
import json
import tarfile
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from console_training import evaluation_events, trained_run, training_events

from console import archive, bundling, repeat
from console.archive import Archive
from console.errors import UserError
from console.figures import compare, figures, verdict
from console.secrets import redact

SECRET = 'swordfish/42%"quoted"'
RUN_JSON = {
    "bundle": "/state/bundles/abc",
    "settings": {"run": {"target": "tiny", "conversations": "/data/chat.jsonl"}, "stage": {"train": {"lr": 0.001}}},
    "switches": {"mode": "auto", "on": [], "off": ["prefix-caching"]},
    "patches": {"extract/1": [{"id": "cpu-rotary", "digest": "12ab"}]},
}


def lines(events: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(event).encode() + b"\n" for event in events)


def run_files(**changed: bytes) -> dict[str, bytes]:
    return {
        "run.json": json.dumps(RUN_JSON).encode(),
        "conversations/chat.jsonl": b'{"messages": [{"role": "user", "content": "hello"}]}\n',
        "products/dataset/dataset.jsonl": b'{"place": "/a:1", "token_ids": [1, 2], "loss_mask": [0, 1]}\n',
        "products/verify.json": b'{"data": "d1ge57", "passed": true}',
        "products/vocabulary/vocabulary.json": b'{"coverage": 0.97}',
        "attempts/train/1/events.jsonl": lines(training_events()[:50]),
        "attempts/train/2/events.jsonl": lines(training_events()),
        "attempts/evaluate/1/events.jsonl": lines(evaluation_events()),
        "attempts/extract/1/spec.json": b'{"env": {"A": "1"}}',
        **{name.replace("__", "/"): data for name, data in changed.items()},
    }


@dataclass
class Host:
    """Answers CARRIED, FETCH and UPLOAD."""

    files: dict[str, bytes] = field(default_factory=run_files)
    piece: int = 1000
    asked: list[tuple[str, Any]] = field(default_factory=list)
    stored: dict[str, bytearray] = field(default_factory=dict)
    generation: int = 0

    def request(self, op: str, **given: Any) -> dict[str, Any]:
        self.asked.append((op, given.get("path")))
        if op == "carried":
            listed = [{"path": path, "size": len(data)} for path, data in self.files.items()]
            return {"files": listed, "left_out": [], "found": {"current-1": ["torch-2.13.0"]}}
        if op == "upload":
            stored = self.stored.setdefault(given["digest"], bytearray())
            if given["offset"] == len(stored):
                stored += base64.b64decode(given["data"])
            place = f"/up/{list(self.stored).index(given['digest'])}.jsonl"
            return {"path": place if len(stored) == given["size"] else None, "have": len(stored)}
        data = self.files[given["path"]]
        part = data[given["offset"] : given["offset"] + self.piece]
        return {"data": base64.b64encode(part).decode(), "size": len(data), "id": f"1:{self.generation}"}


def made(host: Host, secrets: dict[str, str] | None = None) -> bytes:
    view = trained_run(done=True)
    gathered = bundling.gather(host.request, view, secrets or {}, lambda words: None)
    return bundling.make(gathered, view, tuple(secrets or ()), embedded=True)


def opened(tmp_path: Path, data: bytes) -> Archive:
    (tmp_path / "b.tar.gz").write_bytes(data)
    return archive.read(tmp_path / "b.tar.gz")


def test_the_same_run_gives_the_same_bytes_whoever_packs_it(tmp_path: Path) -> None:
    assert made(Host()) == made(Host(piece=7, files=dict(reversed(run_files().items()))))
    read = opened(tmp_path, made(Host()))
    assert read.files["conversations/chat.jsonl"] == run_files()["conversations/chat.jsonl"]
    assert json.loads(read.files["patches.json"]) == RUN_JSON["patches"]
    assert "prefix-caching" in read.files["eyas.toml"].decode()
    assert "chat.jsonl" in read.about["conversations"] and read.about["left_out"] == []
    assert set(json.loads(read.files["findings.json"])) == {stage.name for stage in trained_run(done=True).stages}


def test_a_file_that_is_replaced_while_it_is_fetched_comes_whole_from_one_side() -> None:
    host = Host(files={"x": b"a" * 5000})
    ask = host.request

    def swapped(op: str, **given: Any) -> dict[str, Any]:
        if given["offset"] == 2000 and not host.generation:
            host.files["x"], host.generation = b"b" * 5000, 1
        return ask(op, **given)

    assert bundling.fetch(swapped, "run", "x", 5000) == b"b" * 5000


def test_no_value_of_a_variable_that_is_handed_on_gets_in(tmp_path: Path) -> None:
    spoilt = {
        "attempts__extract__1__spec.json": json.dumps({"env": {"MY_VAR": SECRET}}).encode(),
        "attempts__train__3__events.jsonl": f"index https://x/?key=swordfish%2F42%25%22quoted%22 {SECRET}".encode(),
    }
    read = opened(tmp_path, made(Host(run_files(**spoilt)), {"MY_VAR": SECRET, "SHORT": "abc"}))
    assert read.about["pass_env"] == ["MY_VAR", "SHORT"]
    assert {entry["path"] for entry in read.about["redacted"]} == {name.replace("__", "/") for name in spoilt}
    everything = b"".join(read.files.values()) + json.dumps(dict(read.about)).encode()
    assert b"swordfish" not in everything


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("hf_" + "aB3" * 11, "Hugging Face"),
        ("ghp_" + "x1Y" * 12, "GitHub"),
        ("sk-ant-" + "k9" * 20, "API key"),
        ("AKIA" + "ABCD2345" * 2, "AWS"),
        ("-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n-----END OPENSSH PRIVATE KEY-----", "private key"),
        ("https://me:pa55word@index.example/simple", "password in an address"),
        ("Authorization: Bearer " + "abcDEF123" * 3, "authorisation"),
        ('{"env": {"WANDB_API_KEY": "0123456789abcdef"}}', "named like a secret"),
        ("export MY_PASSWORD=hunter2hunter2", "named like a secret"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcdefgh", "web token"),
    ],
)
def test_what_looks_like_a_secret_is_taken_out(text: str, what: str) -> None:
    clean, found = redact(text.encode(), {})
    assert len(found) == 1 and what in found[0]
    assert b"[redacted: " in clean and len(clean) < len(text) + 60
    assert redact(clean, {}) == (clean, ())


@pytest.mark.parametrize(
    "text",
    [
        '{"TOKENIZERS_PARALLELISM": "false", "eyas_tokens": 5, "max_tokens": 40}',
        '{"token_ids": [3, 17], "sha256": "' + "ab" * 32 + '"}',
        "https://github.com/vllm-project/vllm/pull/12345",
        "basic documentation of bearer channels",
    ],
)
def test_what_is_none_stays(text: str) -> None:
    assert redact(text.encode(), {}) == (text.encode(), ())


def test_conversations_with_a_secret_stay_behind_with_the_samples_made_of_them(tmp_path: Path) -> None:
    spoilt = {"conversations__chat.jsonl": b'{"messages": [{"content": "my key is hf_' + b"aB3" * 11 + b'"}]}'}
    read = opened(tmp_path, made(Host(run_files(**spoilt))))
    left_out = {entry["path"]: entry["why"] for entry in read.about["left_out"]}
    assert "Hugging Face" in left_out["conversations/chat.jsonl"]
    assert "products/dataset/dataset.jsonl" in left_out
    assert "not inside" in read.about["conversations"]
    with pytest.raises(UserError, match="does not hold the conversations"):
        repeat.start_params(read, project(), {}, None)


def tampered(change: str) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        names = {"outside": "../x", "absolute": "/x", "fine": "x"}
        about = {"v": 99 if change == "newer" else 1, "files": {} if change != "missing" else {"x": "00"}}
        for name, data in ((archive.INDEX, json.dumps(about).encode()), (names.get(change, "x"), b"x")):
            if change == "no index" and name == archive.INDEX:
                continue
            member = tarfile.TarInfo(name)
            member.size = len(data)
            if change == "link" and name == "x":
                member.type, member.linkname, member.size = tarfile.SYMTYPE, "/etc/passwd", 0
            tar.addfile(member, io.BytesIO(data))
    return packed.getvalue()


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"nothing of the kind", "cannot be read"),
        (made(Host())[:2000], "cannot be read"),
        (tampered("no index"), "no bundle"),
        (tampered("outside"), "it holds '../x'"),
        (tampered("absolute"), "it holds '/x'"),
        (tampered("link"), "it holds 'x'"),
        (tampered("newer"), "form 99"),
        (tampered("fine"), "damaged: x"),
        (tampered("missing"), "damaged: x"),
    ],
    ids=["no archive", "cut off", "no index", "outside", "absolute", "link", "newer", "fine", "missing"],
)
def test_what_is_no_whole_archive_is_refused_in_a_sentence(tmp_path: Path, data: bytes, why: str) -> None:
    with pytest.raises(UserError, match=why.replace("(", r"\(")):
        opened(tmp_path, data)


def project(**environment: Any) -> Any:
    own = {
        "project": "mine",
        "settings": {"environment": environment},
        "switches": {"mode": "off"},
        "secrets": {"A": "b"},
    }
    return SimpleNamespace(start_params=lambda: own)


def test_a_run_is_started_with_the_archive_s_settings_and_this_host_s_environments(tmp_path: Path) -> None:
    read = opened(tmp_path, made(Host()))
    host = Host()
    places = repeat.hand_in(host.request, read)
    assert places == {"conversations/chat.jsonl": "/up/0.jsonl"}
    (stored,) = host.stored.values()
    assert bytes(stored) == read.files["conversations/chat.jsonl"]
    params = repeat.start_params(read, project(current={"python": "/p"}), places, "/models/x")
    assert params["settings"] == {
        "run": {"target": "/models/x", "conversations": "/up/0.jsonl"},
        "stage": {"train": {"lr": 0.001}},
        "environment": {"current": {"python": "/p"}},
    }
    assert params["switches"] == RUN_JSON["switches"]
    assert (params["project"], params["secrets"]) == ("mine", {"A": "b"})
    assert params["repeats"] == read.run


def test_the_sets_of_prompts_inside_are_handed_in_as_well(tmp_path: Path) -> None:
    asked = json.loads(json.dumps(RUN_JSON))
    own = {"my set": "/data/mine.jsonl", "left behind": "/data/other.jsonl"}
    asked["settings"]["stage"]["evaluate"] = {"set_size": 4, "prompts": own}
    files = run_files(**{"run.json": json.dumps(asked).encode(), "prompts__my-set__mine.jsonl": b'{"messages": []}\n'})
    read = opened(tmp_path, made(Host(files)))
    places = repeat.hand_in(Host().request, read)
    assert places == {"conversations/chat.jsonl": "/up/0.jsonl", "prompts/my-set/mine.jsonl": "/up/1.jsonl"}
    params = repeat.start_params(read, project(), places, None)
    assert params["settings"]["stage"]["evaluate"] == {
        "set_size": 4,
        "prompts": {"my set": "/up/1.jsonl", "left behind": "/data/other.jsonl"},
    }


@pytest.mark.parametrize(
    ("about", "part"),
    [
        ({"run": "/home/me/project"}, "run"),
        ({"run": "../../project"}, "run"),
        ({"run": ""}, "run"),
        ({"run": "r", "settings": "tiny"}, "settings"),
        ({"run": "r", "settings": {"run": [], "stage": {"evaluate": 3}}}, "settings"),
        ({"run": "r", "switches": ["all"]}, "switches"),
        ({"run": "r", "figures": {"loss": [1.0]}}, "figures"),
    ],
)
def test_an_archive_that_leads_elsewhere_or_is_of_another_make_is_refused(
    tmp_path: Path, about: dict[str, Any], part: str
) -> None:
    data = archive.pack({"embedded": True, **about}, {archive.CONFIGURATION: b"[run]\n"})
    with pytest.raises(UserError, match=f"no bundle of a run: {part} in its bundle.json"):
        opened(tmp_path, data)


@pytest.mark.parametrize("files", [{}, {archive.CONFIGURATION: b"[run\n"}, {archive.CONFIGURATION: b"\xff"}])
def test_a_project_is_made_of_no_settings_that_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, bytes]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    read = opened(tmp_path, archive.pack({"run": "r", "embedded": True}, files))
    with pytest.raises(UserError, match=r"The bundle's eyas\.toml cannot be read"):
        repeat.project_for(read, None, None)


def test_a_setting_that_was_a_secret_is_asked_for(tmp_path: Path) -> None:
    asked = json.loads(json.dumps(RUN_JSON))
    asked["settings"]["stage"]["train"]["env"] = {"HF_TOKEN": "hf_" + "aB3" * 11}
    read = opened(tmp_path, made(Host(run_files(**{"run.json": json.dumps(asked).encode()}))))
    with pytest.raises(UserError, match=r"stage\.train\.env\.HF_TOKEN"):
        repeat.start_params(read, project(), {"conversations/chat.jsonl": "/up/x.jsonl"}, None)


def test_figures_are_those_of_the_last_attempt_and_not_of_the_pace() -> None:
    found = figures(run_files())
    assert found["data"] == "d1ge57" and found["vocabulary coverage"] == 0.97
    assert found["train: loss"] == training_events()[-8]["value"]
    assert found["evaluate: acceptance/held out/served"] == 2.894
    assert not [name for name in found if "tokens_per_s" in name or "eta" in name]
    moved = run_files(
        **{"products__dataset__dataset.jsonl": b'{"place": "/b:9","token_ids":[1,2],"loss_mask":[0,1]}\n'}
    )
    assert figures(moved)["samples"] == found["samples"]


def test_the_comparison_says_equal_or_how_far_off() -> None:
    expected = figures(run_files())
    assert verdict(compare(expected, expected)) == f"All {len(expected)} figures are equal to the bundle's."
    other = {**expected, "data": "other", "evaluate: acceptance/stdlib/served": 3.0}
    del other["vocabulary coverage"]
    compared = {one.name: one for one in compare(expected, other)}
    assert compared["evaluate: acceptance/stdlib/served"].told.endswith("off by -0.082, -2.66%")
    assert "nothing here" in compared["vocabulary coverage"].told
    assert "d1ge57 in the bundle, other here" in compared["data"].told
    assert verdict(compared.values()).endswith("3 are off, the furthest by 2.66%.")
    assert "no figures" in verdict(())


def test_only_the_files_behind_the_figures_are_fetched_to_compare() -> None:
    host = Host()
    assert bundling.fetch_figures(host.request, "run") == figures(run_files())
    fetched = {path for op, path in host.asked if op == "fetch"}
    assert "conversations/chat.jsonl" not in fetched and "run.json" not in fetched
