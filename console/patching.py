"""What a patch is to a run: the host tells what its environment needs, the run's stages what they applied."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from compat.patch import PatchStatus
from remote.views import RunView


def in_run(patches: Iterable[PatchStatus], run: RunView | None) -> tuple[PatchStatus, ...]:
    """The patches, a needed one as active when a stage's latest attempt reported that it applied it."""
    return tuple(_in_run(patch, run) for patch in patches)


def _in_run(patch: PatchStatus, run: RunView | None) -> PatchStatus:
    for stage in reversed(run.stages if run else ()):
        if stage.latest and patch.state == "needed" and stage.patches.get(patch.id) == "active":
            reason = f"applied in {stage.name}, attempt {stage.latest.number}; {patch.reason}"
            return replace(patch, state="active", reason=reason)
    return patch
