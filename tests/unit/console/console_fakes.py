"""A host that answers from memory, and a story to show: the block_hashes failure and the patch that mends it."""

from __future__ import annotations

import base64
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from compat.drift.finding import Finding, Place
from compat.drift.probe import Report
from compat.drift.report import Judged
from compat.patch import PatchStatus, Switches
from remote import protocol
from remote.agent.error_places import ErrorPlaces
from remote.agent.files import file_id
from remote.agent.layout import Attempt
from remote.agent.pages import Pages
from remote.logs.findings import Findings, Frame, Progress, Traceback
from remote.protocol import RemoteError
from remote.views import (
    DONE,
    FAILED,
    RUNNING,
    AttemptView,
    GpuView,
    PatchReport,
    ProcessView,
    RunView,
    StageProgress,
    StageView,
    TelemetryView,
)
from remote.wire import to_wire

RUN = "20260301T031500Z-5eed0001"
GIB = 1 << 30


DRIFT = (
    Finding(
        "fails",
        "missing-argument",
        "Scheduler.__init__",
        "block_size",
        "calls Scheduler.__init__ without 'block_size', which it requires",
        Place("speculators/data_generation/vllm_hidden_states_generator.py", 148, "VllmHiddenStatesGenerator.generate"),
        patch="scheduler-block-size",
    ),
    Finding(
        "silent",
        "changed-default",
        "CacheConfig",
        "odd",
        "leaves CacheConfig's odd at its default",
        Place("speculators/config.py", 3, "make"),
    ),
)


@dataclass(frozen=True)
class LinkState:
    phase: str
    detail: str = ""
    remedy: str = ""
    retry_in: float | None = None
    host: str = "gpu-box"


@dataclass
class FakeProject:
    name: str = "story"
    folder: Path = Path("/projects/story")
    host: Any = field(default_factory=lambda: SimpleNamespace(name="gpu-box"))
    saved: list[tuple[str, str]] = field(default_factory=list)

    def switches(self) -> Switches:
        return Switches()

    def set_switch(self, patch: str, to: str) -> None:
        self.saved.append((patch, to))

    def start_params(self) -> dict[str, Any]:
        return {"project": self.name, "settings": {"run": {}}, "switches": {"mode": "auto"}, "secrets": {}}


class FakeSession:
    """Answers at once; what was asked is in `requests`. The log is a file, looked up by the agent's own code."""

    def __init__(self, run: RunView | None = None, patches: tuple[PatchStatus, ...] = (), log: bytes = b"") -> None:
        self.run = run
        self.patches = patches
        self.log = log
        self.host = "gpu-box"
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.refuse: dict[str, RemoteError] = {}
        self.sample: TelemetryView | None = None
        self.troubles: list[str] = []
        self.drift = Judged(Report("/env", ("speculators 0.3.0",), "vLLM 0.16.0", (), DRIFT), {}, 1)
        self.question: Callable[[Any], None] | None = None
        self.tails: list[tuple[str, str, str, int, int]] = []
        self.untailed: list[str] = []
        self.closed = threading.Event()
        self.link = LinkState("connected", host=self.host)
        self._folder = tempfile.TemporaryDirectory()
        self._pages = Pages()
        self._errors = ErrorPlaces(self._pages)

    def factory(
        self, asker: Any, on_link: Callable[[Any], None], on_push: Callable[[Mapping[str, Any]], None]
    ) -> FakeSession:
        self.asker, self.on_link, self.on_push = asker, on_link, on_push
        return self

    def start(self) -> None:
        self.on_link(replace(self.link, host=self.host))

    def request(self, op: str, /, **params: Any) -> dict[str, Any]:
        self.requests.append((op, params))
        if op in self.refuse:
            raise self.refuse[op]
        view = to_wire(self.run) if self.run else None
        match op:
            case protocol.LIST:
                return {"runs": [view] if view else []}
            case protocol.SHOW:
                return {"run": view}
            case protocol.PATCHES:
                return {"patches": to_wire(self.patches), "environment": [], "troubles": self.troubles}
            case protocol.DRIFT:
                return {"drift": to_wire(self.drift)}
            case protocol.START:
                return {"run": self.run.run if self.run else RUN}
            case protocol.RELAUNCH:
                return {"run": params["run"], "stage": params["stage"], "attempt": 2}
            case protocol.STOP:
                return {"stage": "extract", "attempt": 1}
            case protocol.PAGE:
                return self._pages.page(self.attempt, params)
            case protocol.SEARCH:
                search = self._errors.search if params.get("errors") else self._pages.search
                return search(self.attempt, params)
        raise AssertionError(op)

    @property
    def attempt(self) -> Attempt:
        """Every attempt's: the log is the same."""
        attempt = Attempt(f"{self._folder.name}/1")
        log = Path(attempt.log)
        log.parent.mkdir(exist_ok=True)
        if not log.exists() or log.read_bytes() != self.log:
            log.write_bytes(self.log)
        return attempt

    def asked(self, op: str) -> list[dict[str, Any]]:
        return [params for name, params in self.requests if name == op]

    def watch(self, run: str) -> None:
        self.push_run()

    def unwatch(self, run: str) -> None: ...

    def push_run(self) -> None:
        if self.run is not None:
            self.on_push({"ev": protocol.RUN, "run": to_wire(self.run)})

    def tail(self, key: str, run: str, stage: str, attempt: int, offset: int = 0, follow: bool = True) -> None:
        self.tails.append((key, run, stage, attempt, offset))
        self.push_log(self.log[offset:], key, offset)

    def push_log(self, data: bytes, key: str | None = None, offset: int = 0) -> None:
        key = key or self.tails[-1][0]
        self.log = self.log[:offset] + data
        encoded = base64.b64encode(data).decode()
        self.on_push({"ev": protocol.DATA, "tail": key, "offset": offset, "log_id": self.log_id, "data": encoded})

    @property
    def log_id(self) -> str:
        return file_id(Path(self.attempt.log).stat())

    def untail(self, key: str) -> None:
        self.untailed.append(key)

    def telemetry(self, on: bool, period: float) -> None:
        if self.sample is not None:
            self.on_push({"ev": protocol.SAMPLE, "sample": to_wire(self.sample)})

    def close(self) -> None:
        self.closed.set()


FRAMES = (
    Frame("/state/bundles/9f/pipeline/stages/extract.py", 214, "main", "    states = generator.generate(batch)"),
    Frame(
        "/env/lib/python3.11/site-packages/speculators/data_generation/vllm_hidden_states_generator.py",
        201,
        "generate",
        "    scheduler_output = self.scheduler.schedule()",
    ),
    Frame(
        "/env/lib/python3.11/site-packages/vllm/v1/core/sched/scheduler.py",
        612,
        "schedule",
        "    new_blocks = self.kv_cache_manager.allocate_slots(",
    ),
    Frame(
        "/env/lib/python3.11/site-packages/vllm/v1/core/block_pool.py",
        243,
        "cache_full_blocks",
        "    assert len(request.block_hashes) >= num_full_blocks",
    ),
)
ASSERTION = Traceback("AssertionError", "", FRAMES, workers=("EngineCore",), line=31, offset=0)
WRAPPER = Traceback(
    "RuntimeError",
    "Worker failed with error '', please check the stack trace above for the root cause",
    FRAMES[:2],
    worker="Worker_TP0",
    workers=("Worker_TP0", "Worker_TP1"),
    wrapper=True,
    caused_by=0,
    line=60,
    offset=0,
)

LOG_LINES = [f"INFO 03-01 03:{i // 60:02d}:{i % 60:02d} [gpu_model_runner.py:5274] step {i}" for i in range(30)]
LOG = ("\n".join(LOG_LINES) + "\n").encode()
TRACE_TEXT = (
    b"Traceback (most recent call last):\n"
    + b"".join(f'  File "{f.file}", line {f.line}, in {f.function}\n{f.source}\n'.encode() for f in FRAMES)
    + b"AssertionError\n"
)
FAILED_LOG = LOG + TRACE_TEXT + LOG


def failed_run() -> RunView:
    """Extract broke on the block_hashes assertion; everything before it is done."""
    ok = AttemptView(1, "exited", rc=0, elapsed=61.0, log_bytes=len(LOG), log_id="1:1", clean=True)
    bad = AttemptView(1, "exited", rc=1, elapsed=143.0, log_bytes=len(FAILED_LOG), log_id="1:2", clean=True)
    first = replace(ASSERTION, offset=len(LOG))
    second = replace(WRAPPER, offset=len(LOG) + len(TRACE_TEXT))
    findings = Findings(
        tracebacks=(first, second),
        root_cause=0,
        reason="it is the innermost failure; the other only reports it",
        lines_read=71,
    )
    return RunView(
        run=RUN,
        project="story",
        created=1772334900.0,
        pair="seed",
        versions={"speculators": "0.3.0", "vllm": "0.16.0"},
        stages=(
            StageView("provision", "stage environments", DONE, (ok,), notes=("reused from this user's cache, 8.3 GB",)),
            StageView("target", "tiny target model", DONE, (replace(ok, elapsed=41.0),), notes=("12 shards, 48 MiB",)),
            StageView("prepare", "conversations to tokens", DONE, (replace(ok, elapsed=3.2),), notes=("64 samples",)),
            StageView(
                "extract",
                "hidden states",
                FAILED,
                (bad,),
                findings=findings,
                metrics={"samples": 0.0, "tokens_per_second": 812.0},
                patches=(
                    PatchReport("prefix-caching", "driver", "off"),
                    PatchReport("scheduler-arguments", "driver", "active", "", "12ab" * 16, "34cd" * 16),
                ),
                artifacts=("products/hidden_states/manifest.jsonl",),
            ),
        ),
    )


def running_run(done: float = 24.0) -> RunView:
    """Extract is on its way."""
    run = failed_run()
    bars = (
        Progress("safetensors shards", 8, 16, worker="Worker_TP0", percent=50, eta_s=7.0, seconds=7.0),
        Progress("samples", 24, 64, eta_s=80.0),
    )
    extract = replace(
        run.stages[3],
        state=RUNNING,
        attempts=(AttemptView(1, "running", elapsed=63.0, log_bytes=len(LOG), log_id="1:2"),),
        progress=StageProgress("samples", done, 64.0, "samples", 80.0),
        findings=Findings(progress=bars),
        notes=("64 samples, 8 a batch",),
    )
    return replace(run, stages=(*run.stages[:3], extract))


def sample(count: int = 2, reason: str = "") -> TelemetryView:
    gpus = tuple(
        GpuView(
            index=i,
            uuid=f"GPU-{i}",
            name="NVIDIA H200",
            memory_used=int((15.5 + 16 * i) * GIB),
            memory_total=int(140.4 * GIB),
            utilization=(37 * i) % 101,
            power_w=148.0 + 60 * i,
            power_limit_w=700.0,
            temperature_c=41 + 6 * i,
            sm_clock_mhz=1980,
            throttle=("power cap",) if i == 5 else (),
            ecc_errors=0,
        )
        for i in range(count)
    )
    return TelemetryView(
        at=1772334900.0,
        gpus=gpus if count else None,
        gpu_reason=reason,
        memory_total=int(31.3 * GIB),
        memory_available=int(19.2 * GIB),
        load=(1.2, 1.0, 0.8),
        cpus=2,
        disk_total=98 * GIB,
        disk_free=int(40.2 * GIB),
        processes={
            f"{RUN}/extract/1": (
                ProcessView(4100, "python", rss=2 * GIB, cpu_percent=98.0, read_bytes=120 << 20),
                ProcessView(4218, "VLLM::Worker_TP0", rss=6 * GIB, cpu_percent=101.0, read_bytes=int(12.4 * GIB)),
                ProcessView(4219, "VLLM::Worker_TP1", rss=6 * GIB, cpu_percent=99.0, read_bytes=int(11.9 * GIB)),
            )
        },
    )


PATCHES = (
    PatchStatus(
        id="prefix-caching",
        title="The generator's requests have no block hashes",
        state="off",
        reason="needed (vllm/v1/core/block_pool.py:243 asserts block hashes) but switched off for this project",
        drift="D09",
        switch="off",
        speculators="==0.3.0",
        vllm=">=0.12,<0.17",
        cause="speculators 0.3.0 makes Request objects without a block hasher, while prefix caching is on by default "
        "since vLLM 0.12: the scheduler asserts that full blocks have hashes.",
        mend="Builds the engine's cache configuration with enable_prefix_caching=False.",
        symptoms=("AssertionError in cache_full_blocks, at ‹assert len(request.block_hashes) >= num_full_blocks›",),
        since="speculators 0.3.0 only; vLLM since 0.12, before 0.17",
        story="It gave the requests a block hasher instead, which silences the assertion and shifts rows.",
        digest="9f3c2d" * 10 + "0000",
        code='def apply() -> None:\n    default_arguments(generator_module(), "CacheConfig", _without_caching)\n\n'
        "def _without_caching(given: Mapping[str, Any]) -> Mapping[str, Any]:\n"
        '    return {"enable_prefix_caching": False}',
        replaces="speculators.data_generation.vllm_hidden_states_generator.VllmHiddenStatesGenerator._setup_scheduler",
        replaced_at="speculators/data_generation/vllm_hidden_states_generator.py:141",
        replaced_code="    def _setup_scheduler(self):\n        self.scheduler = Scheduler(\n"
        "            vllm_config=self.vllm_config,\n            kv_cache_config=self.kv_cache_config,\n        )\n",
        references=("https://github.com/vllm-project/vllm/pull/12345",),
        risk="A hasher instead would make the error go away and shift rows of cached prefixes: silently wrong states.",
    ),
    PatchStatus("scheduler-arguments", "Scheduler wants a block size", "active", "scheduler.py:88 asks for it", "D02"),
    PatchStatus("kv-cache-config", "get_kv_cache_config is plural now", "needed", "no such name any more", "D01"),
    PatchStatus(
        "short-sequences", "Truncated samples are kept", "needed", "generator.py:240", "D11", silent=True, gate="rows"
    ),
    PatchStatus("mla-forward", "DeepseekV2 layers forward", "not applicable", "the target is a Llama", "D05"),
)
