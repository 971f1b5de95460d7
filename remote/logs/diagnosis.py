"""Which error is the root cause, which ones only report it, and why."""

from __future__ import annotations

import re
from dataclasses import dataclass

from remote.logs.findings import Fatal, Traceback
from remote.logs.fold import Error

_WRAPPER_TYPES = frozenset(
    {
        "EngineDeadError",
        "EngineGenerateError",
        "MQEngineDeadError",
        "AsyncEngineDeadError",
        "ChildFailedError",
        "ProcessRaisedException",
        "ProcessExitedException",
        "ActorDiedError",
        "RayActorError",
        "WorkerCrashedError",
        "BrokenProcessPool",
        "ExceptionGroup",
        "BaseExceptionGroup",
    }
)
_QUOTE_TRACEBACKS = frozenset({"ChildFailedError", "ProcessRaisedException"})
"""Wrappers whose message can hold the traceback that they are about."""
_WRAPPER_MESSAGES = re.compile(
    r"Worker failed with error |Engine core initialization failed|WorkerProc initialization failed"
    r"|Engine process failed to start|Engine loop is not running|Background loop has errored already"
    r"|EngineCore encountered an issue|DataLoader worker \(pid\(s\)? .{1,80}\) exited unexpectedly"
)
_QUOTED = re.compile(r"Worker failed with error '(?P<message>.*)', please check the stack trace", re.DOTALL)
_KILLED_CHILD = re.compile(r"died with <Signals\.|non-zero exit status 13[2-9]")
_CANCELLED = "CancelledError"
"""What a task raises that was stopped: the chain's next exception says why."""
_AFTERMATH = frozenset(
    {
        "KeyboardInterrupt",
        "SystemExit",
        "BrokenPipeError",
        "ConnectionResetError",
        "ConnectionRefusedError",
        "EOFError",
        _CANCELLED,
    }
)
"""What processes raise because another one is gone."""
_PEER_IS_GONE = re.compile(
    r".*(?:remote process exited|ncclRemoteError|[Cc]onnection (?:closed|reset) by (?:remote )?peer)", re.DOTALL
)
"""The same, in the words of NCCL and Gloo."""

_ROOT_FATALS = (
    "xid",
    "dataloader_worker_died",
    "nccl_timeout",
    "ray_oom",
    "oom_kill",
    "segfault",
    "bus_error",
    "ray_worker_died",
    "cpp_terminate",
    "stack_overflow",
    "illegal_instruction",
    "floating_point_exception",
    "abort",
    "time_limit",
    "timeout_dump",
    "silent_data_loss",
)
"""Deaths that can be a root cause, the most telling first."""


@dataclass(frozen=True)
class Diagnosis:
    tracebacks: tuple[Traceback, ...]
    root_cause: int | None
    root_cause_fatal: int | None
    reason: str


def diagnose(errors: list[Error], attempts: list[int], fatal: tuple[Fatal, ...]) -> Diagnosis:
    """`attempts`: the sequence numbers at which a new attempt began in this log."""
    ordered = sorted(errors, key=lambda error: error.first.sequence)
    index = {id(error): place for place, error in enumerate(ordered)}
    wrapper = [_is_wrapper(error) for error in ordered]
    about = [_cause_of(place, ordered, wrapper) if wrapper[place] else None for place in range(len(ordered))]
    tracebacks = tuple(_finding(error, index, wrapper[place], about[place]) for place, error in enumerate(ordered))
    root = _root(ordered, wrapper, about, index, attempts, fatal)
    root_fatal = _root_fatal(fatal, root is None)
    return Diagnosis(tracebacks, root, root_fatal, _reason(tracebacks, root, root_fatal, fatal))


def _finding(error: Error, index: dict[int, int], wrapper: bool, about: int | None) -> Traceback:
    first = error.first
    place = first.body.place or ("", 0)
    return Traceback(
        exception_type=first.exception_type,
        message=error.message,
        frames=error.frames,
        worker=first.worker,
        workers=error.workers,
        chained_from=index.get(id(error.cause)) if error.cause else None,
        chain_kind=first.chain_kind if error.cause else None,
        wrapper=wrapper,
        caused_by=about,
        truncated=first.truncated,
        syntax_file=place[0],
        syntax_line=place[1],
        line=first.line,
        offset=first.offset,
        printed=error.printed,
        processes=error.processes,
    )


def _name(error: Error) -> str:
    return (error.first.exception_type or "").rsplit(".", 1)[-1]


def _is_wrapper(error: Error) -> bool:
    if _name(error) == "CalledProcessError":
        return bool(_KILLED_CHILD.search(error.message))
    return _name(error) in _WRAPPER_TYPES or bool(_WRAPPER_MESSAGES.match(error.message))


def _suspect(error: Error) -> bool:
    """Whether the error can be a root cause rather than an effect of the process going down."""
    if error.first.secondary or _name(error) in _AFTERMATH:
        return False
    return not (_name(error) in ("DistBackendError", "RuntimeError") and _PEER_IS_GONE.match(error.message))


def _cause_of(place: int, ordered: list[Error], wrapper: list[bool]) -> int | None:
    """The error that a wrapper is about: the one it quotes, else one of its group or chain, else the last before it."""
    error = ordered[place]
    plain = [other for other in range(len(ordered)) if not wrapper[other] and ordered[other] is not error.cause]
    earlier = [other for other in plain if other < place and ordered[other].first.sequence <= error.last_sequence]
    quoted = _QUOTED.match(error.message)
    if quoted:
        same = [other for other in earlier if ordered[other].message == quoted["message"]]
        return same[-1] if same else None
    members = [
        other for other in plain if error.first.group is not None and ordered[other].first.group == error.first.group
    ]
    effects = [other for other in plain if ordered[other].cause is error]
    if _name(error).endswith("ExceptionGroup") and (members or effects):
        return next((other for other in members if ordered[other].frames), (members or effects)[0])
    likely = [other for other in earlier if _suspect(ordered[other])]
    if not likely and _name(error) in _QUOTE_TRACEBACKS:
        likely = [other for other in plain if _suspect(ordered[other])]
    if _name(error) == "RuntimeError" and "DataLoader" in error.message:
        return None  # it names a process that died; what else is in the log is not about that
    return _deepest(ordered, likely[0]) if likely else None


def _deepest(ordered: list[Error], place: int) -> int:
    """Down the chain to the error that everything followed from."""
    seen = {place}
    while (cause := ordered[place].cause) is not None and cause in ordered:
        lower = ordered.index(cause)
        if lower in seen or _is_wrapper(cause) or _name(cause) == _CANCELLED:
            break
        place = lower
        seen.add(place)
    return place


def _root(
    ordered: list[Error],
    wrapper: list[bool],
    about: list[int | None],
    index: dict[int, int],
    attempts: list[int],
    fatal: tuple[Fatal, ...],
) -> int | None:
    if not ordered:
        return None
    began = max((start for start in attempts if any(e.last_sequence >= start for e in ordered)), default=0)
    recent = [place for place, error in enumerate(ordered) if error.last_sequence >= began]
    quoted = [about[place] for place in recent if about[place] is not None and _QUOTED.match(ordered[place].message)]
    direct = [place for place in recent if not wrapper[place] and _suspect(ordered[place])]
    framed = [place for place in direct if ordered[place].frames] or direct
    if framed:
        return _deepest(ordered, framed[0])
    pointed = quoted + [about[place] for place in recent if about[place] is not None]
    if pointed:
        return pointed[0]
    if any(wrapper[place] for place in recent) or any(item.kind in _ROOT_FATALS for item in fatal):
        return None
    rest = [place for place in recent if not wrapper[place]]
    return rest[0] if rest else None


def _root_fatal(fatal: tuple[Fatal, ...], no_traceback: bool) -> int | None:
    for kind in _ROOT_FATALS:
        for place, item in enumerate(fatal):
            if item.kind == kind and (no_traceback or kind == "xid"):
                return place
    return None


def _reason(
    tracebacks: tuple[Traceback, ...], root: int | None, root_fatal: int | None, fatal: tuple[Fatal, ...]
) -> str:
    if root_fatal is not None:
        return f"A process died without a traceback of its own: {fatal[root_fatal].text[:200]}"
    if root is None:
        if any(item.wrapper for item in tracebacks):
            return "The tracebacks here only report that another process failed; its own error is not in this log."
        return ""
    chosen = tracebacks[root]
    reports = sum(item.wrapper and item.caused_by == root for item in tracebacks)
    if chosen.truncated and chosen.exception_type is None:
        return "It is the first failure in the log, cut off before its exception."
    who = f"{len(chosen.workers)} workers" if len(chosen.workers) > 1 else chosen.worker or "The main process"
    if reports:
        return (
            f"{who} raised it, and {reports} later traceback{'s' * (reports > 1)} only report{'s' * (reports == 1)} it."
        )
    if any(item.chained_from == root for item in tracebacks):
        return f"{who} raised it first; the exceptions chained to it followed from it."
    return f"{who} raised it first in this run." if len(tracebacks) > 1 else f"{who} raised it; it is the only error."
