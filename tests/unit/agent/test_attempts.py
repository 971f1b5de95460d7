"""An attempt's folder is there as a whole or not at all."""

from __future__ import annotations

from typing import Any

import pytest
from faults.fake_host import FakeHost, sh

from remote.agent import attempts


def test_an_attempt_is_not_seen_before_it_is_whole(host: FakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    """A watch that met its folder without the spec took it for lost, and for good."""
    run = host.state.run(host.start(sh("one", "true")))
    host.over(host.attempt(run.id, "one"))
    seen: list[int] = []
    write = attempts.files.write_json

    def look_first(path: str, value: Any) -> None:
        seen.append(len(run.attempts("one")))
        write(path, value)

    monkeypatch.setattr(attempts.files, "write_json", look_first)
    attempts.create(run, attempts.Order(sh("one", "true"), "r2", {}, {}, str(host.bundle)))
    assert seen == [1]
    assert len(run.attempts("one")) == 2
