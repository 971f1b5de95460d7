"""The bridge between a host's session and the screen.

Session callbacks come on the session's thread and are reduced into the store at once, under a lock. A pump publishes
the newest Snapshot at most ten times a second, only when something changed, and only after the screen has drawn the
one before: a burst costs the screen nothing. Commands run in lanes (threads of their own), so a slow answer about
patches never holds up a stop.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal

from console import store
from console.browsing import Browser
from console.choose import default_run
from console.errors import UserError, words_of
from console.follow_curves import CurveFollower
from console.follow_sweep import SweepFollower
from console.interfaces import ProjectLike, SessionFactory, SessionLike
from console.lane import Lane
from console.logwindow import LogKey, LogWindow
from console.sending import with_conversations
from console.store import LinkLike, Snapshot
from remote import protocol
from remote.link.asker import Asker
from remote.views import RunView
from remote.wire import from_wire

TICK = 0.1
FIRST_ROWS = 100
"""Rows of a log that are fetched from its end when it is opened."""
LAG = 8 << 20
"""Bytes that the end of the log may be ahead of what came of it; then the console goes to the end at once."""

_REWRITTEN = {
    protocol.TRUNCATED: "the log was truncated on the host",
    protocol.ROTATED: "the log was replaced on the host",
}

Severity = Literal["information", "warning", "error"]


class Live:
    def __init__(
        self,
        project: ProjectLike,
        session_factory: SessionFactory,
        asker: Asker,
        publish: Callable[[Snapshot], object],
        tell: Callable[[str, Severity], object],
        *,
        run: str | None = None,
        start: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._project = project
        self._factory = session_factory
        self._asker = asker
        self._publish = publish
        self._tell = tell
        self._wanted_run = run
        self._first_request = uuid.uuid4().hex if start else ""  # starts one run, however often it is sent
        self._clock = clock
        self._session: SessionLike | None = None
        self._lock = threading.Lock()
        self._snapshot = Snapshot(project=project.name, link=store.Link(host=str(project.host.name)))
        self._target: LogKey | None = None
        self._tails = 0
        self._tail = ""
        """Name of the subscription to the log that is shown."""
        self._opened = 0
        self._held = False  # whether that subscription is given up for a while
        self._attached = False
        """False again and again until the runs are known: a link lost on the way is no reason to show nothing."""
        self._changed = threading.Event()
        self._consumed = threading.Event()
        self._closed = threading.Event()
        self._runs = Lane("eyas-commands")
        self._patches = Lane("eyas-patches")
        self._logs = Lane("eyas-log")
        self._drift = Lane("eyas-drift")
        self.curves = CurveFollower(
            lambda op, **params: self._host.request(op, **params), lambda: self._snapshot, self._change
        )
        self.sweep = SweepFollower(
            lambda op, **params: self._host.request(op, **params), project.name, self._change, clock
        )
        self.browser = Browser(
            lambda op, **params: self._host.request(op, **params),
            lambda: self._snapshot,
            self._change,
            tell,
            self._reopen,
        )

    # Life --------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Connect, from a thread of its own."""
        self._consumed.set()
        self.browser.open()
        threading.Thread(target=self._pump, name="eyas-pump", daemon=True).start()
        self._command(self._runs, f"connecting to {self._snapshot.link.host}", self._connect)

    def close(self) -> None:
        self._closed.set()
        self._changed.set()
        self._consumed.set()
        self.browser.close()
        self.curves.close()
        self.sweep.close()
        for lane in (self._runs, self._patches, self._logs, self._drift):
            lane.close()
        if self._session is not None:
            self._session.close()

    @property
    def snapshot(self) -> Snapshot:
        return self._snapshot

    def consumed(self) -> None:
        """The screen has drawn what was published: the next may come."""
        self._consumed.set()

    # Commands, called from the screen; none blocks ---------------------------------------------------------

    def start_run(self) -> None:
        self._command(self._runs, "starting a run", self._start_run)

    def relaunch(self, run: str, stage: str) -> None:
        self._command(self._runs, f"relaunching {stage}", lambda: self._relaunch(run, stage))

    def stop(self, run: str) -> None:
        self._command(self._runs, "stopping", lambda: self._stop(run))

    def turn_to(self, run: str) -> None:
        """Show another run."""
        self._command(self._runs, f"turning to {run}", lambda: self._show_run(run))

    def toggle_switch(self, patch_id: str) -> store.Switch | None:
        """Turn a patch's switch on by one: auto, off, on. Shown at once; the file and the host follow."""
        with self._lock:
            patch = self._snapshot.patch(patch_id)
            if patch is None:
                return None
            to = store.NEXT_SWITCH.get(patch.switch, "auto")
            self._set(store.reduce_switch(self._snapshot, patch_id, to))
        self._command(self._patches, f"saving {patch_id}", lambda: self._save_switch(patch_id, to))
        return to

    def refresh_patches(self) -> None:
        self._command(self._patches, "asking about patches", self._ask_patches)

    def ask_drift(self) -> None:
        """Have the host read its installed sources for what does not fit: takes seconds, and is asked once."""
        if self._snapshot.drift is None and store.ASKING_DRIFT not in self._snapshot.pending:
            self._command(self._drift, store.ASKING_DRIFT, self._ask_drift)

    def show_attempt(self, key: LogKey, place: Mapping[str, Any] | None = None) -> None:
        """Open an attempt's log at its end, or at a place as PAGE takes it."""
        self._command(self._logs, "opening the log", lambda: self._open_log(key, place=place))

    def hold_log(self) -> None:
        """The log's end is not on screen: what is added to it need not travel."""
        if not (self._held or self._snapshot.log.opening or self._snapshot.log.ended):
            self._held = True
            self._command(self._logs, "reading the log", self._hold)

    def resume_log(self) -> None:
        """The log's end is on screen again."""
        if self._held:
            self._held = False
            self._catch_up()

    def dismiss_problem(self, seen: store.Problem) -> None:
        """What was read; a newer one stays."""
        self._change(lambda s: replace(s, problem=None) if s.problem is seen else s)

    # Callbacks of the session --------------------------------------------------------------------------------

    def on_link(self, state: LinkLike) -> None:
        with self._lock:
            self._set(store.reduce_link(self._snapshot, state, self._clock()))
        if state.phase == "connected" and not self._attached:
            self._command(self._runs, "looking for runs", self._attach)
        if state.phase == "connected" and self._snapshot.log.opening and self._snapshot.log.key:
            key = self._snapshot.log.key  # the link was lost before it was open
            self._command(self._logs, "opening the log", lambda: self._open_end(key))

    def on_push(self, frame: Mapping[str, Any]) -> None:
        with self._lock:
            self._set(store.reduce_frame(self._snapshot, frame, self._clock()))
            target = store.log_target(self._snapshot.run)
            moved = target is not None and target != self._target
            self._target = target
        if moved and target is not None and self._reads_in(target.run):
            self._tell(f"{target.stage}, attempt {target.attempt}, has begun: ] goes to its log.", "information")
        elif moved and target is not None:
            self.show_attempt(target)
        elif frame.get("tail") == self._snapshot.log.tail and frame.get("ev") in _REWRITTEN:
            self._reopen(_REWRITTEN[frame["ev"]])
        elif frame.get("ev") == protocol.RUN and self._behind():
            self._catch_up()

    def _reads_in(self, run: str) -> bool:
        """Whether the operator reads somewhere in a log of that run: nobody is taken away from there."""
        key = self._snapshot.log.key
        return self._snapshot.browsed is not None and key is not None and key.run == run

    def _behind(self) -> bool:
        """The log grew so fast, or the link was away so long, that its end is far ahead of what came of it."""
        log, shown = self._snapshot.log, self._snapshot.shown_attempt()
        return not self._held and shown is not None and log.next_offset + LAG < shown[1].log_bytes

    # In the lanes ----------------------------------------------------------------------------------------------

    @property
    def _host(self) -> SessionLike:
        if self._session is None:
            raise UserError("There is no connection to the host yet.", "Wait until the top line says connected.")
        return self._session

    def _connect(self) -> None:
        session = self._factory(self._asker, self.on_link, self.on_push)
        self._session = session
        if not self._closed.is_set():
            session.start()

    def _attach(self) -> None:
        if self._attached:  # the link was lost and there again while the runs were told
            return
        self._host.telemetry(True, store.TELEMETRY_PERIOD)
        self.refresh_patches()
        if self._first_request:
            self._start_run(self._first_request)
        elif self._wanted_run is not None:
            self._show_run(str(self._host.request(protocol.SHOW, run=self._wanted_run)["run"]["run"]))
        else:
            runs = self._host.request(protocol.LIST, project=self._project.name)["runs"]
            self._show_run(default_run([from_wire(RunView, run) for run in runs]).run if runs else "")
        self._attached = True

    def _show_run(self, run_id: str) -> None:
        with self._lock:
            before = self._snapshot.watching
            self._target = None
            self._set(store.show_run(self._snapshot, run_id))
        if before and before != run_id:
            self._host.unwatch(before)
        if run_id:
            self._host.watch(run_id)

    def _params(self) -> dict[str, Any]:
        return with_conversations(self._host.request, self._project.start_params(), self._project.folder)

    def _start_run(self, request_id: str = "") -> None:
        params = self._params()
        answer = self._host.request(protocol.START, request_id=request_id or uuid.uuid4().hex, **params)
        self._show_run(str(answer["run"]))

    def _relaunch(self, run: str, stage: str) -> None:
        params = self._params()
        answer = self._host.request(protocol.RELAUNCH, run=run, stage=stage, request_id=uuid.uuid4().hex, **params)
        self._tell(f"{answer['stage']}: attempt {answer['attempt']} started.", "information")

    def _stop(self, run: str) -> None:
        answer = self._host.request(protocol.STOP, run=run)
        self._tell(f"{answer['stage']}: attempt {answer['attempt']} is being stopped.", "information")

    def _save_switch(self, patch_id: str, to: store.Switch) -> None:
        self._project.set_switch(patch_id, to)
        self._tell(f"{patch_id}: {to}, saved. It takes effect at the next relaunch.", "information")
        self._ask_patches()

    def _ask_patches(self) -> None:
        if self._patches.waiting:  # a newer switch is about to be saved: its answer will do for both
            return
        params = self._project.start_params()
        try:
            answer = self._host.request(protocol.PATCHES, settings=params["settings"], switches=params["switches"])
        except Exception as error:
            message, remedy = words_of(error)
            with self._lock:
                self._set(replace(self._snapshot, patches_problem=store.Problem(message, remedy)))
            return
        with self._lock:
            if not self._patches.waiting:
                self._set(store.reduce_patches(self._snapshot, answer))

    def _ask_drift(self) -> None:
        params = self._project.start_params()
        answer = self._host.request(protocol.DRIFT, settings=params["settings"], switches=params["switches"])
        with self._lock:
            self._set(store.reduce_drift(self._snapshot, answer))

    def _reopen(self, note: str) -> None:
        """From the host or the browser: what was held is of no use any more."""
        with self._lock:
            log = self._snapshot.log
            if log.key is None or log.opening:
                return
            self._set(store.open_log(self._snapshot, replace(log, opening=True)))
        key = log.key
        self._command(self._logs, "opening the log", lambda: self._open_log(key, note))

    def _catch_up(self) -> None:
        """Take the log's end up where it is now; whoever reads elsewhere in it stays there."""
        with self._lock:
            log = self._snapshot.log
            if log.key is None or log.opening:
                return
            self._set(replace(self._snapshot, log=replace(log, opening=True)))
        key = log.key
        self._command(self._logs, "following the log", lambda: self._open_end(key))

    def _open_log(self, key: LogKey, note: str = "", place: Mapping[str, Any] | None = None) -> None:
        self._opened += 1
        with self._lock:
            self._set(store.open_log(self._snapshot, LogWindow(key=key, opened=self._opened, opening=True)))
        self._open_end(key, note)
        if place is not None:
            self.browser.go(place)

    def _open_end(self, key: LogKey, note: str = "") -> None:
        """The end of the log at once, by a page; what follows by a tail from there."""
        self._tails += 1
        old, self._tail = self._tail, f"log-{self._tails}"
        if old:
            self._host.untail(old)
        self._held = False
        more: dict[str, Any] = {"tail": self._tail, "note": note, "opened": self._opened}
        try:
            where = {"run": key.run, "stage": key.stage, "attempt": key.attempt}
            page = self._host.request(protocol.PAGE, **where, before=FIRST_ROWS, rows=0, numbers=False)
            log = LogWindow.of_page(key, page, **more)
        except protocol.RemoteError:
            log = LogWindow(key=key, **more)  # not there yet: the tail waits for it
        self._change(lambda s: replace(s, log=log))
        self._host.tail(self._tail, key.run, key.stage, key.attempt, offset=log.next_offset, follow=True)

    def _hold(self) -> None:
        if self._held and self._tail:
            tail, self._tail = self._tail, ""
            self._host.untail(tail)

    # Machinery -------------------------------------------------------------------------------------------------

    def _command(self, lane: Lane, words: str, work: Callable[[], None]) -> None:
        """Do `work` in a lane. What it raises becomes a problem on the screen, never a dead thread.

        A command of the operator's that succeeds takes away the problem that stood when it began, and no newer one:
        what another lane met meanwhile has not been read yet.
        """

        def job() -> None:
            with self._lock:
                stood = self._snapshot.problem
                self._set(replace(self._snapshot, pending=(*self._snapshot.pending, words)))
            problem: store.Problem | None = None
            try:
                work()
            except Exception as error:
                message, remedy = words_of(error)
                problem = store.reduce_problem(self._snapshot, message, remedy).problem
            with self._lock:
                pending = list(self._snapshot.pending)
                pending.remove(words)
                answered = lane is self._runs and self._snapshot.problem is stood
                kept = None if answered else self._snapshot.problem
                self._set(replace(self._snapshot, pending=tuple(pending), problem=problem or kept))

        lane.put(job)

    def _change(self, change: Callable[[Snapshot], Snapshot]) -> None:
        with self._lock:
            self._set(change(self._snapshot))

    def _set(self, snapshot: Snapshot) -> None:
        """Under the lock only."""
        if snapshot is not self._snapshot:
            self._snapshot = snapshot
            self._changed.set()

    def _pump(self) -> None:
        while True:
            self._changed.wait()
            self._consumed.wait()
            if self._closed.is_set():
                return
            self._changed.clear()
            self._consumed.clear()
            self._publish(self._snapshot)
            self._closed.wait(TICK)
