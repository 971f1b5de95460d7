"""Applies the patches of one process at run time. Nothing in site-packages is ever edited."""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Literal

from compat.catalogue import PATCHES
from compat.hooks import after_import
from compat.patch import Applied, Patch, Switches
from compat.replace import Refused, expect, once, site_of
from compat.status import decide
from compat.switches import switch_of
from compat.versions import installed


def activate(where: Literal["driver", "worker"], switches: Switches, report: Callable[[Applied], None]) -> None:
    """Sees to it that each patch of this side is applied when the module that it concerns has been imported.

    Then, and only then, it is decided whether the patch is needed, and `report` is told. A patch that refuses is left
    out: the failure that it would have mended shows itself. The order of patches and imports does not matter, and a
    second call changes nothing.
    """
    for patch in PATCHES:
        if patch.apply and patch.where in (where, "both"):
            after_import(patch.after, partial(_settle, patch, switches, report))


def _settle(patch: Patch, switches: Switches, report: Callable[[Applied], None]) -> None:
    report(_applied(patch, switches))


def _applied(patch: Patch, switches: Switches) -> Applied:
    digest = own_digest(patch)
    site = site_of(patch.after)
    probe = decide(patch, site, installed(site))
    switch = switch_of(patch, switches)
    if switch == "off":
        return Applied(patch.id, "off" if probe.needed else "not applicable", probe.reason, digest)
    if switch == "auto" and not probe.needed:
        return Applied(patch.id, "not applicable", probe.reason, digest)
    try:
        replaced = expect(patch.replaces, patch.written_for)
        _apply(patch)
    except Refused as refusal:
        return Applied(patch.id, "refused", str(refusal), digest)
    return Applied(patch.id, "active", probe.reason, digest, replaced)


def _apply(patch: Patch) -> None:
    """Raises Refused where the patch does not come into force."""
    assert patch.apply
    try:
        if once(sys.modules[patch.after], patch.id):
            patch.apply()
        wrong = patch.verify() if patch.verify else ""
    except Exception as error:  # the import that the patch waited for must not fail by it
        raise Refused(f"applying {patch.id} raised {type(error).__name__}: {error}") from error
    if wrong:
        raise Refused(wrong)


def own_digest(patch: Patch) -> str:
    """sha256 of the file that the patch is written in."""
    file = inspect.getsourcefile(patch.probe)
    return hashlib.sha256(Path(file).read_bytes()).hexdigest() if file else ""
