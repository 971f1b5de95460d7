"""The stage rail: one row a stage, its state in glyph and word, how long it took, how far it is."""

from __future__ import annotations

from rich.cells import cell_len

from console.sanitise import one_line
from console.store import Snapshot
from console.widgets.paint import Panel, Part, Row, bar, fit, rule
from console.words import STAGE_GLYPHS, amount, duration
from remote import views
from remote.views import StageView

FOLDED_NAMES = 46
"""Cells of a folded row from which on it names the stages."""


class Rail(Panel):
    def __init__(self) -> None:
        super().__init__(id="rail")
        self.snapshot = Snapshot()
        self.now = 0.0
        self._picked: str | None = None
        """Stage that the operator moved to; None goes with the run."""
        self.limit = 12
        """Rows of stages at most; what lies before and behind is folded into a row each."""

    def show(self, snapshot: Snapshot, now: float, limit: int = 12) -> None:
        if snapshot.watching != self.snapshot.watching:
            self._picked = None
        self.snapshot, self.now, self.limit = snapshot, now, limit
        self.repaint()

    @property
    def selected(self) -> StageView | None:
        """The stage under the cursor: the picked one, else the live, the failed, the latest begun, the first."""
        run = self.snapshot.run
        if run is None or not run.stages:
            return None
        begun = [stage for stage in run.stages if stage.attempts]
        picked = run.stage(self._picked) if self._picked else None
        return picked or run.live_stage or run.failed_stage or (begun[-1] if begun else run.stages[0])

    def move(self, step: int) -> None:
        run, here = self.snapshot.run, self.selected
        if run is None or here is None:
            return
        place = min(len(run.stages) - 1, max(0, run.stages.index(here) + step))
        self._picked = run.stages[place].name
        self.repaint()

    def rows(self, width: int) -> list[Row]:
        run = self.snapshot.run
        if run is None:
            return [rule([("run", "strong")], width), *self._empty()]
        glyph, ink = STAGE_GLYPHS.get(run.state, ("?", "warn"))
        versions = {name: f"{name} {version}" for name, version in run.versions.items()}
        title: list[Part] = [("run ", "strong"), (run.run, "text"), (f"  {glyph} {run.state}", ink)]
        pair_only = [versions[name] for name in ("speculators", "vllm") if name in versions]
        forms = [f"{run.pair}: {' · '.join(versions.values())}", " · ".join(pair_only)] if pair_only else []
        room = width - sum(len(one_line(text)) for text, _ in title) - 7
        pair = next((form for form in forms if len(form) <= room), run.pair)
        point = " ".join(f"{name}={value:g}" for name, value in run.point.items())
        rows = [rule(title, width, [(point or pair, "muted")])]
        names = max((cell_len(one_line(_name(stage))) for stage in run.stages), default=0)
        first, last = self._window(run.stages)
        if first:
            rows.append(_folded(run.stages[:first], width))
        rows += [self._stage(stage, min(names, 18), width) for stage in run.stages[first:last]]
        if last < len(run.stages):
            rows.append(_folded(run.stages[last:], width))
        return rows

    def _window(self, stages: tuple[StageView, ...]) -> tuple[int, int]:
        """Those that have a row of their own, from and up to (exclusive), the one under the cursor among them."""
        count, limit = len(stages), max(3, self.limit)
        if count <= limit or self.selected is None:
            return 0, count
        at = stages.index(self.selected)
        if at < limit - 1:
            return 0, limit - 1
        if at > count - limit:
            return count - limit + 1, count
        first = at - (limit - 3) // 2
        return first, first + limit - 2

    def _empty(self) -> list[Row]:
        if self.snapshot.link.phase != "connected":
            return [Row.of(("  No connection yet: runs are listed once the host answers.", "muted"))]
        if not self.snapshot.runs_known or self.snapshot.watching:
            return [Row.of(("  Asking the host about runs …", "muted"))]
        return [Row.of("  No run of this project on the host yet: press ", ("R", "key"), " to start one.")]

    def _stage(self, stage: StageView, names: int, width: int) -> Row:
        glyph, ink = STAGE_GLYPHS.get(stage.state, ("?", "warn"))
        here = stage is self.selected
        latest = stage.latest
        elapsed = duration(self.snapshot.elapsed(latest, self.now)) if latest else ""
        parts: list[Part] = [
            ("›" if here else " ", "accent"),
            (f"{glyph} ", ink),
            (fit(_name(stage), names), "strong" if stage.state in views.LIVE_STAGE_STATES else "text"),
            ("  " + fit(stage.state, 8), ink),
            (fit("" if elapsed == "n/a" else elapsed, 9, "right") + "  ", "muted"),
        ]
        used = 1 + 2 + names + 10 + 11
        parts += self._tail(stage, max(0, width - used - 1))
        return Row(tuple(parts), cursor=here)

    def _tail(self, stage: StageView, room: int) -> list[Part]:
        if stage.state in views.LIVE_STAGE_STATES and stage.progress:
            return _progress(stage, room)
        if stage.state in (views.FAILED, views.LOST, views.STOPPED) and stage.latest:
            return [(fit(_ending(stage), room), "bad" if stage.state != views.STOPPED else "muted")]
        words = stage.notes[-1] if stage.notes else stage.title if stage.state == views.WAITING else ""
        return [(fit(words, room), "muted")]


def _folded(stages: tuple[StageView, ...], width: int) -> Row:
    """`✔ 6 done: provision, target, …`: several stages in one row, the state that matters most first."""
    order = (views.FAILED, views.LOST, views.STOPPED, views.STOPPING, views.RUNNING, views.WAITING, views.DONE)
    states = sorted({s.state for s in stages}, key=lambda state: order.index(state) if state in order else -1)
    glyph, ink = STAGE_GLYPHS.get(states[0], ("?", "warn"))
    counts = " · ".join(f"{sum(s.state == state for s in stages)} {state}" for state in states)
    parts: list[Part] = [(f" {glyph} ", ink), (counts, ink)]
    if width >= FOLDED_NAMES:
        parts.append((f"  {', '.join(one_line(s.name) for s in stages)}", "muted"))
    return Row(tuple(parts))


def _name(stage: StageView) -> str:
    number = stage.latest.number if stage.latest else 1
    return f"{stage.name} #{number}" if number > 1 else stage.name


def _ending(stage: StageView) -> str:
    latest = stage.latest
    if latest is None:
        return ""
    if latest.error:
        return latest.error
    if latest.signal is not None:
        return f"ended by signal {latest.signal}"
    return f"exit status {latest.rc}" if latest.rc is not None else latest.state


def _progress(stage: StageView, room: int) -> list[Part]:
    """`samples ████──── 24/64  ETA 1m 10s`, the parts giving way from the left where there is no room."""
    progress = stage.progress
    if progress is None:
        return []
    label, unit = one_line(progress.label), one_line(progress.unit)
    count = f"{amount(progress.done)}/{amount(progress.total)}" if progress.total else ""
    if not progress.total and progress.done:
        count = amount(progress.done)
    eta = f"  ETA {duration(progress.eta_s)}" if progress.eta_s is not None else ""
    if count and unit and unit != label and room - len(count) - len(unit) - len(eta) > 24:
        count += f" {unit}"
    least = 8 if progress.total else 0
    label = fit(label, max(0, min(cell_len(label), room - len(count) - len(eta) - least - 2)))
    width = min(32, room - len(count) - len(eta) - cell_len(label) - 2)
    parts: list[Part] = [(f"{label} ", "text")] if label else []
    if progress.total and width >= 4:
        parts += [*bar(progress.done / progress.total, width), (" ", "text")]
    return [*parts, (count, "text"), (eta, "muted")]
