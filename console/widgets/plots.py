"""One plot of one group of curves, drawn by plotext, and only when what it shows has changed."""

from __future__ import annotations

from rich.cells import cell_len
from textual_plotext import PlotextPlot

from console.curves import Group, figure
from console.sanitise import one_line

_LINES = ("cyan", "green", "magenta", "yellow", "blue", "red", "white", "orange")
NAMED = 4
"""Lines whose latest values stand in the title."""


class CurvePlot(PlotextPlot):
    """A line a figure; what was measured on held-out samples is drawn as points."""

    can_focus = False

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self.display = False
        self._shown: tuple[Group | None, bool, int, int] = (None, False, 0, 0)

    def show(self, group: Group | None, here: bool = False, width: int = 80, height: int = 0) -> None:
        """`here`: the cursor of the list stands on this group. `width`, `height`: cells that the plot will have."""
        if (group, here, width, height) == self._shown:
            return
        self._shown = (group, here, width, height)
        self.display = group is not None
        if group is not None:
            self._draw(group, here, width, height)
            self.refresh()

    def _draw(self, group: Group, here: bool, width: int, height: int) -> None:
        plt = self.plt
        plt.clear_figure()
        latest = " ".join(figure(line.latest, group.name) for line in group.training[:NAMED])
        plt.title(f"{'› ' if here else ''}{one_line(group.name).replace('_', ' ')}  {latest}".rstrip())
        # A legend lies on the curves: only where they are seen besides.
        legend = 1 < len(group.lines) <= height // 2
        for line in group.lines:
            colour = _LINES[(line.position - 1 if line.position else 0) % len(_LINES)]
            steps, values = _thin(line.steps, width), _thin(line.values, width)
            if line.validation:
                label = _label(line.name) if legend else None
                plt.scatter(steps, values, marker="◆", color=colour, label=label)
            else:
                label = _label(line.name) if legend else None
                plt.plot(steps, values, marker="braille", color=colour, label=label)
        low, high = _bounds(group)
        plt.ylim(low, high)
        plt.yticks(*_ticks(low, high, group.name))
        if any(line.stepped for line in group.lines):
            ticks = _steps(group)
            plt.xticks(ticks, [f"{tick:,.0f}" for tick in ticks])


def _thin(points: tuple[float, ...], width: int) -> list[float]:
    """As many as there are columns to draw them in, the last one always: every point costs time and none is seen."""
    every = -(-len(points) // max(1, width)) or 1
    kept = list(points[::every])
    return kept if not points or (len(points) - 1) % every == 0 else [*kept, points[-1]]


def _label(name: str) -> str:
    """`val/accuracy_2` is `val 2`: the plot's title has the rest."""
    behind = one_line(name).removeprefix("val/")
    number = behind.rpartition("_")[2]
    short = number if number.isdecimal() else "train"
    words = f"val {number if number.isdecimal() else ''}".strip() if name.startswith("val/") else short
    return words if cell_len(words) <= 12 else words[:12]


def _bounds(group: Group) -> tuple[float, float]:
    values = [value for line in group.lines for value in line.values]
    low, high = min(values), max(values)
    room = (high - low) * 0.05 or abs(high) * 0.05 or 1.0
    return low - room if low < 0 else max(0.0, low - room), high + room


def _ticks(low: float, high: float, name: str) -> tuple[list[float], list[str]]:
    places = [low + (high - low) * part / 4 for part in range(5)]
    return places, [figure(place, name) for place in places]


def _steps(group: Group) -> list[float]:
    steps = [step for line in group.lines for step in line.steps]
    first, last = min(steps), max(steps)
    return [first + (last - first) * part / 4 for part in range(5)] if last > first else [first]
