"""A recorded run in place of a host: the same frames, in the same order, on the recording's own clock.

The recording is a pair on one clock: NVML samples (`{"t", "g": [{"i", "used", "total", "ug", "pw", "sm", …}]}` after
a `{"hdr"}` line) and log lines (`{"t", "l"}`), each file gzipped or not. What was not recorded is missing, not zero.
"""

from __future__ import annotations

import base64
import gzip
import heapq
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from console.store import LinkLike
from remote import protocol, views
from remote.link.asker import Asker
from remote.logs import pages
from remote.logs.findings import Findings
from remote.views import AttemptView, GpuView, RunView, StageView, TelemetryView
from remote.wire import to_wire

Frame = dict[str, Any]
RUN = "20261129T155518Z-0d1e5a17"
STAGE = "extract"
NOT_RECORDED = "not recorded"
TAIL = "replay"


@dataclass(frozen=True)
class Recording:
    samples: tuple[tuple[float, TelemetryView], ...]
    """Seconds since the recording's start."""
    lines: tuple[tuple[float, bytes], ...]

    @property
    def seconds(self) -> float:
        return max(self.samples[-1][0] if self.samples else 0.0, self.lines[-1][0] if self.lines else 0.0)

    @classmethod
    def load(cls, telemetry: Path, log: Path, period: float = 1.0) -> Recording:
        """Read a pair of files; of the samples, one a period is kept, as an agent would send."""
        header, *rows = _read(telemetry)
        start = float(rows[0]["t"])
        samples: list[tuple[float, TelemetryView]] = []
        for row in rows:
            at = float(row["t"]) - start
            if not samples or at - samples[-1][0] >= period - 1e-3:
                samples.append((at, _sample(header, row)))
        lines = tuple((float(row["t"]) - start, str(row["l"]).encode() + b"\n") for row in _read(log))
        return cls(tuple(samples), lines)

    def frames(self, read: Callable[[bytes], Findings] | None = None) -> Iterator[tuple[float, Frame]]:
        """(seconds, push) in time order; `read` is a log reader's feed, for the run's findings."""
        data: Iterator[tuple[float, int, Frame]] = self._log_frames(read)
        samples = ((at, 0, {"ev": protocol.SAMPLE, "sample": to_wire(sample)}) for at, sample in self.samples)
        for at, _, frame in heapq.merge(samples, data, key=lambda item: (item[0], item[1])):
            yield at, frame

    def _log_frames(self, read: Callable[[bytes], Findings] | None) -> Iterator[tuple[float, int, Frame]]:
        offset = 0
        begun = self.lines[0][0] if self.lines else 0.0
        for at, line in self.lines:
            data = base64.b64encode(line).decode()
            yield at, 1, {"ev": protocol.DATA, "tail": TAIL, "offset": offset, "log_id": "replay", "data": data}
            offset += len(line)
            findings = read(line) if read else Findings()
            yield at, 2, {"ev": protocol.RUN, "run": to_wire(run_view(at - begun, offset, findings))}
        last = self.lines[-1][0] if self.lines else 0.0
        yield last, 3, {"ev": protocol.END, "tail": TAIL}


def run_view(elapsed: float, log_bytes: int, findings: Findings, state: str = views.RUNNING) -> RunView:
    """The run that the recording stands for: one stage, extracting."""
    attempt = AttemptView(1, "running", started=0.0, elapsed=elapsed, log_bytes=log_bytes, log_id="replay")
    stage = StageView(STAGE, "hidden states", state, (attempt,), findings=findings)
    return RunView(RUN, "replay", 0.0, "recorded", stages=(stage,))


@dataclass(frozen=True)
class ReplayLink:
    phase: str
    detail: str = ""
    remedy: str = ""
    retry_in: float | None = None
    host: str = "replay"


class ReplaySession:
    """Plays a recording as if it were a host. Nothing can be started or stopped on it."""

    def __init__(
        self,
        recording: Recording,
        on_link: Callable[[LinkLike], None],
        on_push: Callable[[Mapping[str, Any]], None],
        *,
        speed: float = 1.0,
        read: Callable[[bytes], Findings] | None = None,
    ) -> None:
        self._recording = recording
        self._on_link, self._on_push = on_link, on_push
        self._speed, self._read = speed, read
        self._closed = threading.Event()
        self._watched = threading.Event()
        self._tail = ""
        self._held: list[Frame] = []
        self._lock = threading.Lock()

    @classmethod
    def factory(
        cls, recording: Recording, speed: float = 1.0, read: Callable[[bytes], Findings] | None = None
    ) -> Callable[[Asker, Callable[[LinkLike], None], Callable[[Mapping[str, Any]], None]], ReplaySession]:
        return lambda asker, on_link, on_push: cls(recording, on_link, on_push, speed=speed, read=read)

    def start(self) -> None:
        threading.Thread(target=self._play, name="eyas-replay", daemon=True).start()

    def request(self, op: str, /, **params: Any) -> dict[str, Any]:
        if op in (protocol.LIST, protocol.SHOW):
            view = to_wire(run_view(0.0, 0, Findings()))
            return {"runs": [view], "run": view}
        if op == protocol.PATCHES:
            return {"patches": []}
        if op == protocol.PAGE:
            return self._page(params)
        raise protocol.RemoteError("bad_request", "This is a recording: nothing runs.", "Connect to a host.")

    def watch(self, run: str) -> None:
        self._on_push({"ev": protocol.RUN, "run": to_wire(run_view(0.0, 0, Findings()))})
        self._watched.set()

    def unwatch(self, run: str) -> None:
        """A recording has one run only."""

    def tail(self, key: str, run: str, stage: str, attempt: int, offset: int = 0, follow: bool = True) -> None:
        with self._lock:
            self._tail = key
            for frame in self._held:
                self._on_push({**frame, "tail": key})

    def untail(self, key: str) -> None:
        with self._lock:
            self._tail = ""

    def _page(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Rows of the log as far as it was played, around an offset or up to its end."""
        with self._lock:
            log = b"".join(base64.b64decode(frame["data"]) for frame in self._held if "data" in frame)
        place = min(len(log), int(asked.get("offset", len(log))))

        def read(offset: int, size: int) -> bytes:
            return log[offset : offset + size]

        rows = [*pages.rows_before(read, place, asked["before"]), *pages.rows_from(read, place, asked["rows"])]
        numbered = [{**to_wire(row), "line": log.count(b"\n", 0, row.offset) + 1} for row in rows]
        return {"log_id": "replay", "size": len(log), "indexed": len(log), "place": place, "rows": numbered}

    def telemetry(self, on: bool, period: float) -> None:
        """Samples come at the recording's own pace."""

    def close(self) -> None:
        self._closed.set()
        self._watched.set()

    def _play(self) -> None:
        self._on_link(ReplayLink("connected"))
        self._watched.wait()
        now = 0.0
        for at, frame in self._recording.frames(self._read):
            if at > now and self._closed.wait((at - now) / self._speed):
                return
            now = max(now, at)
            with self._lock:
                if "tail" in frame:
                    self._held.append(frame)
                    frame = {**frame, "tail": self._tail}
                self._on_push(frame)


def _sample(header: Mapping[str, Any], row: Mapping[str, Any]) -> TelemetryView:
    missing = dict.fromkeys(("temperature_c", "power_limit_w", "throttle", "ecc_errors"), NOT_RECORDED)
    gpus = tuple(
        GpuView(
            index=gpu["i"],
            uuid=header["uuid"][gpu["i"]],
            name=header["names"][gpu["i"]],
            memory_used=gpu["used"],
            memory_total=gpu["total"],
            utilization=gpu["ug"],
            power_w=gpu["pw"] / 1000,
            sm_clock_mhz=gpu["sm"],
            pids=tuple(pid for pid, _ in gpu["procs"]),
            missing=missing,
        )
        for gpu in row["g"]
    )
    return TelemetryView(at=float(row["t"]), gpus=gpus)


def _read(path: Path) -> list[dict[str, Any]]:
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()
    return [json.loads(line) for line in text.splitlines() if line.strip()]
