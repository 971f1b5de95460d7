"""The log reader beside grep, ripgrep and lnav on generated logs: `make bench-logs`, ratios taken within one run.

Two logs: one as a run writes it, and one in which two lines in five begin a phase, tell a figure or warn. Checks on the
way that every injected traceback is found once, with its exact frames and workers.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[3]), str(Path(__file__).parents[2])]

from bench.logs.generate import Injected, Log  # noqa: E402

from remote.logs.findings import Findings  # noqa: E402
from remote.logs.index import LineIndex  # noqa: E402
from remote.logs.pages import rows_before  # noqa: E402
from remote.logs.reader import LogReader  # noqa: E402

READ_BYTES = 4 << 20
LIVE_LINES = 20_000
LIVE_SECONDS = 10
TELLING = 0.4
"""In the second log, the share of the lines that mean something."""


def read(path: str) -> tuple[Findings, LineIndex]:
    """Full findings and the line index, in one pass."""
    reader, index = LogReader(), LineIndex()
    with Path(path).open("rb", buffering=0) as log:
        while data := log.read(READ_BYTES):
            reader.feed(data)
            index.feed(data)
    return reader.finish(), index


def child(path: str) -> None:
    """Runs in a process of its own; tells its seconds and how far its memory rose while it read."""
    LogReader().feed(b"")
    idle = highest_memory()
    began, cpu = time.perf_counter(), time.process_time()
    read(path)
    taken = time.perf_counter() - began, time.process_time() - cpu
    print(*taken, highest_memory() - idle)


def first_screenful(path: str) -> float:
    """Seconds from opening the log to the last 60 rows of it."""
    began = time.perf_counter()
    with Path(path).open("rb", buffering=0) as log:
        size = log.seek(0, 2)

        def read_at(offset: int, count: int) -> bytes:
            log.seek(offset)
            return log.read(count)

        assert len(rows_before(read_at, size, 60)) == 60
    return time.perf_counter() - began


def highest_memory() -> float:
    """MiB that this program's memory has reached; unlike `getrusage` not that of the process it was forked from."""
    words = Path("/proc/self/status").read_text(encoding="ascii").split()
    return int(words[words.index("VmHWM:") + 1]) / 1024


def faults(found: Findings, injected: list[Injected]) -> list[str]:
    """What was not found exactly once, and what was found but not injected."""
    by_identity: dict[object, list[int]] = {}
    for place, item in enumerate(found.tracebacks):
        frames = tuple((frame.file, frame.line, frame.function) for frame in item.frames)
        by_identity.setdefault((item.exception_type, item.message, frames), []).append(place)
    told = []
    for error in injected:
        places = by_identity.pop((error.exception_type, error.message, error.frames), [])
        if len(places) != 1:
            told.append(f"{error.way}: found {len(places)} times: {error}")
            continue
        item = found.tracebacks[places[0]]
        if (item.workers, item.printed, item.truncated) != (error.workers, error.printed, error.truncated):
            told.append(f"{error.way}: found as {item.workers} printed {item.printed} times: {error}")
    return told + [f"not injected: {identity}" for identity in by_identity]


def wall(command: list[str], used: list[float]) -> float:
    """Seconds that the command takes; those of the processor go to `used`."""
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return time.perf_counter() - began


def live(path: str) -> tuple[float, int]:
    """Share of a core that LIVE_LINES lines a second take, ten times a second as they come; lines a line feed ends."""
    with Path(path).open("rb") as log:
        lines = [line for _, line in zip(range(LIVE_LINES * LIVE_SECONDS), log, strict=False)]
    reader, step = LogReader(), LIVE_LINES // 10
    began = time.process_time()
    for start in range(0, len(lines), step):
        reader.feed(b"".join(lines[start : start + step]))
        reader.findings()
    return (time.process_time() - began) / (len(lines) / LIVE_LINES), len(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mb", type=int, default=1000, help="size of the log in millions of bytes (default 1000)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child)
        return 0
    with tempfile.TemporaryDirectory(prefix="eyas-bench-") as folder:
        path, size = Path(folder) / "bench.log", options.mb * 1_000_000
        print("-- as a run writes it")
        wrong = bench(path, size, options.rounds, 0.0)
        print(f"\n-- {TELLING:.0%} of the lines mean something")
        return bench(path, size, options.rounds, TELLING) or wrong


def bench(path: Path, size: int, rounds: int, telling: float) -> int:
    log = Log(size, telling=telling)
    with path.open("wb") as out:
        for piece in log.pieces():
            out.write(piece)
    printed = sum(error.printed for error in log.injected)
    found, index = read(str(path))
    print(f"log: {found.bytes_read:,} bytes, {index.line_feeds:,} lines, {log.updates:,} updates of bars")
    print(f"injected: {len(log.injected)} errors in {printed:,} tracebacks by up to 8 workers at once")
    wrong = faults(found, log.injected)
    print("found: each error once, frames and workers exact" if not wrong else "\n".join(["WRONG", *wrong[:20]]))

    reads: list[list[float]] = []
    grep: list[float] = []

    def eyas() -> float:
        command = [sys.executable, __file__, "--child", str(path)]
        reads.append([float(word) for word in subprocess.check_output(command, text=True).split()])
        return reads[-1][0]

    tools: dict[str, Callable[[], float]] = {"grep -c": lambda: wall(["grep", "-c", "Traceback", str(path)], grep)}
    if shutil.which("rg"):
        tools["rg -c"] = lambda: wall(["rg", "-c", "Traceback", str(path)], [])
    tools["Eyas, all findings and the line index"] = eyas
    taken: dict[str, list[float]] = {name: [] for name in tools}
    for _ in range(rounds):
        for name, run in tools.items():
            taken[name].append(run())
    if shutil.which("lnav"):
        taken["lnav -n"] = [wall(["lnav", "-n", "-c", ":filter-in Traceback", str(path)], [])]
    base = statistics.median(taken["grep -c"])
    for name, seconds in taken.items():
        middle = statistics.median(seconds)
        print(f"{name:40s} {middle:8.2f} s  {middle / base:6.2f} x grep  ({min(seconds):.2f} to {max(seconds):.2f} s)")
    memory = max(one[2] for one in reads)
    own, grep_s = statistics.median(one[1] for one in reads), statistics.median(grep)
    print(
        f"memory above idle: {memory:.1f} MiB; processor time {own:.2f} s, {own / grep_s:.1f} x grep ({grep_s:.2f} s)"
    )
    print(f"first screenful of the tail: {first_screenful(str(path)) * 1000:.1f} ms")
    share, lines = live(str(path))
    print(f"live: {LIVE_LINES:,} lines a second take {share * 100:.1f} % of a core ({lines:,} lines)")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
