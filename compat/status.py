"""Every patch against one environment, with the project's switches."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from compat import environment, own_code, source
from compat.catalogue import PATCHES
from compat.environment import Environment
from compat.patch import Patch, PatchStatus, State, Switches, Symptom
from compat.switches import Switch, switch_of
from compat.versions import at_edge, in_words, within


@dataclass(frozen=True)
class Decision:
    """Whether an environment needs a patch, and one sentence that says what decided it."""

    needed: bool | None
    """None where it cannot be known."""
    reason: str


def status(site: Path | None, switches: Switches, versions: Mapping[str, str]) -> tuple[PatchStatus, ...]:
    """State of each patch in the environment whose site-packages `site` is.

    None means that it is not made yet: then `versions` (distribution → pinned version) decide, and there is no code
    to show.
    """
    return status_in(environment.read(site) if site else environment.pinned(versions), switches)


def status_in(found: Environment, switches: Switches) -> tuple[PatchStatus, ...]:
    """State of each patch: `needed` will be applied, `off` is needed but switched off, `refused` is not applied
    because other code is installed than the patch was written for, or because what is installed cannot be known.

    Only an attempt's own record makes a patch `active`: see `in_attempt`.
    """
    return tuple(_one(patch, found, switch_of(patch, switches)) for patch in PATCHES)


class ReportLike(Protocol):
    """What a process of an attempt said of one patch: `compat.record` has it, and `remote.views`."""

    @property
    def id(self) -> str: ...
    @property
    def process(self) -> str: ...
    @property
    def state(self) -> str: ...
    @property
    def reason(self) -> str: ...
    @property
    def digest(self) -> str: ...


def in_attempt(rows: Iterable[PatchStatus], reports: Iterable[ReportLike], attempt: str) -> tuple[PatchStatus, ...]:
    """The patches, a needed one as `active` or `refused` when a process of an attempt reported that.

    What only shows itself in the process (a patch that does not come into force) goes before what the sources say.
    """
    reports = tuple(reports)
    said = {r.id: r for state in ("active", "refused") for r in reports if r.state == state}
    return tuple(_as_said(row, said[row.id], attempt) if row.id in said else row for row in rows)


def _as_said(row: PatchStatus, said: ReportLike, attempt: str) -> PatchStatus:
    if row.state != "needed":
        return row
    if said.state == "refused":
        return replace(row, state="refused", reason=f"refused in {attempt} ({said.process}): {said.reason}")
    since = "; the patch has changed since" if row.digest and said.digest != row.digest else ""
    return replace(row, state="active", reason=f"applied in {attempt} ({said.process}){since}; {row.reason}")


def judge(patch: Patch, found: Environment, switch: Switch) -> tuple[State, str]:
    """The state before the code to be replaced is looked at, with the reason; advice (no `apply`) has no switch."""
    decision = decide(patch, found)
    if switch != "auto" and patch.apply:
        if switch == "on":
            return "needed", f"switched on; {decision.reason}"
        if decision.needed is not False:
            return "off", f"switched off; {decision.reason}"
    if decision.needed is None:
        return "refused", decision.reason
    return ("needed" if decision.needed else "not applicable"), decision.reason


def decide(patch: Patch, found: Environment) -> Decision:
    """By the versions first, then by the patch's probe."""
    missing = [one.missing for one in found.both if one.missing]
    if missing:
        return Decision(False, missing[0])
    unknown = [one.unknown for one in found.both if one.unknown]
    if unknown:
        return Decision(None, unknown[0])
    notes = [f"{one.name} {one.version} is {one.note}" for one in found.both if one.note]
    for one, wanted in zip(found.both, (patch.speculators, patch.vllm), strict=True):
        if at_edge(one.version, wanted):
            notes.append(f"the range {wanted} begins or ends there, so its sources decide")
        elif not within(one.version, wanted):
            read = f" ({one.note})" if one.note else ""
            return Decision(False, f"{one.name} {one.version}{read} is outside the range {wanted} that this concerns")
    if patch.cpu_only and not found.cpu_build:
        return Decision(False, f"vLLM {found.vllm.version} is no CPU build")
    decided = _probed(patch, found)
    if patch.architectures and decided.needed:
        notes.append(f"only for targets of the types {', '.join(patch.architectures)}")
    return Decision(decided.needed, "; ".join([decided.reason, *notes]))


def _probed(patch: Patch, found: Environment) -> Decision:
    if found.site is None:
        pair = " and ".join(f"{one.name} {one.version}" for one in found.both)
        return Decision(True, f"decided by the pinned versions ({pair}); the environment is not made yet")
    try:
        probe = patch.probe(found.site)
    except source.SourceError as error:
        return Decision(None, f"whether it is needed cannot be known: {error}")
    except Exception as error:  # code of a shape that the probe was not written for, a fork's say
        return Decision(
            None, f"whether it is needed cannot be known: its probe raised {type(error).__name__} ({error})"
        )
    return Decision(probe.needed, probe.reason)


def _one(patch: Patch, found: Environment, switch: Switch) -> PatchStatus:
    state, reason = judge(patch, found, switch)
    code, refusal = _replaced(patch, found.site)
    if state == "needed" and patch.apply and refusal:
        state, reason = "refused", refusal
    return PatchStatus(
        id=patch.id,
        title=patch.title,
        state=state,
        reason=reason,
        drift=patch.drift,
        switch=switch,
        silent=patch.silent,
        speculators=patch.speculators,
        vllm=patch.vllm,
        since=f"speculators {in_words(patch.speculators)}; vLLM {in_words(patch.vllm)}",
        symptoms=tuple(_shown(symptom) for symptom in patch.symptoms),
        cause=patch.cause,
        mend=patch.mend,
        where=patch.where,
        advice=patch.apply is None,
        code=own_code.text(patch),
        digest=own_code.digest(patch),
        replaces=patch.replaces,
        replaced_code=textwrap.dedent(code.text) if code else "",
        replaced_at=code.place if code else "",
        gate=patch.gate,
        architectures=patch.architectures,
        story=patch.story,
        references=patch.references,
        risk=patch.risk,
    )


def _shown(symptom: Symptom) -> str:
    """`AssertionError in cache_full_blocks, at ‹assert len(block_hashes)›, below schedule`."""
    parts = [symptom.exception + (f" in {symptom.innermost}" if symptom.innermost else "")]
    parts += [f"with the message ‹{_readable(symptom.message)}›"] if symptom.message else []
    parts += [f"at ‹{_readable(symptom.source)}›"] if symptom.source else []
    parts += [f"below {', '.join(symptom.functions)}"] if symptom.functions else []
    return ", ".join(parts)


def _readable(pattern: str) -> str:
    """A regular expression with what it escapes as plain text; what may vary stays as it is."""
    return re.sub(r"\\([^\w\s])", r"\1", pattern.strip("^$"))


def _replaced(patch: Patch, site: Path | None) -> tuple[source.Code | None, str]:
    """The code that the patch replaces, as installed, and why the patch refuses it ("" when it does not)."""
    if site is None or not patch.replaces:
        return None, ""
    try:
        code = source.find(site, patch.replaces)
    except source.SourceError as error:
        return None, f"{patch.replaces} was not found: {error}"
    return (
        code,
        "" if code.digest in patch.written_for else f"{code.place} is not the code that this patch was written for",
    )
