"""The probe's hit table, as Markdown: each incompatibility's hits, the false alarms, and what each pair took."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import reports
from cells import Cell, Matrix
from live import FALSE, ITEMS, JUDGED

from compat.drift import Report

Cells = Mapping[Cell, tuple[Report, float]]


def write(matrix: Matrix) -> None:
    """Writes what this session looked at; nothing when it looked at nothing."""
    if matrix.cells:
        parts = (_hits(matrix.cells), _others(matrix.cells), _strangers(matrix), _pairs(matrix.cells))
        reports.write("drift-probe", f"# Drift probe over {len(matrix.cells)} pairs\n\n" + "\n".join(parts))


def _hits(cells: Cells) -> str:
    rows = []
    for item in ITEMS:
        there = {key for key, (report, _) in cells.items() if item.patch in {f.patch for f in report.findings}}
        meant = {key for key in cells if key.architecture == item.architecture}
        live = {key for key in meant if item.is_live(key.speculators, key.vllm)}
        if live:
            rows.append((item.drift, item.patch, f"{len(there & live)}/{len(live)}", len((there & meant) - live)))
    return "Hits / pairs in which the item is live:\n\n" + reports.table(("", "patch", "hits", "false alarms"), rows)


def _others(cells: Cells) -> str:
    counts: Counter[tuple[str, str, str]] = Counter()
    for report, _ in (found for key, found in cells.items() if not key.architecture):
        for finding in report.findings:
            if not finding.patch:
                counts[finding.severity, finding.kind, finding.name or finding.callee] += 1
    rows = [
        (severity, kind, name, number, *JUDGED.get((kind, name), ("not judged", "")))
        for (severity, kind, name), number in sorted(counts.items())
    ]
    plain = sum(not key.architecture for key in cells)
    wrong = sum(row[3] for row in rows if row[4] == FALSE)
    head = f"Uncatalogued findings: {sum(counts.values())} in {plain} pairs, {wrong} of them false positives:\n\n"
    return head + reports.table(("told as", "kind", "name", "pairs", "judged", "why"), rows)


def _strangers(matrix: Matrix) -> str:
    if not matrix.strangers:
        return ""
    rows = []
    for one, (report, seconds) in matrix.strangers.items():
        by = Counter(f.severity for f in report.findings)
        counts = (by["fails"], by["may fail"], by["silent"])
        rows.append((f"{one.distribution} {one.version}", one.declares, one.vllm, *counts, f"{seconds:.1f} s"))
    head = ("caller", "declares vLLM", "on", "fail", "may fail", "silent", "time")
    return "Callers that the rules were not written with, on a vLLM that they run on:\n\n" + reports.table(head, rows)


def _pairs(cells: Cells) -> str:
    rows = []
    for cell, (report, seconds) in cells.items():
        by = Counter(f.severity for f in report.findings)
        place = next((i for i, f in enumerate(report.findings, 1) if f.patch == "prefix-caching"), "")
        counts = (by["fails"], by["may fail"], by["silent"])
        rows.append((cell.speculators, cell.vllm, cell.architecture, *counts, place, f"{seconds:.1f} s"))
    head = ("speculators", "vLLM", "target", "fail", "may fail", "silent", "prefix caching is no.", "time")
    return "Findings of each pair:\n\n" + reports.table(head, rows)
