"""The far end of a stream, in the test's hands: reads what the client writes and writes what the test says."""

from __future__ import annotations

import contextlib
import json
import socket
from typing import Any


class FarEnd:
    """`near` is a ByteStream for a Client; the rest is the agent's side of the same pair of sockets."""

    def __init__(self) -> None:
        mine, self._far = socket.socketpair()
        self._far.settimeout(60)
        self.near = SocketStream(mine)
        self._lines = self._far.makefile("rb")
        self.drops = 0

    def drop(self) -> None:
        """As the client's `drop`: counted, and the near end closed."""
        self.drops += 1
        self.near.close()

    def say(self, **frame: Any) -> None:
        self.say_bytes(json.dumps(frame).encode() + b"\n")

    def say_bytes(self, data: bytes) -> None:
        with contextlib.suppress(BrokenPipeError):
            self._far.sendall(data)

    def hear(self) -> dict[str, Any]:
        """The client's next frame that is no heartbeat."""
        while True:
            frame = json.loads(self._lines.readline())
            if frame.get("ev") != "beat":
                return dict(frame)

    def hear_beat(self) -> None:
        while json.loads(self._lines.readline()).get("ev") != "beat":
            pass

    def hear_end(self) -> None:
        """What the client said up to the moment when it hung up."""
        while self._lines.readline():
            pass

    def hang_up(self) -> None:
        self._far.shutdown(socket.SHUT_RDWR)


class SocketStream:
    """A ByteStream over a socket."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._given_back = b""

    def read(self, size: int, timeout: float) -> bytes:
        if self._given_back:
            data, self._given_back = self._given_back[:size], self._given_back[size:]
            return data
        self._end.settimeout(timeout)
        try:
            return self._end.recv(size)
        except TimeoutError:
            raise
        except OSError:
            return b""

    def unread(self, data: bytes) -> None:
        self._given_back = data + self._given_back

    def write(self, data: bytes) -> None:
        self._end.sendall(data)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._end.shutdown(socket.SHUT_RDWR)

    def why_closed(self) -> str:
        return "the test hung up"

    def exit_status(self) -> int | None:
        return None
