"""What a patch is to a run: the host tells what its environment needs, the run's stages what they applied."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import cast

from compat.patch import PatchStatus, State
from compat.status import in_attempt
from remote.views import RunView, StageView


def in_run(patches: Iterable[PatchStatus], run: RunView | None) -> tuple[PatchStatus, ...]:
    """The patches, a needed one as active or refused when the latest attempt of a stage reported that."""
    found = tuple(patches)
    for stage in reversed(run.stages if run else ()):
        if stage.latest:
            found = in_attempt(found, stage.patches, f"{stage.name}, attempt {stage.latest.number}")
    return found


def as_ran(patches: Iterable[PatchStatus], stage: StageView) -> tuple[PatchStatus, ...]:
    """The patches as they were in the stage's latest attempt, whatever their switches are by now."""
    ran = stage.patch_states
    return tuple(replace(p, state=cast(State, ran[p.id])) if p.id in ran else p for p in patches)
