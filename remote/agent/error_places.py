"""Where the errors of a log stand: what its reader found, in the order of the log, so that a jump needs no search."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from remote.agent.layout import Attempt
from remote.agent.log_findings import LOG_STEP, LogFindings
from remote.agent.pages import INDEX_SECONDS, Log, Pages, whole_number
from remote.agent.reading import World, read_attempt
from remote.logs.findings import Findings
from remote.logs.search import MAX_HITS

KEPT = 4
"""Readers of so many logs stay in memory."""
SECONDS = 1.0
"""Longest that one request reads on; the next one goes on from there."""


class ErrorPlaces:
    """Answers `search` for errors; on the browsing lane's thread, over the files that `Pages` has open."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages
        self._found: OrderedDict[str, LogFindings] = OrderedDict()

    def search(self, attempt: Attempt, request: Mapping[str, Any]) -> dict[str, Any]:
        """Errors from `offset` on, or those before it with `back`, nearest first. Raises RemoteError.

        `next` is where to go on, None when there are no more that way; `read`: bytes read so far. A long log that
        nobody read yet takes several requests: then there are no hits, and `next` is where this one began or got to.
        """
        log = self._pages.log(attempt)
        size, back = log.size, bool(request.get("back", False))
        start = whole_number(request, "offset", size if back else 0, most=1 << 62)
        limit = max(1, whole_number(request, "limit", MAX_HITS, most=MAX_HITS))
        whole, found = self._read(attempt, start if back else size)
        known = whole or (back and found.bytes_read >= start + LOG_STEP)
        places = _places(found, log)
        middle = bisect_left([place["offset"] for place in places], start)
        hits = places[:middle][::-1] if back else places[middle:]
        if back and not known:
            hits = []
        following: int | None = None
        if len(hits) > limit:
            hits = hits[:limit]
            following = hits[-1]["offset"] + (0 if back else 1)
        elif not known:
            following = start if back else max(start, hits[-1]["offset"] + 1 if hits else 0)
        return {"log_id": log.log_id, "size": size, "hits": hits, "next": following, "read": found.bytes_read}

    def _read(self, attempt: Attempt, until: int) -> tuple[bool, Findings]:
        """Read on for a while, or until that byte. Whether the whole log was read, and what was found."""
        reader = self._found.pop(attempt.folder, None) or LogFindings(attempt)
        self._found[attempt.folder] = reader
        if len(self._found) > KEPT:
            self._found.popitem(last=False)
        over, end = read_attempt(attempt, World()).over, time.monotonic() + SECONDS
        while reader.findings.bytes_read < until + LOG_STEP:  # what began before that byte may go on behind it
            if not reader.read(over):
                return True, reader.findings
            if time.monotonic() >= end:
                break
        return False, reader.findings


def _places(found: Findings, log: Log) -> list[dict[str, Any]]:
    """Every traceback and death, in the log's order."""
    places = [
        {"offset": one.offset, "line": one.line, "text": one.headline, "root": at == found.root_cause}
        for at, one in enumerate(found.tracebacks)
    ]
    if found.fatal:
        log.extend(INDEX_SECONDS)  # a death is known by its line only
    for at, death in enumerate(found.fatal):
        offset = log.index.offset_of(death.line, log.read)
        if offset is not None:
            root = at == found.root_cause_fatal
            text = f"{death.kind}: {death.text}"
            places.append({"offset": offset, "line": death.line, "text": text, "root": root})
    return sorted(places, key=lambda place: (int(place["offset"]), str(place["text"])))
