"""Progress worker by worker: the bars that the log reader saw, and the bytes that each process has read.

vLLM's shard bar is rank 0's alone and GPU memory says nothing about a load, so a rank without a bar is shown by what
it has read.
"""

from __future__ import annotations

from console.store import Snapshot
from console.widgets.paint import Panel, Part, Row, bar, fit
from console.words import amount, duration, size
from remote.logs.findings import Progress
from remote.views import ProcessView, StageView


class Load(Panel):
    def __init__(self) -> None:
        super().__init__(id="load")
        self.snapshot = Snapshot()
        self.limit = 2
        """Rows at most."""

    def show(self, snapshot: Snapshot, limit: int) -> None:
        self.snapshot, self.limit = snapshot, limit
        self.display = bool(self._bars() or self._readers())
        self.repaint()

    def rows(self, width: int) -> list[Row]:
        processes = list(self._readers())
        rows: list[Row] = []
        for progress in self._bars():
            own = next((p for p in processes if progress.worker and progress.worker in p.name), None)
            if own is not None:
                processes.remove(own)
            rows.append(_bar_row(progress, own, width))
        rows += [_process_row(process, width) for process in processes]
        return rows[: self.limit]

    def _stage(self) -> StageView | None:
        return self.snapshot.live

    def _bars(self) -> list[Progress]:
        """Unfinished bars first; of a running stage only."""
        stage = self._stage()
        bars = [p for p in stage.findings.progress if p.done is not None or p.percent is not None] if stage else []
        return sorted(bars, key=lambda p: p.total is not None and p.done == p.total)

    def _readers(self) -> list[ProcessView]:
        """Processes of the running attempt that say how much they read, the hungriest first."""
        stage, run, sample = self._stage(), self.snapshot.run, self.snapshot.telemetry
        if stage is None or run is None or sample is None or stage.latest is None:
            return []
        processes = sample.processes.get(f"{run.run}/{stage.name}/{stage.latest.number}", ())
        return sorted((p for p in processes if p.read_bytes), key=lambda p: -(p.read_bytes or 0))


def _bar_row(progress: Progress, process: ProcessView | None, width: int) -> Row:
    share = progress.done / progress.total if progress.total and progress.done is not None else None
    if share is None and progress.percent is not None:
        share = progress.percent / 100
    count = f"{amount(progress.done)}/{amount(progress.total)}" if progress.total and progress.done is not None else ""
    percent = "" if share is None else f"{share:4.0%}"
    eta = f"ETA {duration(progress.eta_s)}" if progress.eta_s is not None else ""
    if share is not None and share >= 1:
        eta = f"took {duration(progress.seconds)}" if progress.seconds is not None else "done"
    read = f"read {size(process.read_bytes)}" if process else ""
    label = fit(f"{progress.worker or 'driver'}", min(14, max(6, width // 5)))
    kind = fit(progress.kind.replace("_", " "), min(20, max(0, width // 4)))
    tail = f"  {count:>9} {percent:>5}  {eta}"
    tail += f"  {read}" if read and width - 24 - len(tail) - len(label) > 20 else ""
    room = min(32, width - 3 - len(label) - len(kind) - 1 - len(tail))
    parts: list[Part] = [("   ", "text"), (label + " ", "muted"), (kind, "text")]
    if room >= 4:
        parts += bar(share, room)
    return Row((*parts, (tail, "text")))


def _process_row(process: ProcessView, width: int) -> Row:
    name = fit(f"{process.name} {process.pid}", min(30, max(8, width // 2 - 8)))
    figures = f"  read {size(process.read_bytes):>9}  memory {size(process.rss):>9}"
    if process.cpu_percent is not None and width >= 72:
        figures += f"  cpu {process.cpu_percent:4.0f}%"
    return Row((("   ", "text"), (name, "muted"), (figures, "text")))
