"""What stands on every view: the top line (views, host, link), the banner (what is wrong, what to do), the key line."""

from __future__ import annotations

import textwrap

from rich.cells import cell_len

from console import actions
from console.actions import View
from console.sanitise import one_line
from console.store import Problem, Snapshot
from console.troubles import list_troubles, troubled_stage
from console.widgets.paint import Panel, Part, Row, fit
from console.words import LINK_GLYPHS, duration


class TopLine(Panel):
    """`eyas  1 run  2 log  3 tracebacks ✖2  4 patches          gpu-box ● connected`"""

    def __init__(self) -> None:
        super().__init__(id="top")
        self.snapshot = Snapshot()
        self.view: View = "run"
        self.now = 0.0

    def show(self, snapshot: Snapshot, view: View, now: float) -> None:
        self.snapshot, self.view, self.now = snapshot, view, now
        self.repaint()

    def rows(self, width: int) -> list[Row]:
        link = self._link()
        room = width - _cells(link) - 1
        for names, brand in ((True, True), (True, False), (False, False)):
            left = self._tabs(names, brand)
            if _cells(left) <= room:
                break
        else:
            left = [(f" {actions.VIEWS.index(self.view) + 1} {self.view} ", "here")] if room >= 14 else []
            link = [(fit("".join(text for text, _ in link), min(_cells(link), width - 1)), link[1][1])]
            room = width - _cells(link) - 1
        return [Row((*left, (" " * max(0, room - _cells(left)), "text"), *link, (" ", "text")))]

    def _tabs(self, names: bool, brand: bool) -> list[Part]:
        stage = troubled_stage(self.snapshot.run)
        counts = {
            "tracebacks": (len(list_troubles(stage)), "✖", "bad"),
            "patches": (sum(p.state in ("off", "refused") for p in self.snapshot.patches or ()), "○", "bad"),
        }
        parts: list[Part] = [(" eyas ", "key")] if brand else [(" ", "text")]
        for number, view in enumerate(actions.VIEWS, 1):
            here = view == self.view
            label = f" {number} {view} " if names or here else f" {number} "
            parts.append((label, "here" if here else "muted"))
            count, glyph, ink = counts.get(view, (0, "", ""))
            if count:
                parts.append((f"{glyph}{count} ", ink))
        return parts

    def _link(self) -> list[Part]:
        link = self.snapshot.link
        glyph, ink = LINK_GLYPHS.get(link.phase, ("?", "warn"))
        words = link.phase
        if link.phase == "waiting" and link.retry_at is not None:
            words = f"retry in {duration(link.retry_at - self.now)}"
        return [(fit(link.host, min(24, cell_len(one_line(link.host)))) + " ", "text"), (f"{glyph} {words}", ink)]


class Banner(Panel):
    """What is wrong and what to do about it; not there when nothing is."""

    def __init__(self) -> None:
        super().__init__(id="banner")
        self.snapshot = Snapshot()

    def show(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.display = bool(self._problems())
        self.repaint()

    def _problems(self) -> list[tuple[Problem, str, str]]:
        found: list[tuple[Problem, str, str]] = []
        link = self.snapshot.link
        if link.phase != "connected" and (link.detail or link.remedy):
            refused = link.phase == "refused"
            found.append((Problem(link.detail, link.remedy), "✖" if refused else "◌", "bad" if refused else "warn"))
        if self.snapshot.problem:
            found.append((self.snapshot.problem, "✖", "bad"))
        if self.snapshot.run and self.snapshot.run.error:
            found.append((Problem(self.snapshot.run.error), "?", "warn"))
        return found

    def rows(self, width: int) -> list[Row]:
        rows: list[Row] = []
        for problem, glyph, ink in self._problems():
            text = one_line(problem.message.replace("\n", " "))
            remedy = one_line(problem.remedy.replace("\n", " "))
            for index, line in enumerate(textwrap.wrap(text, max(8, width - 4))[:3]):
                rows.append(Row(((f" {glyph} " if index == 0 else "   ", ink), (line, "strong"))))
            for index, line in enumerate(textwrap.wrap(remedy, max(8, width - 5))[:2]):
                rows.append(Row((("   → " if index == 0 else "     ", "muted"), (line, "text"))))
        return rows


class KeyLine(Panel):
    """The keys that do something here and now, the most useful first; the rest is under `?`."""

    def __init__(self) -> None:
        super().__init__(id="keys")
        self.snapshot = Snapshot()
        self.view: View = "run"

    def show(self, snapshot: Snapshot, view: View) -> None:
        self.snapshot, self.view = snapshot, view
        self.repaint()

    def rows(self, width: int) -> list[Row]:
        ranked = sorted((a for a in actions.for_view(self.view) if a.rank), key=lambda a: a.rank)
        usable = [a for a in ranked if actions.worth_showing(a, self.snapshot) and a.id != f"view_{self.view}"]
        pinned = [a for a in usable if a.rank >= 20]
        room = width - 1 - sum(_hint_cells(a) for a in pinned)
        chosen: list[actions.Action] = []
        for action in (a for a in usable if a.rank < 20):
            if (room := room - _hint_cells(action)) < 0:
                break
            chosen.append(action)
        parts: list[Part] = [(" ", "text")]
        for action in (*chosen, *pinned):
            parts += [(action.key, "key"), (f" {action.label}  ", "muted")]
        if self.snapshot.pending:
            words = f"… {self.snapshot.pending[-1]} "
            room = width - _cells(parts)
            if room > cell_len(one_line(words)):
                parts.append((fit(words, room, "right"), "faint"))
        return [Row(tuple(parts))]


def _hint_cells(action: actions.Action) -> int:
    return cell_len(action.key) + cell_len(action.label) + 3


def _cells(parts: list[Part]) -> int:
    return sum(cell_len(one_line(text)) for text, _ in parts)
