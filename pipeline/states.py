"""Reads a sample of hidden states, `hs_{index}.safetensors`, by rows: one of 100,000 tokens need not fit in memory.

Those stored in 8-bit floats (`pipeline.sample_files`) are read in bfloat16, as speculators reads them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pipeline.sample_files import SCALES, restored

BLOCK = 64 << 20
"""Bytes of states that are held at once, about."""
HEADER_CAP = 1 << 20
"""Bytes of the header of a sample at the most."""


def whole_size(path: Path) -> int:
    """Bytes that a safetensors file must have by its own header; 0 where that cannot be read."""
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(min(length, HEADER_CAP)))
        return 8 + length + max(int(entry["data_offsets"][1]) for name, entry in header.items() if name[:2] != "__")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError):
        return 0


class States:
    """An open sample. What it gives is [rows, layers, size], as it was stored."""

    def __init__(self, file: Any) -> None:
        self._states = file.get_slice("hidden_states")
        names: list[str] = list(file.keys())
        self._scales = file.get_tensor(SCALES) if SCALES in names else None
        self.shape: tuple[int, ...] = tuple(self._states.get_shape())
        self.token_ids: list[int] = file.get_tensor("token_ids").tolist()

    def rows(self, start: int, stop: int) -> Any:
        rows = self._states[start:stop]
        return rows if self._scales is None else restored(rows, self._scales[start:stop])

    def all(self) -> Any:
        return self.rows(0, self.shape[0])

    def blocks(self) -> Iterator[tuple[int, Any]]:
        """(first row, states of some rows), until all have come."""
        size = 1
        for extent in self.shape[1:]:
            size *= extent
        step = max(1, BLOCK // (4 * max(1, size)))
        for start in range(0, self.shape[0], step):
            yield start, self.rows(start, min(start + step, self.shape[0]))


@contextmanager
def opened(path: Path) -> Iterator[States]:
    """Raises what safetensors raises, OSError or its own, when the file cannot be read."""
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        yield States(file)
