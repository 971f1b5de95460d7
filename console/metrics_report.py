"""What `eyas metrics` answers: a table of figures with their course, and the table of acceptance. No I/O here."""

from __future__ import annotations

from typing import Any

from rich.cells import cell_len

from console.curves import KINDS, Curves, Group, accepted, figure, groups, lines, sparkline
from console.curves import telling_stage as _telling
from console.reports import sanitise_lines
from console.words import MISSING, many
from remote.views import RunView, StageView

NAMES = 18
COURSE = 40


def telling_stage(run: RunView, curves: Curves) -> str | None:
    stage = _telling(curves, run)
    return stage.name if stage else None


def metrics_text(run: RunView, stage: StageView, curves: Curves, width: int) -> str:
    number = f", attempt {stage.latest.number}" if stage.latest else ""
    told = [f"run {run.run}, {stage.name}{number}: {stage.state}"]
    found = groups(curves, stage.name)
    told += [_group(group, width) for group in found]
    if not found:
        told.append("no figures")
    return sanitise_lines([*told, *_acceptance(run)])


def _group(group: Group, width: int) -> str:
    values = " ".join(figure(line.latest, group.name) for line in group.training)
    text = f"  {group.name:<{NAMES}} {values:<24}"
    if group.validation:
        text += f" val {' '.join(figure(line.latest, group.name) for line in group.validation):<24}"
    lead = (group.validation or group.training)[0]
    if lead.best is not None and len(lead.values) > 1:
        text += f" best {figure(lead.best, group.name)}"
    broken = sum(line.broken for line in group.lines)
    if broken:
        text += f" {many(broken, 'value')} not finite"
    course = (group.training or group.validation)[0]
    room = min(COURSE, width - cell_len(text) - 2)
    return f"{text}  {sparkline(course.values, room)}".rstrip() if len(course.values) > 1 else text.rstrip()


def _acceptance(run: RunView) -> list[str]:
    table = accepted(run)
    if not table:
        return []
    names = max(NAMES, *(cell_len(row.prompts) for row in table))
    told = ["", f"  {'acceptance':<{names}}" + "".join(f"{kind:>12}" for kind in KINDS)]
    for row in table:
        values = (f"{row.length[kind]:.3f}" if kind in row.length else MISSING for kind in KINDS)
        told.append(f"  {row.prompts:<{names}}" + "".join(f"{value:>12}" for value in values))
    return told


def metrics_json(run: RunView, stage: StageView, curves: Curves) -> dict[str, Any]:
    """What `eyas metrics --json` answers for one stage."""
    return {
        "run": run.run,
        "stage": stage.name,
        "attempts": [attempt.number for attempt in stage.attempts],
        "metrics": dict(stage.metrics),
        "curves": {
            line.name: {
                "steps": list(line.steps),
                "values": list(line.values),
                "reports": line.reports,
                "broken": line.broken,
            }
            for line in lines(curves, stage.name)
        },
        "acceptance": [
            {"prompts": row.prompts, **{kind: row.length.get(kind) for kind in KINDS}, "positions": row.positions}
            for row in accepted(run)
        ],
    }
