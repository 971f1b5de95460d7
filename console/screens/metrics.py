"""The metrics view: a stage's figures in a list, their curves in plots, and what evaluation says of acceptance."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Container

from console import curves
from console.curves import Group, Line
from console.screens.listed import CursorView
from console.store import Snapshot
from console.sweep_report import group, headline
from console.widgets import points
from console.widgets.acceptance import Acceptance
from console.widgets.listing import Listing
from console.widgets.paint import Panel, Part, Row, fit, rule
from console.widgets.plots import CurvePlot
from console.words import amount, duration, many
from remote.views import RunView, StageView

PLOTS = 9
WIDE, HIGH = 56, 15
"""Cells and rows that a plot wants before there are several."""


class MetricsTitle(Panel):
    def __init__(self) -> None:
        super().__init__(id="metrics-title")
        self.snapshot = Snapshot()
        self.stage: StageView | None = None
        self.sweeping = False

    def show(self, snapshot: Snapshot, stage: StageView | None, sweeping: bool) -> None:
        self.snapshot, self.stage, self.sweeping = snapshot, stage, sweeping
        self.repaint()

    def rows(self, width: int) -> list[Row]:
        if self.sweeping:
            return self._of_sweep(width)
        title: list[Part] = [("metrics", "strong")]
        stage = self.stage
        if stage is None:
            return [rule(title, width), self._why_empty()]
        title.append((f"  {stage.name}", "text"))
        if stage.latest:
            title.append((f" #{stage.latest.number} {stage.state}", "muted"))
        return [rule(title, width, _course(stage, width >= 60))]

    def _of_sweep(self, width: int) -> list[Row]:
        sweep, problem = self.snapshot.sweep, self.snapshot.sweep_problem
        title: list[Part] = [("sweep", "strong")]
        if sweep is None and problem is None:
            return [rule(title, width), Row.of(("  Asking the host for the sweep …", "muted"))]
        if sweep is None:
            assert problem
            return [rule(title, width), Row.of(("  ", "muted"), problem.message, (f"  {problem.remedy}", "muted"))]
        title.append((f"  over the data of {sweep.base}", "text"))
        return [rule(title, width, [(headline(sweep), "muted")]), points.head(sweep, width)]

    def _why_empty(self) -> Row:
        snapshot = self.snapshot
        if snapshot.link.phase != "connected" and snapshot.run is None:
            return Row.of(("  No connection yet: figures come once the host answers.", "muted"))
        if snapshot.run is None:
            return Row.of("  No run, so no figures: ", ("R", "key"), " starts one.")
        if not snapshot.curves and curves.measured(snapshot.run):
            return Row.of(("  Asking the host for the figures …", "muted"))
        return Row.of(("  No stage of this run has reported a figure yet.", "muted"))


def _course(stage: StageView, whole: bool) -> list[Part]:
    """`1,200/3,000 steps · ETA 3m 05s`, as the stage itself tells it; not `whole`: the first figures alone."""
    told = []
    progress = stage.progress
    if progress and progress.total:
        unit = f" {progress.unit or progress.label}" if whole else ""
        told.append(f"{amount(progress.done)}/{amount(progress.total)}{unit}")
    eta = progress.eta_s if progress and progress.eta_s is not None else stage.metrics.get(curves.ETA)
    if stage.state == "running" and eta is not None:
        told.append(f"ETA {duration(eta)}")
    return [(" · ".join(told if whole else told[:1]), "muted")] if told else []


class MetricsScreen(CursorView):
    def compose(self) -> ComposeResult:
        yield MetricsTitle()
        yield Listing("metrics-list")
        with Container(id="plots"):
            for place in range(PLOTS):
                yield CurvePlot(f"plot-{place}")
        yield Acceptance()

    _picked: str | None = None
    """Stage that the operator turned to; None goes with the run."""
    _groups: tuple[Group, ...] = ()
    sweeping = False
    """Whether the points of a sweep are shown in place of one run's figures."""

    def show(self, snapshot: Snapshot, now: float) -> None:
        if snapshot.watching != self.snapshot.watching:
            self._picked = None
        self.snapshot = snapshot
        if self.sweeping:
            self._show_sweep()
            return
        if curves.measured(snapshot.run) != snapshot.curves_of:
            self.eyas.live.curves.refresh()
        stage = self.stage
        self._groups = curves.groups(snapshot.curves, stage.name) if stage else ()
        self.query_one(MetricsTitle).show(snapshot, stage, False)
        self._list.display = bool(self._groups)
        width = self.app.size.width
        self._list.fill([(group.name, _row(group, width)) for group in self._groups])
        self.query_one(Acceptance).show(curves.accepted(snapshot.run), 3 if self.app.size.height < 36 else 12)
        self._draw()

    def _show_sweep(self) -> None:
        snapshot = self.snapshot
        self.eyas.live.sweep.refresh(snapshot.run.sweep if snapshot.run else "")
        self.query_one(MetricsTitle).show(snapshot, None, True)
        self.query_one(Acceptance).show((), 0)
        sweep = snapshot.sweep
        self._list.display = sweep is not None
        self._list.fill(points.items(sweep, self.app.size.width) if sweep else [])
        found = group(sweep) if sweep else None
        self._groups = (found,) if found else ()
        self._draw()

    @property
    def stage(self) -> StageView | None:
        return curves.telling_stage(self.snapshot.curves, self.snapshot.run, self._picked)

    def on_listing_moved(self) -> None:
        self._draw()

    def on_resize(self) -> None:
        self.call_after_refresh(self._draw)

    def _draw(self) -> None:
        """As many plots as there is room for, the one under the cursor among them."""
        drawn = [group for group in self._groups if curves.drawable(group)]
        plots = self.query_one("#plots", Container)
        plots.display = bool(drawn)
        width, height = self.app.size.width, plots.size.height or self.app.size.height // 2
        columns = max(1, min(width // WIDE, len(drawn)))
        room = min(PLOTS, columns * max(1, height // HIGH))
        columns = min(columns, room)
        rows = max(1, -(-min(room, len(drawn)) // columns))
        here = self._list.key
        at = next((place for place, group in enumerate(drawn) if group.name == here), 0)
        first = min(max(0, at - room + 1), max(0, len(drawn) - room))
        shown = drawn[first : first + room]
        if plots.styles.grid_size_columns != columns:
            plots.styles.grid_size_columns = columns
        for place, plot in enumerate(self.query(CurvePlot)):
            group = shown[place] if place < len(shown) else None
            plot.show(
                group,
                here=group is not None and group.name == here and len(shown) > 1,
                width=width // columns,
                height=height // rows,
            )

    # Moving ------------------------------------------------------------------------------------------------

    def do_page_down(self) -> None:
        self._list.move(max(1, self._list.size.height - 1))

    def do_page_up(self) -> None:
        self._list.move(-max(1, self._list.size.height - 1))

    def do_half_down(self) -> None:
        self._list.move(max(1, self._list.size.height // 2))

    def do_half_up(self) -> None:
        self._list.move(-max(1, self._list.size.height // 2))

    def do_sweep(self) -> None:
        self.sweeping = not self.sweeping
        self._list.go(0)
        self.show(self.snapshot, self.eyas.clock())

    async def do_open(self) -> None:
        """From a point to its run."""
        if not self.sweeping or self._list.key is None:
            self.eyas.tell("w shows the points of a sweep: enter goes to the run of one.")
            return
        self.eyas.live.turn_to(self._list.key)
        self.sweeping = False
        await self.eyas.go_to("run")

    def do_right(self) -> None:
        self._turn(1)

    def do_left(self) -> None:
        self._turn(-1)

    def _turn(self, step: int) -> None:
        """To the figures of the stage before or after."""
        run: RunView | None = self.snapshot.run
        if self.sweeping:
            return
        named = curves.stages_with_figures(self.snapshot.curves, run)
        if not named or self.stage is None:
            self.eyas.tell("No stage has reported a figure yet.")
            return
        place = min(max(0, named.index(self.stage.name) + step), len(named) - 1)
        self._picked = named[place]
        self._list.go(0)
        self.show(self.snapshot, self.eyas.clock())


def _row(group: Group, width: int) -> Row:
    """`accuracy    0.71 0.55 0.43   val 0.70 0.54 0.42   best 0.72   ▂▃▅▆▇`"""
    parts: list[Part] = [(fit(group.name.replace("_", " "), 16) + " ", "strong")]
    parts.append((fit(_values(group.training, group.name), 24), "text"))
    held_out = _values(group.validation, group.name)
    parts.append((fit(f"val {held_out}" if held_out else "", 28), "muted"))
    lead = (group.validation or group.training)[:1]
    if lead and len(lead[0].values) > 1 and width >= 100:
        best = lead[0].best
        parts.append((fit("" if best is None else f"best {curves.figure(best, group.name)}", 16), "muted"))
    broken = sum(line.broken for line in group.lines)
    if broken:
        parts.append((f"{many(broken, 'value')} not finite  ", "bad"))
    room = width - sum(len(text) for text, _ in parts) - 4
    course = (group.training or group.validation)[:1]
    if course and len(course[0].values) > 1:
        parts.append((curves.sparkline(course[0].values, min(room, 48)), "accent"))
    elif group.lines and group.lines[0].reports > 1:
        parts.append((many(group.lines[0].reports, "report"), "faint"))
    return Row(tuple(parts))


def _values(lines: tuple[Line, ...], name: str) -> str:
    return " ".join(curves.figure(line.latest, name) for line in lines[:6])
