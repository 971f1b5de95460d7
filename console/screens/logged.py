"""What views that show a log have in common: scrolling it, and following its end."""

from __future__ import annotations

from console.screens.view import View
from console.widgets.logview import LogTitle, LogView


class LoggedView(View):
    page_overlap = 0
    """Rows of the last page that stay in sight."""

    @property
    def _log(self) -> LogView:
        return self.query_one(LogView)

    def _title(self) -> None:
        self.query_one(LogTitle).show(self.snapshot, self._log.following)

    def _scroll(self, rows: int) -> None:
        self._log.move(rows)
        self._title()

    def do_page_down(self) -> None:
        self._scroll(self._log.size.height - self.page_overlap)

    def do_page_up(self) -> None:
        self._scroll(self.page_overlap - self._log.size.height)

    def do_half_down(self) -> None:
        self._scroll(max(1, self._log.size.height // 2))

    def do_half_up(self) -> None:
        self._scroll(-max(1, self._log.size.height // 2))

    def do_right(self) -> None:
        self._log.move_sideways(1)

    def do_left(self) -> None:
        self._log.move_sideways(-1)

    def do_follow(self) -> None:
        self._log.toggle_follow()
        self._title()
