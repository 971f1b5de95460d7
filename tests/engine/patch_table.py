"""What the engine tests saw of the patches: rows in `build/reports/*.jsonl`, from which a table is made for people.

`make readme` writes the table of the last test runs into the README.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import reports

README = Path(__file__).parents[2] / "README.md"
BEGIN, END = "<!-- patches: begin -->\n", "<!-- patches: end -->\n"
NUMBERS, FAILURES, SILENT = "patch-numbers", "patch-failures", "patch-silent"


def add(name: str, rows: Iterable[Mapping[str, Any]]) -> None:
    """Adds rows; one takes the place of an older one of the same subject. Then the table is made anew."""
    reports.FOLDER.mkdir(parents=True, exist_ok=True)
    kept = {_subject(row): row for row in [*_read(name), *rows]}
    lines = "".join(json.dumps(row) + "\n" for row in kept.values())
    (reports.FOLDER / f"{name}.jsonl").write_text(lines, encoding="utf-8")
    reports.write("patches", table())


def _read(name: str) -> list[dict[str, Any]]:
    try:
        lines = (reports.FOLDER / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in lines]


def _subject(row: Mapping[str, Any]) -> tuple[str, str]:
    return str(row["speculators"]), str(row.get("patch") or row["target"])


def table() -> str:
    """Markdown: each patch switched off and on, then each type of target with all patches on."""
    numbers = {_subject(row): f"{row['diff']:.1e}" for row in _read(NUMBERS)}
    rows = []
    for row in _read(FAILURES):
        on = numbers.get((row["speculators"], row["target"]), "not run")
        message = _short(row["message"]) or f"no message, `{row['source']}`"
        matched = "yes" if row["matched"][:1] == [row["patch"]] else "no"
        what = f"{row['exception']}: {message} ({row['at']})"
        rows.append((row["speculators"], f"`{row['patch']}`", row["drift"], what, matched, f"{on} ({_type(row)})"))
    for row in _read(SILENT):
        on = numbers.get((row["speculators"], row["target"]), "not run")
        what = f"no error; states are wrong by {row['diff']:.2f}"
        rows.append((row["speculators"], f"`{row['patch']}`", row["drift"], what, "silent", f"{on} ({_type(row)})"))
    head = ("speculators", "patch", "", "switched off", "matched", "switched on: largest difference")
    return f"{reports.table(head, rows)}\n{_types(numbers)}"


def _types(numbers: Mapping[tuple[str, str], str]) -> str:
    releases = sorted({speculators for speculators, _ in numbers})
    targets = list(dict.fromkeys(target for _, target in numbers))
    rows = [(release, *(numbers.get((release, target), "not run") for target in targets)) for release in releases]
    return reports.table(("speculators", *(_type({"target": target}) for target in targets)), rows)


def _type(row: Mapping[str, Any]) -> str:
    return {"tiny": "llama"}.get(row["target"], str(row["target"]).removeprefix("tiny-"))


def _short(message: str) -> str:
    line = " ".join(message.split())
    return line if len(line) < 130 else f"{line[:127]}…"


def main() -> None:
    text = README.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    README.write_text(f"{before}{BEGIN}\n{table()}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
