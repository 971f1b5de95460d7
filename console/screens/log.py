"""The log view: one attempt's log in full height, with line numbers, however large it is."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Literal

from textual.app import ComposeResult

from console.browsing import place_of
from console.screens.dialogs import Prompt
from console.screens.logged import LoggedView
from console.store import Snapshot
from console.widgets.logview import LogTitle, LogView
from console.widgets.paint import Panel, Row

PAGES = 3
"""Screens that are fetched at a time, once less than one is left to scroll."""


class EmptyLog(Panel):
    """Why there is no log, and what to press."""

    def __init__(self) -> None:
        super().__init__(id="log-empty")
        self.snapshot = Snapshot()

    def show(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.display = snapshot.log.count == 0
        self.repaint()

    def rows(self, width: int) -> list[Row]:
        log = self.snapshot.log
        if log.opening:
            return [Row.of(("  Opening the log …", "muted"))]
        if log.key is not None:
            return [Row.of(("  The attempt printed nothing." if log.ended else "  Nothing printed yet.", "muted"))]
        if not self.snapshot.runs_known:
            return [Row.of(("  The host has not told its runs yet.", "muted"))]
        if self.snapshot.run is None:
            return [Row.of("  No run, so no log: ", ("R", "key"), " starts one.")]
        return [Row.of(("  No stage of this run has begun.", "muted"))]


class LogScreen(LoggedView):
    page_overlap = 1
    pattern = ""
    """What was searched for last."""

    def compose(self) -> ComposeResult:
        yield LogTitle("log-title")
        yield EmptyLog()
        yield LogView("log-lines", numbers=True)

    def show(self, snapshot: Snapshot, now: float) -> None:
        self.snapshot = snapshot
        self.query_one(EmptyLog).show(snapshot)
        shown = snapshot.shown_attempt()
        self._log.show(snapshot.log, snapshot.browsed, shown[1].log_bytes if shown else 0)
        if snapshot.browsed is not None:
            self.eyas.live.hold_log()
        self._title()
        self._fetch()

    # Moving ------------------------------------------------------------------------------------------------

    def moved(self) -> None:
        super().moved()
        view, browser = self._log, self.eyas.live.browser
        if view.following:
            browser.follow()
            self.eyas.live.resume_log()
        elif self.snapshot.browsed is None:
            browser.pause(view.window)
        self._fetch(again=True)

    def _fetch(self, again: bool = False) -> None:
        """Have rows at hand before they are scrolled to: a screen on either side."""
        view, browser, height = self._log, self.eyas.live.browser, self._log.size.height
        window = view.window
        if not height or window.key is None or not window.count:
            return
        if window.rows and window.rows[0].line is None:
            browser.count(window, again)
        if window.start > 0 and view.top < height:
            browser.extend(-1, window, PAGES * height, again)
        elif not view.following and window.end < view.log_size and view.last_top - view.top < height:
            browser.extend(1, window, PAGES * height, again)

    def do_down(self) -> None:
        self._scroll(1)

    def do_up(self) -> None:
        self._scroll(-1)

    def do_top(self) -> None:
        self.eyas.live.browser.go({"offset": 0}, mark=False)

    def do_bottom(self) -> None:
        self._log.to_end()

    def do_jump(self) -> Awaitable[None]:
        def given(text: str | None) -> None:
            if text:
                self.eyas.live.browser.go(place_of(text, self._log.log_size))

        hint = "line 1234, time 15:30 or 11-29 15:30, 50 %, @offset"
        return self.app.push_screen(Prompt("Jump to", hint), given)

    # Searching ---------------------------------------------------------------------------------------------

    def do_search(self) -> Awaitable[None]:
        def given(text: str | None) -> None:
            if text:
                self.pattern = text
                self._search(back=self._log.following)

        hint = "a regular expression; lower case finds both"
        return self.app.push_screen(Prompt("Search the whole log", hint, self.pattern), given)

    async def do_next_match(self) -> None:
        await self._match(back=False)

    async def do_previous_match(self) -> None:
        await self._match(back=True)

    async def _match(self, back: bool) -> None:
        if self.pattern:
            self._search(back)
        else:
            await self.do_search()

    def _search(self, back: bool) -> None:
        self.eyas.live.browser.search(self.pattern, self._from("back" if back else "on"), back)

    def do_next_error(self) -> None:
        self.eyas.live.browser.next_error(self._from("on"), back=False)

    def do_previous_error(self) -> None:
        self.eyas.live.browser.next_error(self._from("back"), back=True)

    def _from(self, way: Literal["on", "back"]) -> int:
        """Where to look from: the marked row in sight, left out itself, else the edge of what is in sight."""
        view, window = self._log, self._log.window
        if view.marked is not None:
            row = window.row(view.marked)
            return row.offset if way == "back" else row.offset + row.size
        return window.end if way == "back" and view.following else view.place

    async def do_back(self) -> None:
        """First what is being looked up, then the view."""
        if not self.eyas.live.browser.cancel():
            await self.eyas.do_back()
