"""Where tests leave what they measured, for people: rows and Markdown under build/reports, which git ignores."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "build" / "reports"
README = ROOT / "README.md"

Row = Mapping[str, Any]


def write(name: str, text: str) -> Path:
    """Replaces the report `name`."""
    return _place(FOLDER / f"{name}.md", text)


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(str(cell).replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def add(name: str, rows: Iterable[Row], subject: Callable[[Row], object]) -> None:
    """Adds rows to `NAME.jsonl`; one takes the place of an older one of the same subject. Two processes may do so."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        kept = {subject(row): row for row in [*read(name), *rows]}
        _place(FOLDER / f"{name}.jsonl", "".join(json.dumps(row) + "\n" for row in kept.values()))


def read(name: str) -> list[dict[str, Any]]:
    """The rows of `NAME.jsonl`; none where there is no such file."""
    try:
        lines = (FOLDER / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in lines]


def _place(path: Path, text: str) -> Path:
    """Whoever reads meanwhile sees the old file or the new one, whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    made = path.with_name(f".{path.name}.{os.getpid()}")
    made.write_text(text, encoding="utf-8")
    return made.replace(path)


def into_readme(marker: str, text: str) -> None:
    """Puts a table between the README's comments `MARKER: begin` and `MARKER: end`."""
    begin, end = f"<!-- {marker}: begin -->\n", f"<!-- {marker}: end -->\n"
    before, rest = README.read_text(encoding="utf-8").split(begin)
    after = rest.split(end)[1]
    README.write_text(f"{before}{begin}\n{text}\n{end}{after}", encoding="utf-8")
