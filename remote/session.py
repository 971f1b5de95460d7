"""One host, for as long as the console wants it: connects, starts the agent, and comes back after every loss.

The session's thread connects; a second one hands out what the host pushes, so that a slow screen never looks like
a dead host. Neither ever retries after a host key or an authentication was refused.
"""

from __future__ import annotations

import os
import queue
import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from remote.client import REQUEST_SECONDS, Client, bootstrap
from remote.link.asker import Asker
from remote.link.errors import LinkError, LinkLost, NotConnected, UnknownName
from remote.link.hosts import HostProfile, resolve
from remote.link.subscriptions import Frame, Subscriptions
from remote.protocol import HEARTBEAT, SILENCE, ProtocolError

if TYPE_CHECKING:
    from remote.link.embedded import EmbeddedHost
    from remote.link.keys import Credentials
    from remote.link.paramiko_link import ParamikoLink

Phase = Literal["connecting", "connected", "waiting", "refused", "closed"]

SHORTEST_WAIT, LONGEST_WAIT = 1.0, 30.0
STEADY_SECONDS = 5.0
"""A link that lived this long is taken up again at once; a shorter one counts as a failure."""
_QUEUE = 1024
"""Pushes that may wait for the console; beyond, the host has to wait."""


@dataclass(frozen=True)
class LinkState:
    """What the operator should know of the link."""

    phase: Phase
    detail: str = ""
    """One sentence; holds words of the host: sanitise."""
    remedy: str = ""
    retry_in: float | None = None
    """Seconds until the next attempt, while waiting."""
    host: str = ""
    """The profile's name."""


class HostSession:
    """`on_link` and `on_push` are called on the session's own threads, one call of each at a time, in order; only the
    last state, `closed`, comes from close() itself.

    `on_push` gets the frames of `remote.protocol` with the caller's own tail keys: every log byte once and in order,
    whatever became of the link meanwhile. Both may call back into the session.
    """

    def __init__(
        self,
        profile: HostProfile,
        asker: Asker,
        on_link: Callable[[LinkState], None],
        on_push: Callable[[Frame], None],
        *,
        heartbeat: float = HEARTBEAT,
        silence: float = SILENCE,
    ) -> None:
        self.profile = profile
        self.hello: dict[str, Any] = {}
        """The latest agent's greeting."""
        self._asker = asker
        self._on_link = on_link
        self._on_push = on_push
        self._heartbeat = heartbeat
        self._silence = silence
        self._wanted = Subscriptions()
        self._frames: queue.Queue[tuple[Client, Frame] | None] = queue.Queue(_QUEUE)
        self._changed = threading.Condition()
        self._closing = threading.Event()
        self._client: Client | None = None
        self._link: ParamikoLink | None = None
        self._latest: LinkError | None = None
        self._final: LinkError | None = None
        self._was_connected = False
        self._credentials: Credentials | None = None
        self._embedded: EmbeddedHost | None = None
        self._threads = [
            threading.Thread(target=work, name=f"session-{profile.name}", daemon=True)
            for work in (self._run, self._hand_out)
        ]

    # The console's side ------------------------------------------------------------------------------------

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def wait_connected(self, timeout: float) -> None:
        """Return once an agent answers. Raises the LinkError that ended the attempts, or the latest at the time-out."""
        self._connected(time.monotonic() + timeout)

    def request(self, op: str, /, *, timeout: float = REQUEST_SECONDS, **params: Any) -> dict[str, Any]:
        """The host's result. Raises RemoteError when it refuses, LinkError when there is no answer.

        A request with a `request_id` waits for a link and is sent again on the next one: the host does it once.
        """
        deadline = time.monotonic() + timeout
        while True:
            safe = "request_id" in params
            client = self._connected(deadline if safe else 0.0)
            try:
                return client.request(op, timeout=max(0.0, deadline - time.monotonic()), **params)
            except LinkLost:
                if not safe or self._closing.is_set():
                    raise

    def watch(self, run: str) -> None:
        """Have RUN pushed whenever the run changes. Raises RemoteError (no such run)."""
        self._try(lambda client: self._wanted.watch(client, run))

    def unwatch(self, run: str) -> None:
        self._try(lambda client: self._wanted.unwatch(client, run))

    def tail(self, key: str, run: str, stage: str, attempt: int, offset: int = 0, follow: bool = True) -> None:
        """Have an attempt's log pushed from byte `offset` on, as DATA under `key`. Raises RemoteError."""
        self._try(lambda client: self._wanted.tail(client, key, run, stage, attempt, offset, follow))

    def untail(self, key: str) -> None:
        self._try(lambda client: self._wanted.untail(client, key))

    def telemetry(self, on: bool, period: float = 1.0) -> None:
        """Have SAMPLE pushed every `period` seconds, or no more."""
        self._try(lambda client: self._wanted.telemetry(client, on, period))

    def close(self) -> None:
        """End the link, never the runs. Returns at once; no callback begins afterwards but the last LinkState."""
        with self._changed:
            if self._closing.is_set():
                return
            self._closing.set()
            self._final = self._final or LinkError(f"the session with {self.profile.name} is closed")
            client, link, embedded = self._client, self._link, self._embedded
            self._changed.notify_all()
        if client:
            client.close()
        if link:
            link.drop()
        if embedded:
            embedded.close()
        with suppress(queue.Full):  # then the hand-out is busy, and looks at `_closing` after each frame
            self._frames.put_nowait(None)
        self._on_link(LinkState("closed", f"the link to {self.profile.name} is closed", host=self.profile.name))

    def _connected(self, deadline: float) -> Client:
        """The client, as soon as there is one. Raises LinkError."""
        with self._changed:
            while self._client is None or self._client.closed.is_set():
                if self._final:
                    raise self._final
                left = deadline - time.monotonic()
                if left <= 0:
                    why = f": {self._latest.message}" if self._latest else ""
                    raise NotConnected(
                        f"no link to {self.profile.name}{why}",
                        self._latest.remedy if self._latest else "wait until it is connected",
                    )
                self._changed.wait(min(left, 0.5))
            return self._client

    def _try(self, act: Callable[[Client | None], None]) -> None:
        """Do it now when there is a link; without one, or when it ends meanwhile, the next link does it."""
        try:
            act(self._client)
        except LinkLost:
            return

    # The session's threads ---------------------------------------------------------------------------------

    def _run(self) -> None:
        failures = 0
        while not self._closing.is_set():
            self._say("connecting", f"connecting to {self.profile.name}")
            began = time.monotonic()
            try:
                error = self._live()
                steady = time.monotonic() - began > STEADY_SECONDS
                failures = 0 if steady else failures + 1
            except LinkError as refused:
                error = refused
                failures += 1
            except Exception as fault:  # paramiko raises plain Exceptions in places; none may end the thread unsaid
                error = LinkError(f"the link to {self.profile.name} failed unexpectedly: {fault!r}")
            finally:
                self._forget_link()
            if not self._may_retry(error):
                self._stop(error)
                return
            self._latest = error
            wait = _backoff(failures)
            self._say("waiting", error.message, error.remedy, wait)
            self._closing.wait(wait)

    def _live(self) -> LinkError:
        """Connect, start the agent, and stay until the link ends: why it did. Raises LinkError before that."""
        link = self._connect()
        with self._changed:
            self._link = link
            if self._closing.is_set():
                return LinkLost("closed")
        stream, hello = bootstrap(link, self.profile)
        client = Client(
            stream,
            self.profile.name,
            link.drop,
            lambda frame: self._queue(client, frame),
            heartbeat=self._heartbeat,
            silence=self._silence,
        )
        self.hello = hello
        client.start()
        with self._changed:
            self._client, self._was_connected, self._latest = client, True, None
            self._changed.notify_all()
        try:
            for frame in self._wanted.renew(client):
                self._queue(client, frame)
            detail = f"{link.address}, Python {hello.get('python', '?')}"
            self._say("connected", "; ".join((detail, *link.address.warnings)))
        except LinkError as error:
            client.close(LinkLost(error.message, error.remedy))
            return client.error or error
        client.closed.wait()
        return client.error or LinkLost(f"the link to {self.profile.name} ended")

    def _connect(self) -> ParamikoLink:
        # Imported here: the screen is painted before paramiko's import has cost its time.
        from remote.link.keys import Credentials
        from remote.link.paramiko_link import connect

        self.profile.check()
        if self.profile.embedded:
            door = self._embedded_host().ensure()
            # Its port is a chance number: what another server may have shown there is of no concern.
            return connect(door.address, Path(os.devnull), self._asker, door.credentials, door.fingerprint)
        if self._credentials is None:
            self._credentials = Credentials()
        address = resolve(self.profile.ssh or "", self.profile.ssh_config)
        expected = self.profile.expected_fingerprint
        return connect(address, self.profile.known_hosts, self._asker, self._credentials, expected)

    def _embedded_host(self) -> EmbeddedHost:
        from remote.link.embedded import EmbeddedHost

        with self._changed:
            if self._closing.is_set():
                raise LinkLost("closed")
            if self._embedded is None:
                self._embedded = EmbeddedHost()
            return self._embedded

    def _queue(self, client: Client, frame: Frame) -> None:
        while not (client.closed.is_set() or self._closing.is_set()):
            try:
                self._frames.put((client, frame), timeout=1.0)
                return
            except queue.Full:
                continue

    def _hand_out(self) -> None:
        while not self._closing.is_set():
            item = self._frames.get()
            if item is None:
                return
            client, frame = item
            try:
                wanted = self._wanted.sift(frame)
                if wanted is not None and not self._closing.is_set():
                    self._on_push(wanted)
                self._wanted.consumed(client, frame)
            except ProtocolError as error:
                # The tails go on from their last good byte on the next link.
                client.close(LinkLost(f"{self.profile.name} broke the protocol: {error}"))
            except Exception as fault:
                self._stop(LinkError(f"the console could not take a message of {self.profile.name}: {fault!r}"))
                raise

    def _may_retry(self, error: LinkError) -> bool:
        if self._closing.is_set():
            return False
        return error.retry or (self._was_connected and isinstance(error, UnknownName))

    def _stop(self, error: LinkError) -> None:
        with self._changed:
            if self._final is not None:
                return
            self._final = error
            client = self._client
            self._changed.notify_all()
        if client:
            client.close(error)
        self._say("refused", error.message, error.remedy)

    def _forget_link(self) -> None:
        with self._changed:
            link, self._link, self._client = self._link, None, None
        if link:
            link.drop()

    def _say(self, phase: Phase, detail: str = "", remedy: str = "", retry_in: float | None = None) -> None:
        if not self._closing.is_set():
            self._on_link(LinkState(phase, detail, remedy, retry_in, self.profile.name))


def _backoff(failures: int) -> float:
    """Seconds before the next attempt: at once after a link that held, then 1, 2, 4 … 30, spread by a quarter."""
    if not failures:
        return 0.0
    return min(LONGEST_WAIT, SHORTEST_WAIT * 2.0 ** (failures - 1)) * random.uniform(0.75, 1.0)
