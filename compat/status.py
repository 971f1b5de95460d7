"""Every patch against one environment, with the project's switches."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from pathlib import Path

from compat import source
from compat.catalogue import PATCHES
from compat.patch import Patch, PatchStatus, Probe, State, Switches
from compat.switches import Switch, switch_of
from compat.versions import installed, is_cpu_build, vllm_version, within


def status(site: Path | None, switches: Switches, versions: Mapping[str, str]) -> tuple[PatchStatus, ...]:
    """State of each patch: `needed` will be applied, `off` is needed but switched off, `refused` found other code.

    `site` is the environment's site-packages. None means that it is not made yet: then `versions` (distribution →
    pinned version) decide, and there is no code to show.
    """
    found = installed(site) if site else dict(versions)
    return tuple(_one(patch, site, switch_of(patch, switches), found) for patch in PATCHES)


def _one(patch: Patch, site: Path | None, switch: Switch, versions: Mapping[str, str]) -> PatchStatus:
    code = ""
    refusal = ""
    if site and patch.replaces:
        try:
            located = source.find(site, patch.replaces)
            code = textwrap.dedent(located.text)
            if patch.apply and located.digest not in patch.written_for:
                refusal = f"{located.place} is not the code that this patch was written for"
        except source.SourceNotFound as error:
            refusal = f"{patch.replaces} was not found: {error}" if patch.apply else ""
    probe = decide(patch, site, versions)
    state, reason = _state(probe, switch, refusal)
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
        cause=patch.cause,
        mend=patch.mend,
        replaces=patch.replaces,
        replaced_code=code,
        references=patch.references,
        risk=patch.risk,
    )


def _state(probe: Probe, switch: Switch, refusal: str) -> tuple[State, str]:
    if switch == "off":
        return ("off", f"switched off; {probe.reason}") if probe.needed else ("not applicable", probe.reason)
    if switch == "auto" and not probe.needed:
        return "not applicable", probe.reason
    if refusal:
        return "refused", refusal
    return "needed", probe.reason if switch == "auto" else f"switched on; {probe.reason}"


def decide(patch: Patch, site: Path | None, versions: Mapping[str, str]) -> Probe:
    """Whether an environment needs a patch: by its version ranges first, then by the patch's probe."""
    have = {"speculators": versions.get("speculators"), "vLLM": vllm_version(versions)}
    for name, wanted in (("speculators", patch.speculators), ("vLLM", patch.vllm)):
        version = have[name]
        if version is None:
            return Probe(False, f"{name} is not installed in {site}" if site else f"the pair pins no {name}")
        if not within(version, wanted):
            return Probe(False, f"{name} {version} is outside the range {wanted} that this concerns")
    if patch.cpu_only and not is_cpu_build(versions):
        return Probe(False, f"vLLM {have['vLLM']} is no CPU build")
    if site is None:
        pair = f"speculators {have['speculators']} and vLLM {have['vLLM']}"
        return Probe(True, f"decided by the pinned versions ({pair}); the environment is not made yet")
    try:
        return patch.probe(site)
    except source.SourceNotFound as error:
        return Probe(False, f"the probe could not read the installed sources: {error}")
