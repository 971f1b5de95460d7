"""What every headless command does first: connect to the project's host, find the run, follow it to its end."""

from __future__ import annotations

import base64
import queue
import sys
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from compat.patch import PatchStatus
from console import reports
from console.choose import default_run
from console.curves import held, take
from console.errors import UserError, nearest
from console.patching import Told
from console.project import Project
from console.sanitise import sanitise
from console.sending import with_conversations
from remote import protocol
from remote.link.asker import Asker, Question, RefusingAsker
from remote.link.errors import LinkError
from remote.protocol import RemoteError
from remote.session import HostSession, LinkState
from remote.views import DONE, RUNNING, WAITING, CurveView, RunView, StageView
from remote.wire import from_wire

if TYPE_CHECKING:
    from compat.drift.report import Judged

CONNECT_TIMEOUT = 60.0
SPELL_TIMEOUT = 240.0
"""The host imports the tokenizer's library first."""
HAND_OVER_TIMEOUT = 60.0
"""Far above the moment that one stage's supervisor needs to start the next."""


class TerminalAsker:
    """Asks at the terminal, through Typer; only made when there is one."""

    def ask(self, question: Question) -> str | None:
        typer.echo(sanitise(question.text), err=True)
        answer: str = typer.prompt(sanitise(question.title), default="", hide_input=question.secret, err=True)
        return answer or None


def _asker() -> Asker:
    return TerminalAsker() if sys.stdin.isatty() and sys.stderr.isatty() else RefusingAsker()


class Connection:
    """A greeted session with a project's host, and what the host pushes, in order."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self._pushes: queue.Queue[dict[str, Any]] = queue.Queue()
        self.session = HostSession(project.host, _asker(), self._on_link, self._pushes.put)

    def _on_link(self, state: LinkState) -> None:
        if state.phase == "waiting":
            typer.echo(f"eyas: {sanitise(state.detail)}", err=True)
        elif state.phase in ("refused", "closed"):
            error = RemoteError(state.phase, state.detail, state.remedy)
            self._pushes.put({"ev": protocol.FAILED, "error": error.to_wire()})

    def request(self, op: str, **params: Any) -> dict[str, Any]:
        return self.session.request(op, **params)

    def runs(self) -> list[RunView]:
        """The project's runs on this host, newest first, their logs unread."""
        return [from_wire(RunView, run) for run in self.request(protocol.LIST, project=self.project.name)["runs"]]

    def run(self, run: str | None = None) -> RunView:
        """The run named, else the newest one of the project. Raises UserError when there is none."""
        if run is None:
            runs = self.runs()
            if not runs:
                where = f"Project `{self.project.name}` has no run on {self.project.host.name} yet."
                raise UserError(where, "Start one: `eyas run`.")
            run = default_run(runs).run
        return from_wire(RunView, self.request(protocol.SHOW, run=run)["run"])

    def start(self, params: Mapping[str, Any] | None = None) -> str:
        """Start a run, by the project's own settings where no others are given."""
        asked = self._params() if params is None else params
        started = self.request(protocol.START, request_id=_request_id(), **asked)
        return str(started["run"])

    def relaunch(self, run: str, stage: str) -> None:
        self.request(protocol.RELAUNCH, run=run, stage=stage, request_id=_request_id(), **self._params())

    def _params(self) -> dict[str, Any]:
        return with_conversations(self.request, self.project.start_params(), self.project.folder)

    def newest(self) -> RunView | None:
        """The project's newest run, whole; None when it has none."""
        runs = self.runs()
        return self.run(default_run(runs).run) if runs else None

    def patches(self) -> Told:
        """The catalogue against the environment that this project's runs use."""
        params = self.project.start_params()
        found = self.request(protocol.PATCHES, settings=params["settings"], switches=params["switches"])
        return from_wire(Told, found)

    def patches_if_known(self) -> tuple[PatchStatus, ...]:
        """The same; () when the host cannot tell, as long as its settings or its environment are wrong."""
        try:
            return self.patches().patches
        except RemoteError:
            return ()

    def drift(self) -> Judged:
        """What does not fit in the environment that this project's runs use, beside the state of its patches."""
        params = self.project.start_params()
        found = self.request(protocol.DRIFT, settings=params["settings"], switches=params["switches"])
        from compat.drift.report import Judged  # the probe is not needed to start

        return from_wire(Judged, found["drift"])

    def sample(self, run: str, index: int) -> dict[str, Any]:
        """A sample of the run's dataset in words, with its mask."""
        found: dict[str, Any] = self.request(protocol.ROW, run=run, index=index, timeout=SPELL_TIMEOUT)["sample"]
        return found

    def curves(self, run: str) -> dict[str, CurveView]:
        """Every curve that the run's attempts have reported."""
        found: dict[str, CurveView] = {}
        more = True
        while more:
            answer = self.request(protocol.METRICS, run=run, have=held(found))
            found, more = take(found, [from_wire(CurveView, curve) for curve in answer["curves"]]), answer["more"]
        return found

    def follow(self, run: str, on_change: Callable[[RunView], None]) -> RunView:
        """Watch `run` until nothing of it runs any more; `on_change` gets every view. Returns the last one.

        Between two stages the host's supervisor hands over within a moment: a view without a live stage
        counts as the end only when a stage failed or all are done.
        """
        self.session.watch(run)
        view = self.run(run)
        on_change(view)
        while not _ended(view):
            try:
                frame = self._next_push(HAND_OVER_TIMEOUT)
            except queue.Empty:
                if view.state == WAITING:
                    waiting = next(s.name for s in view.stages if s.state == WAITING)
                    where = f"Run {run} stands still before `{waiting}`: its host started nothing."
                    raise UserError(where, f"Go on with `eyas relaunch {waiting}`.") from None
                continue
            if frame.get("ev") == protocol.RUN and frame["run"].get("run") == run:
                view = from_wire(RunView, frame["run"])
                on_change(view)
        return view

    def log_bytes(self, run: str, stage: str, attempt: int, follow: bool) -> Iterator[bytes]:
        """The attempt's log from its first byte; with `follow` until the attempt ends, else what is there now."""
        self.session.tail("logs", run, stage, attempt, offset=0, follow=follow)
        while True:
            frame = self._next_push(None)
            if frame.get("tail") != "logs":
                continue
            if frame["ev"] == protocol.DATA:
                yield base64.b64decode(frame["data"])
            elif frame["ev"] == protocol.END:
                return

    def log_page(self, run: str, stage: str, attempt: int, asked: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
        """Rows of the attempt's log around one place, as PAGE takes and gives them; waits while the host indexes on."""
        while True:
            page = self.request(protocol.PAGE, run=run, stage=stage, attempt=attempt, **asked)
            if page["place"] is not None:
                rows: list[dict[str, Any]] = page["rows"]
                return rows

    def log_hits(self, run: str, stage: str, attempt: int, **wanted: Any) -> Iterator[dict[str, Any]]:
        """Every line of the attempt's log that SEARCH finds, from `offset` on, or back from it."""
        offset: int | None = wanted.pop("offset", 0)
        while offset is not None:
            found = self.request(protocol.SEARCH, run=run, stage=stage, attempt=attempt, offset=offset, **wanted)
            yield from found["hits"]
            offset = found["next"]

    def log_error(self, run: str, stage: str, attempt: int, line: int, back: bool) -> int:
        """Where the first error behind a line of the attempt's log begins, or the last one before it.

        Raises UserError when there is none.
        """
        (row,) = self.log_page(run, stage, attempt, {"line": line, "rows": 1})
        start = row["offset"] + (0 if back else 1)
        for hit in self.log_hits(run, stage, attempt, errors=True, offset=start, back=back, limit=1):
            return int(hit["offset"])
        where = f"There is no error {'before' if back else 'behind'} line {line} of {stage}, attempt {attempt}."
        raise UserError(where, "List them all: `eyas logs --errors`.")

    def _next_push(self, timeout: float | None) -> dict[str, Any]:
        frame = self._pushes.get(timeout=timeout)
        if frame.get("ev") == protocol.FAILED:
            error = RemoteError.from_wire(frame["error"])
            raise UserError(sanitise(error.message), sanitise(error.remedy))
        return frame


@contextmanager
def connected(project: Project) -> Iterator[Connection]:
    """A connection to the project's host. What goes wrong becomes a UserError."""
    connection = Connection(project)
    try:
        connection.session.start()
        connection.session.wait_connected(CONNECT_TIMEOUT)
        yield connection
    except (LinkError, RemoteError) as error:
        raise UserError(sanitise(error.message), sanitise(error.remedy)) from None
    finally:
        connection.session.close()


def follow_told(connection: Connection, run: str, detach: bool) -> RunView | None:
    """Follow a run to its end, what changes told on standard error; None at once when it is only to be left."""
    if detach:
        return None
    changes = reports.Changes()

    def tell(view: RunView) -> None:
        for line in changes.lines(view):
            typer.echo(line, err=True)

    return connection.follow(run, tell)


def choose_stage(view: RunView, name: str | None) -> StageView:
    """The stage named; else the running or failed one; else the last that was attempted. Raises UserError."""
    names = [stage.name for stage in view.stages]
    if name is not None:
        stage = view.stage(name)
        if stage is None:
            raise UserError(f"Run {view.run} has no stage `{name}`.", nearest(name, names))
        return stage
    attempted = [stage for stage in view.stages if stage.attempts]
    stage = view.live_stage or view.failed_stage or (attempted[-1] if attempted else None)
    if stage is None:
        raise UserError(f"No stage of run {view.run} has started yet.", "Look again in a moment.")
    return stage


def _request_id() -> str:
    """Makes START and RELAUNCH safe to send again when the link drops before the answer."""
    return uuid.uuid4().hex


def _ended(view: RunView) -> bool:
    return view.state == DONE or (view.state not in (RUNNING, WAITING))
