"""One finding for the same error printed by several workers, several times."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from remote.logs.findings import Frame
from remote.logs.prefixes import Origin
from remote.logs.tracebacks import Raw

MAX_ERRORS = 1000
"""Different errors kept of one log; beyond it those in the middle are given up, the first and the last stay."""

_NUMBERS = re.compile(r"0x[0-9a-fA-F]+|\b[0-9a-f]*\d[0-9a-f\-]*\b|\d+")
_UNITS = re.compile(r"\b(?:[KMGT]i?B|bytes)\b")
_RANKED = re.compile(r"(?:TP|PP|DP|EP|rank|^\D*_)\d+")


@dataclass(eq=False)
class Error:
    """One error and every printing of it."""

    first: Raw
    cause: Error | None
    """The error that this one was chained to."""
    frames: tuple[Frame, ...]
    number: int = 0
    printed: int = 0
    left_out: int = 0
    """Printings by other processes that Ray only counted."""
    last_sequence: int = 0
    origins: list[tuple[int, Origin, str | None]] = field(default_factory=list)

    def add(self, raw: Raw) -> None:
        if raw.sequence < self.first.sequence:
            self.first = raw
        self.last_sequence = max(self.last_sequence, raw.sequence)
        self.printed += 0 if raw.note else raw.stands_for
        self.left_out += raw.stands_for - 1
        if all(origin.key != raw.origin.key or worker != raw.worker for _, origin, worker in self.origins):
            self.origins.append((raw.sequence, raw.origin, raw.worker))

    @property
    def message(self) -> str:
        return "\n".join(self.first.message)

    @property
    def processes(self) -> int:
        """How many processes printed it, those without a name as one."""
        return len(self.workers or ("",)) + self.left_out

    @property
    def workers(self) -> tuple[str, ...]:
        """Labels; with rank or pid where several processes share one label."""
        by_label: dict[str, list[Origin]] = {}
        for _, origin, worker in sorted(self.origins, key=lambda item: item[0]):
            if worker:
                by_label.setdefault(worker, []).append(origin)
        names: list[str] = []
        for label, origins in by_label.items():
            if len(origins) == 1 or _RANKED.search(label):
                names.append(label)
            else:
                names += [_told_apart(label, origin) for origin in origins]
        return tuple(sorted(dict.fromkeys(names), key=_natural))


def _told_apart(label: str, origin: Origin) -> str:
    if origin.rank is not None:
        return f"{label} rank={origin.rank}"
    return f"{label} pid={origin.pid}" if origin.pid is not None else label


def _natural(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


class Fold:
    """Takes printings in the order in which they end; two are the same error when type, frames and cause agree."""

    def __init__(self) -> None:
        self.errors: list[Error] = []
        self.version = 0
        self._by_signature: dict[object, Error] = {}
        self._of: dict[int, Error] = {}
        self._numbered = 0

    def add(self, raw: Raw) -> None:
        self.version += 1
        cause = self._of.get(raw.chained_from.sequence) if raw.chained_from else None
        frames = tuple(raw.body.frames)
        signature = (
            raw.exception_type,
            tuple((frame.file, frame.line, frame.function) for frame in frames),
            _UNITS.sub("B", _NUMBERS.sub("N", raw.message[0])) if raw.message else "",
            cause.number if cause else None,
            raw.truncated,
        )
        error = self._by_signature.get(signature)
        if error is None:
            self._numbered += 1
            error = self._by_signature[signature] = Error(raw, cause, frames, self._numbered)
            self.errors.append(error)
            if len(self.errors) > MAX_ERRORS:
                self._give_up(self.errors.pop(MAX_ERRORS // 2))
        error.add(raw)
        again = self._of.get(raw.raised_again.sequence) if raw.raised_again else None
        if again is not None:
            again.cause, again.first.chain_kind = error, "remote"
        self._of[raw.sequence] = error
        if len(self._of) > 4 * MAX_ERRORS:  # only the latest can still be chained to
            for sequence in list(self._of)[: 2 * MAX_ERRORS]:
                del self._of[sequence]

    def again(self, exception_type: str, message: str | None, times: int) -> None:
        """Of so many more printings only the exception's own line is in the log."""
        for error in reversed(self.errors):
            if (error.first.exception_type, error.first.message[:1]) == (exception_type, [message or ""]):
                error.printed += times
                error.left_out += times
                self.version += 1
                return

    def _give_up(self, error: Error) -> None:
        self._by_signature = {key: value for key, value in self._by_signature.items() if value is not error}
        self._of = {key: value for key, value in self._of.items() if value is not error}
