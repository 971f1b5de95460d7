"""One sample's hidden states as a file of safetensors: what an engine made, checked, and written without copies.

Two forms, both read by speculators: `full` is `{"hidden_states": [S, L, H], "token_ids": int64 [S]}` in the engine's
dtype; `fp8`, of hs-connectors (`--hidden-states-backend fp8`), has the states as float8_e4m3fn and beside them
`"hidden_states_scales": float32 [S, 1, 1]`, the largest value of a token by 448.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import mmap
import os
import shutil
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from pipeline.dataset import Sample
from pipeline.report import StageError

FULL = "full"
FP8 = "fp8"
FORMS = (FULL, FP8)
SCALES = "hidden_states_scales"
_NAMES = {"bfloat16": "BF16", "float16": "F16", "float32": "F32", "float8_e4m3fn": "F8_E4M3", "int64": "I64"}
_LARGEST = 448.0
"""Of float8_e4m3fn."""
_WIDE = 16 << 20
"""Bytes of states in 32-bit floats that are quantised at once."""


class NotFinite(StageError):
    """Hidden states with a NaN or an infinity; nothing was written. `index` is the sample's."""

    def __init__(self, index: int, message: str) -> None:
        super().__init__(message)
        self.index = index


class Taken(Protocol):
    """What an engine has for one sample."""

    @property
    def nbytes(self) -> int: ...

    def write(self, path: Path, sample: Sample, form: str) -> str:
        """Makes the file `path`, whole and synced, and returns its sha256. Raises NotFinite, StageError, OSError."""
        ...

    def discard(self) -> None:
        """It will not be written."""
        ...


class Computed:
    """States in memory: a tensor [S, L, H] on the CPU."""

    def __init__(self, states: Any) -> None:
        self.states = states

    @property
    def nbytes(self) -> int:
        return int(self.states.nbytes)

    def write(self, path: Path, sample: Sample, form: str) -> str:
        require_finite(self.states, sample)
        found = hashlib.sha256()
        with path.open("wb", buffering=0) as file:
            for block in serialised(sample, self.states, form):
                found.update(block)
                rest = memoryview(block)
                while rest:
                    rest = rest[file.write(rest) or 0 :]
            os.fsync(file.fileno())
        return found.hexdigest()

    def discard(self) -> None:
        self.states = None


class Written:
    """States in a file that vLLM's connector has written, or is about to. `layers` is their number."""

    def __init__(self, path: Path, layers: int) -> None:
        self.path = path
        self.lock = path.with_name(f"{path.name}.lock")
        self.layers = layers

    @property
    def nbytes(self) -> int:
        """Of memory, and of the disk beside what vLLM takes anyway."""
        return 0

    def write(self, path: Path, sample: Sample, form: str) -> str:
        self._wait()
        try:
            with self.path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as data:
                states = self._checked(data, sample)
                require_finite(states, sample)
                if form == FP8:
                    digest = Computed(states).write(path, sample, form)
                else:
                    digest = hashlib.sha256(data).hexdigest()
                    os.fsync(file.fileno())
                del states  # the mapping cannot be closed below a tensor
        except (FileNotFoundError, ValueError, KeyError) as error:
            raise StageError(
                f"vLLM wrote no whole file of hidden states for sample {sample.index} ({self.path}: {error}); the "
                "reason is in the log above. Is the disk full, or not the one that this host sees?"
            ) from error
        if form == FULL:
            _move(self.path, path)
        self.discard()
        return digest

    def load(self, prompt: Sequence[int] | None = None) -> Any:
        """The tensor; the file is gone then. Without a prompt, with whatever rows it has."""
        self._wait()
        try:
            data = bytearray(self.path.read_bytes())
            tensors = parse(data)
            states = tensors["hidden_states"] if prompt is None else self._checked(data, Sample(0, tuple(prompt), ()))
        except (FileNotFoundError, ValueError, KeyError) as error:
            raise StageError(
                f"vLLM ended before it wrote the hidden states of a prompt ({self.path}: {error}); see the log above."
            ) from error
        self.discard()
        return states

    def discard(self) -> None:
        self._wait()  # else it would be written behind our back
        self.path.unlink(missing_ok=True)
        self.lock.unlink(missing_ok=True)

    def _wait(self) -> None:
        """Sleeps until vLLM has written the file: till then it holds the lock."""
        try:
            handle = os.open(self.lock, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:  # older connectors write before they answer
            return
        try:
            fcntl.flock(handle, fcntl.LOCK_SH)
        finally:
            os.close(handle)

    def _checked(self, data: Any, sample: Sample) -> Any:
        tensors = parse(data)
        states, tokens = tensors["hidden_states"], tensors["token_ids"].tolist()
        if tokens != list(sample.token_ids) or tuple(states.shape[:2]) != (len(tokens), self.layers):
            raise StageError(
                f"Sample {sample.index} has {len(sample.token_ids)} tokens, and vLLM wrote hidden states of shape "
                f"{tuple(states.shape)} for {len(tokens)} tokens in {self.path.name}; nothing of it is kept."
            )
        return states


def parse(data: Any) -> dict[str, Any]:
    """The tensors of a whole file of safetensors, which share the (writable) memory of `data`."""
    import torch

    dtypes = {name: getattr(torch, kind) for kind, name in _NAMES.items()}
    size = int.from_bytes(data[:8], "little")
    if not 0 < size <= len(data) - 8:
        raise ValueError("cut off")
    tensors = {}
    for name, about in json.loads(data[8 : 8 + size]).items():
        if name == "__metadata__":
            continue
        start, end = (8 + size + offset for offset in about["data_offsets"])
        if end > len(data):
            raise ValueError("cut off")
        flat = torch.frombuffer(data, dtype=torch.uint8, count=end - start, offset=start)
        tensors[name] = flat.view(dtypes[about["dtype"]]).view(about["shape"])
    return tensors


def require_finite(states: Any, sample: Sample) -> None:
    """Raises NotFinite. One pass: a NaN carries through the smallest and the largest value."""
    import torch

    low, high = torch.aminmax(states)
    if not bool(torch.isfinite(torch.stack((low, high))).all()):
        raise NotFinite(
            sample.index,
            f"The hidden states of sample {sample.index} ({sample.place or 'no place known'}) are not finite (smallest "
            f"{float(low)}, largest {float(high)}).",
        )


def serialised(sample: Sample, states: Any, form: str) -> list[Any]:
    """The file's bytes, in blocks that share the tensors' memory; the order of tensors is that of safetensors' own."""
    import torch

    tensors = {"token_ids": torch.frombuffer(array("q", sample.token_ids), dtype=torch.int64)}
    if form == FP8:
        states, tensors[SCALES] = quantised(states)
    tensors["hidden_states"] = states.contiguous()
    head: dict[str, Any] = {}
    end = 0
    for name, tensor in tensors.items():
        start, end = end, end + tensor.nbytes
        kind = _NAMES[str(tensor.dtype).removeprefix("torch.")]
        head[name] = {"dtype": kind, "shape": list(tensor.shape), "data_offsets": [start, end]}
    text = json.dumps(head, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    data = (tensor.reshape(-1).view(torch.uint8).numpy() for tensor in tensors.values())
    return [len(text).to_bytes(8, "little") + text, *data]


def quantised(states: Any) -> tuple[Any, Any]:
    """(float8_e4m3fn [S, L, H], float32 [S, 1, 1]), as hs-connectors quantises, but some tokens at a time: in 32-bit
    floats a long sample takes many times its memory."""
    import torch

    made = torch.empty(states.shape, dtype=torch.float8_e4m3fn)
    scales = torch.empty((len(states), 1, 1), dtype=torch.float32)
    step = max(1, _WIDE // (4 * states.shape[1] * states.shape[2]))
    for start in range(0, len(states), step):
        rows = slice(start, start + step)
        wide = states[rows].float()
        scales[rows] = (wide.abs().amax(dim=(1, 2), keepdim=True) / _LARGEST).clamp(min=1e-12)
        made[rows] = (wide / scales[rows]).to(torch.float8_e4m3fn)
    return made, scales


def restored(states: Any, scales: Any) -> Any:
    """States [S, L, H] in bfloat16 from 8-bit floats and their scales [S, 1, 1], as hs-connectors does it."""
    import torch

    return states.to(torch.bfloat16) * scales.to(torch.bfloat16)


def _move(source: Path, target: Path) -> None:
    """Also from another disk, whole and synced."""
    try:
        source.replace(target)
    except OSError:
        with source.open("rb") as taken, target.open("wb") as file:
            shutil.copyfileobj(taken, file, 1 << 20)
            file.flush()
            os.fsync(file.fileno())
