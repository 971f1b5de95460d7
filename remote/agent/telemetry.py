"""Samples of the host: GPUs, memory, load, disk, and the process trees of running stages."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from typing import Any

from remote.agent import processes
from remote.agent.files import boottime
from remote.agent.gpus import GpuSampler
from remote.agent.layout import State
from remote.agent.reading import World, read_attempt
from remote.views import ProcessView, TelemetryView

TREE_EVERY = 5.0
"""Seconds between two searches for new processes: a look at every process of a large host is not cheap."""
RUNS_SEARCHED = 50
TICK = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
SHORTEST_PERIOD = 0.2


class Trees:
    """The processes of running stages. Membership is looked up now and then, figures every time."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._members: dict[str, list[processes.Identity]] = {}
        self._names: dict[processes.Identity, str] = {}
        self._searched: float | None = None
        self._over: set[str] = set()
        self._cpu: dict[processes.Identity, tuple[float, int]] = {}

    def sample(self) -> dict[str, tuple[ProcessView, ...]]:
        if self._searched is None or boottime() - self._searched >= TREE_EVERY:
            self._search()
            self._searched = boottime()
        found = {}
        for key, members in self._members.items():
            seen = [view for view in map(self._process, members) if view is not None]
            if seen:
                found[key] = tuple(seen)
        return found

    def _search(self) -> None:
        world = World()
        self._members = {key: self._identities(pids, world) for key, pids in self._running(world)}
        known = {identity for members in self._members.values() for identity in members}
        self._cpu = {identity: seen for identity, seen in self._cpu.items() if identity in known}
        self._names = {identity: _name(world.snapshot[identity.pid]) for identity in known}

    def _running(self, world: World) -> list[tuple[str, set[int]]]:
        found = []
        for run_id in self._state.run_ids()[:RUNS_SEARCHED]:
            run = self._state.run(run_id)
            for attempt in [a for name in run.stage_folders() for a in run.attempts(name)[-1:]]:
                if attempt.folder in self._over:
                    continue
                reading = read_attempt(attempt, world)
                if reading.live and reading.main is not None:
                    found.append((attempt.key, self._pids(reading.main, world)))
                elif reading.over:
                    self._over.add(attempt.folder)
        return found

    def _pids(self, main: processes.Identity, world: World) -> set[int]:
        session = {one.pid for one in world.snapshot.values() if one.session == main.pid and one.start >= main.start}
        return session | {main.pid} | processes.descendants(session | {main.pid}, world.snapshot)

    def _identities(self, pids: set[int], world: World) -> list[processes.Identity]:
        boot = processes.boot_id()
        return [
            processes.Identity(pid, world.snapshot[pid].start, boot) for pid in sorted(pids) if pid in world.snapshot
        ]

    def _process(self, identity: processes.Identity) -> ProcessView | None:
        now, seen = boottime(), processes.facts(identity.pid)
        if seen is None or seen.start != identity.start or seen.state in processes.DEAD:
            return None
        before = self._cpu.get(identity)
        self._cpu[identity] = (now, seen.cpu_ticks)
        percent = None
        if before is not None and now > before[0]:
            percent = round(100 * (seen.cpu_ticks - before[1]) / TICK / (now - before[0]), 1)
        return ProcessView(
            pid=identity.pid,
            name=self._names.get(identity, seen.name),
            rss=seen.rss_pages * PAGE,
            cpu_percent=percent,
            read_bytes=processes.read_bytes(identity.pid),
        )


def _name(one: processes.Facts) -> str:
    """The title that vLLM's workers give themselves (VLLM::Worker_TP0), else the program's name."""
    with contextlib.suppress(OSError), open(f"/proc/{one.pid}/cmdline", "rb") as source:
        words = source.read(4096).rstrip(b"\0 ").split(b"\0")
        title = words[0].decode("utf-8", "replace")
        if len(words) == 1 and title and "/" not in title:
            return title[:200]
    return one.name


def host_memory() -> tuple[int | None, int | None]:
    """(total, available) bytes of the host's memory; None where it cannot be read."""
    try:
        import psutil

        seen = psutil.virtual_memory()
        return int(seen.total), int(seen.available)
    except Exception:
        return _memory_from_proc()


def _memory_from_proc() -> tuple[int | None, int | None]:
    found: dict[str, int] = {}
    with contextlib.suppress(OSError, ValueError), open("/proc/meminfo") as source:
        for line in source:
            name, _, value = line.partition(":")
            if name in ("MemTotal", "MemAvailable"):
                found[name] = int(value.split()[0]) * 1024
    return found.get("MemTotal"), found.get("MemAvailable")


class Telemetry:
    """Takes a sample every `period` seconds in its own thread and hands it on."""

    def __init__(self, state: State, hand_on: Callable[[TelemetryView], Any]) -> None:
        self._state = state
        self._hand_on = hand_on
        self._gpus = GpuSampler()
        self._trees = Trees(state)
        self._on = threading.Event()
        self._wake = threading.Event()
        self._period = 1.0
        self._thread: threading.Thread | None = None

    def turn(self, on: bool, period: float) -> None:
        self._period = max(SHORTEST_PERIOD, period)
        if on:
            self._on.set()
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="telemetry", daemon=True)
                self._thread.start()
        else:
            self._on.clear()
        self._wake.set()

    def _serve(self) -> None:
        while True:
            self._on.wait()
            self._wake.clear()
            began = boottime()
            sample = self.sample()
            if self._on.is_set():
                self._hand_on(sample)
            self._wake.wait(max(0.05, self._period - (boottime() - began)))

    def sample(self) -> TelemetryView:
        """At most as long as the GPU sampler's deadline, plus a look at /proc."""
        gpus, reason = self._gpus.sample()
        total, available = host_memory()
        disk_total = disk_free = None
        with contextlib.suppress(OSError):
            disk = os.statvfs(self._state.folder)
            disk_total, disk_free = disk.f_blocks * disk.f_frsize, disk.f_bavail * disk.f_frsize
        load = None
        with contextlib.suppress(OSError):
            load = os.getloadavg()
        return TelemetryView(
            at=time.time(),
            gpus=gpus,
            gpu_reason=reason,
            memory_total=total,
            memory_available=available,
            load=load,
            cpus=os.cpu_count(),
            disk_total=disk_total,
            disk_free=disk_free,
            processes=self._trees.sample(),
        )
