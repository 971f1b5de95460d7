"""The client of a server that extracts: tries again, gives up in one sentence, takes no answer that is not right."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from safetensors_files import write_model

from pipeline.engine import served
from pipeline.report import StageError


class Faulty(ThreadingHTTPServer):
    """Answers as vLLM does, after as many failures as are asked for."""

    daemon_threads = True

    def __init__(self, root: Path, storage: Path) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.root = root
        self.storage = storage
        self.failures = 0
        self.requests = 0
        self.more: dict[str, Any] = {}
        self.status = 503
        self.seconds = 0.0
        """That an answer takes."""
        self.lock = threading.Lock()


class Handler(BaseHTTPRequestHandler):
    server: Faulty
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer(200, {"data": [{"id": "m", "root": str(self.server.root), "max_model_len": 65}]})

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            self.server.requests += 1
            number = self.server.requests
            fails = self.server.failures > 0
            self.server.failures -= fails
        if fails:
            self._answer(self.server.status, {"error": "busy"})
            return
        time.sleep(self.server.seconds)
        path = self.server.storage / f"{number}.safetensors"
        path.touch()
        choice = {"prompt_token_ids": request["prompt"]}
        answer = {"choices": [choice], "kv_transfer_params": {"hidden_states_path": str(path)}}
        self._answer(200, {**answer, **self.server.more})

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Faulty]:
    monkeypatch.setattr(served, "PAUSE_S", 0.01)
    model = write_model(tmp_path / "model")
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**config, "vocab_size": 100}))
    (tmp_path / "storage").mkdir()
    one = Faulty(model, tmp_path / "storage")
    thread = threading.Thread(target=one.serve_forever)
    thread.start()
    yield one
    one.shutdown()
    one.server_close()
    thread.join()


def engine(server: Faulty, target: Path | None = None) -> served.Engine:
    endpoint = f"http://127.0.0.1:{server.server_address[1]}/v1"
    return served.Engine(target or server.root, (2, 4, 5, 8), 64, "auto", endpoint)


def test_what_fails_is_asked_for_again(server: Faulty) -> None:
    server.failures = 3
    with engine(server) as loaded:
        taken = list(loaded.take([[1, 2, 3], [4, 5]]))
    assert server.requests == 5
    assert [one.path.exists() for one in taken] == [True, True]
    assert len({one.path for one in taken}) == 2


def test_an_answer_is_waited_for_as_long_as_what_stands_before_it_may_take(
    server: Faulty, monkeypatch: pytest.MonkeyPatch
) -> None:
    """64 prompts of 8,192 tokens are minutes of work for a large target."""
    monkeypatch.setattr(served, "TIMEOUT_S", 1.0)
    server.seconds = 1.5
    with engine(server) as loaded:
        assert len(list(loaded.take([[1, 2, 3], [4, 5]]))) == 2
    assert server.requests == 2


def test_what_nobody_took_is_not_left_with_the_server(server: Faulty) -> None:
    with engine(server) as loaded:
        taken = loaded.take([[1, 2, 3], [4, 5], [6]])
        first = next(taken)
    assert list(server.storage.iterdir()) == [first.path]


def test_a_server_that_only_fails_is_given_up_in_one_sentence(server: Faulty) -> None:
    server.failures = 10_000
    with engine(server) as loaded, pytest.raises(StageError, match=r"The server at http://127.* does not answer .*503"):
        list(loaded.take([[1, 2, 3]]))
    assert server.requests == served.TRIES


def test_once_it_is_given_up_no_request_is_made_any_more(server: Faulty) -> None:
    server.failures = 10_000
    with engine(server) as loaded:
        for _ in range(3):
            with pytest.raises(StageError, match="does not answer"):
                list(loaded.take([[number] for number in range(1, 30)]))
    assert server.requests <= 29 * served.TRIES


def test_what_the_server_refuses_is_not_asked_for_again(server: Faulty) -> None:
    server.failures, server.status = 1, 400
    with engine(server) as loaded, pytest.raises(StageError, match=r"refuses POST /completions with 400: .*busy"):
        list(loaded.take([[1, 2, 3]]))
    assert server.requests == 1


@pytest.mark.parametrize(
    "more, told",
    [
        ({"kv_transfer_params": None}, "answers without a path of hidden states; .*pipeline.engine.serve"),
        ({"kv_transfer_params": {"hidden_states_path": "/nowhere/1.safetensors"}}, "which this host does not see"),
        ({"choices": [{"prompt_token_ids": [1, 2]}]}, "ran other tokens than prompt 0 of the batch"),
    ],
)
def test_an_answer_that_is_not_right_is_told(server: Faulty, more: dict[str, Any], told: str) -> None:
    server.more = more
    with engine(server) as loaded, pytest.raises(StageError, match=told):
        list(loaded.take([[1, 2, 3]]))


def test_a_server_of_another_model_or_of_shorter_prompts_is_refused(server: Faulty, tmp_path: Path) -> None:
    other = write_model(tmp_path / "other", layers=9)
    config = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps({**config, "vocab_size": 100}))
    with pytest.raises(StageError, match=r"serves .*/model, which is not the run's target .*/other"):
        engine(server, other)
    endpoint = f"http://127.0.0.1:{server.server_address[1]}/v1"
    with pytest.raises(StageError, match=r"takes 65 tokens, and a sample of run\.max_length 65 needs one more"):
        served.Engine(server.root, (2, 4, 5, 8), 65, "auto", endpoint)


def test_no_server_at_all_is_told(server: Faulty) -> None:
    server.shutdown()
    server.server_close()
    with pytest.raises(StageError, match=r"does not answer .*refused"):
        engine(server)
