"""A pilot for a slow machine: it waits for what a key does, never for time."""

from __future__ import annotations

import time

from textual.pilot import Pilot


class SteadyPilot(Pilot[None]):
    """A pilot that goes on once a key has been dealt with, however little of the processor the app gets.

    Textual's own takes a process that got no time for an idle one, and waits for each queue once; but a key goes from
    the app's queue to the screen's, and what it does there to those of widgets.
    """

    async def press(self, *keys: str) -> None:
        for key in keys:
            await super().press(key)
            await self._quiet()

    async def pause(self, delay: float | None = None) -> None:
        await super().pause(delay)
        await self._quiet()

    async def _quiet(self) -> None:
        """Until all is laid out and painted and all queues are empty twice: a widget may be in the midst of what it
        took from its queue."""
        deadline, empty = time.monotonic() + 30, 0
        while empty < 2 and self.app.is_running and time.monotonic() < deadline:
            await self._wait_for_screen()
            if self.app.is_running:
                self.app.screen._on_timer_update()
            queues = [self.app, *(node for screen in self.app.screen_stack for node in screen.walk_children())]
            empty = 0 if any(pump.message_queue_size for pump in (*queues, *self.app.screen_stack)) else empty + 1
