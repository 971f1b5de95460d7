"""How near each backend comes to a plain forward, by type of target: rows in `build/reports/agreement.jsonl`, and a
table of them for people.

`make readme` writes the table of the last runs into the README.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import reports

ROWS = "agreement"
HEAD = (
    "target",
    "backend",
    "samples",
    "rows",
    "difference at each layer",
    "of values up to",
    "rows beyond",
    "by a tie: rows",
    "widest margin",
    "with the other expert",
    "by rounding: rows",
    "differ by, and move by",
)


def add(row: Mapping[str, Any]) -> None:
    """Adds a row; it takes the place of an older one of the same type and backend. Then the table is made anew."""
    reports.add(ROWS, [row], lambda row: (row["type"], row["backend"]))
    reports.write(ROWS, table())


def table() -> str:
    """Markdown. The differences are those of the rows that are not beyond the tolerance."""
    rows = sorted(reports.read(ROWS), key=lambda row: (row["order"], row["backend"]))
    return reports.table(HEAD, [_cells(row) for row in rows])


def _cells(row: Mapping[str, Any]) -> tuple[object, ...]:
    ties, rounded = ([one for one in row["beyond"] if one["cause"] == cause] for cause in ("tie", "rounding"))
    return (
        row["type"],
        row["backend"],
        row["samples"],
        f"{row['rows']:,}",
        " ".join(f"{value:.1e}" for value in row["same"]),
        " ".join(f"{value:.1f}" for value in row["size"]),
        len(row["beyond"]),
        len(ties),
        f"{max(one['margin'] for one in ties):.0e}" if ties else "",
        f"{max(one['after'] for one in ties):.1e}" if ties else "",
        len(rounded),
        ", ".join(f"{one['diff']:.1e} and {one['moved']:.1e}" for one in rounded[:3]),
    )


if __name__ == "__main__":
    reports.into_readme(ROWS, table())
