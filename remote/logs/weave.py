"""Whose text is it, when two processes wrote to one pipe at once?

vLLM writes a worker's prefix and the text behind it in two writes. Between them another process can write, so
`(Worker_TP0 pid=1) (Worker_TP1 pid=2) text` announces two texts: one here, the other on a later line without prefix.
"""

from __future__ import annotations

from collections.abc import Callable

from remote.logs.prefixes import Line, Origin

MAX_OWED = 64
MAX_WAITED = 1024
"""Lines after which a text that has not come is not waited for any more."""


class Weaver:
    """Remembers which processes wrote a prefix and still owe its text."""

    def __init__(self, fit: Callable[[Origin, Line], int]) -> None:
        """`fit` tells how well a line would go on what the process wrote before."""
        self._fit = fit
        self._owed: list[Origin] = []
        self._waited = 0

    @property
    def busy(self) -> bool:
        return bool(self._owed)

    def owner(self, line: Line) -> Origin:
        """The process that wrote the line's text."""
        named = [origin for origin in line.origins if origin.label]
        if not self._owed and len(line.origins) == 1:
            return line.origins[0]
        self._waited = self._waited + 1 if len(line.origins) == 1 else 0
        if self._waited > MAX_WAITED:
            self._owed = []
            return line.origins[0]
        if not named and not line.source:
            # Only texts of log records get parted from their prefixes often enough to matter.
            return line.origins[0]
        candidates = [*self._owed, *named]
        # On a tie the nearest prefix, or the one that has waited longest.
        order = list(reversed(candidates)) if named else candidates
        owner = max(order, key=lambda origin: self._fit(origin, line))
        candidates.remove(owner)
        self._owed = candidates[-MAX_OWED:]
        return owner
