"""What the log reader's tests share."""

from __future__ import annotations

from pathlib import Path

from remote.logs.findings import Findings, Traceback
from remote.logs.reader import LogReader

REAL_LOGS = Path(__file__).parents[2] / "data" / "logs"


def real(name: str) -> bytes:
    return (REAL_LOGS / name).read_bytes()


def read(data: bytes | str) -> Findings:
    reader = LogReader()
    reader.feed(data.encode() if isinstance(data, str) else data)
    return reader.finish()


def only(found: Findings, *, truncated: bool = False) -> Traceback:
    (traceback,) = found.tracebacks
    assert traceback.truncated == truncated
    return traceback


def place(data: bytes, traceback: Traceback) -> bytes:
    """The line of the log that `offset` names; checks that `line` names the same one."""
    at_offset = data[traceback.offset :].split(b"\n", 1)[0]
    assert data.split(b"\n")[traceback.line - 1] == at_offset
    return at_offset


PLAIN = """Traceback (most recent call last):
  File "/srv/stage.py", line 12, in main
    states = generator.generate(batch)
             ^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/env/vllm/v1/core/block_pool.py", line 238, in cache_full_blocks
    assert len(request.block_hashes) >= num_full_blocks
AssertionError
"""


def logged(worker: str, text: str, source: str = "multiproc_executor.py:863", end: str = "\r\n") -> str:
    """`text` as one log record of vLLM's worker: a head on each line, CR LF inside, LF at the end."""
    lines = text.rstrip("\n").split("\n")
    return end.join(f"({worker}) ERROR 11-29 15:30:26 [{source}] {line}" for line in lines) + "\n"
