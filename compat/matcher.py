"""From a traceback to the patches that explain it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from compat.catalogue import PATCHES
from compat.patch import FrameLike, Match, Symptom


def match(exception_type: str | None, message: str, frames: Sequence[FrameLike]) -> tuple[Match, ...]:
    """Patches whose symptoms fit, the one with the most particular symptom first."""
    found: list[tuple[int, Match]] = []
    for patch in PATCHES:
        fitting = [s for s in patch.symptoms if _fits(s, exception_type, message, frames)]
        if fitting:
            best = max(fitting, key=_weight)
            found.append((_weight(best), Match(patch.id, _why(best))))
    return tuple(m for _, m in sorted(found, key=lambda pair: -pair[0]))


def _fits(symptom: Symptom, exception_type: str | None, message: str, frames: Sequence[FrameLike]) -> bool:
    if (exception_type or "").rsplit(".", 1)[-1] != symptom.exception:
        return False
    if symptom.message is not None and not re.search(symptom.message, message):
        return False
    innermost = frames[-1] if frames else None
    if symptom.innermost is not None and (innermost is None or innermost.function != symptom.innermost):
        return False
    if symptom.source is not None and (innermost is None or not re.search(symptom.source, innermost.source)):
        return False
    return set(symptom.functions) <= {frame.function for frame in frames}


def _weight(symptom: Symptom) -> int:
    parts = (symptom.message, symptom.source, symptom.innermost, *symptom.functions)
    return sum(part is not None for part in parts)


def _why(symptom: Symptom) -> str:
    clues = []
    if symptom.innermost:
        clues.append(f"raised in {symptom.innermost}")
    if symptom.source:
        clues.append("at the source line this incompatibility is known by")
    if symptom.message:
        clues.append("with the message this incompatibility is known by")
    if symptom.functions:
        clues.append(f"below {', '.join(symptom.functions)}")
    return f"{symptom.exception} {' '.join(clues)}".strip()
