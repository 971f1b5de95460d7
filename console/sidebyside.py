"""Two texts in two columns of a terminal, each line wrapped into its own half."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from itertools import zip_longest

GAP = "  "


def side_by_side(left: Sequence[str], right: Sequence[str], width: int) -> list[str]:
    """Rows of at most `width` characters; a continued line keeps its indentation and two spaces more."""
    room = (width - len(GAP)) // 2
    return [
        f"{a:<{room}}{GAP}{b}".rstrip()
        for one, other in zip_longest(left, right, fillvalue="")
        for a, b in zip_longest(_wrapped(one, room), _wrapped(other, room), fillvalue="")
    ]


def _wrapped(line: str, room: int) -> list[str]:
    indent = line[: len(line) - len(line.lstrip())][: room // 2]
    return textwrap.wrap(line, room, subsequent_indent=f"{indent}  ", drop_whitespace=False) or [""]
