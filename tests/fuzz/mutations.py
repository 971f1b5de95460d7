"""Ways to spoil a log: what shells, shippers, disks and eight workers on one pipe do to it, and worse."""

from __future__ import annotations

import random
from collections.abc import Callable

MAX_SIZE = 96 << 10
_PREFIXES = (
    b"(Worker_TP0 pid=7) ", b"(EngineCore_DP1 pid=8) ", b"[rank3]: ", b"ERROR 11-29 15:30:26 [core.py:7] ",
    b"2026-11-29T15:30:26.123456789Z ", b"worker-1  | ", b"Nov 29 15:30:26 host vllm[99]: ",
)  # fmt: skip
_BITS = (
    *_PREFIXES,
    b"\r", b"\n", b"\r\n", b"\0", b"\xff", b"\xe6\x89", b"\x1b[31m", b"\x1b]0;x", b"#033[0m", b"\t", b'"', b"\\n", b"{",
    b"| ", b"Traceback (most recent call last):\n", b'  File "/a.py", line 7, in f\n', b"    ^^^^\n",
    b"ValueError: x\n",
    b"During handling of the above exception, another exception occurred:\n",
    b"The above exception was the direct cause of the following exception:\n",
    b"  + Exception Group Traceback (most recent call last):\n", b"  +-+---------------- 1 ----------------\n",
    b"  [Previous line repeated 996 more times]\n", b"Killed\n", b"Fatal Python error: Segmentation fault\n",
    b"Loading safetensors checkpoint shards:  50% Completed | 8/16 [00:06<00:06,  1.31it/s]\n",
    b'{"message": "boom", "exc_info": "Traceback (most recent call last):\\n', b"Exception ignored in: <f>\n",
    b"    | ValueError: x\n", b"  | ExceptionGroup: g (2 sub-exceptions)\n", b"OSError: never raised\n\n", b"\n",
    b"Timeout (0:00:05)!\nThread 0x7f (most recent call first):\n  File \"/a.py\", line 3 in f\n", b"a.py\", line\n",
    b"(raylet) 1 Workers (tasks / actors) killed due to memory pressure (OOM), x\n",
    b"OutOfMemoryError: Task was killed due to the node running low on memory.\n", b"Worker PID: 7 Worker exit type: ",
)  # fmt: skip
"""Pieces that the reader acts upon."""

Mutation = Callable[[random.Random, bytes], bytes]


def _cut(luck: random.Random, data: bytes) -> tuple[int, int]:
    start = luck.randrange(len(data) + 1)
    return start, min(len(data), start + luck.choice((1, 3, 40, 400, 4000)))


def lose(luck: random.Random, data: bytes) -> bytes:
    start, end = _cut(luck, data)
    return data[:start] + data[end:]


def repeat(luck: random.Random, data: bytes) -> bytes:
    start, end = _cut(luck, data)
    return data[:end] + data[start:end] * luck.choice((1, 2, 9)) + data[end:]


def move(luck: random.Random, data: bytes) -> bytes:
    start, end = _cut(luck, data)
    rest = data[:start] + data[end:]
    to = luck.randrange(len(rest) + 1)
    return rest[:to] + data[start:end] + rest[to:]


def insert(luck: random.Random, data: bytes) -> bytes:
    at = luck.randrange(len(data) + 1)
    return data[:at] + luck.choice(_BITS) * luck.choice((1, 1, 1, 2, 50)) + data[at:]


def noise(luck: random.Random, data: bytes) -> bytes:
    at = luck.randrange(len(data) + 1)
    return data[:at] + luck.randbytes(luck.choice((1, 4, 64, 2000))) + data[at:]


def flip(luck: random.Random, data: bytes) -> bytes:
    spoilt = bytearray(data)
    for _ in range(luck.choice((1, 5, 50)) if spoilt else 0):
        spoilt[luck.randrange(len(spoilt))] = luck.randrange(256)
    return bytes(spoilt)


def endings(luck: random.Random, data: bytes) -> bytes:
    old, new = luck.choice(((b"\n", b"\r\n"), (b"\r\n", b"\n"), (b"\n", b"\r"), (b"\r", b"\n"), (b"\n", b"\n\n")))
    return data.replace(old, new)


def prefix(luck: random.Random, data: bytes) -> bytes:
    before = luck.choice(_PREFIXES)
    return b"".join(before + line if luck.random() < 0.9 else line for line in data.splitlines(keepends=True))


def weave(luck: random.Random, data: bytes) -> bytes:
    """Several workers print it at the same time."""
    names = [b"(Worker_TP%d pid=%d) " % (n, 100 + n) for n in range(luck.choice((2, 3, 8)))]
    queues = [[name + line for line in data.splitlines(keepends=True)] for name in names]
    woven = []
    while queues:
        queue = luck.choice(queues)
        woven += [queue.pop(0) for _ in range(min(len(queue), luck.choice((1, 1, 2, 30))))]
        queues = [queue for queue in queues if queue]
    return b"".join(woven)


def escape(luck: random.Random, data: bytes) -> bytes:
    """A shipper's JSON lines."""
    start, end = _cut(luck, data)
    inside = data[start:end].replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
    return data[:start] + b'{"log": "' + inside + b'"}\n' + data[end:]


def record(luck: random.Random, data: bytes) -> bytes:
    """One record of the journal: a prefix before the first line, the others indented or bare."""
    start, end = _cut(luck, data)
    before = luck.choice(_PREFIXES)
    between = b"\n" + (b" " * len(before) if luck.random() < 0.7 else b"")
    lines = (data[start:end] or b"Traceback (most recent call last):\n").splitlines()
    return data[:start] + before + between.join(lines) + b"\n" + data[end:]


ALL: tuple[Mutation, ...] = (lose, repeat, move, insert, insert, noise, flip, endings, prefix, weave, escape, record)


def spoil(luck: random.Random, data: bytes) -> bytes:
    """One to six mutations; at most MAX_SIZE bytes."""
    for _ in range(luck.randint(1, 6)):
        data = luck.choice(ALL)(luck, data)[:MAX_SIZE]
    return data
