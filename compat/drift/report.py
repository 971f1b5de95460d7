"""The probe's answer for people and for scripts, with the state of the patches that mend what it found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from compat.catalogue import get
from compat.drift.finding import SEVERITIES, Finding
from compat.drift.probe import Report
from compat.patch import PatchStatus

FITS, FAILS, UNREADABLE = 0, 1, 2
ON = ("needed", "active")
"""States of a patch that is applied."""
HEADINGS = {"fails": "Surely fails", "may fail": "May fail", "silent": "Changed silently"}


@dataclass(frozen=True)
class Judged:
    """A report beside the patches of the same environment."""

    report: Report
    patches: dict[str, str]
    """Id of each patch that a finding belongs to → its state, `advice` where nothing at run time mends it."""
    verdict: int
    """FITS, FAILS (something fails and no patch is on for it), UNREADABLE (a source could not be read)."""


def judge(report: Report, statuses: Iterable[PatchStatus]) -> Judged:
    states = {status.id: "advice" if status.advice else status.state for status in statuses}
    named = {f.patch: str(states.get(f.patch, "")) for f in report.findings if f.patch}
    failing = any(_fails(f) and named.get(f.patch) not in ON for f in report.findings)
    return Judged(report, named, FAILS if failing else UNREADABLE if report.unread else FITS)


def _fails(finding: Finding) -> bool:
    """What surely fails, or what may by the sources and has been seen to, whatever the target, by the catalogue."""
    entry = get(finding.patch)
    seen = entry is not None and bool(entry.symptoms) and not entry.silent and not entry.architectures
    return finding.severity == "fails" or (finding.severity == "may fail" and seen)


def lines(judged: Judged) -> Iterator[str]:
    """Plain text, a finding in two lines: what the caller does, and where; then the patch and its state."""
    report = judged.report
    against = f", what changed since {' and '.join(report.baselines)} included" if report.baselines else ""
    yield f"{' and '.join(report.callers)} against {report.callee}{against}"
    for severity in SEVERITIES:
        group = [f for f in report.findings if f.severity == severity]
        if group:
            yield ""
            yield f"{HEADINGS[severity]} ({len(group)}):"
        for finding in group:
            yield f"  {finding.place}  {finding.message}"
            yield f"    {_margin(finding, judged)}"
    if not report.findings:
        yield "Nothing was found that does not fit."
    for sentence in (*report.notes, *report.unread):
        yield f"! {sentence}"


def _margin(finding: Finding, judged: Judged) -> str:
    patch = f"patch {finding.patch}: {judged.patches[finding.patch]}" if finding.patch else "uncatalogued"
    known = "; no news: it was so in the version that the caller declares" if finding.known else ""
    at = f"; {finding.at}" if finding.at else ""
    more = f"; also {', '.join(finding.others)}" if finding.others else ""
    return f"{patch}{at}{more}{known}"
