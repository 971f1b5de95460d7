"""Every file of hidden states, read once: its checksum in one thread, its rows and numbers in another.

What is held at once is bounded by the number of threads, however long a sample is.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline import states
from pipeline.dataset import Sample
from pipeline.gates import checksums, finite, origin, rows
from pipeline.gates.report import GateReport, failed
from pipeline.verifying.gathered import gather

READ = 1 << 20
THREADS = max(2, min(8, len(os.sched_getaffinity(0))))


@dataclass
class Found:
    """What the gates said of each sample's file."""

    verdicts: dict[str, dict[int, GateReport]] = field(
        default_factory=lambda: {gate: {} for gate in (checksums.GATE, origin.GATE, rows.GATE, finite.GATE)}
    )
    bytes: int = 0
    largest: float = 0.0
    """Of the absolute values."""

    def reports(self, samples: Sequence[Sample]) -> list[GateReport]:
        tokens = sum(len(sample.token_ids) for sample in samples)
        good = {
            checksums.GATE: f"The {len(samples)} files ({self.bytes} bytes) are as they were written.",
            origin.GATE: f"All {len(samples)} samples are of the run's target, tokenizer, layers and settings.",
            rows.GATE: f"{tokens} rows for the {tokens} tokens of {len(samples)} samples, in every layer.",
            finite.GATE: f"The states of {tokens} tokens are finite and not zero, up to {self.largest:.3g}.",
        }
        return [
            report for gate, verdicts in self.verdicts.items() for report in gather(gate, verdicts, samples, good[gate])
        ]

    def faulty(self) -> dict[int, str]:
        """Index of each sample with a fault of its own → the fault's name."""
        found: dict[int, str] = {}
        for gate, verdicts in self.verdicts.items():
            for index, report in verdicts.items():
                if not report.passed and gate != origin.GATE:  # extract refuses these itself
                    found.setdefault(index, report.fault)
        return found


def look(
    folder: Path,
    samples: Sequence[Sample],
    entries: Mapping[int, Mapping[str, Any]],
    wanted: Mapping[str, Any],
    layers: int,
    tell: Callable[[int], None],
    words: int,
) -> Found:
    """Asks the gates about every sample's file. `wanted` is the run's origin; `tell` is called with the number of
    samples that were read since the last call, at most `words` times in all."""
    found, untold = Found(), 0
    with ThreadPoolExecutor(THREADS) as pool:
        for sample, digest, judged in _in_flight(pool, folder, samples, layers):
            entry = entries.get(sample.index)
            sha, size, whole = digest.result()
            verdict = checksums.check(entry, sample.digest, sha, size, whole)
            found.bytes += size
            found.verdicts[checksums.GATE][sample.index] = verdict
            if entry is not None:
                found.verdicts[origin.GATE][sample.index] = origin.check(entry, wanted)
            inside = judged.result()
            if isinstance(inside, _Inside):
                if verdict.passed or verdict.fault == "altered file":
                    found.largest = max(found.largest, inside.largest)
                    for report in inside.reports:
                        found.verdicts[report.gate][sample.index] = report
            elif verdict.passed:
                told = f"Its {size} bytes are as they were written, and cannot be read as hidden states: {inside}."
                found.verdicts[rows.GATE][sample.index] = failed(rows.GATE, "unreadable file", told)
            untold += 1
            if untold * words >= len(samples):
                tell(untold)
                untold = 0
        if untold:
            tell(untold)
    return found


@dataclass(frozen=True)
class _Inside:
    reports: tuple[GateReport, ...]
    largest: float


_Pending = tuple[Sample, "Future[tuple[str, int, int]]", "Future[_Inside | str]"]


def _in_flight(pool: ThreadPoolExecutor, folder: Path, samples: Sequence[Sample], layers: int) -> Iterator[_Pending]:
    """Each sample with its two tasks, in order; a few samples ahead are being read meanwhile."""
    waiting: list[_Pending] = []
    for sample in samples:
        path = folder / f"hs_{sample.index}.safetensors"
        waiting.append((sample, pool.submit(_digest, path), pool.submit(_inside, path, sample, layers)))
        if len(waiting) > THREADS:
            yield waiting.pop(0)
    yield from waiting


def _digest(path: Path) -> tuple[str, int, int]:
    """(sha256, size in bytes, size that the header tells of); ("", 0, 0) where there is no file."""
    found = hashlib.sha256()
    size = 0
    try:
        with path.open("rb") as file:
            while block := file.read(READ):
                found.update(block)
                size += len(block)
    except OSError:
        return checksums.MISSING, 0, 0
    return found.hexdigest(), size, states.whole_size(path)


def _inside(path: Path, sample: Sample, layers: int) -> _Inside | str:
    """What the gates say of the content; why it cannot be read, which its checksum mostly tells better."""
    largest = 0.0
    try:
        with states.opened(path) as file:
            shape = rows.check(file, file.token_ids, sample.token_ids, layers)
            reports = [shape]
            if len(file.shape) == 3:
                for first, block in file.blocks():
                    numbers = finite.check(block, first)
                    if not numbers.passed:
                        reports.append(numbers)
                        break
                    largest = max(largest, float(block.abs().max()))
    except Exception as error:  # whatever a file cut off or written over makes its reader raise
        return f"{type(error).__name__}: {error}"
    return _Inside(tuple(reports), largest)
