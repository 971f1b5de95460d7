"""What the five views have in common: they are shown a Snapshot, and answer the actions of the registry."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from textual.containers import Vertical

from console.store import Snapshot

if TYPE_CHECKING:
    from console.app import EyasApp


class View(Vertical):
    """Methods `do_ID` answer the action ID of the registry; what a view does not answer, the app does."""

    snapshot: Snapshot = Snapshot()

    @property
    def eyas(self) -> EyasApp:
        return cast("EyasApp", self.app)

    def show(self, snapshot: Snapshot, now: float) -> None:
        """Draw a Snapshot. `now` is the console's clock."""
        raise NotImplementedError
