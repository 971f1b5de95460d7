"""Who wrote a line: transport wrapping, worker prefixes and the head that vLLM puts on every line of a record."""

from __future__ import annotations

import re
from typing import NamedTuple


class Origin(NamedTuple):
    """The process that a line's prefixes name. Two lines with the same `key` come from the same process."""

    key: str = ""
    label: str | None = None
    pid: int | None = None
    rank: int | None = None

    @property
    def family(self) -> str:
        """The label without its numbers: workers of one group share it."""
        return re.sub(r"\d+", "#", self.label or "")


class Line(NamedTuple):
    """A line without its prefixes."""

    origins: tuple[Origin, ...]
    """Outermost first; more than one only when the processes' writes got woven inside the line."""
    level: str
    """Level of the record's head, '' without a head."""
    source: str
    """`file.py:12` of the record's head, '' without a head."""
    text: str
    hint: str | None = None
    """A worker named in the record's head rather than in a prefix; the record's other lines lack it."""
    transport: str = ""
    """What tells the shippers' streams apart; the keys of the origins begin with it."""
    width: int = 0
    """Characters of the shipper's words."""

    def within(self, transport: str) -> Line:
        """The same behind a shipper's words, which stand only at the start of what was redrawn in place."""
        if self.transport or not transport:
            return self
        origins = tuple(origin._replace(key=transport + origin.key) for origin in self.origins)
        return self._replace(origins=origins, transport=transport)


_WORKER = re.compile(
    r"\((?:(?P<label>[A-Za-z_][\w.\-:]*(?: [A-Z]{2,3}\d+)?),? )?(?:rank=(?P<rank>\d+),? )?"
    r"pid=(?P<pid>\d+)(?:, ip=(?P<ip>[\w.:]+))?\) ?"
)
_DAEMON = re.compile(r"\((?P<label>raylet|autoscaler|dashboard|gcs_server)[^)\n]{0,40}\) ?")
_RANK = re.compile(
    r"\[rank(?P<rank>\d+)\]: ?(?!\[)|\[default(?P<slot>\d+)\]: ?|\[\d+,(?P<mpi>\d+)\]<std(?:err|out)>: ?"
)
_TRANSPORT = re.compile(
    r"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d [\w.\-]+ [\w.@\-/]+(?:\[\d+\])?: "  # journald, syslog
    r"|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.,]\d+(?:Z|[+\-]\d\d:?\d\d)?"
    r" (?:(?:stdout|stderr) [FP] | ?>> )"  # Kubernetes, shippers
    r"|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6,9}Z "  # docker logs --timestamps
    r"|(?P<service>[A-Za-z][\w.\-]*) *\| (?:(?=(?:  ){1,9}\| )|(?!\s*\|))"  # docker compose; a bar only as a group's
)
_HEAD = re.compile(
    r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d+)?"
    r" (?:\[(?P<bracketed>[^\]\s]{1,200}:\d+)\]|(?P<bare>[\w./\-]{1,200}:\d+)\]) ?"
)
_SGLANG = re.compile(r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)? (?P<label>(?:(?:DP|TP|PP|EP)\d+ ?)+)\] ")
_TENSORRT = re.compile(r"\[\d\d/\d\d/\d{4}-\d\d:\d\d:\d\d\] \[TRT-LLM\] \[RANK (?P<rank>\d+)\] \[\w\] ")

_NOBODY = Origin()
_KNOWN: dict[str, Origin] = {}
"""By the prefix of a process, as it stands at the start of a line: a log has few of them."""
MAX_KNOWN = 1024


def read_line(text: str) -> Line:
    """Take the prefixes off one line."""
    position = width = 0
    key = ""
    origins: list[Origin] = []
    end = text.find(") ") + 2 if text.startswith("(") else 0
    known = _KNOWN.get(text[:end])
    if known is not None:
        position = end
        origins.append(known)
    while position < len(text):
        first = text[position]
        if first == "(":
            match = _WORKER.match(text, position) or _DAEMON.match(text, position)
            if not match:
                break
            worker = _worker(match, key)
            if match.start() == 0 and match.end() == end and len(_KNOWN) < MAX_KNOWN:
                _KNOWN[text[:end]] = worker
            _add(origins, worker)
        elif first == "[":
            match = _RANK.match(text, position)
            if not match:
                break
            rank = match["rank"] or match["mpi"]
            label = f"rank{rank}" if rank else f"default{match['slot']}"
            origin = Origin(f"{key}[{label}]", label, None, int(rank) if rank else None)
            if origins and not (rank and (origins[-1].label or "").startswith("default")):
                # The process prefix names the worker already; the rank only keeps its streams apart.
                origins[-1] = origins[-1]._replace(key=origins[-1].key + origin.key)
            elif origins:  # torchrun's slot on its node says less than the rank
                origins[-1] = origin._replace(key=origins[-1].key + origin.key)
            else:
                origins.append(origin)
        elif not origins and (match := _TRANSPORT.match(text, position)):
            key = f"{match['service'] or ''}|"
            width = match.end()
        else:
            break
        position = match.end()
    if key and not origins:
        origins.append(Origin(key))
    level = source = ""
    hint = None
    head = _HEAD.match(text, position)
    if head:
        level, source = head["level"], head["bracketed"] or head["bare"]
        position = head.end()
    elif text.startswith("[", position) and (sglang := _SGLANG.match(text, position)):
        hint = sglang["label"].strip()
    elif text.startswith("[", position) and (tensorrt := _TENSORRT.match(text, position)):
        hint = f"rank{tensorrt['rank']}"
        position = tensorrt.end()
    return Line(tuple(origins) or (_NOBODY,), level, source, text[position:].rstrip(), hint, key, width)


def _worker(match: re.Match[str], key: str) -> Origin:
    groups = match.groupdict()
    rank, pid, ip = groups.get("rank"), groups.get("pid"), groups.get("ip")
    label = groups["label"]
    return Origin(
        f"{key}({label} {rank or ''} {pid or ''} {ip or ''})",
        label,
        int(pid) if pid else None,
        int(rank) if rank else None,
    )


def _add(origins: list[Origin], new: Origin) -> None:
    """A second prefix either names the same process more closely or shows that two processes wrote at once."""
    if origins:
        outer = origins[-1]
        nested = outer.pid is None or new.pid is None or outer.pid == new.pid or (new.label or "").startswith("Ray")
        if nested or outer.key == new.key:
            origins[-1] = new
            return
    origins.append(new)
