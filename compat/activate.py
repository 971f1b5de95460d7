"""Applies the patches of one process at run time. Nothing in site-packages is ever edited."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache, partial
from typing import Literal

from compat import environment, own_code
from compat.catalogue import PATCHES
from compat.environment import Environment
from compat.hooks import after_import
from compat.patch import Applied, Patch, Switches
from compat.replace import Refused, expect, once
from compat.status import judge
from compat.switches import switch_of


def activate(where: Literal["driver", "worker"], switches: Switches, report: Callable[[Applied], None]) -> None:
    """Sees to it that each patch of this side is applied when the module that it concerns has been imported.

    Then, and only then, it is decided whether the patch is needed, and `report` is told. A patch that refuses is left
    out: the failure that it would have mended shows itself. The order of patches and imports does not matter, and a
    second call changes nothing.
    """
    here = cache(environment.here)  # read once, when the first of the modules comes
    for patch in PATCHES:
        if patch.apply and patch.where in (where, "both"):
            after_import(patch.after, partial(_settle, patch, switches, here, report))


def _settle(
    patch: Patch, switches: Switches, here: Callable[[], Environment], report: Callable[[Applied], None]
) -> None:
    report(_applied(patch, switches, here()))


def _applied(patch: Patch, switches: Switches, found: Environment) -> Applied:
    digest = own_code.digest(patch)
    state, reason = judge(patch, found, switch_of(patch, switches))
    if state != "needed":
        return Applied(patch.id, state, reason, digest)
    try:
        replaced = expect(patch.replaces, patch.written_for)
        _apply(patch)
    except Refused as refusal:
        return Applied(patch.id, "refused", str(refusal), digest)
    return Applied(patch.id, "active", reason, digest, replaced)


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
