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
        self.query_one(LogTitle).show(self.snapshot, self._log)

    def _fill(self) -> None:
        """Have enough rows to fill the view, where a bar's many states are one row."""
        view, window = self._log, self._log.window
        if view.following and 0 < window.count < view.size.height and window.start > 0:
            self.eyas.live.browser.extend(-1, window, 3 * view.size.height)

    def on_log_view_moved(self) -> None:
        self.moved()

    def moved(self) -> None:
        """Other rows are in sight."""
        self._title()

    def _scroll(self, rows: int) -> None:
        self._log.move(rows)

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
