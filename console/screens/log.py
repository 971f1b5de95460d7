"""The log view: one attempt's log in full height, with line numbers."""

from __future__ import annotations

from textual.app import ComposeResult

from console.screens.logged import LoggedView
from console.store import Snapshot
from console.troubles import Trouble, list_troubles
from console.widgets.logview import LogTitle, LogView, earlier
from console.widgets.paint import Panel, Row


class EmptyLog(Panel):
    """Why there is no log, and what to press."""

    def __init__(self) -> None:
        super().__init__(id="log-empty")
        self.snapshot = Snapshot()

    def show(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.display = snapshot.log.rows == 0
        self.repaint()

    def rows(self, width: int) -> list[Row]:
        if self.snapshot.log.key is not None:
            ended = self.snapshot.log.ended
            return [Row.of(("  The attempt printed nothing." if ended else "  Nothing printed yet.", "muted"))]
        if self.snapshot.run is None:
            return [Row.of("  No run, so no log: ", ("R", "key"), " starts one.")]
        return [Row.of(("  No stage of this run has begun.", "muted"))]


class LogScreen(LoggedView):
    page_overlap = 1

    def compose(self) -> ComposeResult:
        yield LogTitle("log-title")
        yield EmptyLog()
        yield LogView("log-lines", numbers=True)

    def show(self, snapshot: Snapshot, now: float) -> None:
        self.snapshot = snapshot
        self.query_one(EmptyLog).show(snapshot)
        self._log.show(snapshot.log)
        self._title()

    def do_down(self) -> None:
        self._scroll(1)

    def do_up(self) -> None:
        self._scroll(-1)

    def do_top(self) -> None:
        self._log.to_top()
        self._title()

    def do_bottom(self) -> None:
        self._log.to_end()
        self._title()

    def do_next_error(self) -> None:
        self._jump(1)

    def do_previous_error(self) -> None:
        self._jump(-1)

    def jump_to(self, trouble: Trouble) -> None:
        """Bring the traceback's header line into sight."""
        offset = trouble.traceback.offset if trouble.traceback else None
        row = None if offset is None else self.snapshot.log.row_at(offset)
        if row is None:
            before = earlier(self.snapshot.log) or "not in this log"
            self.eyas.tell(f"Line {trouble.line} is not held here ({before}): t has the whole traceback.", "warning")
            return
        self._log.jump(row)
        self._title()

    def _jump(self, step: int) -> None:
        shown = self.snapshot.shown_attempt()
        latest = shown is not None and shown[0].latest == shown[1]
        found = [t for t in list_troubles(shown[0] if shown and latest else None) if t.traceback]
        if not found:
            self.eyas.tell("No traceback in this log.")
            return
        found.sort(key=lambda trouble: trouble.line)
        rows = [self.snapshot.log.row_at(t.traceback.offset if t.traceback else 0) for t in found]
        here = self._log.marked if self._log.marked is not None else self._log.top - (step > 0)
        if step > 0:
            later = [i for i, row in enumerate(rows) if row is not None and row > here]
            place = later[0] if later else 0
        else:
            sooner = [i for i, row in enumerate(rows) if row is not None and row < here]
            place = sooner[-1] if sooner else len(found) - 1
        wrapped = not (later if step > 0 else sooner)
        self.jump_to(found[place])
        if wrapped and len(found) > 1:
            self.eyas.tell("Round the end of the log." if step > 0 else "Round the start of the log.")
