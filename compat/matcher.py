"""From a traceback to the patches that explain it: the likeliest first, each with the reason in words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from compat.catalogue import PATCHES
from compat.patch import FrameLike, Match, PatchStatus, Symptom

_WRAPPED = re.compile(
    r"Worker failed with error '(?P<text>.*)'(?:, please check the stack trace above|\s*$)", re.DOTALL
)
"""What vLLM's driver raises for an error of a worker: the error's text, without its type and its frames."""
_REPR = re.compile(r"(?P<type>[A-Za-z_][\w.]*)\((?P<quote>['\"])(?P<text>.*)(?P=quote),?\)", re.DOTALL)
_RANK = {"off": 0, "needed": 0, "refused": 1, "": 1, "active": 2, "not applicable": 3}
"""A patch that was not in force and concerns these versions explains more than one that was, or is not for them."""


@dataclass(frozen=True)
class _Error:
    type: str | None
    """Class name without its module; None where the log does not tell it."""
    message: str
    frames: Sequence[FrameLike] | None
    """None where they are not those of the error itself."""


def match(
    exception_type: str | None,
    message: str,
    frames: Sequence[FrameLike],
    statuses: Iterable[PatchStatus] = (),
) -> tuple[Match, ...]:
    """Patches that have a symptom which fits. `statuses` are those of the environment in which it was raised.

    Of a worker's error that only its wrapper tells, the inner text counts. () when the catalogue knows no such failure.
    """
    error = _unwrapped(exception_type, message) or _Error(_class(exception_type or ""), message, frames)
    known = {status.id: status for status in statuses}
    found: list[tuple[int, int, Match]] = []
    for patch in PATCHES:
        fitting = [symptom for symptom in patch.symptoms if _fits(symptom, error)]
        if fitting:
            status = known.get(patch.id)
            state = status.state if status else ""
            why = "; ".join([*_clues(fitting, error), *(_standing(status) if status else ())])
            found.append((_RANK.get(state, 1), -max(map(_weight, fitting)), Match(patch.id, why, state)))
    return tuple(matched for *_, matched in sorted(found, key=lambda ranked: ranked[:2]))


def _unwrapped(exception_type: str | None, message: str) -> _Error | None:
    wrapped = _WRAPPED.search(message) if _class(exception_type or "") == "RuntimeError" else None
    if wrapped is None:
        return None
    told = _REPR.fullmatch(wrapped["text"])
    return _Error(_class(told["type"]), told["text"], None) if told else _Error(None, wrapped["text"], None)


def _class(name: str) -> str:
    return name.rsplit(".", 1)[-1]


def _fits(symptom: Symptom, error: _Error) -> bool:
    if error.type is not None and error.type != symptom.exception:
        return False
    if symptom.message is not None and not re.search(symptom.message, error.message):
        return False
    if error.frames is None:  # nothing but the text is known, so it must be enough
        return symptom.message is not None
    innermost = error.frames[-1] if error.frames else None
    if symptom.innermost is not None and (innermost is None or innermost.function != symptom.innermost):
        return False
    if symptom.source is not None and (innermost is None or not re.search(symptom.source, innermost.source)):
        return False
    return set(symptom.functions) <= {frame.function for frame in error.frames}


def _weight(symptom: Symptom) -> int:
    """How particular it is: a text that only this failure has tells more than the names of functions."""
    texts = (symptom.message is not None) + (symptom.source is not None)
    return 4 * texts + 2 * (symptom.innermost is not None) + bool(symptom.functions)


def _clues(fitting: Sequence[Symptom], error: _Error) -> list[str]:
    """What of the error fits, over all the symptoms of one patch."""
    if error.frames is None:
        return ["the message that the driver wraps matches" + (", and so does its type" if error.type else "")]
    names = ["exception type"]
    names += ["innermost function"] if any(s.innermost for s in fitting) else []
    names += ["calling functions"] if any(s.functions for s in fitting) else []
    clues = [f"{', '.join(names[:-1])} and {names[-1]} match" if len(names) > 1 else f"{names[0]} matches"]
    clues += ["message matches"] if any(s.message for s in fitting) else []
    clues += ["source line matches"] if any(s.source for s in fitting) else []
    return clues


def _standing(status: PatchStatus) -> list[str]:
    match status.state:
        case "off":
            return ["versions match", "patch is off"]
        case "needed" if status.advice:
            return ["versions match", "nothing mends it at run time: see its advice"]
        case "needed":
            return ["versions match", "patch was not in force, and will be at the next launch"]
        case "active":
            return ["versions match", "but the patch is active, so this may be another failure"]
        case "refused":
            return [f"but the patch is refused: {status.reason}"]
    return [f"but it is not for this environment: {status.reason}"]
