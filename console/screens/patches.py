"""The patches view: what each compat patch is for, whether it is needed, what it replaces, and its switch."""

from __future__ import annotations

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.containers import Container
from textual.widgets import Static

from compat.patch import PatchStatus
from console.explain import Column, columns, paragraphs
from console.patching import in_order
from console.screens.listed import ListedView
from console.store import Snapshot
from console.widgets.listing import Details, Listing
from console.widgets.paint import Panel, Part, Row, fit, rule, styled
from console.words import PATCH_GLYPHS


class PatchesTitle(Panel):
    def __init__(self) -> None:
        super().__init__(id="patches-title")
        self.snapshot = Snapshot()

    def show(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.repaint()

    def rows(self, width: int) -> list[Row]:
        patches = None if self.snapshot.patches is None else self.snapshot.patches_in_run
        title: list[Part] = [("patches", "strong")]
        if patches is None:
            return [rule(title, width), *self._waiting()]
        counts = [f"{sum(p.state == state for p in patches)} {state}" for state in PATCH_GLYPHS]
        counts = [count for count in counts if not count.startswith("0 ")]
        rows = [rule(title, width, [(" · ".join(counts) or "none", "muted")])]
        rows += [Row.of(("  ! ", "bad"), (trouble, "strong")) for trouble in self.snapshot.troubles]
        if not patches:
            rows.append(Row.of(("  The catalogue has no patch for this pair of versions.", "muted")))
        return rows

    def _waiting(self) -> list[Row]:
        problem = self.snapshot.patches_problem
        if problem is not None:
            rows = [Row.of(("  ✖ ", "bad"), (problem.message, "strong"))]
            return [*rows, Row.of(("    → ", "muted"), problem.remedy)] if problem.remedy else rows
        if self.snapshot.link.phase != "connected":
            return [Row.of(("  No connection yet: the host decides which patches its versions need.", "muted"))]
        return [Row.of(("  The host is reading its installed sources …", "muted"))]


class PatchesScreen(ListedView):
    def compose(self) -> ComposeResult:
        yield PatchesTitle()
        with Container(id="patches-body"):
            yield Listing("patches-list")
            codes = Container(Static(id="patch-does"), Static(id="patch-replaces"), id="patch-codes")
            yield Details("patches-details", codes)

    _shown: str | None = None
    _wanted: str | None = None
    """Patch to stand on once the host has told its patches."""
    _codes: tuple[Column, Column] | None = None

    def show(self, snapshot: Snapshot, now: float) -> None:
        self.snapshot = snapshot
        patches = in_order(snapshot.patches_in_run)
        self.query_one(PatchesTitle).show(snapshot)
        self.query_one("#patches-body").display = bool(patches)
        ids = max((cell_len(patch.id) for patch in patches), default=0)
        self._list.fill([(patch.id, _row(patch, min(ids, 30))) for patch in patches])
        if self._wanted is not None and self._list.go_key(self._wanted):
            self._wanted = None
        self._fill_details()

    @property
    def selected(self) -> PatchStatus | None:
        return self.snapshot.patch(self._list.key or "")

    def stand_on(self, patch_id: str) -> None:
        if not self._list.go_key(patch_id):
            self._wanted = patch_id
        self._fill_details()

    def _fill_details(self) -> None:
        patch = self.selected
        parts = describe(patch, self.snapshot) if patch else []
        fresh = (patch.id if patch else None) != self._shown
        self.query_one(Details).fill(parts, fresh)
        codes = columns(patch) if patch else None
        if codes and codes != self._codes:
            self._codes = codes
            for name, column in zip(("#patch-does", "#patch-replaces"), codes, strict=True):
                self.query_one(name, Static).update(styled(*show_code(column)))
        self._shown = patch.id if patch else None

    def do_toggle(self) -> None:
        patch = self.selected
        if patch is not None and patch.advice:
            self.eyas.tell("Nothing at run time mends this one, so it has no switch.")
        elif patch is not None:
            self.eyas.live.toggle_switch(patch.id)


def _row(patch: PatchStatus, ids: int) -> Row:
    glyph, ink = PATCH_GLYPHS.get(patch.state, ("?", "warn"))
    switched = {"on": "good", "off": "bad"}.get(patch.switch, "muted")
    return Row(
        (
            (f"{glyph} {patch.state:<15}", ink),
            (fit(patch.id, ids) + "  ", "muted" if patch.state == "not applicable" else "strong"),
            (f"{patch.drift:<5}", "muted"),
            ("advice ", "muted") if patch.advice else (f"[{patch.switch}]".ljust(7), switched),
            ("silent  " if patch.silent else "", "warn"),
            (patch.title, "muted"),
        )
    )


def describe(patch: PatchStatus, snapshot: Snapshot) -> list[Part]:
    glyph, ink = PATCH_GLYPHS.get(patch.state, ("?", "warn"))
    parts: list[Part] = [
        (patch.title + "\n", "strong"),
        (f"{glyph} {patch.state}", ink),
        (f"  {patch.reason}\n", "text"),
    ]
    if not patch.advice:
        parts += [
            ("switch ", "muted"),
            (patch.switch, "text"),
            ("  ", "text"),
            ("space", "key"),
            (" turns it\n", "muted"),
        ]
    for paragraph in paragraphs(patch, snapshot.run):
        ink = "warn" if paragraph.name == "silent" else "text"
        gap = "\n" if "\n" in paragraph.text else "  "
        parts += [(f"\n{paragraph.name}{gap}", "muted"), (paragraph.text + "\n", ink)]
    return parts


def show_code(column: Column) -> list[Part]:
    parts: list[Part] = [("\n" + column.name, "strong"), (f"  {column.of}\n", "text"), (f"{column.place}\n", "muted")]
    return [*parts, (column.code, "text") if column.code else (column.absent, "faint")]
