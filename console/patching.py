"""What a patch is to a run: the host tells what its environment needs, the run's stages what they applied."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import cast

from compat.catalogue import PATCHES, get
from compat.patch import PatchStatus, State
from compat.status import in_attempt
from console.errors import UserError, nearest
from remote.views import RunView, StageView


@dataclass(frozen=True)
class Told:
    """The host's answer about the patches in the environment that the project's runs use."""

    patches: tuple[PatchStatus, ...]
    environment: tuple[str, ...] = ()
    """What is there of speculators and vLLM, a line each."""
    troubles: tuple[str, ...] = ()
    """What of it is missing or cannot be known."""


def in_run(patches: Iterable[PatchStatus], run: RunView | None) -> tuple[PatchStatus, ...]:
    """The patches, a needed one as active or refused when the latest attempt of a stage reported that."""
    found = tuple(patches)
    for stage in reversed(run.stages if run else ()):
        if stage.latest:
            found = in_attempt(found, stage.patches, f"{stage.name}, attempt {stage.latest.number}")
    return found


def in_order(patches: Iterable[PatchStatus]) -> list[PatchStatus]:
    """For a list: in the catalogue's order, what does not concern the environment last."""
    return sorted(patches, key=lambda patch: patch.state == "not applicable")


def as_ran(patches: Iterable[PatchStatus], stage: StageView, attempt: int | None = None) -> tuple[PatchStatus, ...]:
    """The patches as they were in an attempt of the stage, whatever their switches are by now; None is the latest.

    The latest told what it did; of an earlier one only its switches are at hand.
    """
    ran = stage.patch_states
    if attempt is not None and stage.latest and attempt != stage.latest.number:
        asked = next((a for a in stage.attempts if a.number == attempt), None)
        ran = dict.fromkeys(asked.patches_off if asked else (), "off")
    return tuple(_as_ran(patch, ran.get(patch.id)) for patch in patches)


def _as_ran(patch: PatchStatus, state: str | None) -> PatchStatus:
    if state is None or patch.state == "not applicable":
        return patch
    return replace(patch, state=cast(State, state))


def require_patch(patch: str, place: str = "") -> None:
    """Raises UserError when the catalogue has no such patch; `place` is where it is named."""
    known = [p.id for p in PATCHES]
    if patch not in known:
        where = f", which {place} names" if place else ""
        raise UserError(f"There is no patch `{patch}`{where}.", nearest(patch, known))


def require_switch(patch: str) -> None:
    """Raises UserError when the catalogue has no such patch, or only advice that no switch changes."""
    require_patch(patch)
    entry = get(patch)
    if entry and entry.apply is None:
        raise UserError(f"`{patch}` has no switch: nothing at run time mends it.", entry.mend)
