"""What the engine tests saw of the patches: rows in `build/reports/*.jsonl`, from which a table is made for people.

`make readme` writes the table of the last test runs into the README.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import reports

NUMBERS, FAILURES, SILENT = "patch-numbers", "patch-failures", "patch-silent"


def add(name: str, rows: Iterable[Mapping[str, Any]]) -> None:
    """Adds rows; one takes the place of an older one of the same subject. Then the table is made anew."""
    reports.add(name, rows, _subject)
    reports.write("patches", table())


def _subject(row: Mapping[str, Any]) -> tuple[str, str]:
    return str(row["speculators"]), str(row.get("patch") or row["target"])


def table() -> str:
    """Markdown: each patch switched off and on, then each type of target with all patches on."""
    numbers = {_subject(row): f"{row['diff']:.1e}" for row in reports.read(NUMBERS)}
    rows = []
    for row in reports.read(FAILURES):
        on = numbers.get((row["speculators"], row["target"]), "not run")
        message = _short(row["message"]) or f"no message, `{row['source']}`"
        matched = "yes" if row["matched"][:1] == [row["patch"]] else "no"
        what = f"{row['exception']}: {message} ({row['at']})"
        rows.append((row["speculators"], f"`{row['patch']}`", row["drift"], what, matched, f"{on} ({_type(row)})"))
    for row in reports.read(SILENT):
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


if __name__ == "__main__":
    reports.into_readme("patches", table())
