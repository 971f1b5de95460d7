"""Fuzzes the log reader and `eyas parse`'s report: `make fuzz-logs SECONDS=600`.

Checked for every log: nothing is raised; the findings are the same in one piece, in pieces of any size and through
save and restore; the JSON form is JSON; the page is at most 80 cells wide. Checked beside it: every log of the cases
cut at every byte, and the memory that long streams of spoilt logs take. The first failure is written to a file,
with the seed to make it again, and ends the run with exit status 1.
"""

from __future__ import annotations

import argparse
import json
import lzma
import random
import resource
import sys
import tarfile
import time
import traceback
from collections import Counter
from pathlib import Path

import mutations

from console.parse import as_json
from console.parse_report import WIDTH, cells, report
from console.sanitise import sanitise
from remote.logs.findings import Findings
from remote.logs.reader import LogReader
from remote.logs.utf16 import ToUtf8

DATA = Path(__file__).parents[1] / "data" / "logs"
STREAM = 8 << 20
MEMORY_KIB = 64 << 10
"""What a long stream may add to the process's peak."""


class Broken(AssertionError):
    """The reader did not keep a promise."""


def whole(data: bytes) -> Findings:
    reader = LogReader()
    reader.feed(data)
    return reader.finish()


def pieces(luck: random.Random, data: bytes, saved: bool) -> Findings:
    """Fed in pieces; with `saved` it goes on from a saved state now and then."""
    reader, at = LogReader(), 0
    sizes = luck.choice(((1, 2, 3), (1, 7, 100), (100, 1000, 5000), (1, 65536)))
    while at < len(data):
        size = luck.choice(sizes)
        if len(data) > 5000:
            size *= luck.choice((1, 50, 500))
        reader.feed(data[at : at + size])
        at += size
        if luck.random() < 0.02:
            reader.findings()
        if saved and luck.random() < 0.02:
            reader = LogReader.restore(reader.save())
    return reader.finish()


def check(luck: random.Random, data: bytes) -> Findings:
    found = whole(data)
    if found.bytes_read != len(data) or found.lines_read != data.count(b"\n") + (data[-1:] not in (b"", b"\n")):
        raise Broken(f"counted {found.bytes_read} bytes, {found.lines_read} lines of {len(data)}")
    for saved in (False, True):
        other = pieces(luck, data, saved)
        if other != found:
            raise Broken(f"other findings in pieces{' with saved states' * saved}:\n{found}\n{other}")
    for item in found.tracebacks:
        if data[: item.offset].count(b"\n") != item.line - 1 or data[item.offset - 1 : item.offset] not in (b"", b"\n"):
            raise Broken(f"no line begins at offset {item.offset}, line {item.line}")
    if luck.random() < 0.05:
        decoded(luck, data.decode("utf-8", "replace"))
    json.loads(json.dumps(as_json("x", found)))
    for line in report("x", found).split("\n"):
        if cells(line) > WIDTH or sanitise(line) != line:
            raise Broken(f"a line of the page does not fit or is not safe: {line!r}")
    return found


def decoded(luck: random.Random, text: str) -> None:
    """A log in UTF-16 comes out as its text, whatever the pieces."""
    encoding = luck.choice(("utf-16-le", "utf-16-be"))
    data = ("\ufeff" + text).encode(encoding)
    given, out, at = ToUtf8(), [], 0
    while at < len(data):
        size = luck.choice((1, 7, 500, 70_000))
        out.append(given.feed(data[at : at + size]))
        at += size
    if b"".join((*out, given.finish())) != text.encode() or (len(data) > 8 and given.encoding != encoding):
        raise Broken(f"{encoding} came out as something else ({given.encoding})")


def truncations(luck: random.Random, cases: dict[str, bytes]) -> int:
    """Every log cut at every byte. A traceback that is whole in a cut log stays in every longer one."""
    cuts = 0
    for name, data in cases.items():
        reader = LogReader()
        for size in range(len(data) + 1):
            before = whole(data[:size])
            if size % 97 == 0:
                check(luck, data[:size])
            live = reader.findings()
            if live.bytes_read != size or len(live.tracebacks) > len(before.tracebacks):
                raise Broken(f"{name} cut at byte {size}: {len(live.tracebacks)} live, {len(before.tracebacks)} ended")
            reader.feed(data[size : size + 1])
            cuts += 1
    return cuts


def stream(luck: random.Random, seeds: list[bytes]) -> int:
    """One reader, megabytes of ever differently spoilt logs. Gives the bytes read."""
    reader, size = LogReader(), 0
    without_end = luck.random() < 0.3
    while size < STREAM:
        data = mutations.spoil(luck, luck.choice(seeds))
        if without_end:
            data = data.replace(b"\n", b" ")
        reader.feed(data)
        size += len(data)
    reader.finish()
    return size


def seeds() -> dict[str, bytes]:
    found = {path.name: path.read_bytes() for path in sorted((DATA / "cases").glob("*.log"))}
    with tarfile.open(fileobj=lzma.open(DATA / "golden_logs.tar.xz")) as archive:
        for member in archive:
            file = archive.extractfile(member)
            if file and member.size < mutations.MAX_SIZE and member.name.endswith(".log"):
                found[member.name] = file.read()
    return found


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main() -> int:
    known = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known.add_argument("--seconds", type=float, default=600.0)
    known.add_argument("--seed", type=int, default=time.time_ns() % 10**9, help="start here; printed when left out")
    known.add_argument("--skip-truncation", action="store_true")
    known.add_argument("--failures", type=Path, default=Path("fuzz-failures"), help="folder for a log that failed")
    given = known.parse_args()
    began = time.monotonic()
    logs = seeds()
    every = list(logs.values())
    done: Counter[str] = Counter()
    print(f"seed {given.seed}, {len(logs)} logs to spoil", flush=True)
    if not given.skip_truncation:
        cases = {name: data for name, data in logs.items() if (DATA / "cases" / name).exists()}
        done["cuts"] = truncations(random.Random(given.seed), cases)
        print(f"{len(cases)} cases cut at {done['cuts']:,} bytes", flush=True)
    whole(max(every, key=len))
    idle, seed, slowest = peak(), given.seed, 0.0
    while time.monotonic() - began < given.seconds:
        seed += 1
        luck = random.Random(seed)
        data = luck.randbytes(luck.randrange(4000)) if luck.random() < 0.05 else luck.choice(every)
        if luck.random() < 0.8:
            data = mutations.spoil(luck, data)
        started = time.monotonic()
        try:
            if luck.random() < 0.002:
                done["stream bytes"] += stream(luck, every)
                if peak() - idle > MEMORY_KIB:
                    raise Broken(f"the peak grew by {peak() - idle} KiB")
            else:
                done["tracebacks"] += len(check(luck, data).tracebacks)
                done["logs"] += 1
                done["bytes"] += len(data)
                slowest = max(slowest, (time.monotonic() - started) / max(len(data), 1 << 14))
        except Exception:
            traceback.print_exc()
            given.failures.mkdir(exist_ok=True)
            (given.failures / f"{seed}.log").write_bytes(data)
            print(f"seed {seed} failed: {given.failures / f'{seed}.log'}", flush=True)
            return 1
    figures = ", ".join(f"{count:,} {what}" for what, count in done.items())
    print(f"{time.monotonic() - began:.0f} s without a failure: {figures}")
    print(f"peak {peak() - idle:,} KiB above idle; slowest {slowest * 1e6:.1f} s a MB, all checks together")
    return 0


if __name__ == "__main__":
    sys.exit(main())
