"""GPU figures from NVML. Whatever is not available says why; nothing is ever a zero that was not measured."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable
from typing import Any

from remote.agent.files import boottime
from remote.views import GpuView

DEADLINE = 1.0
RETRY = 30.0
"""Seconds before NVML is tried again after it could not be started."""
UNCORRECTED, VOLATILE, SM_CLOCK, CORE_TEMPERATURE = 1, 0, 1, 0
"""Numbers of NVML's C interface."""
THROTTLE = {
    0x2: "application clocks",
    0x4: "software power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal",
    0x40: "hardware thermal",
    0x80: "hardware power brake",
    0x100: "display clocks",
}
"""Bit 0x1 is left out: an idle GPU is not throttled."""
WORDS = {
    "NVMLError_LibraryNotFound": "no NVIDIA driver on this host (libnvidia-ml.so.1 not found)",
    "NVMLError_DriverNotLoaded": "the NVIDIA driver is installed but not loaded, or no GPU was given to this container",
    "NVMLError_LibRmVersionMismatch": "the NVIDIA driver was upgraded but not reloaded: restart the host or the driver",
    "NVMLError_NoPermission": "this user may not use the NVIDIA driver",
    "NVMLError_NotSupported": "this GPU does not report it",
    "NVMLError_GpuIsLost": "the GPU is lost: it fell off the bus (see the kernel log for its Xid)",
    "NVMLError_FunctionNotFound": "the installed driver is too old to report it",
}
Gpus = tuple[tuple[GpuView, ...] | None, str]
"""The GPUs, or None and the reason."""


class GpuSampler:
    """NVML in a thread of its own: a hung driver costs a deadline, not the agent."""

    def __init__(self) -> None:
        self._asked: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[Gpus] = queue.SimpleQueue()
        self._waiting_since: float | None = None
        self._thread: threading.Thread | None = None

    def sample(self) -> Gpus:
        """At most DEADLINE seconds."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="nvml", daemon=True)
            self._thread.start()
        if self._waiting_since is None:
            self._waiting_since = boottime()
            self._asked.put(None)
        try:
            answer = self._answers.get(timeout=DEADLINE)
        except queue.Empty:
            silent = boottime() - self._waiting_since
            return None, f"the NVIDIA driver has not answered for {silent:.0f} s: it hangs, or is being reset"
        self._waiting_since = None
        return answer

    def _serve(self) -> None:
        nvml = Nvml()
        while True:
            self._asked.get()
            try:
                self._answers.put(nvml.sample())
            except Exception as error:
                self._answers.put((None, f"NVML failed: {type(error).__name__}: {error}"))


class Nvml:
    """The driver's library, started once and tried again slowly when it is not there."""

    def __init__(self) -> None:
        self._library: Any = None
        self._reason = ""
        self._tried: float | None = None

    def sample(self) -> Gpus:
        if self._library is None and (self._tried is None or boottime() - self._tried > RETRY):
            self._tried = boottime()
            self._start()
        if self._library is None:
            return None, self._reason
        try:
            count = self._library.nvmlDeviceGetCount()
        except Exception as error:
            self._library, self._reason = None, words(error)
            return None, self._reason
        if count == 0:
            return None, "the NVIDIA driver reports no GPU"
        return tuple(self._gpu(index) for index in range(count)), ""

    def _start(self) -> None:
        try:
            import pynvml
        except ImportError:
            self._reason = "the agent's bundle holds no pynvml, so GPU figures cannot be read"
            return
        try:
            pynvml.nvmlInit()
        except Exception as error:
            self._reason = words(error)
            return
        self._library, self._reason = pynvml, ""

    def _gpu(self, index: int) -> GpuView:
        nvml = self._library
        missing: dict[str, str] = {}

        def ask(field: str, question: Callable[[], Any]) -> Any:
            try:
                return question()
            except Exception as error:  # one figure that a binding or a driver lacks leaves the others
                missing[field] = words(error)
                return None

        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
        except Exception as error:
            fields = ("uuid", "name", "memory_used", "memory_total", "utilization", "power_w", "temperature_c")
            return GpuView(index, "", f"GPU {index}", missing=dict.fromkeys(fields, words(error)))
        memory = ask("memory_used", lambda: self._memory(handle))
        if memory is None:
            missing["memory_total"] = missing["memory_used"]
        return GpuView(
            index=index,
            uuid=_text(ask("uuid", lambda: nvml.nvmlDeviceGetUUID(handle))),
            name=_text(ask("name", lambda: nvml.nvmlDeviceGetName(handle))) or f"GPU {index}",
            memory_used=memory and int(memory.used),
            memory_total=memory and int(memory.total),
            utilization=ask("utilization", lambda: int(nvml.nvmlDeviceGetUtilizationRates(handle).gpu)),
            power_w=ask("power_w", lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1000),
            power_limit_w=ask("power_limit_w", lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000),
            temperature_c=ask("temperature_c", lambda: int(nvml.nvmlDeviceGetTemperature(handle, CORE_TEMPERATURE))),
            sm_clock_mhz=ask("sm_clock_mhz", lambda: int(nvml.nvmlDeviceGetClockInfo(handle, SM_CLOCK))),
            throttle=ask("throttle", lambda: self._throttle(handle)),
            ecc_errors=ask("ecc_errors", lambda: int(nvml.nvmlDeviceGetTotalEccErrors(handle, UNCORRECTED, VOLATILE))),
            pids=ask("pids", lambda: tuple(int(p.pid) for p in nvml.nvmlDeviceGetComputeRunningProcesses(handle))),
            missing=missing,
        )

    def _memory(self, handle: Any) -> Any:
        """Version 2 keeps the driver's own reserve (hundreds of MB) apart from what is used."""
        version = getattr(self._library, "nvmlMemory_v2", None)
        if version is not None:
            with contextlib.suppress(Exception):
                return self._library.nvmlDeviceGetMemoryInfo(handle, version=version)
        return self._library.nvmlDeviceGetMemoryInfo(handle)

    def _throttle(self, handle: Any) -> tuple[str, ...]:
        nvml = self._library
        newer = getattr(nvml, "nvmlDeviceGetCurrentClocksEventReasons", None)
        try:
            bits = newer(handle) if newer is not None else nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)
        except Exception:  # a driver before R535 knows the old name only
            bits = nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)
        return tuple(name for bit, name in THROTTLE.items() if bits & bit)


def words(error: Exception) -> str:
    """An NVML error as a sentence an operator understands."""
    return WORDS.get(type(error).__name__) or f"NVML: {error}"


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value or "")
