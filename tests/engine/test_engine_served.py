"""vLLM's own extraction through a server: right states, and one sentence for each thing that can be amiss with it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from drill import Started, leftovers, run_of, samples, states
from engine_run import Run
from extraction_server import MAX_LENGTH, Server

pytestmark = pytest.mark.engine


@pytest.fixture
def server(run: Run, tmp_path: Path) -> Iterator[Server]:
    one = Server(Run(tmp_path / "server", {"run": {"pair": "current"}}), run.products / "target", tmp_path)
    try:
        one.wait()
        yield one
    finally:
        one.kill()


def refusal(run: Run) -> str:
    attempt = Started(run).wait()
    assert attempt.rc == 1, attempt.log
    (event,) = attempt.events("exception")
    assert event["type"] == "pipeline.report.StageError"
    return str(event["message"])


def test_a_server_extracts_and_what_is_amiss_with_it_is_told(run: Run, server: Server, tmp_path: Path) -> None:
    target = run.products / "target"
    made = samples(24, 100)
    asked = {"max_length": MAX_LENGTH, "dtype": "float32"}
    served = run_of(tmp_path / "served", target, made, "current", asked, endpoint=server.endpoint)
    attempt = Started(served).wait()
    assert attempt.rc == 0, attempt.log
    assert leftovers(served) == []
    assert list(server.storage.iterdir()) == []
    plain = run_of(tmp_path / "plain", target, made, "current", asked, backend="transformers")
    assert Started(plain).wait().rc == 0
    told = plain.script("difference.py", str(served.products), str(plain.products))
    found = json.loads(told.rpartition("RESULT ")[2])
    assert found["samples"] == len(made)
    assert max(found["diff"]) < 2e-5 * max(found["size"])

    other = shutil.copytree(target, tmp_path / "other")
    (other / "config.json").write_text((other / "config.json").read_text() + "\n")
    wrong = run_of(tmp_path / "wrong", other, made, "current", asked, endpoint=server.endpoint)
    assert f"serves {target.resolve()}, which is not the run's target" in refusal(wrong)
    longer = run_of(tmp_path / "longer", target, made, "current", {"max_length": 200}, endpoint=server.endpoint)
    assert f"takes {MAX_LENGTH + 1} tokens" in refusal(longer)

    many = run_of(tmp_path / "many", target, samples(600, 100), "current", asked, endpoint=server.endpoint)
    cut = Started(many)
    assert cut.until(lambda: bool(states(many)))
    server.kill()
    ended = cut.wait()
    assert ended.rc == 1
    assert f"The server at {server.endpoint} does not answer" in ended.events("exception")[0]["message"]
    kept = states(many)
    assert 0 < len(kept) < 600
    assert f"The server at {server.endpoint} does not answer" in refusal(many)
    assert states(many) == kept
