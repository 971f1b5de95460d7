"""Random access to stage logs: a screenful from anywhere, and search, so that only what is on screen travels."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from remote.agent import files
from remote.agent.launch import CODE
from remote.agent.layout import Attempt
from remote.logs import pages, search
from remote.logs.index import LineIndex
from remote.logs.moments import first_moment, parse_moment
from remote.protocol import RemoteError
from remote.wire import to_wire

KEPT = 8
"""Indexes of so many logs stay in memory."""
PIECE = 1 << 20
INDEX_SECONDS = 1.0
"""Longest that one request goes on indexing; the next one goes on from there."""
NUMBERS_SECONDS = 0.1
"""Longest that a page which does not need the index waits for its line numbers."""
SEARCH_SECONDS = 1.0
PATIENCE = 3.0
"""Seconds of a processor beyond those, for the process that searches to start and end; then its pattern is at fault."""
LONGEST = 25.0
"""Seconds that it may take on a busy host: the console waits a little longer."""


@dataclass
class Log:
    """One open log and what is known of its lines."""

    fd: int
    log_id: str
    index: LineIndex = field(default_factory=LineIndex)

    @property
    def size(self) -> int:
        return os.fstat(self.fd).st_size

    def read(self, offset: int, size: int) -> bytes:
        return os.pread(self.fd, size, max(0, offset))

    def extend(self, seconds: float) -> bool:
        """Index what was not indexed yet; whether all is."""
        end = time.monotonic() + seconds
        while data := os.pread(self.fd, PIECE, self.index.size):
            self.index.feed(data)
            if time.monotonic() >= end:
                return self.index.size >= self.size
        return True


class Pages:
    """Answers `page` and `search`; on one lane's thread."""

    def __init__(self) -> None:
        self._logs: OrderedDict[str, Log] = OrderedDict()

    def page(self, attempt: Attempt, request: Mapping[str, Any]) -> dict[str, Any]:
        """Rows around a place: `before` rows that end there, `rows` from there on. Raises RemoteError.

        The place: `line`, `time`, `offset` (moved back to its line's start unless `exact`) or, without any, the log's
        end. Without a place and with `indexed` below `size`, the index is still on its way there: ask again. Line
        numbers are given as far as the index goes, and waited for a little unless `numbers` is False.
        """
        log = self.log(attempt)
        before, count = whole_number(request, "before", 0), whole_number(request, "rows", 100)
        place = self._place(log, request)
        rows = [] if place is None else pages.rows_before(log.read, place, before)
        if place is not None and count:
            rows += pages.rows_from(log.read, place, count)
        if request.get("numbers", True):
            log.extend(NUMBERS_SECONDS)
        numbered = _numbered(log, rows)
        return {"log_id": log.log_id, "size": log.size, "indexed": log.index.size, "place": place, "rows": numbered}

    def _place(self, log: Log, request: Mapping[str, Any]) -> int | None:
        """None while the index has not got there."""
        if "line" in request:
            line = whole_number(request, "line", 1, most=1 << 62)
            place = log.index.offset_of(line, log.read)
            whole = place is not None or log.extend(INDEX_SECONDS)
            if place is None:
                place = log.index.offset_of(line, log.read)
            if place is None and whole:
                lines = log.index.line_feeds + 1
                raise RemoteError("bad_request", f"the log has {lines} lines, so there is no line {line}")
            return place
        if "time" in request:
            try:
                moment = parse_moment(str(request["time"]), _last_day(log))
            except ValueError as error:
                raise RemoteError("bad_request", str(error)) from None
            whole = log.extend(INDEX_SECONDS)
            place = log.index.offset_at(moment, log.read)
            return place if whole or place < log.index.size else None
        size = log.size
        offset = min(size, whole_number(request, "offset", size, most=1 << 62))
        return offset if offset == size or request.get("exact") else pages.line_start(log.read, offset)

    def search(self, attempt: Attempt, request: Mapping[str, Any]) -> dict[str, Any]:
        """Matching lines from `offset` on, or back from it, and where to go on. Raises RemoteError.

        A process of its own searches: a pattern of catastrophic cost is stopped with it and holds up nothing else.
        """
        log = self.log(attempt)
        size = log.size
        back = bool(request.get("back", False))
        start = min(size, whole_number(request, "offset", size if back else 0, most=1 << 62))
        given = {
            "pattern": _pattern(request),
            "ignore_case": bool(request.get("ignore_case", False)),
            "start": pages.line_start(log.read, start) if back and start < size else start,
            "size": size,
            "back": back,
            "limit": max(1, whole_number(request, "limit", 50, most=search.MAX_HITS)),
            "seconds": SEARCH_SECONDS,
        }
        found = _searched(log, given)
        if "bad" in found:
            raise RemoteError("bad_request", str(found["bad"]), "write \\ before a sign that is meant as it is")
        if found["hits"]:
            log.extend(INDEX_SECONDS)
        for hit in found["hits"]:
            hit["line"] = log.index.line_at(hit["offset"], log.read)
        return {"log_id": log.log_id, "size": size, "hits": found["hits"], "next": found["next"]}

    def log(self, attempt: Attempt) -> Log:
        """The attempt's log, open. Raises RemoteError."""
        path = attempt.log
        try:
            fd = files.open_read(path)
        except OSError as error:
            raise RemoteError("bad_request", f"{path} cannot be read: {error.strerror}") from None
        facts = os.fstat(fd)
        if not stat.S_ISREG(facts.st_mode):
            os.close(fd)
            raise RemoteError("bad_request", f"{path} is no plain file")
        known = self._logs.pop(path, None)
        if known and known.log_id == files.file_id(facts) and known.index.size <= facts.st_size:
            os.close(fd)
        else:
            if known:
                os.close(known.fd)
            known = Log(fd, files.file_id(facts))
        self._logs[path] = known
        if len(self._logs) > KEPT:
            os.close(self._logs.popitem(last=False)[1].fd)
        return known


def _numbered(log: Log, rows: list[pages.Row]) -> list[dict[str, Any]]:
    """Rows as they travel, with line numbers as far as the index goes."""
    line = log.index.line_at(rows[0].offset, log.read) if rows else None
    wire = []
    for place, row in enumerate(rows):
        if line is not None and place:
            line += row.starts
        wire.append({**to_wire(row), "line": line})
    return wire


def _last_day(log: Log) -> Any:
    """The day that a clock alone is meant of: the last one in the log's tail, else the first in its head."""
    tail = log.read(max(0, log.size - pages.WINDOW), pages.WINDOW)
    return first_moment(tail) or first_moment(log.read(0, pages.WINDOW))


def _searched(log: Log, given: dict[str, Any]) -> dict[str, Any]:
    argv = [sys.executable, "-m", "remote.agent.searching", json.dumps(given), str(SEARCH_SECONDS + PATIENCE)]
    try:
        done = subprocess.run(
            argv,
            stdin=log.fd,
            capture_output=True,
            cwd=CODE,
            env={**os.environ, "PYTHONPATH": CODE},
            timeout=LONGEST,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise _too_slow(given["pattern"]) from None
    except OSError as error:
        raise RemoteError("internal", f"cannot search: {error.strerror}") from None
    if done.returncode == -signal.SIGXCPU:
        raise _too_slow(given["pattern"])
    try:
        answer: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["no word on standard error"]
        raise RemoteError("internal", f"the search failed: {said[-1][:500]}") from None
    return answer


def _too_slow(pattern: str) -> RemoteError:
    said = f"the pattern {pattern!r} takes too long on this log"
    return RemoteError("bad_request", said, "avoid repeats inside repeats, such as (a+)+")


def _pattern(request: Mapping[str, Any]) -> str:
    pattern = request.get("pattern")
    if not isinstance(pattern, str) or not pattern:
        raise RemoteError("bad_request", "`pattern` must be a text")
    return pattern[: search.MAX_PATTERN + 1]


def whole_number(request: Mapping[str, Any], key: str, default: int, most: int = pages.MAX_ROWS) -> int:
    value = request.get(key, default)
    if type(value) is not int or not 0 <= value <= most:
        raise RemoteError("bad_request", f"`{key}` must be a whole number from 0 to {most}")
    return value
