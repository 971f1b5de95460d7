"""Where tests leave what they measured, for people: Markdown under build/reports, which git ignores."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "build" / "reports"


def write(name: str, text: str) -> Path:
    """Replaces the report `name`."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"{name}.md"
    path.write_text(text, encoding="utf-8")
    return path


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(str(cell).replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)
