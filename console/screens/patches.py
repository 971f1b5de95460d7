"""The patches view: what each compat patch is for, whether it is needed, what it replaces, and its switch."""

from __future__ import annotations

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.containers import Container

from compat.patch import PatchStatus
from console.screens.listed import ListedView
from console.store import Snapshot
from console.widgets.listing import Details, Listing
from console.widgets.paint import Panel, Part, Row, fit, rule
from console.words import PATCH_GLYPHS, many


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
            yield Details("patches-details")

    _shown: str | None = None
    _wanted: str | None = None
    """Patch to stand on once the host has told its patches."""

    def show(self, snapshot: Snapshot, now: float) -> None:
        self.snapshot = snapshot
        patches = snapshot.patches_in_run
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
        self.query_one(Details).fill(parts, fresh=(patch.id if patch else None) != self._shown)
        self._shown = patch.id if patch else None

    def do_toggle(self) -> None:
        if self.selected is not None:
            self.eyas.live.toggle_switch(self.selected.id)


def _row(patch: PatchStatus, ids: int) -> Row:
    glyph, ink = PATCH_GLYPHS.get(patch.state, ("?", "warn"))
    switched = {"on": "good", "off": "bad"}.get(patch.switch, "muted")
    return Row(
        (
            (f"{glyph} {patch.state:<15}", ink),
            (fit(patch.id, ids) + "  ", "muted" if patch.state == "not applicable" else "strong"),
            (f"{patch.drift:<4}", "muted"),
            (f"[{patch.switch}]".ljust(7), switched),
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
    parts += [("switch ", "muted"), (patch.switch, "text"), ("  ", "text"), ("space", "key"), (" turns it\n", "muted")]
    for stage in snapshot.run.stages if snapshot.run else ():
        for report in (r for r in stage.patches if r.id == patch.id and stage.latest):
            number = stage.latest.number if stage.latest else 0
            parts += [(f"in {stage.name} #{number} ", "muted"), (report.state + "\n", "text")]
    if patch.silent:
        parts.append(("silent: nothing is ever raised, only the data is wrong\n", "warn"))
    _paragraph(parts, "cause", patch.cause)
    _paragraph(parts, "mend", patch.mend)
    _paragraph(parts, "risk", patch.risk)
    versions = [f"{n} {v}" for n, v in (("speculators", patch.speculators), ("vllm", patch.vllm)) if v]
    _paragraph(parts, "concerns", ", ".join(versions))
    _paragraph(parts, "references", "\n".join(patch.references))
    if patch.replaces:
        code = patch.replaced_code.rstrip()
        lines = (
            f"  {many(code.count(chr(10)) + 1, 'line')}, as installed"
            if code
            else "  (source not readable on the host)"
        )
        parts += [("\nreplaces\n", "muted"), (patch.replaces, "text"), (lines + "\n", "muted")]
        if code:
            parts.append(("\n" + code.expandtabs(4) + "\n", "text"))
    return parts


def _paragraph(parts: list[Part], name: str, text: str) -> None:
    if text:
        parts += [(f"\n{name}\n", "muted"), (text.strip() + "\n", "text")]
