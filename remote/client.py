"""One agent at the other end of one stream: requests and replies, pushes, heartbeats, and a watchdog.

Nobody but the client's own threads touches the stream, so a stuck transport cannot block a caller.
"""

from __future__ import annotations

import itertools
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from remote.link.bootstrap import bootstrap
from remote.link.errors import LinkError, LinkLost, NoAnswer
from remote.link.stream import ByteStream
from remote.protocol import BEAT, HEARTBEAT, SILENCE, Decoder, ProtocolError, RemoteError, encode

__all__ = ["REQUEST_SECONDS", "Client", "bootstrap"]

REQUEST_SECONDS = 30.0
_READ = 256 << 10


@dataclass
class _Waiting:
    """A request on its way."""

    done: threading.Event = field(default_factory=threading.Event)
    reply: dict[str, Any] | None = None


class Client:
    """Speaks the protocol until the link ends; then `closed` is set and `error` says why.

    `on_push` is called on the reader's thread with every frame that is no reply and no heartbeat. `drop` ends the
    whole transport and must not block: a stuck one is abandoned, not waited for.
    """

    def __init__(
        self,
        stream: ByteStream,
        host: str,
        drop: Callable[[], None],
        on_push: Callable[[dict[str, Any]], None],
        heartbeat: float = HEARTBEAT,
        silence: float = SILENCE,
    ) -> None:
        self.host = host
        self.closed = threading.Event()
        self.error: LinkError | None = None
        self._stream = stream
        self._drop = drop
        self._on_push = on_push
        self._heartbeat = heartbeat
        self._silence = silence
        self._ids = itertools.count(1)
        self._waiting: dict[int, _Waiting] = {}
        self._lock = threading.Lock()
        self._out: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._last_heard = time.monotonic()

    def start(self) -> None:
        for work in (self._read, self._write, self._watch):
            threading.Thread(target=work, name=f"link{work.__name__}", daemon=True).start()

    def request(self, op: str, timeout: float = REQUEST_SECONDS, **params: Any) -> dict[str, Any]:
        """The result. Raises RemoteError when the host refuses, LinkError when there is no answer."""
        number, waiting = next(self._ids), _Waiting()
        frame = encode({**params, "id": number, "op": op})
        with self._lock:
            if self.closed.is_set():
                raise self._lost()
            self._waiting[number] = waiting
        self._out.put(frame)
        answered = waiting.done.wait(timeout)
        with self._lock:
            self._waiting.pop(number, None)
        if waiting.reply is None:
            if answered or self.closed.is_set():
                raise self._lost()
            raise NoAnswer(
                f"{self.host} has not answered {op!r} within {timeout:g} s", "look at the state before asking again"
            )
        if waiting.reply.get("ok"):
            result = waiting.reply.get("result")
            return result if isinstance(result, dict) else {}
        error = waiting.reply.get("error")
        raise RemoteError.from_wire(error if isinstance(error, dict) else {"message": f"{op} failed"})

    def tell(self, op: str, **params: Any) -> None:
        """A request that wants no reply. Lost silently when the link is gone."""
        self._out.put(encode({**params, "op": op}))

    def close(self, error: LinkError | None = None) -> None:
        """End the link; the agent sees the end of its input and goes, its runs do not."""
        self._die(error or LinkLost(f"the link to {self.host} was closed", retry=False))

    def _lost(self) -> LinkError:
        return self.error or LinkLost(f"the link to {self.host} ended")

    def _die(self, error: LinkError) -> None:
        with self._lock:
            if self.closed.is_set():
                return
            self.error = error
            self.closed.set()
            waiting = list(self._waiting.values())
        self._drop()
        self._out.put(None)
        for one in waiting:
            one.done.set()

    def _read(self) -> None:
        decoder = Decoder()
        while not self.closed.is_set():
            try:
                data = self._stream.read(_READ, 1.0)
                if not data:
                    why = self._stream.why_closed() or "the connection ended"
                    self._die(LinkLost(f"the link to {self.host} ended: {why}"))
                    return
                self._last_heard = time.monotonic()
                for frame in decoder.feed(data):
                    self._take(frame)
            except TimeoutError:
                continue
            except ProtocolError as error:
                self._die(LinkLost(f"{self.host} sent something that is no frame: {error}"))
            except Exception as error:  # the transport may raise anything once it is being torn down
                self._die(LinkLost(f"the link to {self.host} broke: {error!r}"))

    def _take(self, frame: dict[str, Any]) -> None:
        if "ev" in frame:
            if frame["ev"] != BEAT and not self.closed.is_set():
                self._on_push(frame)
            return
        number = frame.get("id")
        with self._lock:
            waiting = self._waiting.get(number) if isinstance(number, int) else None
        if waiting:
            waiting.reply = frame
            waiting.done.set()

    def _write(self) -> None:
        while (frame := self._out.get()) is not None:
            try:
                self._stream.write(frame)
            except Exception as error:
                self._die(LinkLost(f"the link to {self.host} takes no more: {error}"))
                return

    def _watch(self) -> None:
        tick = min(1.0, self._heartbeat / 2)
        woke, beat = time.monotonic(), 0.0
        while not self.closed.wait(tick):
            now = time.monotonic()
            if now - woke > tick + self._heartbeat:
                self._last_heard = now  # it was this process that slept (Ctrl+Z, a laptop's lid): hear first
            woke = now
            if now - self._last_heard > self._silence:
                self._die(LinkLost(f"{self.host} has been silent for {self._silence:g} s"))
            elif now - beat >= self._heartbeat and self._out.empty():
                beat = now
                self._out.put(encode({"ev": BEAT}))
