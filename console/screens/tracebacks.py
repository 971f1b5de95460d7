"""The tracebacks view: what broke, the root cause first; frames, source, chain, workers, the patch that mends it."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Container

from console.screens.listed import ListedView
from console.store import ASKING_DRIFT, Snapshot
from console.stranger import UNKNOWN, findings_about, told
from console.troubles import Trouble, bearing, list_troubles, troubled_stage
from console.widgets.listing import Details, Listing
from console.widgets.paint import Panel, Part, Row, rule
from console.words import many
from remote.logs.findings import Frame

_GLYPHS = {"root cause": ("✖", "bad"), "death": ("✖", "bad"), "reported": ("✖", "bad"), "wrapper": ("○", "faint")}


class TracebacksTitle(Panel):
    def __init__(self) -> None:
        super().__init__(id="tracebacks-title")
        self.snapshot = Snapshot()
        self.troubles: tuple[Trouble, ...] = ()

    def show(self, snapshot: Snapshot, troubles: tuple[Trouble, ...]) -> None:
        self.snapshot, self.troubles = snapshot, troubles
        self.repaint()

    def rows(self, width: int) -> list[Row]:
        title: list[Part] = [("tracebacks", "strong")]
        if self.troubles:
            first = self.troubles[0]
            title.append((f" {first.stage} #{first.attempt}", "text"))
            return [rule(title, width, [(many(len(self.troubles), "finding"), "muted")])]
        rows = [rule(title, width)]
        if self.snapshot.run is None:
            return [*rows, Row.of("  No run, so nothing has broken: ", ("R", "key"), " starts one.")]
        return [*rows, Row.of(("  Nothing has broken in the latest attempt of any stage.", "muted"))]


class TracebacksScreen(ListedView):
    def compose(self) -> ComposeResult:
        yield TracebacksTitle()
        with Container(id="tracebacks-body"):
            yield Listing("tracebacks-list")
            yield Details("tracebacks-details")

    troubles: tuple[Trouble, ...] = ()
    _shown_key: str | None = None

    def show(self, snapshot: Snapshot, now: float) -> None:
        self.snapshot = snapshot
        shown = snapshot.shown_attempt()
        stage = troubled_stage(snapshot.run, shown[0].name if shown else None)
        self.troubles = list_troubles(stage, snapshot.patches or ())
        self.query_one(TracebacksTitle).show(snapshot, self.troubles)
        self.query_one("#tracebacks-body").display = bool(self.troubles)
        self._list.fill([(_key(trouble), _row(trouble)) for trouble in self.troubles])
        self._fill_details()

    @property
    def selected(self) -> Trouble | None:
        return self.troubles[self._list.cursor] if self._list.cursor < len(self.troubles) else None

    def _fill_details(self) -> None:
        trouble = self.selected
        key = _key(trouble) if trouble else None
        parts = describe(trouble, self.troubles, self.snapshot) if trouble else []
        self.query_one(Details).fill(parts, fresh=key != self._shown_key)
        self._shown_key = key

    def do_next_error(self) -> None:
        if self.troubles:
            self._list.go((self._list.cursor + 1) % len(self.troubles))

    def do_previous_error(self) -> None:
        if self.troubles:
            self._list.go((self._list.cursor - 1) % len(self.troubles))

    async def do_patch(self) -> None:
        """To the patch; for a traceback that none explains, the drift probe's findings."""
        trouble = self.selected
        if trouble is not None and trouble.matches:
            await self.eyas.go_to_patch(trouble.matches[0].patch)
        elif trouble is not None and trouble.traceback is not None:
            self.eyas.live.ask_drift()
        else:
            self.eyas.tell("No patch of the catalogue is known to mend this one." if trouble else "Nothing is broken.")
            await self.eyas.go_to("patches")

    async def do_open(self) -> None:
        if self.selected is not None:
            await self.eyas.go_to_log_line(self.selected)


def _key(trouble: Trouble) -> str:
    return f"{trouble.stage}/{trouble.attempt}/{trouble.role}/{trouble.index}/{trouble.line}"


def _row(trouble: Trouble) -> Row:
    glyph, ink = _GLYPHS.get(trouble.role, ("•", "text"))
    dim = trouble.role == "wrapper"
    number = "" if trouble.index is None else f"#{trouble.index + 1}"
    parts: list[Part] = [(f"{glyph} ", ink), (f"{number:<4}", "muted"), (f"{_role_words(trouble):<11}", ink)]
    parts.append((trouble.headline, "faint" if dim else "strong" if trouble.role == "root cause" else "text"))
    return Row(tuple(parts))


def _role_words(trouble: Trouble) -> str:
    if trouble.traceback is not None and trouble.role == "wrapper":
        cause = trouble.traceback.caused_by
        return "wraps" if cause is None else f"wraps #{cause + 1}"
    if trouble.traceback is not None and trouble.traceback.chained_from is not None and trouble.role == "chained":
        return f"after #{trouble.traceback.chained_from + 1}"
    return trouble.role


def describe(trouble: Trouble, troubles: tuple[Trouble, ...], snapshot: Snapshot) -> list[Part]:
    """The details as text: the failure, the remedy, where it came from, then every frame."""
    parts: list[Part] = []
    _head(parts, trouble)
    _mend(parts, trouble, snapshot)
    if trouble.fatal and trouble.fatal.remedy:
        parts += [("→ ", "muted"), (trouble.fatal.remedy + "\n", "text")]
    _origin(parts, trouble)
    _chain(parts, trouble, troubles)
    if trouble.report:
        parts += [("\nas the stage reported it\n", "muted"), (trouble.report.text + "\n", "text")]
    if trouble.traceback:
        frames = trouble.traceback.frames
        parts += [("\n" + many(len(frames), "frame"), "muted"), (", innermost last\n", "muted")]
        for place, frame in enumerate(frames):
            _frame(parts, frame, last=place == len(frames) - 1)
        if trouble.traceback.truncated:
            parts.append(("… the log ends inside this traceback\n", "warn"))
    return parts


def _head(parts: list[Part], trouble: Trouble) -> None:
    traceback = trouble.traceback
    if traceback is None:
        parts += [(trouble.headline + "\n", "bad")]
        return
    name = traceback.exception_type or "cut off before its exception"
    parts += [(name, "bad"), (f"   {_role_words(trouble)}\n", "muted")]
    innermost = traceback.innermost
    if traceback.message:
        parts.append((traceback.message + "\n", "strong"))
    elif innermost and innermost.source:
        parts.append(("no message; it fails at\n", "muted"))
    if innermost:
        if innermost.source:
            parts.append((f"  {innermost.source.strip()}\n", "strong"))
        parts += [(f"  in {innermost.function}", "text"), (f"  {_place(innermost)}\n", "muted")]


def _mend(parts: list[Part], trouble: Trouble, snapshot: Snapshot) -> None:
    for place, match in enumerate(trouble.matches):
        status = snapshot.patch(match.patch)
        parts += [("\n▸ " if place == 0 else "▸ ", "good"), (f"patch {match.patch} {bearing(match)}", "good")]
        if status is not None:
            parts.append((f"  (now {status.state}, switch {status.switch})", "text"))
        if place == 0:
            parts += [("  press ", "muted"), ("p", "key")]
        parts += [("\n", "text"), (f"  {match.why}\n", "muted")]
    if not trouble.matches and trouble.role == "root cause" and trouble.traceback is not None:
        parts.append((f"\n{UNKNOWN}\n", "muted"))
        if snapshot.drift is not None:
            found = findings_about(snapshot.drift, trouble.traceback.frames)
            parts += [(line + "\n", "text") for line in told(found)]
        elif ASKING_DRIFT in snapshot.pending:
            parts.append(("the drift probe is reading the host's installed sources …\n", "muted"))
        else:
            parts += [("p", "key"), (" asks the drift probe about the functions in its frames\n", "muted")]


def _origin(parts: list[Part], trouble: Trouble) -> None:
    parts.append(("\n", "text"))
    workers = trouble.traceback.workers if trouble.traceback else ()
    if workers:
        parts += [("printed by ", "muted"), (", ".join(workers) + "\n", "text")]
    if trouble.line:
        parts += [("in the log ", "muted"), (f"line {trouble.line:,}", "text"), ("  enter goes there\n", "muted")]
    if trouble.reason:
        parts += [("root cause ", "muted"), (trouble.reason + "\n", "text")]


def _chain(parts: list[Part], trouble: Trouble, troubles: tuple[Trouble, ...]) -> None:
    traceback = trouble.traceback
    if traceback is None:
        return
    words = {"cause": "directly caused by", "context": "while handling", "remote": "raised elsewhere as"}
    if traceback.chained_from is not None:
        before = next((t for t in troubles if t.index == traceback.chained_from), None)
        said = words.get(traceback.chain_kind or "", "after")
        parts += [
            (f"{said} ", "muted"),
            (f"#{traceback.chained_from + 1} {before.headline if before else ''}\n", "text"),
        ]
    if traceback.wrapper:
        cause = (
            next((t for t in troubles if t.index == traceback.caused_by), None)
            if traceback.caused_by is not None
            else None
        )
        told = f"#{(traceback.caused_by or 0) + 1} {cause.headline}" if cause else "something that is not in this log"
        parts += [("only says that another failed: ", "muted"), (told + "\n", "text")]
    for after in troubles:
        if after.traceback and after.traceback.chained_from == trouble.index and trouble.index is not None:
            parts += [("led to ", "muted"), (f"#{(after.index or 0) + 1} {after.headline}\n", "text")]


def _frame(parts: list[Part], frame: Frame, last: bool) -> None:
    parts += [
        ("✖ " if last else "  ", "bad"),
        (frame.function, "strong" if last else "text"),
        (f"  {_place(frame)}\n", "muted"),
    ]
    if frame.source:
        parts.append((f"      {frame.source.strip()}\n", "strong" if last else "text"))


def _place(frame: Frame) -> str:
    """`vllm/v1/core/block_pool.py:243`: what every host has in front of a package's files says nothing."""
    parts = frame.file.split("/")
    for lead in ("site-packages", "dist-packages"):
        if lead in parts[:-1]:
            parts = parts[len(parts) - parts[::-1].index(lead) :]
    if "bundles" in parts[:-2]:  # Eyas's own files on the host: bundles/DIGEST/…
        parts = parts[parts.index("bundles") + 2 :]
    return f"{'/'.join(parts)}:{frame.line}"
