"""The console: one screen, five views, a top line and a key line. Paints first, connects after."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from inspect import isawaitable
from pathlib import Path
from typing import Any, ClassVar

from rich.text import Text
from textual import on
from textual.app import App, ComposeResult, SystemCommand
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.message import Message
from textual.screen import Screen

from console import actions
from console.interfaces import ProjectLike, SessionFactory
from console.live import Live, Severity
from console.logwindow import LogKey
from console.sanitise import one_line, sanitise
from console.screens.dialogs import Ask, Asked, ChooseRun, ConfirmStop, Help, ModalAsker
from console.screens.log import LogScreen
from console.screens.palette import ActionsProvider
from console.screens.patches import PatchesScreen
from console.screens.run import RunScreen
from console.screens.tracebacks import TracebacksScreen
from console.screens.view import View
from console.store import Snapshot, neighbour_attempt
from console.troubles import Trouble, list_troubles
from console.widgets.frame import Banner, KeyLine, TopLine

MAKERS: dict[actions.View, Callable[[], View]] = {
    "run": lambda: RunScreen(id="view-run"),
    "log": lambda: LogScreen(id="view-log"),
    "tracebacks": lambda: TracebacksScreen(id="view-tracebacks"),
    "patches": lambda: PatchesScreen(id="view-patches"),
    "metrics": lambda: _metrics(),
}


def _metrics() -> View:
    from console.screens.metrics import MetricsScreen  # the plotting library is not needed to start

    return MetricsScreen(id="view-metrics")


class SnapshotChanged(Message):
    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__()
        self.snapshot = snapshot


class Notice(Message):
    def __init__(self, text: str, severity: Severity) -> None:
        super().__init__()
        self.text, self.severity = text, severity


class EyasApp(App[None]):
    CSS_PATH = Path(__file__).with_name("console.tcss")
    TITLE = "Eyas"
    ENABLE_COMMAND_PALETTE = True
    COMMANDS: ClassVar[set[Any]] = {ActionsProvider}
    BINDINGS: ClassVar[list[BindingType]] = [
        *actions.bindings(),
        Binding("ctrl+c,ctrl+q", "act('quit')", show=False, priority=True),
    ]
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (80, "-normal"), (120, "-wide")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-tiny"), (20, "-short"), (36, "-tall")]  # noqa: RUF012

    def __init__(
        self,
        project: ProjectLike,
        session_factory: SessionFactory,
        run: str | None = None,
        start: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self.clock = clock
        self.view: actions.View = "run"
        self._asker = ModalAsker(self.post_message)
        self.live = Live(
            project,
            session_factory,
            self._asker,
            lambda snapshot: self.post_message(SnapshotChanged(snapshot)),
            lambda text, severity: self.post_message(Notice(text, severity)),
            run=run,
            start=start,
            clock=clock,
        )
        self.snapshot = self.live.snapshot
        self.farewell = ""
        """What is said on the terminal after leaving, when a run goes on."""

    def compose(self) -> ComposeResult:
        yield TopLine()
        yield Banner()
        yield Container(MAKERS["run"](), id="views")
        yield KeyLine()

    def on_mount(self) -> None:
        self._show()
        self.set_interval(1.0, self._show)
        self.call_after_refresh(self.live.open)

    def on_unmount(self) -> None:
        self._asker.close()
        self.live.close()

    def on_resize(self) -> None:
        self.call_after_refresh(self._show)

    # What comes from the bridge ----------------------------------------------------------------------------

    @on(SnapshotChanged)
    def _snapshot_changed(self, message: SnapshotChanged) -> None:
        self.snapshot = message.snapshot
        self._show()
        self.call_after_refresh(self.live.consumed)

    @on(Notice)
    def _notice(self, message: Notice) -> None:
        self.tell(message.text, message.severity)

    @on(Asked)
    def _asked(self, message: Asked) -> None:
        self.push_screen(Ask(message.question), message.answer.put)

    def _show(self) -> None:
        if not self.is_running or not self.screen_stack:
            return
        base, now = self.screen_stack[0], self.clock()
        base.query_one(TopLine).show(self.snapshot, self.view, now)
        base.query_one(Banner).show(self.snapshot)
        base.query_one(KeyLine).show(self.snapshot, self.view)
        if self.current.is_mounted:
            self.current.show(self.snapshot, now)

    # Going about ---------------------------------------------------------------------------------------------

    @property
    def current(self) -> View:
        return self.screen_stack[0].query_one(f"#view-{self.view}", View)

    def tell(self, text: str, severity: Severity = "information") -> None:
        """A passing line; foreign words in it are no markup and no control sequence."""
        self.notify(sanitise(text), severity=severity, markup=False)

    async def go_to(self, view: actions.View) -> None:
        """Show a view, made when it is first asked for; it has drawn the Snapshot when this returns."""
        views = self.screen_stack[0].query_one("#views", Container)
        if not views.query(f"#view-{view}"):
            await views.mount(MAKERS[view]())
        self.view = view
        if view == "run":
            self.live.resume_log()
        for other in views.children:
            other.display = other.id == f"view-{view}"
        self._show()

    async def go_to_patch(self, patch_id: str) -> None:
        await self.go_to("patches")
        view = self.current
        if isinstance(view, PatchesScreen):
            view.stand_on(patch_id)

    async def go_to_log_line(self, trouble: Trouble) -> None:
        """To where a traceback or a death stands, in the log of the attempt that it is of."""
        key = LogKey(self.snapshot.watching, trouble.stage, trouble.attempt)
        place = {"offset": trouble.traceback.offset} if trouble.traceback else {"line": trouble.line}
        await self.go_to("log")
        if key == self.snapshot.log.key and trouble.line:
            self.live.browser.go(place)
        elif key != self.snapshot.log.key:
            self.live.show_attempt(key, place if trouble.line else None)

    # Actions -------------------------------------------------------------------------------------------------

    async def action_act(self, action_id: str) -> None:
        """Do an action of the registry: the view's own way first, the app's else."""
        if action_id != "quit" and len(self.screen_stack) > 1:
            return
        if self.view not in actions.BY_ID[action_id].views:
            return
        if reason := actions.why_not(action_id, self.snapshot):
            self.tell(reason)
            return
        handler = getattr(self.current, f"do_{action_id}", None) or getattr(self, f"do_{action_id}")
        result = handler()
        if isawaitable(result):
            await result

    async def do_view_run(self) -> None:
        await self.go_to("run")

    async def do_view_log(self) -> None:
        await self.go_to("log")

    async def do_view_tracebacks(self) -> None:
        await self.go_to("tracebacks")

    async def do_view_patches(self) -> None:
        await self.go_to("patches")

    async def do_view_metrics(self) -> None:
        await self.go_to("metrics")

    async def do_sweep(self) -> None:
        """From anywhere to the metrics, with the sweep."""
        await self.go_to("metrics")
        view = self.current
        if not getattr(view, "sweeping", True):
            view.do_sweep()  # type: ignore[attr-defined]

    async def do_patch(self) -> None:
        """Away from the tracebacks: the patch that mends the root cause, when there is one."""
        run = self.snapshot.run
        troubles = list_troubles((run.live_stage or run.failed_stage) if run else None, self.snapshot.patches or ())
        if troubles and troubles[0].matches and self.view != "patches":
            await self.go_to_patch(troubles[0].matches[0].patch)
        else:
            await self.go_to("patches")

    async def do_next_error(self) -> None:
        await self._walk_errors(1)

    async def do_previous_error(self) -> None:
        await self._walk_errors(-1)

    async def _walk_errors(self, step: int) -> None:
        """From the run or the patches: to the tracebacks, and on to the next one if they were open before."""
        fresh = not self.screen_stack[0].query("#view-tracebacks")
        await self.go_to("tracebacks")
        view = self.current
        if isinstance(view, TracebacksScreen) and not fresh:
            (view.do_next_error if step > 0 else view.do_previous_error)()

    def do_older(self) -> None:
        self._neighbour(-1)

    def do_newer(self) -> None:
        self._neighbour(1)

    def _neighbour(self, step: int) -> None:
        key = neighbour_attempt(self.snapshot, step)
        if key is None:
            self.tell("There is no older attempt in this run." if step < 0 else "There is no newer attempt.")
        else:
            self.live.show_attempt(key)

    def do_run(self) -> None:
        run = self.snapshot.run

        def chosen(stage: str | None) -> None:
            if stage and run is not None:
                self.live.relaunch(run.run, stage)
            elif stage is not None:
                self.live.start_run()

        self.push_screen(ChooseRun(self.snapshot.link.host, run), chosen)

    async def do_relaunch(self) -> None:
        run = self.snapshot.run
        if run is not None and run.failed_stage is not None:
            self.live.relaunch(run.run, run.failed_stage.name)
            await self.go_to("run")

    def do_stop(self) -> None:
        run, stage = self.snapshot.run, self.snapshot.live
        if run is None or stage is None or stage.latest is None:
            return

        def answered(stop: bool | None) -> None:
            if stop:
                self.live.stop(run.run)

        self.push_screen(ConfirmStop(self.snapshot.link.host, run.run, stage, stage.latest), answered)

    def do_help(self) -> None:
        self.push_screen(Help(self.view))

    def do_palette(self) -> None:
        self.action_command_palette()

    async def do_back(self) -> None:
        if self.view != "run":
            await self.go_to("run")
        elif self.snapshot.problem is not None:
            self.live.dismiss_problem(self.snapshot.problem)

    def do_quit(self) -> None:
        run, stage = self.snapshot.run, self.snapshot.live
        if run is not None and stage is not None and stage.latest is not None:
            host = one_line(self.snapshot.link.host)
            self.farewell = (
                f"Run {run.run} goes on on {host}: {stage.name}, attempt {stage.latest.number}, is {stage.state}. "
                "`eyas` comes back to it, `eyas stop` stops it."
            )
            self.exit(message=Text(self.farewell))
        else:
            self.exit()

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        return ()
