"""Every real log's findings as a short text, kept in tests/data/logs/golden.

When a change of the reader is meant, write the texts anew and read their diff before it is committed:

    .venv/bin/python tests/unit/logs/golden.py && git diff --stat tests/data/logs/golden
"""

from __future__ import annotations

import dataclasses
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from remote.logs.findings import Findings, Frame
from remote.logs.reader import LogReader

DATA = Path(__file__).parents[2] / "data" / "logs"
ARCHIVE = DATA / "golden_logs.tar.xz"
FOLDER = DATA / "golden"
CHUNK = 1 << 16


def logs() -> dict[str, bytes]:
    """Name in the archive -> the log."""
    with tarfile.open(ARCHIVE) as archive:
        opened = ((member.name, archive.extractfile(member)) for member in archive.getmembers() if member.isfile())
        return {name: file.read() for name, file in opened if file is not None}


def golden(name: str) -> Path:
    return FOLDER / f"{name.replace('/', '_')}.txt"


def read(data: bytes) -> Findings:
    reader = LogReader()
    for start in range(0, len(data), CHUNK):
        reader.feed(data[start : start + CHUNK])
    return reader.finish()


def text(found: Findings) -> str:
    return "\n".join(_lines(found)) + "\n"


def _lines(found: Findings) -> Iterator[str]:
    yield f"{found.lines_read} lines, {found.bytes_read} bytes"
    yield f"root cause: {found.root_cause}, without a traceback: {found.root_cause_fatal}"
    yield f"because: {found.reason}"
    for place, traceback in enumerate(found.tracebacks):
        yield f"traceback {place}: {traceback.exception_type}: {traceback.message!r}"
        yield f"  {_facts(traceback, 'exception_type', 'message', 'frames')}"
        yield from (f"  {_frame(frame)}" for frame in traceback.frames)
    for field in dataclasses.fields(found):
        values = getattr(found, field.name)
        if field.name != "tracebacks" and isinstance(values, tuple):
            yield from (f"{field.name}: {_facts(value)}" for value in values)


def _facts(value: Any, *without: str) -> str:
    """What differs from the defaults."""
    told = [
        f"{field.name}={getattr(value, field.name)!r}"
        for field in dataclasses.fields(value)
        if field.name not in without and getattr(value, field.name) != field.default
    ]
    return " ".join(told)


def _frame(frame: Frame) -> str:
    return f"{frame.file}:{frame.line} {frame.function} | {frame.source}"


def write() -> None:
    """Write every golden text anew."""
    FOLDER.mkdir(exist_ok=True)
    for old in FOLDER.glob("*.txt"):
        old.unlink()
    for name, data in logs().items():
        golden(name).write_text(text(read(data)), encoding="utf-8")


if __name__ == "__main__":
    write()
