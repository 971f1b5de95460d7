"""An agent as a child process, spoken to over its pipes as the link speaks to it."""

from __future__ import annotations

import base64
import os
import select
import subprocess
import sys
import time
from typing import Any

from faults.fake_host import FakeHost

from remote import protocol
from remote.protocol import RemoteError
from remote.views import RunView
from remote.wire import from_wire


class AgentLink:
    """Sends requests, collects pushes, keeps the heart beating."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.hello: dict[str, Any] = {}
        self.pushes: list[dict[str, Any]] = []
        self._decoder = protocol.Decoder()
        self._replies: dict[Any, dict[str, Any]] = {}
        self._next = 0
        self._beaten = 0.0
        assert process.stdout is not None
        self._out = process.stdout.fileno()

    @classmethod
    def to(cls, host: FakeHost, **more: Any) -> AgentLink:
        argv = [sys.executable, "-m", "remote.agent", "--state", str(host.folder), "--bundle", str(host.bundle)]
        link = cls(subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=host.bundle, **more))
        link.hello = link.push(protocol.HELLO)
        return link

    def send(self, op: str, **fields: Any) -> int:
        self._next += 1
        self.write(protocol.encode({"id": self._next, "op": op, **fields}))
        return self._next

    def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def ask(self, op: str, **fields: Any) -> Any:
        return self.answer(self.send(op, **fields))

    def answer(self, identity: Any, patience: float = 60.0) -> Any:
        end = time.monotonic() + patience
        while identity not in self._replies:
            self.pump(end)
        reply = self._replies.pop(identity)
        if not reply["ok"]:
            raise RemoteError.from_wire(reply["error"])
        return reply["result"]

    def push(self, event: str, patience: float = 60.0, **fields: Any) -> dict[str, Any]:
        """The first push with these fields; what came before it is dropped, other kinds are kept."""
        end = time.monotonic() + patience
        while True:
            for at, frame in enumerate(self.pushes):
                if frame["ev"] == event and all(frame.get(k) == v for k, v in fields.items()):
                    self.pushes = [f for f in self.pushes[:at] if f["ev"] != event] + self.pushes[at + 1 :]
                    return frame
            self.pump(end)

    def view(self, event_of: str, ready: Any) -> RunView:
        """The first pushed view of a run that `ready` accepts."""
        while True:
            frame = self.push(protocol.RUN)
            view = from_wire(RunView, frame["run"])
            if view.run == event_of and ready(view):
                return view

    def tail(self, run: str, stage: str, attempt: int = 1, **fields: Any) -> bytes:
        """A tail to its END, with credit given as it is used up."""
        self.ask(protocol.TAIL, tail="t", run=run, stage=stage, attempt=attempt, credit=1 << 16, **fields)
        data = bytearray()
        while True:
            self.pump(time.monotonic() + 60)
            for frame in [f for f in self.pushes if f.get("tail") == "t"]:
                self.pushes.remove(frame)
                if frame["ev"] == protocol.DATA:
                    piece = base64.b64decode(frame["data"])
                    data += piece
                    self.send(protocol.CREDIT, tail="t", bytes=len(piece))
                elif frame["ev"] == protocol.END:
                    return bytes(data)

    def pump(self, end: float) -> None:
        if time.monotonic() > self._beaten + protocol.HEARTBEAT:
            self._beaten = time.monotonic()
            self.write(protocol.encode({"ev": protocol.BEAT}))
        if time.monotonic() > end:
            raise AssertionError(f"the agent did not say it; last: {self.pushes[-3:]}")
        if select.select([self._out], [], [], 0.2)[0]:
            data = os.read(self._out, 1 << 16)
            if not data:
                raise EOFError(f"the agent is gone, exit {self.process.wait()}")
            for frame in self._decoder.feed(data):
                if "ev" in frame:
                    self.pushes.append(frame)
                else:
                    self._replies[frame["id"]] = frame

    def close(self) -> int:
        """End of input, as when the link goes away. Returns the agent's exit status."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        status = self.process.wait(30)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return status

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
