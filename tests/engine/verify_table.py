"""What the fault drill of the stage `verify` saw: rows in `build/reports/*.jsonl`, and a table of them for people.

`make readme` writes the table of the last drill into the README.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import reports

FAULTS, CLEAN = "verify-faults", "verify-clean"
KEYS = {FAULTS: ("injected", "backend"), CLEAN: ("type", "backend")}
FIGURES = {
    "attribution": r"differ by ([0-9.e+-]+)",
    "final-norm": r"mean KL ([0-9.e+-]+)",
    "rotary": r"from the reference by ([0-9.e+-]+)",
}


def add(name: str, rows: Iterable[Mapping[str, Any]]) -> None:
    """Adds rows; one takes the place of an older one of the same subject. Then the table is made anew."""
    reports.add(name, rows, lambda row: tuple(str(row[key]) for key in KEYS[name]))
    reports.write("verify", table())


def largest(results: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """Gate → the largest figure that it gave in any of the runs."""
    found: dict[str, float] = {}
    for result in results.values():
        for gate, _, sentence in result["reports"]:
            for figure in re.findall(FIGURES.get(gate, r"(?!)"), sentence):
                found[gate] = max(found.get(gate, 0.0), float(figure))
    return found


def table() -> str:
    """Markdown: each fault and its name, with the backends on whose states it was named so; then the clean runs."""
    alike: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in reports.read(FAULTS):
        alike.setdefault((row["injected"], f"**{row['fault'] or 'nothing'}** ({row['gate']})"), []).append(row)
    faults = [
        (injected, named, ", ".join(row["backend"] for row in rows), _short(rows[0]["sentence"]))
        for (injected, named), rows in alike.items()
    ]
    clean = [
        (
            row["type"],
            row["backend"],
            row["seeds"],
            row["targets"],
            row["alarms"],
            *(f"{row['largest'].get(gate, 0):.1e}" for gate in FIGURES),
        )
        for row in reports.read(CLEAN)
    ]
    first = reports.table(("injected", "named", "on states of", "in the words of the stage"), faults)
    head = (
        "target",
        "backend",
        "data sets",
        "targets",
        "false alarms",
        "alone against batch",
        "KL",
        "against reference",
    )
    return f"{first}\n{reports.table(head, clean)}"


def _short(sentence: str) -> str:
    said = re.sub(r"/\S+/products\b", "PRODUCTS", sentence.split("): ", 1)[-1])  # a test's own temporary folder
    return said if len(said) < 160 else f"{said[:157]}…"


if __name__ == "__main__":
    reports.into_readme("verify", table())
