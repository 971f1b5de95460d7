"""What views with a list have in common, and those with the details of one entry below it: moving about."""

from __future__ import annotations

from console.screens.view import View
from console.widgets.listing import Details, Listing


class CursorView(View):
    """A view with a list, and a cursor in it."""

    @property
    def _list(self) -> Listing:
        return self.query_one(Listing)

    def do_down(self) -> None:
        self._list.move(1)

    def do_up(self) -> None:
        self._list.move(-1)

    def do_top(self) -> None:
        self._list.go(0)

    def do_bottom(self) -> None:
        self._list.go(self._list.last)


class ListedView(CursorView):
    """With the details of the entry under the cursor."""

    def on_listing_moved(self) -> None:
        self._fill_details()

    def _fill_details(self) -> None:
        """Show the entry under the cursor."""
        raise NotImplementedError

    def do_page_down(self) -> None:
        self.query_one(Details).page(1)

    def do_page_up(self) -> None:
        self.query_one(Details).page(-1)

    def do_half_down(self) -> None:
        self.query_one(Details).page(0.5)

    def do_half_up(self) -> None:
        self.query_one(Details).page(-0.5)
