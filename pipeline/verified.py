"""The verdict of the stage `verify`, `products/verify.json`; what learns from the data asks for it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from pipeline import files, products, store
from pipeline.dataset import Sample
from pipeline.gates.report import GateReport
from pipeline.report import StageError


@dataclass(frozen=True)
class Verdict:
    """What the gates said of one data set."""

    data: str
    """`store.data_digest` of the samples that were judged."""
    reports: tuple[GateReport, ...]
    about: Mapping[str, Any] = field(default_factory=dict)
    """What else `verify` recorded: the attempt, what it compared with, by which code."""

    @property
    def faults(self) -> tuple[GateReport, ...]:
        return tuple(report for report in self.reports if not report.passed)

    @property
    def passed(self) -> bool:
        return bool(self.reports) and not self.faults


def write(verdict: Verdict) -> None:
    data = {
        "data": verdict.data,
        "passed": verdict.passed,
        "reports": [asdict(report) for report in verdict.reports],
        **verdict.about,
    }
    path = products.verdict()
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write_whole(path, json.dumps(data, indent=1).encode())


def read() -> Verdict | None:
    """The verdict on disk; None where there is none. Raises StageError when the file is no verdict."""
    path = products.verdict()
    try:
        data = dict(json.loads(path.read_text(encoding="utf-8")))
        reports = tuple(GateReport(**report) for report in data.pop("reports"))
        passed, digest = data.pop("passed"), str(data.pop("data"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StageError(f"{path} is no verdict ({error}); run the stage verify again.") from error
    verdict = Verdict(digest, reports, data)
    if passed is not verdict.passed:
        raise StageError(f"{path} contradicts itself: passed is {passed!r}; run the stage verify again.")
    return verdict


def require(samples: Sequence[Sample]) -> str:
    """The digest of the data, once `verify` has passed exactly these samples with the hidden states that are there.

    Raises StageError otherwise. Reads the manifest and the verdict, none of the files of states.
    """
    folder = products.hidden_states()
    verdict = read()
    if verdict is None:
        raise StageError(f"The hidden states in {folder} are not verified; run the stage verify first.")
    if not verdict.passed:
        fault = verdict.faults[0].fault if verdict.faults else "nothing"
        raise StageError(
            f"The hidden states in {folder} must not be trained on: verify found {fault} "
            f"({products.verdict()}). Do what it says, then run extract and verify again."
        )
    digest = store.data_digest(folder, samples)
    if digest != verdict.data:
        raise StageError(
            f"The hidden states in {folder} or the samples have changed since verify passed them; run the stage verify "
            "again."
        )
    return digest


def require_files(samples: Sequence[Sample]) -> None:
    """Raises StageError unless the states of every sample are on disk, as long as they were when they were extracted.

    Looks at each file without reading it: a trainer comes upon a missing one only when its turn comes.
    """
    folder = products.hidden_states()
    known = store.entries(folder)
    for sample in samples:
        path = folder / f"hs_{sample.index}.safetensors"
        size = next(iter(known.get(sample.index, {}).get("stamp") or ()), None)
        try:
            found = path.stat().st_size
        except OSError as error:
            told = f"cannot be read ({error.strerror})"
        else:
            if size in (None, found):
                continue
            told = f"has {found} of {size} bytes"
        raise StageError(f"{path} {told} since verify passed it; relaunch extract, which does it again, then verify.")
