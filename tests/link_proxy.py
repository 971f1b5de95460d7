"""A bad network between a test and a server on loopback: delay, throttle, freeze, refuse, reset in mid-stream."""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import threading
import time
from types import TracebackType


class LinkProxy:
    """Forwards 127.0.0.1:`port` to 127.0.0.1:`target`; every property may be changed while it runs.

    `delay`: seconds added each way; `rate`: bytes a second, None for no limit; `refusing`: new connections are reset.
    """

    def __init__(self, target: int, delay: float = 0.0, rate: float | None = None) -> None:
        self.target = target
        self.delay = delay
        self.rate = rate
        self.refusing = False
        self.accepted = 0
        """Connections taken so far."""
        self.forwarded = 0
        """Bytes from the server so far."""
        self._flowing = threading.Event()
        self._flowing.set()
        self._cut_at: int | None = None
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])

    def __enter__(self) -> LinkProxy:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        self._listener.close()
        self.thaw()
        self.reset()

    def freeze(self) -> None:
        """Nothing passes any more, and neither end is told."""
        self._flowing.clear()

    def thaw(self) -> None:
        self._flowing.set()

    def reset(self) -> None:
        """RST to both ends of every connection."""
        pairs, self._pairs = self._pairs, []
        for end in (end for pair in pairs for end in pair):
            _reset(end)

    def reset_after(self, count: int) -> None:
        """RST once `count` more bytes came from the server: in the middle of a frame, as likely as not."""
        self._cut_at = self.forwarded + count

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            if self.refusing:
                _reset(near)
                continue
            self.accepted += 1
            try:
                far = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                _reset(near)
                continue
            self._pairs.append((near, far))
            threading.Thread(target=self._pump, args=(near, far, False), daemon=True).start()
            threading.Thread(target=self._pump, args=(far, near, True), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, from_server: bool) -> None:
        try:
            while data := _receive(source):
                if self.delay:
                    time.sleep(self.delay)
                self._flowing.wait()
                cut = self._cut_at
                if from_server and cut is not None and self.forwarded + len(data) >= cut:
                    self._cut_at = None
                    sink.sendall(data[: cut - self.forwarded])
                    self.forwarded = cut
                    self.reset()
                    return
                sink.sendall(data)
                if from_server:
                    self.forwarded += len(data)
                if self.rate:
                    time.sleep(len(data) / self.rate)
            sink.shutdown(socket.SHUT_WR)
        except (OSError, ValueError):  # ValueError: closed by reset()
            return


def _receive(source: socket.socket) -> bytes:
    """Like recv, but never inside the kernel for long: a close() meanwhile would not send its RST."""
    while not select.select([source], [], [], 0.05)[0]:
        pass
    return source.recv(16 << 10)


def _reset(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        end.close()
