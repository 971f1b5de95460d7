"""The run view: where the pipeline stands, what the host is doing, and the live log below."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Container, Vertical

from console.logwindow import LogKey
from console.screens.logged import LoggedView
from console.store import Snapshot
from console.widgets.facts import Facts, TroubleLine
from console.widgets.gpus import Gpus
from console.widgets.load import Load
from console.widgets.logview import LogTitle, LogView
from console.widgets.rail import Rail

LOG_ROWS = 6
"""The log's title and five lines: they stay in sight however many stages and GPUs there are."""
FRAME_ROWS = 3
"""Top line, key line, the rail's own title."""
WIDE = 120
"""Cells from which on the host stands beside the stages."""
TINY = 20
TALL = 36
"""Rows from which notes, metrics and products get a place of their own."""


class RunScreen(LoggedView):
    def compose(self) -> ComposeResult:
        with Container(id="run-top"):
            with Vertical(id="run-left"):
                yield Rail()
                yield Load()
            with Vertical(id="run-right"):
                yield Gpus()
                yield Facts()
        yield TroubleLine()
        yield LogTitle("run-log-title")
        yield LogView("run-log", numbers=False)

    def show(self, snapshot: Snapshot, now: float) -> None:
        self.snapshot = snapshot
        height = self.app.size.height
        rail = self.query_one(Rail)
        gpus, load = self.query_one(Gpus), self.query_one(Load)
        gpus.show(snapshot, now)
        load.show(snapshot, 2 if height < TALL else 8)
        rail.show(snapshot, now, self._room(gpus, load))
        facts = self.query_one(Facts)
        facts.show(rail.selected if height >= TALL else None, 12)
        self.query_one(TroubleLine).show(snapshot)
        self._log.show(snapshot.log)
        self._title()
        self._fill()

    def _room(self, gpus: Gpus, load: Load) -> int:
        """Rows that the stages may take."""
        width, height = self.app.size
        if height < TINY:
            return height - FRAME_ROWS - LOG_ROWS // 2
        room = height - FRAME_ROWS - LOG_ROWS - (len(load.rows(width)) if load.display else 0)
        return room if width >= WIDE else room - len(gpus.rows(width))

    def _pick(self, step: int) -> None:
        rail = self.query_one(Rail)
        rail.move(step)
        if self.app.size.height >= TALL:
            self.query_one(Facts).show(rail.selected, 12)

    def do_down(self) -> None:
        self._pick(1)

    def do_up(self) -> None:
        self._pick(-1)

    def do_top(self) -> None:
        self._pick(-1000)

    def do_bottom(self) -> None:
        self._pick(1000)

    async def do_open(self) -> None:
        stage = self.query_one(Rail).selected
        if self.snapshot.run is None or stage is None or stage.latest is None:
            self.eyas.tell("This stage has not begun: it has no log yet.")
            return
        self.eyas.live.show_attempt(LogKey(self.snapshot.run.run, stage.name, stage.latest.number))
        await self.eyas.go_to("log")
