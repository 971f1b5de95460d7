"""The agent: answers one console over one pair of pipes, and ends when that console is gone. Runs do not."""

from __future__ import annotations

import contextlib
import functools
import os
import select
import sys
import time
from collections.abc import Callable
from typing import Any

from remote import protocol
from remote.agent import fit, processes, samples, uploads
from remote.agent.arguments import Request, mapping, number, secrets_of, text
from remote.agent.carried import Carried
from remote.agent.curves import RunCurves
from remote.agent.error_places import ErrorPlaces
from remote.agent.files import boottime
from remote.agent.jobs import Lane, Wake, as_remote
from remote.agent.launch import CODE
from remote.agent.layout import Attempt, State
from remote.agent.outbox import Gone, Outbox
from remote.agent.pages import Pages
from remote.agent.plan import ask_pipeline
from remote.agent.reading import World, read_attempt
from remote.agent.runs import Runs
from remote.agent.sweeps import Sweeps
from remote.agent.tail import Tail, Tails
from remote.agent.telemetry import Telemetry
from remote.agent.view import RunReader, with_findings_of
from remote.agent.watches import Watches
from remote.protocol import RemoteError
from remote.views import TelemetryView
from remote.wire import to_wire

READ = 1 << 16
TAIL_POLL = 0.1
PIECES_A_PASS = 8
"""Then the console's requests are looked at again, however much credit a tail has."""
LIST_MAX = protocol.LINE_CAP // 2


def main(state: str, input_fd: int, output_fd: int, bundle: str = CODE) -> None:
    """Serve the console at the other end of the two descriptors until it goes away.

    `state` is the state folder; `bundle` the folder whose `pipeline` package plans and runs the stages.
    """
    os.umask(0o077)
    with contextlib.suppress(OSError):  # on a full disk there is still everything to be seen
        os.makedirs(os.path.join(state, "runs"), 0o700, exist_ok=True)
    Agent(State(os.path.abspath(state)), bundle, input_fd, output_fd).serve()


class Agent:
    """One console's requests and pushes, on one thread; what takes long runs in lanes beside it."""

    def __init__(self, state: State, bundle: str, input_fd: int, output_fd: int) -> None:
        self._state = state
        self._bundle = bundle
        self._input = input_fd
        self._output = output_fd
        self._runs = Runs(state, bundle)
        self._sweeps = Sweeps(state, self._runs)
        self._outbox = Outbox(output_fd)
        self._decoder = protocol.Decoder()
        self._wake = Wake()
        # Planning a run may take a while: a stop does not queue behind it, nor a look behind the patches' probes.
        self._changes = Lane("changes", self._wake)
        self._stops = Lane("stops", self._wake)
        self._questions = Lane("questions", self._wake)
        self._probes = Lane("probes", self._wake)
        self._browsing = Lane("browsing", self._wake)
        self._figures = Lane("figures", self._wake)
        self._files = Lane("files", self._wake)
        self._lanes = (
            *(self._changes, self._stops, self._questions, self._probes),
            *(self._browsing, self._figures, self._files),
        )
        self._curves: dict[str, RunCurves] = {}
        self._pages = Pages()
        self._errors = ErrorPlaces(self._pages)
        self._tails = Tails()
        self._tails_busy = False
        self._watches = Watches(self._outbox)
        self._sample: TelemetryView | None = None
        self._telemetry = Telemetry(state, self._take_sample)
        self._listed: dict[str, RunReader] = {}
        self._heard = boottime()
        self._beat_due = 0.0
        self._operations: dict[str, Callable[[Request], Any]] = {
            protocol.START: self._start,
            protocol.RELAUNCH: self._relaunch,
            protocol.STOP: self._stop,
            protocol.LIST: self._list,
            protocol.SHOW: self._show,
            protocol.WATCH: self._watch,
            protocol.UNWATCH: self._unwatch,
            protocol.TAIL: self._tail,
            protocol.CREDIT: self._credit,
            protocol.UNTAIL: self._untail,
            protocol.PAGE: self._page,
            protocol.SEARCH: self._search,
            protocol.PATCHES: lambda request: self._ask("patches", request),
            protocol.DRIFT: lambda request: self._ask("drift", request),
            protocol.ROW: self._row,
            protocol.METRICS: self._metrics,
            protocol.CARRIED: self._carried,
            protocol.SWEEP: self._sweep,
            protocol.SWEEPS: self._show_sweep,
            protocol.SWEEP_STOP: self._stop_sweep,
            protocol.FETCH: self._fetch,
            protocol.UPLOAD: self._upload,
            protocol.TELEMETRY: self._turn_telemetry,
            protocol.PING: self._ping,
        }

    def serve(self) -> None:
        """Returns when the console closed its end, stopped talking, or talked nonsense."""
        self._outbox.urgent(protocol.encode(self._hello()))
        poll = select.poll()
        poll.register(self._input, select.POLLIN)
        poll.register(self._wake.fd, select.POLLIN)
        try:
            while True:
                self._push()
                self._outbox.flush()
                # The input is read before silence is judged: after a pause of this host the beats wait there.
                if not self._wait(poll) and boottime() - self._heard > protocol.SILENCE:
                    raise Gone(f"the console was silent for {protocol.SILENCE:.0f} s")
        except (Gone, protocol.ProtocolError) as end:
            print(f"agent: {end}", file=sys.stderr)

    def _hello(self) -> dict[str, Any]:
        return {
            "ev": protocol.HELLO,
            "version": protocol.VERSION,
            "min_version": protocol.MIN_VERSION,
            "python": sys.version.split()[0],
            "host": os.uname().nodename,
            "uid": os.getuid(),
            "boot_id": processes.boot_id(),
            "now": time.time(),
            "state": self._state.folder,
            "bundle": os.path.basename(self._bundle),
            "cpus": os.cpu_count(),
        }

    def _wait(self, poll: select.poll) -> bool:
        """Sleep until something is due; take in what came. True when the console said something."""
        writing = not self._outbox.idle
        if writing:
            poll.register(self._output, select.POLLOUT)
        try:
            ready = dict(poll.poll(self._timeout(writing) * 1000))
        finally:
            if writing:
                poll.unregister(self._output)
        if self._wake.fd in ready:
            self._wake.clear()
        if self._input not in ready:
            return False
        data = os.read(self._input, READ)
        if not data:
            raise Gone("the console closed the link")
        self._heard = boottime()
        for frame in self._decoder.feed(data):
            self._take(frame)
        return True

    def _timeout(self, writing: bool) -> float:
        waits = [max(0.0, self._beat_due - boottime())]
        if self._watches.wait is not None:
            waits.append(self._watches.wait)
        if len(self._tails) and not writing:
            waits.append(0.0 if self._tails_busy else TAIL_POLL)
        return min(waits)

    def _push(self) -> None:
        """Everything that is due and unasked for."""
        for lane in self._lanes:
            lane.collect()
        if boottime() >= self._beat_due:
            self._beat_due = boottime() + protocol.HEARTBEAT
            self._outbox.latest("beat", protocol.encode({"ev": protocol.BEAT}))
        if self._sample is not None:
            sample, self._sample = self._sample, None
            self._outbox.latest("sample", protocol.encode({"ev": protocol.SAMPLE, "sample": to_wire(sample)}))
        self._watches.look()
        self._outbox.flush()
        # Pieces go out one by one and only into an empty queue, so that replies never wait behind a burst of log.
        self._tails_busy = False
        for _ in range(PIECES_A_PASS):
            if not self._outbox.wants_bulk or (frame := self._tails.next()) is None:
                return
            self._outbox.bulk(protocol.encode(frame))
            self._outbox.flush()
        self._tails_busy = True

    def _take_sample(self, sample: TelemetryView) -> None:
        """On the telemetry's thread."""
        self._sample = sample
        self._wake()

    def _take(self, frame: Request) -> None:
        name = frame.get("op")
        if name is None:
            return  # a push of the console: its heartbeat
        try:
            operation = self._operations.get(str(name))
            if operation is None:
                raise RemoteError("unknown_op", f"this agent does not know {str(name)[:40]!r}", "update Eyas")
            result = operation(frame)
        except Exception as error:
            self._answer(frame, None, as_remote(error))
            return
        if result is not None:
            self._answer(frame, result, None)

    def _answer(self, request: Request, result: Any, error: RemoteError | None) -> None:
        identity = request.get("id")
        if error is not None:
            self._outbox.urgent(protocol.encode({"id": identity, "ok": False, "error": error.to_wire()}))
        elif isinstance(result, bytes):
            self._outbox.urgent(result)
        else:
            self._outbox.urgent(protocol.encode({"id": identity, "ok": True, "result": result}))

    def _later(self, lane: Lane, request: Request, work: Callable[[], Any]) -> None:
        def done(result: Any, error: RemoteError | None) -> None:
            try:
                self._answer(request, result, error)
            except protocol.ProtocolError as too_large:
                self._answer(request, None, RemoteError("internal", str(too_large)))

        lane.submit(work, done)

    def _start(self, request: Request) -> None:
        settings, secrets = mapping(request, "settings"), secrets_of(request)
        project, request_id = text(request, "project"), text(request, "request_id")
        switches, repeats = mapping(request, "switches", {}), text(request, "repeats") if request.get("repeats") else ""
        self._later(
            self._changes,
            request,
            lambda: {"run": self._runs.start(settings, project, request_id, switches, secrets, repeats)},
        )

    def _relaunch(self, request: Request) -> None:
        run, stage, request_id = (text(request, key) for key in ("run", "stage", "request_id"))
        switches, secrets = mapping(request, "switches", {}), secrets_of(request)
        settings = mapping(request, "settings") if request.get("settings") is not None else None
        self._later(
            self._changes,
            request,
            lambda: self._runs.relaunch(run, stage, request_id, switches, secrets, settings),
        )

    def _stop(self, request: Request) -> None:
        run = text(request, "run")
        self._later(self._stops, request, lambda: self._runs.stop(run))

    def _list(self, request: Request) -> None:
        project = request.get("project")
        self._later(self._questions, request, lambda: self._all_runs(project))

    def _all_runs(self, project: Any) -> dict[str, Any]:
        """Newest first, as many as one frame holds; `more` is the number left out. On the questions' thread."""
        found: list[dict[str, Any]] = []
        ids, size = self._state.run_ids(), 0
        for at, run_id in enumerate(ids):
            if run_id not in self._listed:
                try:
                    self._listed[run_id] = RunReader(self._state.run(run_id), findings=False)
                except RemoteError:
                    continue
            view = self._listed[run_id].look_at_all()
            if project is not None and view.project != project and not view.error:
                continue
            shown = fit.shorten(view, fit.LIMITS[2])
            size += len(fit.encode_view(lambda wire: wire, shown))
            if size > LIST_MAX:
                return {"runs": found, "more": len(ids) - at}
            found.append(to_wire(shown))
        return {"runs": found, "more": 0}

    def _show(self, request: Request) -> None:
        run = self._state.run(text(request, "run"))
        asked = "attempt" in request
        earlier = self._state.attempt(run.id, request.get("stage"), request["attempt"]) if asked else None

        def work() -> bytes:
            view = RunReader(run).look_at_all()
            if earlier is not None:
                view = with_findings_of(view, earlier)
            return fit.encode_view(lambda w: {"id": request.get("id"), "ok": True, "result": {"run": w}}, view)

        self._later(self._questions, request, work)

    def _watch(self, request: Request) -> dict[str, Any]:
        self._watches.add(self._state.run(text(request, "run")))
        return {}

    def _unwatch(self, request: Request) -> dict[str, Any]:
        self._watches.remove(request.get("run"))
        return {}

    def _page(self, request: Request) -> None:
        attempt = self._attempt(request)
        self._later(self._browsing, request, lambda: self._pages.page(attempt, request))

    def _search(self, request: Request) -> None:
        attempt = self._attempt(request)
        search = self._errors.search if request.get("errors") else self._pages.search
        self._later(self._browsing, request, lambda: search(attempt, request))

    def _attempt(self, request: Request) -> Attempt:
        return self._state.attempt(request.get("run"), request.get("stage"), request.get("attempt"))

    def _tail(self, request: Request) -> dict[str, Any]:
        attempt = self._attempt(request)
        log_id = request.get("log_id")
        tail = Tail(
            name=request.get("tail"),
            attempt=attempt,
            offset=number(request, "offset", 0),
            log_id=str(log_id) if log_id is not None else None,
            credit=number(request, "credit", 0),
            follow=bool(request.get("follow", True)),
            over=_is_over,
        )
        self._tails.add(tail)
        return {}

    def _credit(self, request: Request) -> dict[str, Any]:
        self._tails.credit(request.get("tail"), number(request, "bytes", 0))
        return {}

    def _untail(self, request: Request) -> dict[str, Any]:
        self._tails.remove(request.get("tail"))
        return {}

    def _ask(self, command: str, request: Request) -> None:
        given = {"settings": mapping(request, "settings"), "switches": mapping(request, "switches", {})}
        self._later(self._probes, request, lambda: ask_pipeline(command, given, self._bundle))

    def _row(self, request: Request) -> None:
        run, index = self._state.run(text(request, "run")), number(request, "index", 0)
        self._later(self._probes, request, lambda: samples.sample(run, index, self._bundle))

    def _metrics(self, request: Request) -> None:
        run, have = self._state.run(text(request, "run")), mapping(request, "have", {})
        curves = self._curves.setdefault(run.id, RunCurves(run))
        self._later(self._figures, request, lambda: curves.answer(have))

    def _sweep(self, request: Request) -> None:
        base, project, request_id = (text(request, key) for key in ("base", "project", "request_id"))
        axes, switches, secrets = mapping(request, "axes"), mapping(request, "switches", {}), secrets_of(request)
        work = functools.partial(self._sweeps.start, base, axes, project, request_id, switches, secrets)
        self._later(self._changes, request, work)

    def _show_sweep(self, request: Request) -> None:
        sweep, project = request.get("sweep"), str(request.get("project", ""))
        self._later(self._figures, request, lambda: {"sweep": to_wire(self._sweeps.show(sweep, project))})

    def _stop_sweep(self, request: Request) -> None:
        sweep, stopped, secrets = text(request, "sweep"), bool(request.get("stopped", True)), secrets_of(request)
        self._later(self._stops, request, lambda: self._sweeps.stop(sweep, stopped, secrets))

    def _carried(self, request: Request) -> None:
        run = self._state.run(text(request, "run"))
        self._later(self._files, request, lambda: Carried(run).listing())

    def _fetch(self, request: Request) -> None:
        run, path, offset = self._state.run(text(request, "run")), text(request, "path"), number(request, "offset", 0)
        self._later(self._files, request, lambda: Carried(run).piece(path, offset))

    def _upload(self, request: Request) -> None:
        digest, suffix, data = text(request, "digest"), str(request.get("suffix", "")), str(request.get("data", ""))
        size, offset = number(request, "size", 0), number(request, "offset", 0)
        self._later(self._files, request, lambda: uploads.take(self._state, digest, suffix, size, offset, data))

    def _turn_telemetry(self, request: Request) -> dict[str, Any]:
        period = request.get("period", 1.0)
        if not isinstance(period, int | float) or not 0 < period <= 3600:
            raise RemoteError("bad_request", "`period` must be a number of seconds up to 3600")
        self._telemetry.turn(bool(request.get("on", True)), float(period))
        return {}

    def _ping(self, request: Request) -> dict[str, Any]:
        return {"now": time.time()}


def _is_over(attempt: Attempt) -> bool:
    return read_attempt(attempt, World()).over
