"""The figures by which two runs are compared: digests of what they learnt from, and what came of it.

Taken from the records of a run, by their names in a run's archive. No I/O.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Files = Mapping[str, bytes]
Figures = dict[str, Any]
"""Name -> text (a digest) or number."""
MEASURED = ("train", "evaluate")
"""Stages whose latest figures count."""
PACE = ("_s", "_per_s", "seconds", "speedup", "speed_up", "_gb", "_bytes")
"""Ends of names that say how fast or how large, not how well: another machine has others."""
SAMPLES = "products/dataset/dataset.jsonl"
VERDICT = "products/verify.json"
VOCABULARY = "products/vocabulary/vocabulary.json"
TOKENIZER = "products/target/tokenizer.json"
"""Of a target that the run made, from the docstrings of the host's Python."""


@dataclass(frozen=True)
class Compared:
    name: str
    expected: Any
    found: Any
    """None where the run has no such figure."""

    @property
    def equal(self) -> bool:
        return bool(self.expected == self.found)

    @property
    def told(self) -> str:
        """`acceptance/stdlib/served: 3.082, equal`, or how far off."""
        shown = _short(self.expected)
        if self.equal:
            return f"{self.name}: {shown}, equal"
        if self.found is None:
            return f"{self.name}: {shown} in the bundle, nothing here"
        if isinstance(self.expected, str) or isinstance(self.found, str):
            return f"{self.name}: {shown} in the bundle, {_short(self.found)} here"
        off = self.found - self.expected
        share = f", {off / abs(self.expected):+.2%}" if self.expected else ""
        return f"{self.name}: {shown} in the bundle, {_short(self.found)} here: off by {off:+.4g}{share}"


def needed(path: str) -> bool:
    """Whether `figures` reads that file."""
    parts = path.split("/")
    events = parts[0] == "attempts" and parts[1:2] and parts[1] in MEASURED and parts[-1] == "events.jsonl"
    return bool(events) or path in (SAMPLES, VERDICT, VOCABULARY, TOKENIZER)


def figures(files: Files) -> Figures:
    """Every figure that the files of one run hold."""
    found: Figures = {}
    samples = files.get(SAMPLES)
    if samples is not None:
        found["samples"] = _samples_digest(samples)
    if TOKENIZER in files:
        found["tokenizer"] = hashlib.sha256(files[TOKENIZER]).hexdigest()
    verdict = _object(files.get(VERDICT))
    if isinstance(verdict.get("data"), str):
        found["data"] = verdict["data"]
    coverage = _object(files.get(VOCABULARY)).get("coverage")
    if isinstance(coverage, int | float):
        found["vocabulary coverage"] = coverage
    for stage in MEASURED:
        found.update(_measured(files, stage))
    return found


def compare(expected: Figures, found: Figures) -> tuple[Compared, ...]:
    return tuple(Compared(name, value, found.get(name)) for name, value in expected.items())


def verdict(compared: Iterable[Compared]) -> str:
    """`All 12 figures are equal to the bundle's.`, or how many are not, and how far off the worst is."""
    every = list(compared)
    off = [one for one in every if not one.equal]
    if not every:
        return "The bundle holds no figures to compare with."
    if not off:
        return f"All {len(every)} figures are equal to the bundle's."
    shares = [share for one in off if (share := _share(one)) is not None]
    worst = f", the furthest by {max(shares):.2%}" if shares else ""
    return f"{len(every) - len(off)} of {len(every)} figures are equal to the bundle's; {len(off)} are off{worst}."


def _share(one: Compared) -> float | None:
    numbers = isinstance(one.expected, int | float) and isinstance(one.found, int | float)
    return abs(one.found - one.expected) / abs(one.expected) if numbers and one.expected else None


def _measured(files: Files, stage: str) -> Iterator[tuple[str, Any]]:
    """Latest value of each figure that the stage's last attempt reported."""
    numbers = [int(path.split("/")[2]) for path in files if path.startswith(f"attempts/{stage}/")]
    events = files.get(f"attempts/{stage}/{max(numbers)}/events.jsonl", b"") if numbers else b""
    latest: Figures = {}
    for line in events.splitlines():
        event = _object(line)
        name, value = event.get("name"), event.get("value")
        if event.get("kind") != "metric" or not isinstance(name, str) or not isinstance(value, int | float):
            continue
        if math.isfinite(value) and not any(part.endswith(PACE) for part in name.split("/")):
            latest[name] = value
    for name, value in latest.items():
        yield f"{stage}: {name}", value


def _samples_digest(data: bytes) -> str:
    """sha256 over token ids and masks: where a conversation was read from does not count."""
    found = hashlib.sha256()
    for line in data.splitlines():
        row = _object(line)
        found.update(json.dumps([row.get("token_ids"), row.get("loss_mask")]).encode())
    return found.hexdigest()


def _object(data: bytes | None) -> dict[str, Any]:
    try:
        value = json.loads(data or b"{}")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _short(value: Any) -> str:
    return value[:12] if isinstance(value, str) else f"{value:.6g}" if isinstance(value, float) else str(value)
