"""Deaths that leave no Python traceback, and losses that leave no error at all."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from remote.logs.findings import Fatal
from remote.logs.prefixes import Origin
from remote.logs.records import any_of

MAX_FATAL = 200
TOKENS = (
    b"Killed",
    b"SIGKILL",
    b"oom-kill",
    b"exitcode",
    b"Segmentation fault",
    b"Segfault",
    b"SIGSEGV",
    b"Bus error",
    b"terminate called",
    b"DataLoader worker",
    b"Assertion `",
    b"FAILED",
    b"rank      :",
    b"Root Cause",
    b"=====",
    b"memory broadcast block",
    b"Watchdog caught",
    b"memory pressure",
    b"worker died",
    b"died",
    b"Main process exited",
    b'"rc": ',
    b"Xid",
    b"most recent call first",
    b"Current thread",
    b"[0x",
    b"req_",
    b"Done in",
    b"Captured states for",
)

_CONCERNS = any_of(TOKENS)

_MEMORY = "The host ran out of memory, or a memory limit was hit: fewer loader threads or processes, more RAM, or swap."
_SEGV = "A crash in native code: look at the innermost frame, and suspect versions that do not fit together."
_SHM = "Shared memory is too small or stale: a larger --shm-size, or remove the nccl-* and psm_* segments in /dev/shm."
_NCCL = "A collective waited for a rank that never joined: find that rank's own first error."
_GPU = "A hardware fault, not a code error: drain the node, reset the GPU, name the host and the PCI address."
_ASSERT = "An index left its range on the GPU; the stack shown may be wrong: run again with CUDA_LAUNCH_BLOCKING=1."
_HANG = "A process is hanging or busy for long: look for a worker whose error was never reported."
_LOSS = "Far fewer samples than planned were written: compare the counts, and batch no more than the engine's slots."
_ORDER = "Request ids sorted as text put req_0_10 before req_0_2: results can land on the wrong sample."


class _Rule(NamedTuple):
    """Named groups of the pattern (pid, code, count, worker, rank) go into the finding."""

    kind: str
    pattern: re.Pattern[str]
    signal: int | None = None
    code: int | None = None
    remedy: str = ""


_SHELL = r"(?:.{0,200}\bline \d+: +(?P<pid>\d+) )?"
_RULES = tuple(
    _Rule(kind, re.compile(pattern), *rest)
    for kind, pattern, *rest in (
        ("oom_kill", r"(?:^|.{0,200}\bline \d+: +(?P<pid>\d+) |.{0,600}\])Killed(?:$| )", 9, 137, _MEMORY),
        ("oom_kill", r".{0,200}Out of memory: Killed process (?P<pid>\d+)", 9, 137, _MEMORY),
        ("oom_kill", r".{0,200}[Dd]etected \d+ oom.kill event", 9, 137, _MEMORY),
        ("segfault", r"Fatal Python error: Segmentation fault|!+ Segfault|\*\*\* SIGSEGV", 11, None, _SEGV),
        ("segfault", _SHELL + r"Segmentation fault", 11, 139, _SEGV),
        ("bus_error", r"Fatal Python error: Bus error", 7, None, _SHM),
        ("bus_error", _SHELL + r"Bus error", 7, 135, _SHM),
        ("cpp_terminate", r"terminate called after throwing"),
        ("dataloader_worker_died", r".{0,200}DataLoader worker \(pid\(s\) (?P<pid>\d+)", None, None, _MEMORY),
        (
            "dataloader_worker_died",
            r".{0,200}DataLoader worker \(pid (?P<pid>\d+)\) is killed by signal: (?!Term)",
            None,
            None,
            _SHM,
        ),
        ("device_side_assert", r".{0,300}\.cuh?:\d+: .{0,300}Assertion `", None, None, _ASSERT),
        ("hang_warning", r"No available shared memory broadcast block", None, None, _HANG),
        (
            "nccl_timeout",
            r"(?:.{0,160}\[Rank (?P<rank>\d+)\] )?Watchdog caught collective operation timeout",
            None,
            None,
            _NCCL,
        ),
        (
            "ray_oom",
            r".{0,200}?(?P<count>\d+) Workers \(tasks / actors\) killed due to memory pressure",
            None,
            None,
            _MEMORY,
        ),
        ("ray_worker_died", r"A worker died or was killed while executing a task"),
        ("worker_died", r"Worker proc (?P<worker>\S+) died unexpectedly"),
        ("worker_died", r"Worker (?P<worker>\S+) pid (?P<pid>\d+) died, exit code: (?P<code>-?\d+)"),
        ("service_exit", r"\S+\.service: Main process exited, code=\w+, status=(?P<code>\d+)"),
        ("step_exit", r'.{0,200}"(?:step|stage|phase)": "[^"]{1,80}", "rc": (?P<code>-?[1-9]\d*)'),
        ("xid", r".{0,80}NVRM: Xid \(PCI:[0-9a-fA-F:.]+\): \d+(?:, pid='?(?P<pid>\d+))?", None, None, _GPU),
        ("native_stack", r"/\S{1,300}\.so[\d.]*\([^)]{0,300}\+0x[0-9a-f]+\) \[0x[0-9a-f]+\]"),
    )
)
_LAST = ("native_stack", "lexicographic_order", "service_exit", "step_exit")
"""Kinds that describe rather than explain: listed after the others."""

_SIGNALS = {9: ("oom_kill", _MEMORY), 11: ("segfault", _SEGV), 7: ("bus_error", _SHM)}
_TABLE = re.compile(r"(?P<script>\S+) FAILED$")
_TABLE_FIELD = re.compile(r"  (?P<name>rank|exitcode) +: (?P<value>-?\d+)(?:.*\(pid: (?P<pid>\d+)\))?")
_FAULT_FRAME = re.compile(r'  File "(?P<file>[^"]{1,400})", line (?P<line>\d+) in (?P<function>.+)$')
_REQUESTS = re.compile(r"\breq_(\d+)_(\d+)\b")
_EXTRACTED = re.compile(r"(?:\[\w+\] )?(?:Done in|Saved \d+|Captured states for \d+)")


class FatalReader:
    """Keeps what was recognised, the same death reported twice as one finding."""

    def __init__(self, extraction: Callable[[], tuple[int, int] | None]) -> None:
        """`extraction` answers (done, total) of the hidden-state bar, None without one."""
        self._extraction = extraction
        self._found: list[Fatal] = []
        self._table: _Table | None = None
        self._fault: str | None = None
        self.deaths = 0
        """Counts what was read of deaths; a hang warning is none."""
        self.version = 0

    @property
    def found(self) -> tuple[Fatal, ...]:
        return tuple(sorted(self._found, key=lambda item: item.kind in _LAST))

    def may_concern(self, data: bytes) -> bool:
        """A cheap look at the raw line: `read` has nothing to do where this answers False."""
        return self._fault is not None or self._table is not None or _CONCERNS.search(data) is not None

    def read(self, origin: Origin, text: str, line: int) -> None:
        for rule in _RULES:
            if match := rule.pattern.match(text):
                self._rule(rule, match, origin, text, line)
                break
        self._read_table(text, line)
        self._read_fault(text)
        self._read_loss(text, line)

    def _rule(self, rule: _Rule, match: re.Match[str], origin: Origin, text: str, line: int) -> None:
        named = match.groupdict()
        number = {name: int(value) for name, value in named.items() if value and name != "worker"}
        rank = number.get("rank", origin.rank if rule.kind == "nccl_timeout" else None)
        self._add(
            Fatal(
                rule.kind,
                text.strip()[:500],
                rule.signal,
                number.get("code", rule.code),
                rule.remedy,
                line,
                worker=named.get("worker") or origin.label,
                pid=number.get("pid", origin.pid),
                count=number.get("count", 1),
                ranks=() if rank is None else (rank,),
            )
        )
        if rule.kind in ("segfault", "bus_error"):
            self._fault = rule.kind

    def _add(self, new: Fatal) -> None:
        self.version += 1
        self.deaths += new.kind != "hang_warning"
        for place, old in enumerate(self._found):
            if old.kind == new.kind and _same_death(old, new):
                self._found[place] = replace(
                    old,
                    exit_code=new.exit_code if old.exit_code is None else old.exit_code,
                    worker=old.worker or new.worker,
                    pid=old.pid or new.pid,
                    count=old.count + new.count,
                    ranks=tuple(sorted({*old.ranks, *new.ranks})),
                    root_rank=new.root_rank if old.root_rank is None else old.root_rank,
                )
                return
        if len(self._found) < MAX_FATAL:
            self._found.append(new)

    def _read_table(self, text: str, line: int) -> None:
        """torchrun's table of failures."""
        if match := _TABLE.match(text):
            self._table = _Table(match["script"], line)
        table = self._table
        if table is None:
            return
        if text.startswith("Root Cause"):
            table.at_root = True
        elif text.startswith("====") and table.ranks:
            self._table = None
            self._add(
                Fatal(
                    "elastic_failure_table",
                    f"{table.script} failed",
                    None,
                    table.exit_code,
                    "",
                    table.line,
                    ranks=tuple(sorted(table.ranks)),
                    root_rank=table.root_rank,
                )
            )
        elif field := _TABLE_FIELD.match(text):
            value = int(field["value"])
            if field["name"] == "rank":
                table.rank = value
                table.ranks.add(value)
                if table.at_root:
                    table.root_rank = value
                return
            if table.at_root:
                table.exit_code = value
            kind, remedy = {-9: ("oom_kill", _MEMORY), -11: ("segfault", _SEGV), -7: ("bus_error", _SHM)}.get(
                value, ("", "")
            )
            if kind:
                worker, pid = f"rank{table.rank}", int(field["pid"]) if field["pid"] else None
                told = f"{worker} of {table.script} ended with exit code {value}"
                self._add(Fatal(kind, told, -value, value, remedy, line, worker=worker, pid=pid))

    def _read_fault(self, text: str) -> None:
        """The innermost frame of a faulthandler dump, which prints it first."""
        if self._fault is None or "line" not in text:
            return
        frame = _FAULT_FRAME.match(text)
        if not frame:
            return
        for place, item in enumerate(self._found):
            if item.kind == self._fault:
                where = f"{frame['function']} ({frame['file']}:{frame['line']})"
                self._found[place] = replace(item, text=f"{item.text} in {where}")
                self.version += 1
        self._fault = None

    def _read_loss(self, text: str, line: int) -> None:
        if _EXTRACTED.match(text):
            extraction = self._extraction()
            if extraction and extraction[1] and extraction[0] < 0.9 * extraction[1]:
                done, total = extraction
                if not any(item.kind == "silent_data_loss" for item in self._found):
                    self._add(
                        Fatal("silent_data_loss", f"Finished after {done} of {total} samples", remedy=_LOSS, line=line)
                    )
        if text.count("req_") > 2 and not any(item.kind == "lexicographic_order" for item in self._found):
            ids = [(int(batch), int(item)) for batch, item in _REQUESTS.findall(text)]
            if ids != sorted(ids) and ids == sorted(ids, key=lambda pair: (str(pair[0]), str(pair[1]))):
                self._add(Fatal("lexicographic_order", text.strip()[:500], remedy=_ORDER, line=line))


class _Table:
    def __init__(self, script: str, line: int) -> None:
        self.script = script
        self.line = line
        self.ranks: set[int] = set()
        self.rank = -1
        self.at_root = False
        self.root_rank: int | None = None
        self.exit_code: int | None = None


def _same_death(old: Fatal, new: Fatal) -> bool:
    """One death is often told by several lines, each with its own share of the facts."""
    if old.kind in ("nccl_timeout", "elastic_failure_table", "cpp_terminate", "device_side_assert"):
        return True
    return (old.worker is None or new.worker is None or old.worker == new.worker) and (
        old.pid is None or new.pid is None or old.pid == new.pid
    )
