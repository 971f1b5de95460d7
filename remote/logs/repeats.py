"""Ray prints one line for the same line of many processes, and says how many it stands for."""

from __future__ import annotations

import re

MARK = b" across cluster]"
"""Stands in every line with a count."""
_COUNT = re.compile(r" ?\[repeated (\d+)x across cluster\](?: \(Ray deduplicates logs .*\))?$")


def whole(text: str) -> tuple[str, int]:
    """The text without Ray's count, and how many lines it stands for."""
    count = _COUNT.search(text) if " across cluster]" in text else None
    return (text[: count.start()], int(count[1])) if count else (text, 1)
