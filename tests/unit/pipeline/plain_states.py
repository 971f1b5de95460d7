"""States of bytes: torch is in the stage environments only, and what a file holds is tested there."""

from __future__ import annotations

import hashlib
from pathlib import Path

from pipeline.dataset import Sample
from pipeline.sample_files import NotFinite


class States(bytes):
    """Stands for what an engine has for one sample."""

    finite = True
    discarded = False

    @property
    def nbytes(self) -> int:
        return len(self)

    def write(self, path: Path, sample: Sample, form: str) -> str:
        if not self.finite:
            raise NotFinite(sample.index, f"sample {sample.index} is not finite")
        path.write_bytes(self)
        return hashlib.sha256(self).hexdigest()

    def discard(self) -> None:
        self.discarded = True


def states(sample: Sample) -> States:
    return States(f"states of {sample.index}".encode())
