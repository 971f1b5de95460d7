"""The order in which findings are told, and what belongs to which catalogue entry."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from compat.drift.finding import KINDS, SEVERITIES, Finding
from compat.patch import Patch, Sign
from compat.versions import within

_KIND_ORDER = {kind: i for i, kind in enumerate(KINDS)}


def rank(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """What surely fails, what may fail, what changed silently; within each, what is new before what was so already,
    then what explains itself least (the order of KINDS), then what decides most. The same at several places is one.
    """
    merged: dict[tuple[str, str, str, str], Finding] = {}
    for finding in sorted(findings, key=lambda f: (f.place.file, f.place.line)):
        key = (finding.severity, finding.kind, finding.callee, finding.name)
        first = merged.get(key)
        if first is None:
            merged[key] = finding
        elif str(finding.place) not in (str(first.place), *first.others):
            merged[key] = replace(first, others=(*first.others, str(finding.place)))
    return tuple(sorted(merged.values(), key=_order))


def _order(finding: Finding) -> tuple[int, bool, int, int, str, int]:
    severity = SEVERITIES.index(finding.severity)
    place = finding.place
    return severity, finding.known, _KIND_ORDER[finding.kind], -finding.weight, place.file, place.line


def catalogued(
    findings: Iterable[Finding], patches: Sequence[Patch], speculators: str, vllm: str
) -> tuple[Finding, ...]:
    """The findings with the id of the catalogue entry that bears their sign and is for these versions.

    A version of "" is not known and fits any. Uncatalogued findings stay as they were.
    """
    meant = [p for p in patches if _is_for(p.speculators, speculators) and _is_for(p.vllm, vllm)]
    return tuple(replace(finding, patch=_patch_of(finding, meant)) for finding in findings)


def _is_for(wanted: str, have: str) -> bool:
    try:
        return not have or within(have, wanted)
    except ValueError:
        return True


def _patch_of(finding: Finding, patches: Sequence[Patch]) -> str:
    fitting = [
        (bool(sign.callee) + bool(sign.name), patch.id)
        for patch in patches
        for sign in patch.signs
        if _fits(sign, finding)
    ]
    return max(fitting, key=lambda pair: pair[0])[1] if fitting else ""


def _fits(sign: Sign, finding: Finding) -> bool:
    return sign.kind == finding.kind and sign.callee in ("", finding.callee) and sign.name in ("", finding.name)
