"""What a run has measured, ready to be drawn: curves joined over attempts, in groups, and the table of acceptance.

No textual, no I/O. What is given is sanitised already.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from remote.views import CurveView, RunView, StageView

Curves = Mapping[str, CurveView]
"""By their keys."""
VALIDATION = "val/"
TRAINING = "train"
ETA = "eta_s"
"""Seconds that are left: a figure for a title, not for a plot."""
KINDS = ("untrained", "simulated", "served")
"""Ways in which acceptance is measured, in the order of the table."""
_NUMBERED = re.compile(r"(.+)_(\d+)")
_ORDER = ("loss", "accuracy", "acceptance", "lr", "tokens_per_s")
_BEST = {"loss": min, "accuracy": max, "acceptance": max}


@dataclass(frozen=True)
class Line:
    """One figure over steps, over all attempts of its stage: a later attempt replaces what it did again."""

    name: str
    steps: tuple[float, ...]
    values: tuple[float, ...]
    stepped: bool
    reports: int
    broken: int
    latest: float

    @property
    def validation(self) -> bool:
        return self.name.startswith(VALIDATION)

    @property
    def position(self) -> int | None:
        """k of `accuracy_k`."""
        found = _NUMBERED.fullmatch(self.name)
        return int(found[2]) if found else None

    @property
    def group(self) -> str:
        name = self.name.removeprefix(VALIDATION)
        found = _NUMBERED.fullmatch(name)
        return found[1] if found else name

    @property
    def best(self) -> float | None:
        """None where more or less is no better."""
        choose = _BEST.get(self.group)
        return choose(*self.values, self.latest) if choose else None


@dataclass(frozen=True)
class Group:
    """Lines that belong in one plot: training and validation, one position or several."""

    name: str
    lines: tuple[Line, ...]

    @property
    def training(self) -> tuple[Line, ...]:
        return tuple(line for line in self.lines if not line.validation)

    @property
    def validation(self) -> tuple[Line, ...]:
        return tuple(line for line in self.lines if line.validation)


@dataclass(frozen=True)
class Accepted:
    """One set of prompts, as evaluation measured it: kind -> tokens a round; kind -> accuracy by position."""

    prompts: str
    length: dict[str, float]
    positions: dict[str, dict[int, float]]


def take(have: Curves, news: Iterable[CurveView]) -> dict[str, CurveView]:
    """The curves with what came from the host. Raises ValueError when a piece does not fit what is there."""
    found = dict(have)
    for view in news:
        if len(view.steps) != len(view.values):
            raise ValueError(f"{view.key} has {len(view.steps)} steps and {len(view.values)} values")
        before = found.get(view.key)
        if view.start:
            if before is None or before.stride != view.stride or len(before.steps) < view.start:
                raise ValueError(f"{view.key} goes on from a point that never came")
            steps, values = before.steps[: view.start] + view.steps, before.values[: view.start] + view.values
            view = replace(view, start=0, steps=steps, values=values)
        found[view.key] = view
    return found


def held(curves: Curves) -> dict[str, list[int]]:
    """`have` of METRICS."""
    return {key: [view.stride, len(view.steps), view.reports + view.broken] for key, view in curves.items()}


def measured(run: RunView | None) -> dict[str, tuple[int, dict[str, float]]]:
    """Stage -> attempt and latest figures: while it is the same, no curve has grown by more than equal values."""
    stages = run.stages if run else ()
    return {s.name: (s.latest.number, s.metrics) for s in stages if s.latest and s.metrics}


def lines(curves: Curves, stage: str) -> tuple[Line, ...]:
    by_name: dict[str, list[CurveView]] = {}
    for view in curves.values():
        if view.stage == stage and view.last_value is not None:
            by_name.setdefault(view.name, []).append(view)
    return tuple(_join(sorted(views, key=lambda view: view.attempt)) for views in by_name.values())


def _join(views: list[CurveView]) -> Line:
    last = views[-1]
    points: list[tuple[float, float]] = []
    for view in views if last.stepped else views[-1:]:
        own = list(zip(view.steps, view.values, strict=True))
        if view.last_step is not None and view.last_value is not None and (not own or own[-1][0] < view.last_step):
            own.append((view.last_step, view.last_value))
        first = own[0][0] if own else 0.0
        points = [point for point in points if point[0] < first] + own
    return Line(
        name=last.name,
        steps=tuple(step for step, _ in points),
        values=tuple(value for _, value in points),
        stepped=last.stepped,
        reports=sum(view.reports for view in views),
        broken=sum(view.broken for view in views),
        latest=points[-1][1],
    )


def groups(curves: Curves, stage: str) -> tuple[Group, ...]:
    """Groups worth a plot, the known ones first. What evaluation says of sets of prompts has its own table."""
    found: dict[str, list[Line]] = {}
    for line in lines(curves, stage):
        if line.name != ETA and (line.validation or "/" not in line.name):
            found.setdefault(line.group, []).append(line)
    names = sorted(found, key=lambda name: (_ORDER.index(name) if name in _ORDER else len(_ORDER), name))
    return tuple(Group(name, tuple(sorted(found[name], key=lambda line: line.name))) for name in names)


def drawable(group: Group) -> bool:
    """Whether it has a curve: more than one point, and more than one value or a step."""
    return any(line.stepped or len(line.steps) > 1 for line in group.lines)


def stages_with_figures(curves: Curves, run: RunView | None) -> tuple[str, ...]:
    named = {view.stage for view in curves.values()}
    return tuple(stage.name for stage in (run.stages if run else ()) if stage.name in named)


def telling_stage(curves: Curves, run: RunView | None, picked: str | None = None) -> StageView | None:
    """The stage to show: the one asked for, else the live one, training, the last that has figures."""
    if run is None:
        return None
    named = stages_with_figures(curves, run)
    live = run.live_stage.name if run.live_stage else None
    wanted = (picked, live, TRAINING, *named[-1:])
    return next((run.stage(name) for name in wanted if name is not None and name in named), None)


def accepted(run: RunView | None) -> tuple[Accepted, ...]:
    """The table of acceptance, a set of prompts a row, from the latest figures of every stage."""
    found: dict[str, Accepted] = {}
    for stage in run.stages if run else ():
        for name, value in stage.metrics.items():
            what, _, rest = name.partition("/")
            prompts, _, kind = rest.rpartition("/")
            if not prompts or kind not in KINDS:
                continue
            row = found.setdefault(prompts, Accepted(prompts, {}, {}))
            numbered = _NUMBERED.fullmatch(what)
            if what == "acceptance":
                row.length[kind] = value
            elif numbered and numbered[1] == "accuracy":
                row.positions.setdefault(kind, {})[int(numbered[2])] = value
    return tuple(row for row in found.values() if row.length)


SPARKS = "▁▂▃▄▅▆▇█"


def sparkline(values: Iterable[float], width: int) -> str:
    """The course of a figure in one row of `width` cells at most."""
    given = list(values)
    if not given or width <= 0:
        return ""
    if len(given) > width:
        given = [given[(i * (len(given) - 1)) // max(1, width - 1)] for i in range(width)]
    low, high = min(given), max(given)
    span = high - low
    return "".join(SPARKS[min(7, int((value - low) / span * 8))] if span else SPARKS[3] for value in given)


def figure(value: float, name: str = "") -> str:
    """`3.08`, `0.864`, `1.2e-05`, `12,345`: three or four figures."""
    if name in ("lr",) or (value and abs(value) < 1e-3):
        return f"{value:.2e}"
    if float(value).is_integer() and abs(value) < 1e15:
        return f"{value:,.0f}"
    return f"{value:.3f}" if abs(value) < 10 else f"{value:.1f}" if abs(value) < 1000 else f"{value:,.0f}"
