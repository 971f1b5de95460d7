"""A list with a cursor, and the details beside it: the pair that tracebacks and patches are shown with."""

from __future__ import annotations

from textual.containers import VerticalScroll
from textual.events import Click
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Static

from console.widgets.paint import Paints, Part, Row, styled


class Listing(Paints):
    """One row an item. The stylesheet caps its height; the cursor is always in sight."""

    class Moved(Message):
        """The cursor stands on another item."""

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self._items: list[Row] = []
        self._keys: list[str] = []
        self.cursor = 0
        self._top = 0

    def fill(self, items: list[tuple[str, Row]]) -> None:
        """Set the rows, by stable keys: the cursor stays on its item, wherever that went."""
        here = self.key
        grown = len(items) != len(self._items)
        self._keys = [key for key, _ in items]
        self._items = [row for _, row in items]
        if here in self._keys:
            self.cursor = self._keys.index(here)
        self.cursor = min(self.cursor, max(0, len(items) - 1))
        self.refresh(layout=grown)

    @property
    def key(self) -> str | None:
        return self._keys[self.cursor] if self._keys else None

    @property
    def last(self) -> int:
        return max(0, len(self._items) - 1)

    def move(self, step: int) -> None:
        self.go(self.cursor + step)

    def go(self, index: int) -> None:
        index = min(max(0, index), self.last)
        if index != self.cursor:
            self.cursor = index
            self.refresh()
            self.post_message(self.Moved())

    def go_key(self, key: str) -> bool:
        if key not in self._keys:
            return False
        self.go(self._keys.index(key))
        return True

    def on_click(self, event: Click) -> None:
        self.go(self._top + event.y)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return max(1, len(self._items))

    def render_line(self, y: int) -> Strip:
        width, height = self.content_size
        self._top = min(max(self._top, self.cursor - height + 1, 0), self.cursor)
        index = self._top + y
        if index >= len(self._items):
            return self.strip(Row(), width)
        row = self._items[index]
        here = index == self.cursor
        above, below = y == 0 and self._top > 0, y == height - 1 and index + 1 < len(self._items)
        more = self.segments(Row((("↑" if above else "↓" if below else " ", "key"),), cursor=here), min(1, width))
        marked = Row((("›" if here else " ", "accent"), *row.parts), cursor=here)
        return Strip([*self.segments(marked, max(0, width - 1)), *more], width)


class Details(VerticalScroll):
    """Text beside a list; PgUp, PgDn, ctrl+u and ctrl+d move it."""

    can_focus = False

    def __init__(self, id: str, *below: Widget) -> None:
        super().__init__(Static(id=f"{id}-text"), *below, id=id)
        self._parts: tuple[Part, ...] = ()

    def fill(self, parts: list[Part], fresh: bool) -> None:
        """`fresh` when it is about another item: back to its top."""
        if tuple(parts) != self._parts:
            self._parts = tuple(parts)
            self.query_one(f"#{self.id}-text", Static).update(styled(*parts))
        if fresh:
            self.scroll_to(y=0, animate=False)

    def page(self, share: float) -> None:
        self.scroll_relative(y=round(share * max(1, self.size.height - 1)), animate=False)
