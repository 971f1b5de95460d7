"""The GPU panel: one line-API widget, a row a GPU. A figure is a value, not available, or stale: never a made-up 0."""

from __future__ import annotations

from rich.cells import cell_len

from console.sanitise import one_line
from console.store import STALE_AFTER, Snapshot
from console.widgets.paint import Panel, Part, Row, bar, fit, rule
from console.words import MISSING, duration, gib, size
from remote.views import GpuView, TelemetryView

HOT = 83
"""Celsius: from here on data-centre GPUs begin to slow down."""
FULL = 0.97


class Gpus(Panel):
    def __init__(self) -> None:
        super().__init__(id="gpus")
        self.snapshot = Snapshot()
        self.now = 0.0

    def show(self, snapshot: Snapshot, now: float) -> None:
        self.snapshot, self.now = snapshot, now
        self.repaint()

    def rows(self, width: int) -> list[Row]:
        sample = self.snapshot.telemetry
        if sample is None:
            reason = "no sample from the host yet" if self.snapshot.link.phase == "connected" else "no connection yet"
            return [rule([("host", "strong")], width), Row.of((f"  GPUs: {reason}", "muted"))]
        age = self.snapshot.telemetry_age(self.now) or 0.0
        stale = age > STALE_AFTER
        title: list[Part] = [("host", "strong")]
        if stale:
            title.append((f"  figures are {duration(age)} old", "warn"))
        rows = [rule(title, width, host_figures(sample, width - 24 - (22 if stale else 0)))]
        if sample.gpus is None:
            rows.append(
                Row.of(("  no GPU figures: ", "muted"), (sample.gpu_reason or "the host gave no reason", "text"))
            )
        elif not sample.gpus:
            rows.append(Row.of(("  no GPU on this host", "muted")))
        for gpu in sample.gpus or ():
            rows.append(gpu_row(gpu, width, stale))
        for gpu in sample.gpus or ():
            if warnings := _warnings(gpu):
                rows.append(Row.of((f"  ! GPU {gpu.index} ", "warn"), (", ".join(warnings), "text")))
        missing = _missing(sample.gpus or ())
        if missing and width >= 72:
            rows.append(Row.of((f"  {MISSING}: {missing}", "faint")))
        return rows


def host_figures(sample: TelemetryView, room: int) -> list[Part]:
    """`memory 12.1 of 31.3 GiB · disk 40.2 GiB free · load 1.20 on 2 CPUs`, as much of it as there is room for."""
    texts: list[str] = []
    if sample.memory_total is None or sample.memory_available is None:
        texts.append(f"memory {MISSING}")
    else:
        texts.append(f"memory {gib(sample.memory_total - sample.memory_available)} of {gib(sample.memory_total)} GiB")
    texts.append(f"disk {MISSING}" if sample.disk_free is None else f"disk {size(sample.disk_free)} free")
    cpus = f" on {sample.cpus} CPUs" if sample.cpus else ""
    texts.append(f"load {MISSING}" if sample.load is None else f"load {sample.load[0]:.2f}{cpus}")
    shown = texts
    while len(shown) > 1 and cell_len(" · ".join(shown)) > room:
        shown = shown[:-1]
    return [(" · ".join(shown), "muted")]


def gpu_row(gpu: GpuView, width: int, stale: bool) -> Row:
    """`0 H200  ██████──────  15.1/140 GiB  100%  148/700 W  45°C`; columns give way from the right of the name."""

    def ink(normal: str) -> str:
        return "faint" if stale else normal

    name = one_line(gpu.name).removeprefix("NVIDIA ").removeprefix("Tesla ")
    names = 0 if width < 60 else 10 if width < 100 else 18
    fraction = gpu.memory_used / gpu.memory_total if gpu.memory_used is not None and gpu.memory_total else None
    memory = MISSING if gpu.memory_used is None else f"{gib(gpu.memory_used)}/{gib(gpu.memory_total)} GiB"
    util = MISSING if gpu.utilization is None else f"{gpu.utilization}%"
    watts = MISSING if gpu.power_w is None else f"{gpu.power_w:.0f}"
    if gpu.power_w is not None:
        watts += f"/{gpu.power_limit_w:.0f} W" if gpu.power_limit_w is not None else " W"
    temperature = MISSING if gpu.temperature_c is None else f"{gpu.temperature_c}°C"
    hot = gpu.temperature_c is not None and gpu.temperature_c >= HOT
    columns: list[Part] = [
        (fit(memory, 15, "right"), ink("text" if fraction is not None else "muted")),
        (fit(util, 6, "right"), ink("text" if gpu.utilization is not None else "muted")),
        (fit(watts, 11, "right"), ink("text" if gpu.power_w is not None else "muted")),
        (fit(temperature, 6, "right"), ink("bad" if hot else "text" if gpu.temperature_c is not None else "muted")),
    ]
    while columns and width - 4 - names - sum(len(text) for text, _ in columns) < 6 and len(columns) > 1:
        columns.pop()
    if width >= 90:
        clock = MISSING if gpu.sm_clock_mhz is None else f"{gpu.sm_clock_mhz} MHz"
        columns.append((fit(clock, 10, "right"), ink("muted")))
    spare = width - 4 - (names + 1 if names else 0) - sum(cell_len(text) for text, _ in columns) - 1
    full = fraction is not None and fraction > FULL
    filled = bar(fraction, min(48, max(4, spare)), ink("warn" if full else "bar"))
    head: tuple[Part, ...] = ((fit(str(gpu.index), 3, "right"), ink("strong")),)
    head += (("!" if _warnings(gpu) else " ", ink("warn")),)
    if names:
        head += ((fit(name, names) + " ", ink("text")),)
    return Row((*head, *filled, *columns))


def _warnings(gpu: GpuView) -> list[str]:
    found = [f"throttled: {reason}" for reason in gpu.throttle or () if reason.lower() not in ("idle", "gpu_idle")]
    if gpu.ecc_errors:
        found.append(f"{gpu.ecc_errors} ECC errors")
    return found


def _missing(gpus: tuple[GpuView, ...]) -> str:
    reasons: dict[str, list[str]] = {}
    for gpu in gpus:
        for name, reason in gpu.missing.items():
            if name not in reasons.setdefault(reason, []):
                reasons[reason].append(name)
    return "; ".join(f"{', '.join(map(_field, names))} ({reason})" for reason, names in reasons.items())


def _field(name: str) -> str:
    """`power_limit_w` -> `power limit`."""
    return {"ecc_errors": "ECC errors", "throttle": "throttling", "pids": "processes"}.get(
        name, name.removesuffix("_c").removesuffix("_w").removesuffix("_mhz").replace("_", " ")
    )
