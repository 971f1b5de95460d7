"""What can be said of a traceback that no patch of the catalogue explains: the drift probe's findings about it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from compat.patch import FrameLike

if TYPE_CHECKING:
    from compat.drift.finding import Finding

UNKNOWN = "no patch of the catalogue is known to mend this"
SHOWN = 8


def findings_about(findings: Iterable[Finding], frames: Sequence[FrameLike]) -> tuple[Finding, ...]:
    """Those about the functions of the traceback, the innermost first."""
    from compat.drift.frames import concerning  # the probe is not needed to start

    return concerning(findings, frames)


def told(findings: Sequence[Finding]) -> Iterator[str]:
    """What `findings_about` gave, in lines."""
    if not findings:
        yield "the drift probe finds nothing amiss about the functions in its frames"
        return
    yield "what the drift probe finds about the functions in its frames:"
    for finding in findings[:SHOWN]:
        entry = f" (patch {finding.patch})" if finding.patch else " (uncatalogued)"
        yield f"  {finding.severity}: {finding.place} {finding.message}{entry}"
    if len(findings) > SHOWN:
        yield f"  … and {len(findings) - SHOWN} more: `eyas check --drift`"
