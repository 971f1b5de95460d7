"""Applies the patches of one process at run time. Nothing in site-packages is ever edited."""

from __future__ import annotations

import hashlib
import inspect
from pathlib import Path
from typing import Literal

from compat import source
from compat.catalogue import PATCHES
from compat.patch import Applied, Patch, Switches
from compat.replace import Refused, site_of
from compat.status import decide
from compat.switches import switch_of
from compat.versions import installed


def activate(where: Literal["driver", "worker"], switches: Switches) -> tuple[Applied, ...]:
    """Applies every patch of this side that is needed and not switched off.

    The driver must call this before it builds a generator; `compat.worker` calls it in vLLM's workers. A patch that
    refuses is reported as `refused` and left out: then the failure it would have mended shows itself.
    """
    site = site_of("speculators")
    versions = installed(site)
    concerned = [patch for patch in PATCHES if patch.where in (where, "both")]
    return tuple(_apply(patch, site, versions, switches) for patch in concerned)


def _apply(patch: Patch, site: Path, versions: dict[str, str], switches: Switches) -> Applied:
    switch = switch_of(patch, switches)
    probe = decide(patch, site, versions)
    digest = own_digest(patch)
    if switch == "off":
        return Applied(patch.id, "off" if probe.needed else "not applicable", probe.reason, digest)
    if switch == "auto" and not probe.needed:
        return Applied(patch.id, "not applicable", probe.reason, digest)
    try:
        patch.apply()
        replaced = source.find(site, patch.replaces).digest
    except (Refused, source.SourceNotFound) as refusal:
        return Applied(patch.id, "refused", str(refusal), digest)
    return Applied(patch.id, "active", probe.reason, digest, replaced)


def own_digest(patch: Patch) -> str:
    """sha256 of the file that the patch is written in."""
    file = inspect.getsourcefile(patch.apply)
    return hashlib.sha256(Path(file).read_bytes()).hexdigest() if file else ""
