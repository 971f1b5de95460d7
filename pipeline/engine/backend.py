"""The ways to have hidden states, and which of them the stage's environment offers.

Each is a module with a class `Engine(target, layers, max_length, tensor_parallel, dtype)`, `layers` in its own
convention: a context manager whose `generate(prompts)` gives one tensor [S, L, H] for each prompt, one row for each
token, or raises StageError; `take(prompts)` gives the same in the form that it has it in, for `pipeline.writing`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from pipeline.layers import Layers
from pipeline.report import StageError
from pipeline.sample_files import Taken

AUTO = "auto"
NATIVE = "native"
_NEEDS = {
    NATIVE: ("vllm/distributed/kv_transfer/kv_connector/v1/example_hidden_states_connector.py",),
    "generator": ("vllm/__init__.py", "speculators/data_generation/vllm_hidden_states_generator.py"),
    "transformers": ("transformers/__init__.py",),
}
"""Backend → the files that it is made of, below site-packages; the best one first."""
BACKENDS = (AUTO, *_NEEDS)


class Engine(Protocol):
    """A loaded target."""

    def __enter__(self) -> Engine: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None: ...

    def generate(self, prompts: Sequence[Sequence[int]]) -> list[Any]: ...

    def captured(self, prompts: Sequence[Sequence[int]]) -> list[Any]:
        """As `generate`, with whatever rows there are: nothing is refused."""

    @property
    def step_tokens(self) -> int:
        """Tokens of prompts that it takes in one step; 0 where nothing limits a step."""

    def next_tokens(self, prompt: Sequence[int], first: int, count: int) -> Any:
        """Log-probabilities [count, V] behind the positions from `first` on; -inf where they are not told."""

    def take(self, prompts: Sequence[Sequence[int]]) -> Iterable[Taken]: ...

    @property
    def queues(self) -> bool:
        """Whether `take` only hands the prompts on, and what then runs together is not what a call asked for: so more
        may be asked for before what was asked is taken."""


def offered(path: Sequence[str] | None = None) -> list[str]:
    """Backends that the environment has, the best one first. Nothing is imported: patches come before that."""
    roots = [Path(entry) for entry in (sys.path if path is None else path) if entry]
    return [name for name, files in _NEEDS.items() if all(any((r / f).is_file() for r in roots) for f in files)]


def choose(wanted: str, path: Sequence[str] | None = None, endpoint: str = "") -> str:
    """The backend to use; what a server has, at `endpoint`, is `native`. Raises StageError when the environment does
    not offer it."""
    if endpoint:
        return NATIVE
    found = offered(path)
    if wanted == AUTO and found:
        return found[0]
    if wanted in found:
        return wanted
    asked = "hidden states" if wanted == AUTO else f"the backend {wanted}, which stage.extract.backend asks for"
    raise StageError(
        f"The environment of {sys.executable} does not offer {asked}: it has "
        f"{', '.join(found) or 'neither vLLM with speculators nor transformers'}. Correct the setting, or name another "
        "environment in [host.NAME.environment.PAIR]."
    )


def engine(
    name: str,
    target: Path,
    layers: Layers,
    max_length: int,
    tensor_parallel: int,
    dtype: str,
    scratch: Path,
    endpoint: str = "",
) -> Engine:
    """Loads a target, or finds the server at `endpoint` that has. Activate the driver's patches before. `scratch`: an
    empty folder on a disk with room."""
    if endpoint:
        from pipeline.engine import served

        return served.Engine(target, layers.vllm_ids, max_length, dtype, endpoint)
    match name:
        case "native":
            from pipeline.engine import native

            return native.Engine(target, layers.vllm_ids, max_length, tensor_parallel, dtype, scratch)
        case "generator":
            from pipeline.engine import generator

            return generator.Engine(target, layers.output_indices, max_length, tensor_parallel, dtype)
    from pipeline.engine import forward

    return forward.Engine(target, layers.output_indices, max_length, tensor_parallel, dtype)
