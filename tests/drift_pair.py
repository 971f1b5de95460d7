"""A small caller and a small callee, written as fixtures for the drift probe: they fit until a test changes one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

GENERATOR = "speculators/generator.py"
EXTENSION = "speculators/extension.py"
ENGINE = "vllm/v1/engine/core.py"
EXECUTOR = "vllm/v1/executor/multi.py"
SCHEDULER = "vllm/v1/core/scheduler.py"
CACHE = "vllm/config/cache.py"
MODELS = "vllm/model_executor/models"
WORKER = "vllm/v1/worker/gpu_worker.py"

FILES = {
    "speculators-0.3.0.dist-info/METADATA": "Metadata-Version: 2.4\nName: speculators\nVersion: 0.3.0\n",
    "vllm-0.16.0.dist-info/METADATA": "Metadata-Version: 2.4\nName: vllm\nVersion: 0.16.0\n",
    "speculators/__init__.py": "",
    GENERATOR: """
import torch
from vllm.config import CacheConfig, ParallelConfig
from vllm.v1.core.scheduler import Scheduler
from vllm.v1.executor.multi import MultiprocExecutor


class Generator:
    def __init__(self, size: int):
        self.config = CacheConfig(block_size=size)
        self.parallel = ParallelConfig(worker_extension_cls="speculators.extension.Extension")
        self.executor = MultiprocExecutor(vllm_config=self.config)
        self.scheduler = Scheduler(vllm_config=self.config)

    def generate(self):
        while (output := self.scheduler.schedule()).total > 0:
            self.executor.execute_model(output)
        replies = self.executor.collective_rpc("_get_states", unique_reply_rank=0)
        return replies[0]
""",
    EXTENSION: """
import types

from vllm.model_executor.models.interfaces import supports_eagle3


def _forward(self, input_ids, positions, inputs_embeds=None):
    hidden, residual = self.embed(input_ids), None
    for layer in self.layers[self.start : self.end]:
        hidden, residual = layer(positions=positions, hidden_states=hidden, residual=residual)
    self._extension.keep(hidden)
    return self.norm(hidden)


class Extension:
    def _get_states(self):
        return self.model_runner.input_batch

    def _bind(self):
        model = self.model_runner.model
        if not supports_eagle3(model):
            raise ValueError
        decoder = model.model
        decoder._extension = self
        decoder.forward = types.MethodType(_forward, decoder)
""",
    "vllm/__init__.py": "",
    "vllm/envs.py": "VLLM_NEW_RUNNER: bool = False\n",
    "vllm/config/__init__.py": "from vllm.config.cache import *\nfrom .parallel import ParallelConfig\n",
    CACHE: """
from dataclasses import field

from vllm.config.utils import config


@config
class CacheConfig:
    block_size: int = field(default=16)
    enable_prefix_caching: bool | None = None
    swap: float = 4
""",
    "vllm/config/parallel.py": """
from pydantic.dataclasses import dataclass


@dataclass
class ParallelConfig:
    worker_extension_cls: str = ""
""",
    "vllm/config/utils.py": "def config(cls): ...\n",
    "vllm/hashing.py": "def get_hasher(size): ...\n",
    ENGINE: """
from vllm.hashing import get_hasher


class EngineCore:
    def __init__(self, vllm_config, executor_class):
        self.model_executor = executor_class(vllm_config)
        if vllm_config.cache_config.enable_prefix_caching or self.connector is not None:
            self.hasher = get_hasher(16)

    def step(self):
        scheduler_output = self.scheduler.schedule()
        future = self.model_executor.execute_model(scheduler_output)
        model_output = future.result()
        return model_output
""",
    "vllm/v1/executor/abstract.py": """
class Executor:
    def execute_model(self, scheduler_output):
        raise NotImplementedError
""",
    EXECUTOR: """
from typing import Any

from vllm.v1.executor.abstract import Executor


class MultiprocExecutor(Executor):
    def __init__(self, vllm_config, monitor=True):
        self.workers = []

    def collective_rpc(self, method, args=(), unique_reply_rank=None) -> list[Any]:
        return [worker(method) for worker in self.workers]
""",
    "vllm/v1/core/interface.py": "class SchedulerInterface:\n    def schedule(self): ...\n",
    SCHEDULER: """
from vllm.v1.core.interface import SchedulerInterface
from vllm.v1.core.output import SchedulerOutput


class Scheduler(SchedulerInterface):
    def __init__(self, vllm_config, log_stats=False):
        if vllm_config.swap:
            self.swap = 1

    def schedule(self) -> SchedulerOutput:
        return SchedulerOutput(total=0)
""",
    "vllm/v1/core/output.py": """
from dataclasses import dataclass


@dataclass
class SchedulerOutput:
    total: int
""",
    WORKER: """
from vllm import envs


class Worker:
    def __init__(self):
        self.use_new = envs.VLLM_NEW_RUNNER
        if self.use_new:
            from vllm.v1.worker.new_runner import GPUModelRunner as New

            self.model_runner: GPUModelRunner = New()
        else:
            from vllm.v1.worker.gpu_model_runner import GPUModelRunner as Old

            self.model_runner = Old()
""",
    "vllm/v1/worker/gpu_model_runner.py": (
        "class GPUModelRunner:\n    def __init__(self):\n        self.input_batch = self.model = None\n"
    ),
    "vllm/v1/worker/new_runner.py": "class GPUModelRunner:\n    def __init__(self):\n        self.model = None\n",
    f"{MODELS}/interfaces.py": """
class SupportsEagle3: ...


def supports_eagle3(model) -> "TypeIs[SupportsEagle3]": ...
""",
    f"{MODELS}/registry.py": 'MODELS = {"LlamaForCausalLM": ("llama", "LlamaForCausalLM")}\n',
    f"{MODELS}/llama.py": """
from torch import nn

from vllm.model_executor.models.interfaces import SupportsEagle3


class LlamaDecoderLayer(nn.Module):
    def forward(self, positions, hidden_states, residual): ...


class LlamaModel(nn.Module):
    def __init__(self):
        self.layers, self.norm, self.start, self.end = [LlamaDecoderLayer()], None, 0, 1

    def embed(self, ids): ...

    def forward(self, input_ids, positions, inputs_embeds=None): ...


class LlamaForCausalLM(nn.Module, SupportsEagle3):
    def __init__(self):
        self.model = LlamaModel()
""",
}


@dataclass
class Pair:
    """An environment's site-packages with the two of them."""

    site: Path

    def write(self) -> None:
        for name, text in FILES.items():
            self.put(name, text)

    def put(self, name: str, text: str) -> None:
        path = self.site / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def change(self, name: str, old: str, new: str) -> None:
        """Replaces a text in a file, which must be there."""
        text = (self.site / name).read_text()
        assert old in text, f"{name} has no {old!r}"
        (self.site / name).write_text(text.replace(old, new))

    def line(self, name: str, text: str) -> int:
        """Number of the first line that holds the text."""
        lines = (self.site / name).read_text().splitlines()
        return next(i for i, line in enumerate(lines, 1) if text in line)
