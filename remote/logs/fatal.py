"""Deaths that leave no Python traceback, and losses that leave no error at all."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from remote.logs.deaths import (
    ASSERT,
    GPU,
    LAST,
    LOSS,
    NCCL,
    ORDER,
    RULES,
    SIGNALS,
    TABLE,
    TOKENS,
    Rule,
    read_end,
    signal_of,
)
from remote.logs.findings import Fatal
from remote.logs.prefixes import Origin
from remote.logs.ray import KIND, MemoryKills

__all__ = ["TOKENS", "FatalReader"]

MAX_FATAL = 200
MAX_DUMP_LINES = 2000
_TIME = re.compile(
    r"\[?(?:\d{4}-\d\d-\d\d[T ]|[A-Z][a-z]{2} [ \d]\d )\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+\-]\d\d:?\d\d)?\]? (?:\| )?"
)
_TABLE = re.compile(r"(?P<script>\S+) FAILED$")
_TABLE_FIELD = re.compile(r"  (?P<name>rank|exitcode) +: (?P<value>-?\d+)(?:.*\(pid: (?P<pid>\d+)\))?")
_WHAT = re.compile(r" *what\(\): +(?P<message>.+)")
_WHAT_REMEDIES = (
    (re.compile(r"uncorrectable ECC|fallen off the bus"), GPU),
    (re.compile(r"NCCL|Watchdog|Heartbeat"), NCCL),
    (re.compile(r"device-side assert|illegal memory access"), ASSERT),
)
_COMPLETED = re.compile(r".{0,200}\bRank (?P<rank>\d+)\].{0,300}last completed NCCL work: (?P<work>-?\d+)")
_LATE = "timeout_dump"
_DUMPS = ("segfault", "bus_error", "abort", "stack_overflow", "illegal_instruction", "floating_point_exception", _LATE)
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
        """Kind of the death whose dump is being printed."""
        self._dumped = ""
        """That death's text before a frame was named."""
        self._named = False
        self._dumping = ""
        """Key of the process that prints the dump."""
        self._dump_line = 0
        self.dumping = False
        """A process that goes on afterwards prints its stacks: any of its lines can end them."""
        self._completed: dict[int, int] = {}
        """By rank, the last collective that it completed."""
        self._memory_kills = MemoryKills()
        self._hangs: dict[tuple[str | None, int | None], int] = {}
        """Where the hang warning of a process (label, pid) stands among those found."""
        self._again: dict[int, int] = {}
        """By the place of a hang warning, how often it was said again."""
        self.deaths = 0
        """Counts what was read of deaths; a hang warning is none."""
        self.version = 0

    @property
    def found(self) -> tuple[Fatal, ...]:
        found = [
            replace(item, count=item.count + self._again[place]) if place in self._again else item
            for place, item in enumerate(self._found)
        ]
        return tuple(sorted(self._memory_kills.with_reports(found), key=lambda item: item.kind in LAST))

    @property
    def waiting(self) -> bool:
        """The lines of a dump or a table go on without any of its tokens."""
        return self._fault is not None or self._table is not None

    def read(self, origin: Origin, text: str, line: int) -> None:
        time = _TIME.match(text)
        text = text[time.end() :] if time else text
        for rule in RULES:
            if match := rule.pattern.match(text):
                self._rule(rule, match, origin, text, line)
                if rule.kind == "service_exit":
                    self._read_end(text, line)
                break
        else:
            self._read_end(text, line)
            self._read_what(text)
            self._read_completed(text)
        self._read_table(text, line)
        self._read_fault(origin, text, line)
        self._read_loss(text, line)

    def warns_again(self, origin: Origin) -> bool:
        """The process says again that it may hang; False when it has not said so before."""
        place = self._hangs.get((origin.label, origin.pid))
        if place is None:
            return False
        self._again[place] = self._again.get(place, 0) + 1
        self.version += 1
        return True

    def _rule(self, rule: Rule, match: re.Match[str], origin: Origin, text: str, line: int) -> None:
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
                pid=number.get("pid", None if rule.kind == KIND else origin.pid),
                count=number.get("count", 1),
                ranks=() if rank is None else (rank,),
            )
        )
        if rule.kind in _DUMPS:
            self._fault, self._dumped, self._named, self._dumping = rule.kind, "", False, origin.key
            self._dump_line, self.dumping = line, rule.kind == _LATE

    def _add(self, new: Fatal) -> None:
        self.version += 1
        self.deaths += new.kind != "hang_warning"
        if new.kind == KIND:
            place = next((place for place, old in enumerate(self._found) if old.kind == KIND), len(self._found))
            told = self._memory_kills.told(new, self._found[place] if place < len(self._found) else None)
            if place < MAX_FATAL:
                self._found[place : place + 1] = [told]
            return
        for place, old in enumerate(self._found):
            if old.kind == new.kind and _same_death(old, new):
                self._keep_place(new, place)
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
            self._keep_place(new, len(self._found))
            self._found.append(new)

    def _keep_place(self, new: Fatal, place: int) -> None:
        """What stands before a place was another process's and stays so: the next warning will belong there too."""
        if new.kind == "hang_warning" and len(self._hangs) < 4 * MAX_FATAL:
            self._hangs[new.worker, new.pid] = place

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
                    TABLE,
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
            number = signal_of(value) if value < 0 else None
            if number is not None and not (number == 6 and self._explains_abort()):
                told = f"rank{table.rank} of {table.script} ended with exit code {value}"
                worker, pid = f"rank{table.rank}", int(field["pid"]) if field["pid"] else None
                kind, remedy = SIGNALS[number]
                self._add(Fatal(kind, told, number, value, remedy, line, worker=worker, pid=pid))

    def _explains_abort(self) -> bool:
        """Whether the log already told why a process aborted itself."""
        return any(item.kind in ("cpp_terminate", "nccl_timeout") for item in self._found)

    def _read_end(self, text: str, line: int) -> None:
        """Another process's end, as the process that waited for it tells it."""
        end = read_end(text)
        if end is None or (end.signal == 6 and self._explains_abort()):
            return
        kind, remedy = SIGNALS[end.signal]
        told = text.strip()[:500]
        self._add(Fatal(kind, told, end.signal, end.code, remedy, line, worker=end.worker, pid=end.pid))

    def _read_what(self, text: str) -> None:
        """What a C++ exception that nobody caught says."""
        what = _WHAT.match(text)
        for place, item in enumerate(self._found) if what else ():
            if what and item.kind == "cpp_terminate" and "what():" not in item.text:
                remedy = next((told for pattern, told in _WHAT_REMEDIES if pattern.search(text)), item.remedy)
                self._found[place] = replace(item, text=f"{item.text}, {text.strip()[:400]}", remedy=remedy)
                self.version += 1

    def _read_completed(self, text: str) -> None:
        """The rank that is furthest behind is the one that the others waited for."""
        match = _COMPLETED.match(text)
        if not match or len(self._completed) >= MAX_FATAL:
            return
        self._completed[int(match["rank"])] = int(match["work"])
        least = min(self._completed.values())
        behind = sorted(rank for rank, work in self._completed.items() if work == least)
        if len(behind) == len(self._completed):
            return
        for place, item in enumerate(self._found):
            if item.kind == "nccl_timeout":
                told = f"{NCCL} Furthest behind is rank {', '.join(map(str, behind))}, which completed {least}."
                self._found[place] = replace(item, remedy=told)
                self.version += 1

    def _read_fault(self, origin: Origin, text: str, line: int) -> None:
        """The innermost frame of a faulthandler dump, which prints it first; the thread that died may come last."""
        if self._fault is None:
            return
        late = self.dumping
        is_over = line - self._dump_line > MAX_DUMP_LINES or (
            text and origin.key == self._dumping and not text.startswith(("  ", "Thread 0x", "Timeout ("))
        )
        if text.startswith("Extension modules:") or (late and is_over):
            self._fault, self.dumping = None, False
        elif text.startswith(("Thread 0x", "Current thread 0x")):
            self._named = text.startswith("Thread 0x") and self._named and not late  # then the main thread is last
        elif not self._named and (frame := _FAULT_FRAME.match(text)):
            self._named = True
            place = next((place for place, item in enumerate(self._found) if item.kind == self._fault), None)
            if place is not None:
                item = self._found[place]
                self._dumped = self._dumped or item.text
                where = f"{frame['function']} ({frame['file']}:{frame['line']})"
                self._found[place] = replace(item, text=f"{self._dumped} in {where}")
                self.version += 1

    def _read_loss(self, text: str, line: int) -> None:
        if _EXTRACTED.match(text):
            extraction = self._extraction()
            if extraction and extraction[1] and extraction[0] < 0.9 * extraction[1]:
                done, total = extraction
                if not any(item.kind == "silent_data_loss" for item in self._found):
                    self._add(
                        Fatal("silent_data_loss", f"Finished after {done} of {total} samples", remedy=LOSS, line=line)
                    )
        if text.count("req_") > 2 and not any(item.kind == "lexicographic_order" for item in self._found):
            ids = [(int(batch), int(item)) for batch, item in _REQUESTS.findall(text)]
            if ids != sorted(ids) and ids == sorted(ids, key=lambda pair: (str(pair[0]), str(pair[1]))):
                self._add(Fatal("lexicographic_order", text.strip()[:500], remedy=ORDER, line=line))


def is_hang_warning(text: str) -> bool:
    """Whether a text without its prefixes only warns of a hang: it then says nothing else, whatever its digits."""
    return RULES[0].pattern.match(text) is not None and "req_" not in text


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
