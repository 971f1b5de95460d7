"""What the stage under the cursor has to say for itself: the last error first, then notes, figures, products."""

from __future__ import annotations

from console.sanitise import one_line
from console.store import Snapshot
from console.troubles import Trouble, bearing, list_troubles
from console.widgets.paint import Panel, Part, Row, fit, rule
from console.words import amount
from remote.views import StageView


class TroubleLine(Panel):
    """The root cause in one row, with the patch that mends it, else what stands still; not there while all is well."""

    def __init__(self) -> None:
        super().__init__(id="trouble")
        self.troubles: tuple[Trouble, ...] = ()
        self.stall = ""

    def show(self, snapshot: Snapshot) -> None:
        run = snapshot.run
        stage = (run.live_stage or run.failed_stage) if run else None
        self.troubles = list_troubles(stage, snapshot.patches or ())
        stalls = [stall.text for stall in snapshot.live.findings.stalls if not stall.ended] if snapshot.live else []
        self.stall = stalls[-1] if stalls else ""
        self.display = bool(self.troubles or self.stall)
        self.repaint()

    def rows(self, width: int) -> list[Row]:
        if not self.troubles:
            return [Row(((" ◌ ", "warn"), (fit(self.stall, max(8, width - 3)), "strong")))] if self.stall else []
        first = self.troubles[0]
        link: list[Part] = [("  ", "text"), ("t", "key"), (" shows it", "muted")]
        if first.matches:
            link = [("  ", "text"), ("p", "key"), (f" {first.matches[0].patch} {bearing(first.matches[0])}", "good")]
        room = width - 3 - sum(len(one_line(text)) for text, _ in link) - 1
        headline = fit(first.headline, max(8, room)) if room > 8 else fit(first.headline, width - 3)
        return [Row(((" ✖ ", "bad"), (headline, "strong"), *(link if room > 8 else ())))]


class Facts(Panel):
    """Notes, metrics, products and active patches of one stage; only where there is room."""

    def __init__(self) -> None:
        super().__init__(id="facts")
        self.stage: StageView | None = None
        self.limit = 10

    def show(self, stage: StageView | None, limit: int) -> None:
        self.stage, self.limit = stage, limit
        self.display = bool(self.stage and self._facts(80))
        self.repaint()

    def rows(self, width: int) -> list[Row]:
        if self.stage is None:
            return []
        title: list[Part] = [(self.stage.name, "strong"), (f"  {self.stage.title}", "muted")]
        rows = self._facts(width)
        shown = rows if len(rows) <= self.limit else [*rows[: self.limit - 1]]
        if len(shown) < len(rows):
            shown.append(Row.of((f"  … and {len(rows) - len(shown)} more", "faint")))
        return [rule(title, width), *shown]

    def _facts(self, width: int) -> list[Row]:
        stage = self.stage
        if stage is None:
            return []
        rows = [_fact("note", note, width) for note in stage.notes[-4:]]
        rows += [_fact(name.replace("_", " "), amount(value), width) for name, value in stage.metrics.items()]
        for patch, state in stage.patch_states.items():
            rows.append(_fact("patch", f"{patch}: {state}", width, "good" if state == "active" else "text"))
        rows += [_fact("product", path, width) for path in stage.artifacts]
        return rows


def _fact(name: str, value: str, width: int, ink: str = "text") -> Row:
    names = min(24, max(10, width // 4))
    return Row(((f"  {fit(name, names)} ", "muted"), (fit(value, max(0, width - names - 4)), ink)))
