"""Telemetry: every figure is a value or has a reason; a missing, broken or hung driver costs nothing but figures."""

from __future__ import annotations

import os
import sys
import threading
import time
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from faults.fake_host import FakeHost, py, until

from remote.agent import gpus, telemetry
from remote.agent.gpus import GpuSampler, Nvml
from remote.agent.layout import State
from remote.agent.telemetry import Telemetry


class NVMLError(Exception):
    pass


class NVMLError_NotSupported(NVMLError):
    pass


class NVMLError_GpuIsLost(NVMLError):
    pass


class NVMLError_LibraryNotFound(NVMLError):
    pass


class NVMLError_LibRmVersionMismatch(NVMLError):
    pass


def a_driver(count: int = 2) -> Any:
    """A module with NVML's functions, as nvidia-ml-py 13 has them."""
    memory = {2: (16_636_641_280, 150_754_820_096), None: (17_300_000_000, 150_754_820_096)}
    made: Any = types.ModuleType("pynvml")
    made.nvmlMemory_v2 = 2
    made.nvmlInit = lambda: None
    made.nvmlDeviceGetCount = lambda: count
    made.nvmlDeviceGetHandleByIndex = lambda index: index
    made.nvmlDeviceGetUUID = lambda handle: f"GPU-{handle}"
    made.nvmlDeviceGetName = lambda handle: b"NVIDIA H200"
    made.nvmlDeviceGetMemoryInfo = lambda handle, version=None: types.SimpleNamespace(
        used=memory[version][0], total=memory[version][1]
    )
    made.nvmlDeviceGetUtilizationRates = lambda handle: types.SimpleNamespace(gpu=0)
    made.nvmlDeviceGetPowerUsage = lambda handle: 123_456
    made.nvmlDeviceGetEnforcedPowerLimit = lambda handle: 700_000
    made.nvmlDeviceGetTemperature = lambda handle, sensor: 40
    made.nvmlDeviceGetClockInfo = lambda handle, clock: 1980
    made.nvmlDeviceGetCurrentClocksEventReasons = lambda handle: 0x1 | 0x4
    made.nvmlDeviceGetTotalEccErrors = lambda handle, kind, counter: 0
    made.nvmlDeviceGetComputeRunningProcesses = lambda handle: [types.SimpleNamespace(pid=4242)]
    return made


def failing(error: Exception) -> Any:
    def fail(*args: Any, **more: Any) -> Any:
        raise error

    return fail


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Any:
    made = a_driver()
    monkeypatch.setitem(sys.modules, "pynvml", made)
    monkeypatch.setattr(gpus, "DEADLINE", 60.0)  # none of these hangs, however busy the machine is
    return made


def test_the_core_figures_of_every_gpu_and_zero_is_a_value(driver: Any) -> None:
    found, reason = Nvml().sample()
    assert found is not None and reason == ""
    assert [gpu.uuid for gpu in found] == ["GPU-0", "GPU-1"]
    one = found[0]
    assert (one.name, one.memory_used, one.memory_total) == ("NVIDIA H200", 16_636_641_280, 150_754_820_096)
    assert (one.utilization, one.power_w, one.power_limit_w, one.temperature_c) == (0, 123.456, 700.0, 40)
    assert (one.sm_clock_mhz, one.throttle, one.ecc_errors, one.pids) == (1980, ("software power cap",), 0, (4242,))
    assert one.missing == {}


def test_a_figure_that_is_not_available_is_none_with_its_reason(driver: Any) -> None:
    for name in ("UtilizationRates", "MemoryInfo", "TotalEccErrors", "CurrentClocksEventReasons"):
        setattr(driver, f"nvmlDeviceGet{name}", failing(NVMLError_NotSupported("Not Supported")))
    driver.nvmlDeviceGetCurrentClocksThrottleReasons = failing(TypeError("needs a struct"))
    found, _ = Nvml().sample()
    assert found is not None
    one = found[0]
    assert (one.utilization, one.memory_used, one.memory_total, one.ecc_errors, one.throttle) == (None,) * 5
    assert one.missing["utilization"] == "this GPU does not report it"
    assert one.missing["memory_total"] == "this GPU does not report it"
    assert "needs a struct" in one.missing["throttle"]
    assert one.power_w == 123.456


def test_an_older_driver_is_asked_in_its_own_words(driver: Any) -> None:
    del driver.nvmlDeviceGetCurrentClocksEventReasons
    driver.nvmlDeviceGetCurrentClocksThrottleReasons = lambda handle: 0x40
    del driver.nvmlMemory_v2
    found, _ = Nvml().sample()
    assert found is not None
    assert found[0].throttle == ("hardware thermal",)
    assert found[0].memory_used == 17_300_000_000


def test_a_lost_gpu_leaves_the_others(driver: Any) -> None:
    lost = failing(NVMLError_GpuIsLost("GPU is lost"))
    driver.nvmlDeviceGetHandleByIndex = lambda index: lost() if index == 1 else index
    found, _ = Nvml().sample()
    assert found is not None and len(found) == 2
    assert found[0].temperature_c == 40
    assert found[1].temperature_c is None
    assert "fell off the bus" in found[1].missing["temperature_c"]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (NVMLError_LibraryNotFound("x"), "no NVIDIA driver on this host (libnvidia-ml.so.1 not found)"),
        (NVMLError_LibRmVersionMismatch("x"), "restart the host or the driver"),
        (NVMLError("Unknown Error"), "NVML: Unknown Error"),
    ],
)
def test_a_driver_that_does_not_start_is_a_reason_and_no_zeros(driver: Any, error: Exception, reason: str) -> None:
    driver.nvmlInit = failing(error)
    found, said = Nvml().sample()
    assert found is None
    assert reason in said


def test_no_gpu_and_no_binding_are_reasons(driver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    driver.nvmlDeviceGetCount = lambda: 0
    assert Nvml().sample() == (None, "the NVIDIA driver reports no GPU")
    monkeypatch.setitem(sys.modules, "pynvml", None)
    found, said = Nvml().sample()
    assert found is None and "pynvml" in said


def test_the_real_binding_without_a_driver_names_what_is_missing() -> None:
    pytest.importorskip("pynvml")
    if Path("/dev/nvidiactl").exists():
        pytest.skip("this machine has an NVIDIA driver")
    assert Nvml().sample() == (None, "no NVIDIA driver on this host (libnvidia-ml.so.1 not found)")


@pytest.fixture
def stuck(driver: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    monkeypatch.setattr(gpus, "DEADLINE", 0.2)
    release = threading.Event()
    free = driver.nvmlDeviceGetCount
    driver.nvmlDeviceGetCount = lambda: (release.wait(60), free())[1]
    yield release
    release.set()


def test_a_hung_driver_is_a_reason_and_comes_back_when_it_answers(stuck: threading.Event) -> None:
    sampler, before = GpuSampler(), threading.active_count()
    for _ in range(3):
        found, said = sampler.sample()
        assert found is None and "has not answered" in said
    stuck.set()
    found, said = until(lambda: (s := sampler.sample())[0] is not None and s)
    assert found is not None and len(found) == 2
    assert threading.active_count() <= before + 1


def test_host_figures_come_with_and_without_psutil_and_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("psutil")
    with_psutil = telemetry.host_memory()
    monkeypatch.setitem(sys.modules, "psutil", None)
    without = telemetry.host_memory()
    assert without[0] == with_psutil[0]
    assert without[1] is not None and with_psutil[1] is not None
    assert abs(without[1] - with_psutil[1]) < 2 << 30


def test_a_sample_tells_the_hosts_memory_load_and_disk(tmp_path: Path, driver: Any) -> None:
    sample = Telemetry(State(str(tmp_path)), lambda sample: None).sample()
    disk = os.statvfs(tmp_path)
    assert sample.disk_total == disk.f_blocks * disk.f_frsize
    assert sample.disk_free is not None and 0 < sample.disk_free <= sample.disk_total
    assert sample.memory_total and sample.cpus == os.cpu_count() and sample.load is not None
    assert sample.gpus is not None and abs(sample.at - time.time()) < 60
    assert sample.processes == {}


BUSY = """
import os, sys
data = open("/dev/zero", "rb")
if os.fork() == 0:
    os.setsid()
    import time
    data.read(3_000_000)
    print("read", flush=True)
    time.sleep(600)
while True:
    pass
"""


def test_the_tree_of_a_running_stage_comes_with_memory_cpu_and_bytes_read(host: FakeHost, driver: Any) -> None:
    run = host.start(py("one", BUSY))
    attempt = host.attempt(run, "one")
    host.logged(attempt, "read")
    source = Telemetry(host.state, lambda sample: None)
    first = source.sample().processes[attempt.key]
    assert all(process.cpu_percent is None for process in first), "one look is no rate"
    status = host.status(attempt)
    assert status["main"]["pid"] in {process.pid for process in first}
    assert not {status["supervisor"]["pid"], status["shim"]["pid"]} & {process.pid for process in first}
    second = until(lambda: (s := source.sample().processes[attempt.key]) and (s[0].cpu_percent or 0) > 0 and s)
    main, child = sorted(second, key=lambda process: process.pid != status["main"]["pid"])
    assert main.rss is not None and main.rss > 1 << 20
    assert child.read_bytes is not None and child.read_bytes >= 3_000_000
    host.runs.stop(run)
    host.over(attempt)
    assert source.sample().processes == {}
