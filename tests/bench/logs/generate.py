"""A vLLM log of any size for the bench: eight workers writing into one pipe, bars redrawn in place, and tracebacks.

Everything follows from the seed. Each injected error has its own line numbers, so that it can be looked up again.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass

WORKERS = tuple(f"Worker_TP{rank}" for rank in range(8))
EVENTS = 800
"""Errors injected; most are printed by several workers, so the log has well over 1,000 tracebacks."""

_PREFIX = {name: f"({name} pid={418000 + rank}) " for rank, name in enumerate(WORKERS)}
_CORE = "(EngineCore_DP0 pid=417990) "
_API = "(APIServer pid=417001) "
_SAID = (
    (
        _API,
        "INFO {ts} [loggers.py:257] Engine 000: Avg prompt throughput: {a:.1f} tokens/s, Avg generation throughput:"
        " {b:.1f} tokens/s, Running: {n} reqs, Waiting: {m} reqs, GPU KV cache usage: {c:.1f}%, Prefix cache hit rate:"
        " {d:.1f}%",
    ),
    (_API, 'INFO:     10.0.{n}.{k}:{m} - "POST /v1/completions HTTP/1.1" 200 OK'),
    (_CORE, "DEBUG {ts} [core.py:735] EngineCore loop active, {n} running, {m} waiting, step {k} of {m}."),
    (_CORE, "\x1b[32mINFO\x1b[0m {ts} [core.py:93] caf\u00e9 \u4f60\u597d \U0001f680 [bold]not markup[/bold] {m}"),
    (
        "",
        "INFO {ts} [custom_worker.py:118] captured hidden states layer={n} shape=torch.Size([{m}, 7168])"
        " dtype=torch.bfloat16 device=cuda:{g}",
    ),
    (
        "",
        "WARNING {ts} [marlin_utils.py:173] You are running Marlin kernel with bf16 on GPUs before SM90. You can"
        " consider change to fp16 to achieve better performance if possible.",
    ),
    (
        "",
        "INFO {ts} [backends.py:643] Using cache directory: /srv/.cache/vllm/torch_compile_cache/{n:08d}/rank_{g}_0"
        "/backbone for vLLM's torch.compile",
    ),
    ("", "DEBUG {ts} [scheduler.py:{n}] scheduled {m} tokens for {n} requests in {a:.3f} ms, budget {k}"),
)
_RARELY = (
    "INFO {ts} [default_loader.py:293] Loading weights took {a:.2f} seconds",
    "INFO {ts} [gpu_worker.py:338] Available KV cache memory: {c:.2f} GiB",
    "INFO {ts} [shm_broadcast.py:466] No available shared memory broadcast block found in 60 seconds.",
)
_TELLING = (
    "INFO {ts} [gpu_model_runner.py:3562] Starting to load model /models/Kimi-K2.5-INT4...",
    "INFO {ts} [gpu_model_runner.py:3562] Starting to load model /models/Kimi-K2.5-INT4...",
    "INFO {ts} [shm_broadcast.py:466] No available shared memory broadcast block found in {n} seconds. This typically"
    " happens when some processes are hanging or doing some time-consuming work",
    "INFO {ts} [monitor.py:34] torch.compile takes {a:.2f} s in total",
    "INFO {ts} [default_loader.py:293] Loading weights took {a:.2f} seconds",
)
"""Each of them begins a phase, tells a figure or warns."""
_ERRORS = (
    ("AssertionError", ""),
    ("TypeError", "KVCacheConfig.__init__() got an unexpected keyword argument 'tensors'"),
    ("torch.OutOfMemoryError", "CUDA out of memory. Tried to allocate 2.00 GiB."),
    ("AttributeError", "'DeepseekV2Model' object has no attribute 'get_input_embeddings'"),
    ("KeyError", "0"),
)
_FRAMES = (
    ("/srv/eagle3/02_extract.py", "main", "results = generator.generate(token_ids_batch)", True),
    ("/srv/env/speculators/vllm_generator.py", "generate", "output = self.scheduler.schedule()", True),
    ("/srv/env/vllm/v1/core/sched/scheduler.py", "schedule", "self.kv_cache_manager.cache_blocks(request, n)", False),
    ("/srv/env/vllm/v1/core/block_pool.py", "cache_full_blocks", "assert len(request.block_hashes) >= n", False),
)
WAYS = (
    "bare",
    "prefixed",
    "record",
    "woven by two",
    "woven by eight",
    "cause",
    "context",
    "group",
    "in a bar",
    "after prose",
    "kubernetes",
    "escaped in JSON",
)


@dataclass(frozen=True)
class Injected:
    """An error as it has to be found: frames are (file, line, function)."""

    way: str
    exception_type: str | None
    message: str
    frames: tuple[tuple[str, int, str], ...]
    workers: tuple[str, ...]
    printed: int
    truncated: bool = False


class Log:
    """`pieces` gives the log, `injected` what was put into it so far, `updates` how often a bar was redrawn."""

    def __init__(self, size: int, seed: int = 2625, telling: float = 0.0) -> None:
        """`telling`: the share of the lines, bars aside, that mean something, as if a log were all starts."""
        self.injected: list[Injected] = []
        self.updates = 0
        self._size = size
        self._telling = telling
        self._random = random.Random(seed)
        self._seconds = 0
        self._shards = dict.fromkeys(WORKERS, 0)
        self._samples = 0

    def pieces(self) -> Iterator[bytes]:
        """About a MiB each."""
        written = held = 0
        lines: list[str] = []
        while written + held < self._size:
            if (written + held) * EVENTS >= len(self.injected) * self._size and len(self.injected) < EVENTS:
                text = self._event(WAYS[len(self.injected) % len(WAYS)])
            else:
                text = self._quiet()
            lines.append(text)
            held += len(text)
            if held > 1 << 20:
                data = "".join(lines).encode()
                yield data
                written, held = written + len(data), 0
                lines.clear()
        lines.append(self._cut_off())
        yield "".join(lines).encode()

    # -- what a log is made of

    def _quiet(self) -> str:
        dice = self._random.random()
        if dice < 0.06:
            return self._bar()
        self._seconds += dice < 0.08
        if self._telling and self._random.random() < self._telling:
            return self._random.choice(list(_PREFIX.values())) + self._say(self._random.choice(_TELLING)) + "\n"
        if dice > 0.9995:
            return self._random.choice(list(_PREFIX.values())) + self._say(self._random.choice(_RARELY)) + "\n"
        prefix, text = _SAID[int(dice * 7919) % len(_SAID)]
        return (prefix or _PREFIX[WORKERS[int(dice * 99991) % 8]]) + self._say(text) + "\n"

    def _say(self, text: str) -> str:
        one = self._random.random()
        return text.format(
            ts=self._now(), a=one * 5e3, b=one * 3e3, c=one * 100, d=100 - one * 100,
            n=int(one * 61), m=int(one * 4096), k=int(one * 251), g=int(one * 7919) % 8,
        )  # fmt: skip

    def _now(self) -> str:
        day, second = divmod(self._seconds, 86400)
        return f"02-{1 + day % 28:02d} {second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"

    def _bar(self) -> str:
        """Some more updates of one bar: the loader's under its worker's prefix, or the extraction's without one."""
        count = self._random.randrange(2, 22)
        self.updates += count
        if self._random.random() < 0.3:
            return "".join(self._extraction() for _ in range(count)) + "\n"
        worker = self._random.choice(WORKERS)
        if self._random.random() < 0.5:
            return _PREFIX[worker] + "".join("\r" + self._shard(worker) for _ in range(count)) + "\n"
        return "".join("\r" + _PREFIX[worker] + self._shard(worker) for _ in range(count)) + "\n"

    def _shard(self, worker: str) -> str:
        done = self._shards[worker] = (self._shards[worker] + 1) % 64
        return (
            f"Loading safetensors checkpoint shards: {done * 100 // 64:3d}% Completed"
            f" | {done}/64 [{_clock(done * 17)}<{_clock((64 - done) * 17)}, 16.79s/it]"
        )

    def _extraction(self) -> str:
        done = self._samples = (self._samples + 1) % 7043
        glyphs = "\u2588" * (done * 10 // 7043)
        return (
            f"\rExtracting hidden states: {done * 100 // 7043:3d}%|{glyphs:<10}|"
            f" {done}/7043 [{_clock(done)}<{_clock(7043 - done)},  1.00it/s]"
        )

    # -- tracebacks

    def _event(self, way: str) -> str:
        number = len(self.injected)
        kind, message = self._random.choice(_ERRORS)
        frames = tuple((file, 1000 * place + number, name) for place, (file, name, _, _) in enumerate(_FRAMES))
        printed = _printed(number, kind, message)
        workers: tuple[str, ...] = (self._random.choice(WORKERS),)
        cause: Injected | None = None
        match way:
            case "bare":
                workers, text = (), _lines("", printed)
            case "prefixed":
                text = self._among([[_PREFIX[workers[0]] + line for line in printed]], workers)
            case "record":
                head = f"{_PREFIX[workers[0]]}ERROR {self._now()} [multiproc_executor.py:863] "
                text = "\r\n".join(head + line for line in ["WorkerProc hit an exception.", *printed]) + "\n"
            case "woven by two" | "woven by eight":
                workers = WORKERS if "eight" in way else tuple(sorted(self._random.sample(WORKERS, 2)))
                text = self._among([[_PREFIX[worker] + line for line in printed] for worker in workers], workers)
            case "cause" | "context":
                joint = {
                    "cause": "The above exception was the direct cause of the following exception:",
                    "context": "During handling of the above exception, another exception occurred:",
                }[way]
                first = ("ValueError", "no free blocks", ((_FRAMES[3][0], 90000 + number, "allocate"),))
                cause = Injected(way, *first, workers, 1)
                before = ["Traceback (most recent call last):", *_frame(first[2][0], "raise error", False)]
                both = [*before, "ValueError: no free blocks", "", joint, "", *printed]
                text = self._among([[_PREFIX[workers[0]] + line for line in both]], workers)
            case "group":
                workers, first = (), ("ExceptionGroup", "unhandled errors in a TaskGroup (1 sub-exception)", frames[:1])
                cause = Injected(way, *first, (), 1)
                outer = ["+ Exception Group Traceback (most recent call last):"]
                outer += ["| " + line for line in _frame(frames[0], _FRAMES[0][2], True)]
                outer += ["| ExceptionGroup: " + first[1], "+-+---------------- 1 ----------------"]
                inner = ["  | " + line for line in printed] + ["  +------------------------------------"]
                text = _lines("  ", outer + inner)
            case "in a bar":
                workers, text = (), self._extraction() + "\n" + _lines("", printed) + self._bar()
            case "after prose":
                printed[0] = "Scheduler hit an exception: " + printed[0]
                text = _lines(_PREFIX[workers[0]], printed)
            case "kubernetes":
                text = _lines(f"2026-02-01T10:00:00.{number:09d}Z stderr F {_PREFIX[workers[0]]}", printed)
            case _:
                workers, text = (), json.dumps({"level": "error", "exc_info": _lines("", printed)}) + "\n"
        if cause:
            self.injected.append(cause)
        self.injected.append(Injected(way, kind, message, frames, workers, max(len(workers), 1)))
        return text

    def _among(self, streams: list[list[str]], silent: tuple[str, ...]) -> str:
        """The streams' lines, each stream in its own order, with what other workers say and draw in between."""
        out: list[str] = []
        others = [name for name in WORKERS if name not in silent]
        while streams:
            stream = self._random.choice(streams)
            out.append(stream.pop(0) + "\n")
            streams = [one for one in streams if one]
            if others and self._random.random() < 0.3:
                out.append(_PREFIX[self._random.choice(others)] + self._say(_SAID[7][1]) + "\n")
        return "".join(out)

    def _cut_off(self) -> str:
        """The last traceback, broken off by the end of the log behind its first two frames."""
        number = len(self.injected)
        frames = tuple((file, 1000 * place + number, name) for place, (file, name, _, _) in enumerate(_FRAMES[:2]))
        self.injected.append(Injected("cut off", None, "", frames, (WORKERS[0],), 1, truncated=True))
        return _lines(_PREFIX[WORKERS[0]], [*_printed(number, "", "")[:6], '  File "/srv/env/vl'])[:-1]


def _printed(number: int, kind: str, message: str) -> list[str]:
    lines = ["Traceback (most recent call last):"]
    for place, (file, name, source, marks) in enumerate(_FRAMES):
        lines += _frame((file, 1000 * place + number, name), source, marks)
    return [*lines, f"{kind}: {message}" if message else kind]


def _frame(frame: tuple[str, int, str], source: str, marks: bool) -> list[str]:
    lines = ['  File "{}", line {}, in {}'.format(*frame), f"    {source}"]
    return [*lines, "    " + "^" * len(source)] if marks else lines


def _lines(prefix: str, lines: list[str]) -> str:
    return "".join(f"{prefix}{line}\n" for line in lines)


def _clock(seconds: int) -> str:
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes:02d}:{seconds:02d}"
