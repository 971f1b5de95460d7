"""vLLM's own extraction through a server that somebody else keeps, as speculators does since 0.5.

The server is an OpenAI-compatible vLLM with the method `extract_hidden_states` and `ExampleHiddenStatesConnector`
(`python -m pipeline.engine.serve` says how to start one). Prompts go there as token ids; of the answer's
`kv_transfer_params` the path of the file counts, which this host must see as the server does.
What runs together there is up to the server, so the last bits of the states may differ from attempt to attempt.
"""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar
from urllib.parse import urlsplit

from pipeline import identity
from pipeline.origin import text_config
from pipeline.report import StageError
from pipeline.sample_files import Written

TRIES = 4
"""Times that one request is made before the stage gives up."""
PAUSE_S = 1.0
"""Before the second try; twice as long before each further one."""
TIMEOUT_S = 120.0
"""For a connection, and for the answer to a request that nothing stands before."""
SLOWEST = 200
"""Tokens a second that a server computes at the least: a request waits there for those that came before it."""
THREADS = 64
TOLD = 20
"""Likeliest tokens of a position that are asked for: what a server tells of where it is not told otherwise."""

_T = TypeVar("_T")


class Engine:
    """A server with the target loaded. `layers` are vLLM's ids: as many as the server extracts.

    Raises StageError when there is none, or when it serves another model, or shorter prompts.
    """

    def __init__(
        self, target: Path, layers: Sequence[int], max_length: int, dtype: str = "auto", endpoint: str = ""
    ) -> None:
        self._layers = len(layers)
        self._server = _Server(endpoint)
        self._model = self._served(target, max_length)
        self._server.patience = TIMEOUT_S + THREADS * max_length / SLOWEST
        self._vocabulary = int(text_config(target)["vocab_size"])
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="request")
        self._asked: set[Future[Written]] = set()
        """Answers that nobody has taken yet."""

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._pool.shutdown(cancel_futures=True)
        for asked in self._asked:
            if not asked.cancelled() and asked.exception() is None:
                asked.result().discard()

    def generate(self, prompts: Sequence[Sequence[int]]) -> list[Any]:
        """Hidden states of each prompt: a tensor [S, L, H] with one row for each token, in the server's dtype."""
        return [taken.load(prompt) for taken, prompt in zip(self.take(prompts), prompts, strict=True)]

    queues = True

    def take(self, prompts: Sequence[Sequence[int]]) -> Iterator[Written]:
        """The files of the prompts' states; the server may still be writing them. All prompts are asked for at once,
        and each answer is waited for when its turn comes."""
        asked = [self._pool.submit(self._ask, number, prompt) for number, prompt in enumerate(prompts)]
        self._asked.update(asked)
        return map(self._taken, asked)

    def _taken(self, asked: Future[Written]) -> Written:
        found = asked.result()
        self._asked.remove(asked)
        return found

    def captured(self, prompts: Sequence[Sequence[int]]) -> list[Any]:
        """As `generate`, with whatever rows there are: a tensor [R, L, H] of each prompt."""
        return [taken.load() for taken in self.take(prompts)]

    step_tokens = 0
    """What the server takes in one step is not told."""

    def next_tokens(self, prompt: Sequence[int], first: int, count: int) -> Any:
        """Log-probabilities [count, V] of the tokens behind the positions from `first` on, by the server's own logits;
        -inf for those that are not among the likeliest. `prompt` has a token more than the last of these positions."""
        import torch

        asked = list(prompt[: first + count + 1])
        answer = self._request(asked, prompt_logprobs=TOLD)
        self._written(0, asked, answer).load()
        found = torch.full((count, self._vocabulary), float("-inf"))
        for row, told in enumerate(answer["choices"][0]["prompt_logprobs"][first + 1 :]):
            found[row, [int(token) for token in told]] = torch.tensor([one["logprob"] for one in told.values()])
        return found

    def _ask(self, number: int, prompt: Sequence[int]) -> Written:
        return self._written(number, prompt, self._request(prompt))

    def _request(self, prompt: Sequence[int], **more: Any) -> dict[str, Any]:
        request = {
            "model": self._model,
            "prompt": list(prompt),
            "max_tokens": 1,
            "temperature": 0,
            "return_token_ids": True,
            **more,
        }
        return self._server.call("POST", "/completions", request)

    def _written(self, number: int, prompt: Sequence[int], answer: Mapping[str, Any]) -> Written:
        path = (answer.get("kv_transfer_params") or {}).get("hidden_states_path")
        if path is None:
            raise StageError(
                f"The server at {self._server.address} answers without a path of hidden states; start it with the "
                "method extract_hidden_states and its connector (`python -m pipeline.engine.serve TARGET` says how)."
            )
        echoed = (answer.get("choices") or [{}])[0].get("prompt_token_ids")
        if echoed is not None and echoed != list(prompt):
            raise StageError(
                f"The server at {self._server.address} ran other tokens than prompt {number} of the batch has; it must "
                "take prompts as token ids, and cut none."
            )
        taken = Written(Path(path), self._layers)
        if not taken.path.exists() and not taken.lock.exists():
            raise StageError(
                f"The server at {self._server.address} wrote {path}, which this host does not see; give it a "
                "shared_storage_path on a disk that both have, under the same name."
            )
        return taken

    def _served(self, target: Path, max_length: int) -> str:
        """The name of its model. Raises StageError unless it is the target, as far as can be told."""
        models = self._server.call("GET", "/models").get("data") or [{}]
        name, root, longest = (models[0].get(key) for key in ("id", "root", "max_model_len"))
        folder = Path(str(root))
        is_here = (folder / "config.json").is_file()
        if not name or (is_here and identity.digest(folder) != identity.digest(target)):
            raise StageError(
                f"The server at {self._server.address} serves {root or 'no model'}, which is not the run's target "
                f"{target}; correct stage.extract.endpoint, or start the server with that target."
            )
        if isinstance(longest, int) and longest <= max_length:
            raise StageError(
                f"The server at {self._server.address} takes {longest} tokens, and a sample of run.max_length "
                f"{max_length} needs one more than it has; start it with --max-model-len {max_length + 1}."
            )
        return str(name)


class _Server:
    """Requests with retries. Once one has failed for good, none is made any more: what runs at the same time ends."""

    def __init__(self, endpoint: str) -> None:
        parts = urlsplit(endpoint)
        self.address = endpoint
        self._secure = parts.scheme == "https"
        self._host = parts.hostname or ""
        self._port = parts.port
        self._base = parts.path.rstrip("/")
        self._own = threading.local()
        self._dead = False
        self.patience = TIMEOUT_S
        """Seconds that an answer is waited for, of connections that are made from now on."""

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The answer's JSON. Raises StageError naming the server and the last failure."""
        return self._again(lambda: self._once(method, path, body))

    def _again(self, once: Callable[[], _T]) -> _T:
        last: Exception | None = None
        for number in range(TRIES):
            if number:
                time.sleep(PAUSE_S * 2 ** (number - 1))
            if self._dead:
                break
            try:
                return once()
            except (OSError, http.client.HTTPException, ValueError) as error:
                last = error
        self._dead = True
        raise StageError(
            f"The server at {self.address} does not answer ({_told(last)}). Look whether it still runs, start it "
            "again, and relaunch the stage; what is on disk stays."
        ) from last

    def _once(self, method: str, path: str, body: Mapping[str, Any] | None) -> dict[str, Any]:
        connection = self._connection()
        try:
            data = None if body is None else json.dumps(body).encode()
            connection.request(method, self._base + path, data, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read()
        except BaseException:
            self._drop()
            raise
        if 400 <= answer.status < 500:
            raise StageError(
                f"The server at {self.address} refuses {method} {path} with {answer.status}: "
                f"{text[:500].decode(errors='replace')}"
            )
        if answer.status != 200:
            raise http.client.HTTPException(f"status {answer.status}: {text[:200].decode(errors='replace')}")
        found = json.loads(text)
        if not isinstance(found, dict):
            raise ValueError(f"no JSON object but {text[:80]!r}")
        return found

    def _connection(self) -> http.client.HTTPConnection:
        """One kept open for each thread."""
        kept: http.client.HTTPConnection | None = getattr(self._own, "connection", None)
        if kept is None:
            kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
            kept = self._own.connection = kind(self._host, self._port, timeout=TIMEOUT_S)
            kept.connect()
            kept.sock.settimeout(self.patience)
            kept.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # A host that is gone without a word is noticed long before.
            kept.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 6)):
                if hasattr(socket, name):
                    kept.sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        return kept

    def _drop(self) -> None:
        kept = getattr(self._own, "connection", None)
        self._own.connection = None
        if kept is not None:
            kept.close()


def _told(error: Exception | None) -> str:
    if error is None:
        return "other requests have failed before"
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
