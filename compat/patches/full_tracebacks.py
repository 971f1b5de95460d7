"""A worker's error reaches the driver as its message alone, and an assertion without words has none."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from typing import Any

from compat import source
from compat.patch import Patch, Probe, Symptom
from compat.replace import check_wrap, wrap

MODULE = "vllm.v1.executor.multiproc_executor"
REPLACES = f"{MODULE}.WorkerProc.enqueue_output"
WRITTEN_FOR = (
    "7c16104f40561e0c45317e46fc3969459f0366b1d51701ec9872c55610810f33",  # 0.11.0 to 0.24
    "dbaef69b645741a128bb04a09323290df428cde21d58ea08b7d54f0ca85fe1a5",  # 0.26 to 0.32
)


def probe(site: Path) -> Probe:
    callee = source.find(site, REPLACES)
    texts = source.calls(callee, "str")
    if not texts:
        return Probe(False, f"{callee.place} sends more than an error's message")
    return Probe(True, f"{callee.at(texts[0])} sends the driver an error's message alone, which may be empty")


def apply() -> None:
    wrap(sys.modules[MODULE].__dict__["WorkerProc"], "enqueue_output", _with_words)


def verify() -> str:
    return check_wrap(sys.modules[MODULE].__dict__["WorkerProc"], "enqueue_output", __name__)


def _with_words(old: Any) -> Any:
    def enqueue_output(self: Any, output: Any) -> Any:
        if isinstance(output, Exception) and not str(output).strip():
            output = RuntimeError(describe(output))
        return old(self, output)

    return enqueue_output


def describe(error: BaseException) -> str:
    """`AssertionError at FILE:LINE in FUNCTION: SOURCE LINE` for an error that has no words of its own."""
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return type(error).__name__
    last = frames[-1]
    place = f"{type(error).__name__} at {last.filename}:{last.lineno} in {last.name}"
    return f"{place}: {last.line}" if last.line else place


PATCH = Patch(
    id="full-tracebacks",
    drift="",
    title="A worker's assertion reaches the driver as an empty message",
    speculators=">=0.3.0",
    vllm=">=0.11.0",
    symptoms=(Symptom("RuntimeError", message=r"^\s*$", innermost="get_response"),),
    cause='A worker sends the driver str(error). A bare assert has no message, so the driver raises "Worker '
    "failed with error ''\", and what failed is in the worker's own output only, among that of seven others.",
    mend="Sends the exception's class, place and source line where there is no message.",
    replaces=REPLACES,
    where="worker",
    after=MODULE,
    probe=probe,
    apply=apply,
    verify=verify,
    risk="None: only empty messages are changed.",
    story="Named there as full tracebacks. The account edited vLLM for them; a stage here prints each of its "
    "exceptions in full, and the log reader shows the source line of an exception without a message.",
    written_for=WRITTEN_FOR,
)
