"""vLLM's own extraction on the current pair: what each patch of CPU builds mends of its connector."""

from __future__ import annotations

import json

import pytest
from engine_run import Run

from compat.matcher import match
from remote.logs.reader import LogReader

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def current(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run of the current pair with its environment and a tiny target; what fails does not depend on it."""
    made = Run(tmp_path_factory.mktemp("current"), {"run": {"pair": "current"}, "stage": {"target": {"steps": 6}}})
    for name in ("provision", "target"):
        attempt = made.stage(name)
        assert attempt.rc == 0, attempt.log
    return made


@pytest.mark.parametrize("patch", ["cpu-pinned-memory", "cpu-event-query"])
def test_without_a_patch_of_cpu_builds_the_connector_fails_as_its_symptoms_say(current: Run, patch: str) -> None:
    target = str(current.products / "target")
    asked = {"backend": "native", "targets": [target], "tensor_parallel": 1, "off": [patch], "long": False}
    log = current.script("compare.py", json.dumps(asked), status=1)
    reader = LogReader()
    reader.feed(log.encode())
    findings = reader.finish()
    assert findings.root_cause is not None
    cause = findings.tracebacks[findings.root_cause]
    assert match(cause.exception_type, cause.message, cause.frames)[0].patch == patch
