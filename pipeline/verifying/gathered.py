"""Many verdicts of one gate, one a sample, as few reports: one for each fault found, or one that all passed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pipeline.dataset import Sample
from pipeline.gates.report import GateReport, failed, passed

Verdicts = Mapping[int, GateReport]
"""Index of the sample → what a gate said of it."""


def gather(gate: str, verdicts: Verdicts, samples: Sequence[Sample], good: str) -> list[GateReport]:
    """`good` is the sentence when all passed."""
    places = {sample.index: sample.place for sample in samples}
    wrong: dict[str, list[int]] = {}
    for index, report in verdicts.items():
        if not report.passed:
            wrong.setdefault(report.fault, []).append(index)
    if not wrong:
        return [passed(gate, good)]
    reports = []
    for fault, indices in sorted(wrong.items(), key=lambda item: -len(item[1])):
        first = indices[0]
        place = f" ({places[first]})" if places.get(first) else ""
        others = f", the first sample {first}{place}" if len(indices) > 1 else f", sample {first}{place}"
        reports.append(
            failed(gate, fault, f"{len(indices)} of {len(samples)} samples{others}: {verdicts[first].sentence}")
        )
    return reports
