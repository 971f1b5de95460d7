"""The lines that tell of a death without a traceback, what kind it was, and what to do about it."""

from __future__ import annotations

import re
from typing import NamedTuple

TOKENS = (
    b"illed",
    b"SIGKILL",
    b"oom-kill",
    b"Out Of Memory",
    b"TIME LIMIT",
    b"exitcode",
    b"exit code ",
    b"return code = ",
    b"exited with code",
    b"exit status 1",
    b"signal SIG",
    b"terminated by signal",
    b"Signals.SIG",
    b"Fatal Python error",
    b"Segmentation fault",
    b"Segfault",
    b"segfault at ",
    b"traps: ",
    b"Timeout (",
    b"SIGSEGV",
    b"Bus error",
    b"Aborted",
    b"Illegal instruction",
    b"Floating point exception",
    b"terminate called",
    b"what():",
    b"Sanitizer: ",
    b"DataLoader worker",
    b"Assertion `",
    b"FAILED",
    b"rank      :",
    b"Root Cause",
    b"=====",
    b"memory broadcast block",
    b"Watchdog caught",
    b"Heartbeat monitor timed out",
    b"dump signal due to a collective timeout",
    b"last completed NCCL work",
    b"memory pressure",
    b"low on memory",
    b"Memory on the node (IP",
    b"NODE_OUT_OF_MEMORY",
    b"died",
    b"Failed core proc",
    b"Main process exited",
    b'"rc": ',
    b"Xid",
    b"fallen off the bus",
    b"most recent call first",
    b"Current thread",
    b"[0x",
    b"req_",
    b"Done in",
    b"Captured states for",
)

MEMORY = "The host ran out of memory, or a memory limit was hit: fewer loader threads or processes, more RAM, or swap."
SEGV = "A crash in native code: look at the innermost frame, and suspect versions that do not fit together."
SHM = "Shared memory is too small or stale: a larger --shm-size, or remove the nccl-* and psm_* segments in /dev/shm."
NCCL = "A collective waited for a rank that never joined: find that rank's own first error."
GPU = "A hardware fault, not a code error: drain the node, reset the GPU, name the host and the PCI address."
ASSERT = "An index left its range on the GPU; the stack shown may be wrong: run again with CUDA_LAUNCH_BLOCKING=1."
HANG = "A process is hanging or busy for long: look for a worker whose error was never reported."
LOSS = "Far fewer samples than planned were written: compare the counts, and batch no more than the engine's slots."
ORDER = "Request ids sorted as text put req_0_10 before req_0_2: results can land on the wrong sample."
ABORT = "Native code gave up on purpose: read the lines right before it, and what() where the log has it."
RECURSION = "Calls went too deep for the stack: look for a function that calls itself, often in a model's own code."
WORKER = "Look for that process's own traceback further up; without one, ask the kernel's log for the OOM killer."
TIME = "The job's time was up: ask for more, and go on from the last checkpoint."
TABLE = "Read the root rank's own error first: the other ranks were only stopped because of it."
EXIT = "It only says that the process ended: the reason stands in the lines before."
NATIVE = "Frames of native code: the error they belong to stands before or behind them."


class Signal(NamedTuple):
    kind: str
    remedy: str


SIGNALS = {
    4: Signal("illegal_instruction", "Built for another processor: install packages that fit this one."),
    6: Signal("abort", ABORT),
    7: Signal("bus_error", SHM),
    8: Signal("floating_point_exception", SEGV),
    9: Signal("oom_kill", MEMORY),
    11: Signal("segfault", SEGV),
}
"""What a process most likely died of, by its signal."""

_SIGNAL_NAMES = {"SIGILL": 4, "SIGABRT": 6, "SIGBUS": 7, "SIGFPE": 8, "SIGKILL": 9, "SIGSEGV": 11}


def signal_of(code: int) -> int | None:
    """The signal that an exit code stands for: -9 as Python says it, 137 as a shell does."""
    number = -code if code < 0 else code - 128
    return number if number in SIGNALS else None


class Rule(NamedTuple):
    """Named groups of the pattern (pid, code, count, worker, rank) go into the finding."""

    kind: str
    pattern: re.Pattern[str]
    signal: int | None = None
    code: int | None = None
    remedy: str = ""


_SHELL = r"(?:.{0,200}\bline \d+: +(?P<pid>\d+) )?"
_SRUN = r"srun: error: \S+: tasks? [\d,\-]+: "
_NCCL_RANK = r"(?:.{0,200}\bRank (?P<rank>\d+)\] )?"
RULES = tuple(
    Rule(kind, re.compile(pattern), *rest)
    for kind, pattern, *rest in (
        ("hang_warning", r"No available shared memory broadcast block", None, None, HANG),
        ("oom_kill", r"(?:^|.{0,200}\bline \d+: +(?P<pid>\d+) |.{0,600}\])Killed(?:$| )", 9, 137, MEMORY),
        ("oom_kill", r".{0,200}[Oo]ut of memory: Killed process (?P<pid>\d+)", 9, 137, MEMORY),
        ("oom_kill", r".{0,200}oom-kill:constraint=.{0,400}\bpid=(?P<pid>\d+)", 9, 137, MEMORY),
        ("oom_kill", r".{0,200}[Dd]etected \d+ oom.kill event", 9, 137, MEMORY),
        ("oom_kill", r"\S+\.service: A process of this unit has been killed by the OOM killer", 9, 137, MEMORY),
        ("oom_kill", r"(?:zsh: |\[\d+\] +[+\-]? *(?P<pid>\d+) )killed +\S", 9, 137, MEMORY),
        ("oom_kill", r"\s*(?:[Rr]eason:? *|\S+ +\d+/\d+ +)OOMKilled\b", 9, 137, MEMORY),
        ("oom_kill", _SRUN + r"(?:Out Of Memory|Killed)", 9, 137, MEMORY),
        ("oom_kill", r"make: \*\*\* .{0,200}\] Killed", 9, 137, MEMORY),
        ("oom_kill", r"Command terminated by signal 9$", 9, 137, MEMORY),
        ("time_limit", r"slurmstepd: error: \*\*\* .{0,120}DUE TO TIME LIMIT", 15, None, TIME),
        (
            "segfault",
            r"Fatal Python error: Segmentation fault|!+ Segfault|\*\*\* SIGSEGV"
            r"|zsh: segmentation fault|" + _SRUN + "Segmentation fault",
            11,
            None,
            SEGV,
        ),
        ("segfault", _SHELL + r"Segmentation fault", 11, 139, SEGV),
        ("segfault", r".{0,120}?\b[^\s\[\]]{1,64}\[(?P<pid>\d+)\]: segfault at ", 11, None, SEGV),
        ("segfault", r".{0,120}?\btraps: [^\s\[\]]{1,64}\[(?P<pid>\d+)\] general protection", 11, None, SEGV),
        (
            "illegal_instruction",
            r".{0,120}?\btraps: [^\s\[\]]{1,64}\[(?P<pid>\d+)\] trap invalid opcode",
            4,
            None,
            SIGNALS[4].remedy,
        ),
        ("timeout_dump", r"Timeout \(\d+:\d\d:\d\d(?:\.\d+)?\)!$", None, None, HANG),
        ("segfault", r"==(?P<pid>\d+)==ERROR: AddressSanitizer: SEGV", 11, None, SEGV),
        ("abort", r"==(?P<pid>\d+)==ERROR: \w+Sanitizer: ", None, None, ABORT),
        ("bus_error", r"Fatal Python error: Bus error|zsh: bus error|" + _SRUN + "Bus error", 7, None, SHM),
        ("bus_error", _SHELL + r"Bus error", 7, 135, SHM),
        ("stack_overflow", r"Fatal Python error: .{0,80}Cannot recover from stack overflow", 6, None, RECURSION),
        ("illegal_instruction", r"Fatal Python error: Illegal instruction", 4, None, SIGNALS[4].remedy),
        (
            "illegal_instruction",
            _SHELL + r"Illegal instruction(?: *\(|$| {2,})",
            4,
            132,
            SIGNALS[4].remedy,
        ),
        ("floating_point_exception", r"Fatal Python error: Floating point exception", 8, None, SEGV),
        ("floating_point_exception", _SHELL + r"Floating point exception(?: *\(|$| {2,})", 8, 136, SEGV),
        ("abort", r"Fatal Python error: ", 6, None, ABORT),
        ("abort", _SHELL + r"Aborted(?: +\(core dumped\)|$| {2,})", 6, 134, ABORT),
        ("cpp_terminate", r"terminate called (?:after throwing|without an active|recursively)", None, None, ABORT),
        ("dataloader_worker_died", r".{0,200}DataLoader worker \(pid\(s\) (?P<pid>\d+)", None, None, MEMORY),
        (
            "dataloader_worker_died",
            r".{0,200}DataLoader worker \(pid (?P<pid>\d+)\) is killed by signal: (?!Term)",
            None,
            None,
            SHM,
        ),
        ("device_side_assert", r".{0,300}\.cuh?:\d+: .{0,300}Assertion `", None, None, ASSERT),
        ("nccl_timeout", _NCCL_RANK + r"Watchdog caught collective operation timeout", None, None, NCCL),
        ("nccl_timeout", _NCCL_RANK + r"Heartbeat monitor timed out", None, None, NCCL),
        ("nccl_timeout", _NCCL_RANK + r"Received a dump signal due to a collective timeout", None, None, NCCL),
        (
            "ray_oom",
            r".{0,200}?(?P<count>\d+) Workers \(tasks / actors\) killed due to memory pressure",
            None,
            None,
            MEMORY,
        ),
        (
            "ray_oom",
            r"Memory on the node \(IP: .{0,400}?\bpid=(?P<pid>\d+), memory used=",
            None,
            None,
            MEMORY,
        ),
        (
            "ray_oom",
            r".{0,900}?(?:Worker PID: (?P<pid>\d+) )?Worker exit type: NODE_OUT_OF_MEMORY",
            None,
            None,
            MEMORY,
        ),
        ("ray_oom", r".{0,300}?Task was killed due to the node running low on memory", None, None, MEMORY),
        (
            "ray_worker_died",
            r"(?:.{0,100} -- )?A worker died or was killed while executing a task"
            r"(?:.{0,800}?Worker PID: (?P<pid>\d+))?",
            None,
            None,
            WORKER,
        ),
        ("worker_died", r"(?:Worker|Engine core) proc (?P<worker>\S+) died unexpectedly", None, None, WORKER),
        (
            "worker_died",
            r"Worker (?P<worker>\S+) pid (?P<pid>\d+) died, exit code: (?P<code>-?\d+)",
            None,
            None,
            WORKER,
        ),
        ("service_exit", r"\S+\.service: Main process exited, code=\w+, status=(?P<code>\d+)", None, None, EXIT),
        ("step_exit", r'.{0,200}"(?:step|stage|phase)": "[^"]{1,80}", "rc": (?P<code>-?[1-9]\d*)', None, None, EXIT),
        ("xid", r".{0,80}NVRM: Xid \(PCI:[0-9a-fA-F:.]+\): \d+(?:, pid='?(?P<pid>\d+))?", None, None, GPU),
        ("xid", r".{0,80}NVRM: .{0,80}GPU has fallen off the bus", None, None, GPU),
        ("native_stack", r"/\S{1,300}\.so[\d.]*\([^)]{0,300}\+0x[0-9a-f]+\) \[0x[0-9a-f]+\]", None, None, NATIVE),
    )
)
LAST = ("native_stack", "lexicographic_order", "service_exit", "step_exit")
"""Kinds that describe rather than explain: listed after the others."""

_ENDED = re.compile(
    r".{0,400}(?:"
    r"\bfailed \(exitcode: (?P<elastic>-\d+)\) local_rank: \d+ \(pid: (?P<pid>\d+)\)"
    r"|Failed core proc\(s\): \{'(?P<worker>[\w\-]+)': (?P<core>-\d+)"
    r"|(?:exit code:?|exited with code|non-zero exit status|exits with return code =) (?P<shell>13[2-9]|-\d+)\b"
    r"|(?:code=(?:killed|dumped), status=|exited on signal )(?P<number>\d+)"
    r"|(?:died with <Signals\.|(?:terminated|killed) (?:by|with) signal )(?P<name>SIG[A-Z]+)"
    r")"
)


class Ended(NamedTuple):
    """Another process's end by a signal."""

    signal: int
    code: int | None
    worker: str | None
    pid: int | None


def read_end(text: str) -> Ended | None:
    """What a line says of another process's end, where a signal ended it."""
    match = _ENDED.match(text)
    if not match:
        return None
    if match["name"]:
        number, code = _SIGNAL_NAMES.get(match["name"]), None
    elif match["number"]:
        number, code = signal_of(-int(match["number"])), None
    else:
        code = int(match["elastic"] or match["core"] or match["shell"])
        number = signal_of(code)
    if number is None:
        return None
    return Ended(number, code, match["worker"], int(match["pid"]) if match["pid"] else None)
