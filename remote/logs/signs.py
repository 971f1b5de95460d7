"""The literals that tell what a line may hold: the cheap look before it is decoded."""

from __future__ import annotations

import re
from collections.abc import Iterable

from remote.logs import fatal, milestones, progress

BAR = 1
DEATH = 2
FIGURE = 4
ATTEMPT = 8
TRACE = 16
WOVEN = 32
"""Two worker prefixes in a row."""
ANY = BAR | DEATH | FIGURE | ATTEMPT | TRACE | WOVEN

TOKENS: dict[int, tuple[bytes, ...]] = {
    TRACE: (
        b"Traceback (most recent",
        b'  File "',
        b'  File \\"',
        b"Exception ignored ",
        b"Error in atexit.",
        b"Error in sys.excepthook:",
        b"--- Logging error ---",
        b"Stack (most recent call last):",
        b"Call stack:",
        b" the above exception",
        b"The above exception",
        b"ray::",
        b" sub-exception",
    ),
    BAR: progress.TOKENS,
    FIGURE: milestones.TOKENS,
    DEATH: fatal.TOKENS,
    ATTEMPT: (b"attempt ", b"Initializing a V1 LLM engine", b"Initializing hidden states generator"),
}


def any_of(tokens: Iterable[bytes]) -> re.Pattern[bytes]:
    """A pattern that finds any of the literals."""
    return re.compile(b"|".join(re.escape(token) for token in tokens))


_PATTERNS = (
    *((sign, any_of(tokens)) for sign, tokens in TOKENS.items()),
    (WOVEN, re.compile(rb" pid=\d+\)(?:\x1b\[[\d;]*m)* +(?:\x1b\[[\d;]*m)*\([A-Za-z_]+[^)\n]* pid=")),
)


def signs_of(data: bytes, among: int = ANY) -> int:
    """Which of the signs `data` bears; only those in `among` are looked for."""
    found = 0
    for sign, pattern in _PATTERNS:
        if among & sign and pattern.search(data):
            found |= sign
    return found
