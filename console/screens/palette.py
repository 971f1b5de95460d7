"""The command palette: every action of the registry by name, with its key."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, cast

from textual.command import DiscoveryHit, Hit, Hits, Provider

from console import actions

if TYPE_CHECKING:
    from console.app import EyasApp


class ActionsProvider(Provider):
    def _offers(self) -> list[tuple[str, str, Callable[[], Awaitable[None]]]]:
        app = cast("EyasApp", self.app)
        return [
            (f"{action.help}  ({action.key})", action.label, partial(app.action_act, action.id))
            for action in actions.for_view(app.view)
            if action.palette
        ]

    async def discover(self) -> Hits:
        for text, _, run in self._offers():
            yield DiscoveryHit(text, run)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for text, label, run in self._offers():
            score = max(matcher.match(text), matcher.match(label))
            if score > 0:
                yield Hit(score, matcher.highlight(text), run)
