"""The process that searches a log for the agent: the log is its standard input, its arguments are the question and the
seconds of a processor that it may take; SIGXCPU ends it then."""

from __future__ import annotations

import json
import math
import os
import resource
import sys
from typing import Any

from remote.logs import search
from remote.wire import to_wire


def answer(given: dict[str, Any]) -> dict[str, Any]:
    try:
        find = search.pattern_finder(given["pattern"], given["ignore_case"])
    except search.BadPattern as bad:
        return {"bad": str(bad)}
    found = search.search(
        lambda offset, size: os.pread(0, size, offset),
        given["size"], find, given["start"], given["back"], given["limit"], given["seconds"],
    )  # fmt: skip
    return dict(to_wire(found))


if __name__ == "__main__":
    # Of a processor's time, not of the clock's: a pattern is not to blame for a host that is busy.
    most = math.ceil(float(sys.argv[2]))
    resource.setrlimit(resource.RLIMIT_CPU, (most, most + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # SIGXCPU would leave one
    json.dump(answer(json.loads(sys.argv[1])), sys.stdout)
