"""What a session wants from its host for as long as it lives, whatever becomes of one link.

Watches, telemetry and log tails are asked for anew on every link. A tail goes on at its next byte, and gives every
byte once and in order even where a link's last frames overlap with the next one's first.
"""

from __future__ import annotations

import base64
import binascii
import itertools
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from remote.protocol import (
    CREDIT,
    DATA,
    END,
    FAILED,
    ROTATED,
    TAIL,
    TELEMETRY,
    TRUNCATED,
    UNTAIL,
    UNWATCH,
    WATCH,
    ProtocolError,
    RemoteError,
)

if TYPE_CHECKING:
    from remote.client import Client

CREDIT_BYTES = 1 << 20
"""A tail's window: what may be under way before the console has taken it."""

Frame = dict[str, Any]


@dataclass
class _Tail:
    key: str
    run: str
    stage: str
    attempt: int
    offset: int
    """Next byte to deliver."""
    follow: bool
    log_id: str | None = None
    wire: str = ""
    """Its name on the link that serves it, never used twice: frames under an older name are stale."""
    client: Client | None = None

    def request(self) -> dict[str, Any]:
        return {
            "tail": self.wire,
            "run": self.run,
            "stage": self.stage,
            "attempt": self.attempt,
            "offset": self.offset,
            "log_id": self.log_id,
            "credit": CREDIT_BYTES,
            "follow": self.follow,
        }


class Subscriptions:
    """Thread-safe. Methods given a client send through it and may raise LinkError or RemoteError.

    What a RemoteError refuses is forgotten; what a LinkError interrupts is taken up on the next link.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs: list[str] = []
        self._tails: dict[str, _Tail] = {}
        self._period: float | None = None
        self._numbers = itertools.count(1)

    def watch(self, client: Client | None, run: str) -> None:
        with self._lock:
            if run not in self._runs:
                self._runs.append(run)
        if client:
            self._watch(client, run)

    def unwatch(self, client: Client | None, run: str) -> None:
        self._forget_run(run)
        if client:
            client.request(UNWATCH, run=run)

    def telemetry(self, client: Client | None, on: bool, period: float) -> None:
        with self._lock:
            self._period = period if on else None
        if client:
            client.request(TELEMETRY, on=on, period=period)

    def tail(
        self, client: Client | None, key: str, run: str, stage: str, attempt: int, offset: int, follow: bool
    ) -> None:
        self.untail(client, key)
        tail = _Tail(key, run, stage, attempt, offset, follow)
        with self._lock:
            self._tails[key] = tail
        if client:
            self._take_up(client, tail)

    def untail(self, client: Client | None, key: str) -> None:
        with self._lock:
            tail = self._tails.pop(key, None)
        if client and tail and tail.client is client:
            client.request(UNTAIL, tail=tail.wire)

    def renew(self, client: Client) -> list[Frame]:
        """Ask a fresh link for everything. Pushes to deliver for what the host would not take up again."""
        with self._lock:
            runs, tails, period = list(self._runs), list(self._tails.values()), self._period
        failed: list[Frame] = []
        if period is not None:
            client.request(TELEMETRY, on=True, period=period)
        for run in runs:
            try:
                self._watch(client, run)
            except RemoteError as error:
                failed.append({"ev": FAILED, "op": WATCH, "run": run, "error": error.to_wire()})
        for tail in tails:
            try:
                self._take_up(client, tail)
            except RemoteError as error:
                failed.append({"ev": FAILED, "op": TAIL, "tail": tail.key, "error": error.to_wire()})
        return failed

    def sift(self, frame: Frame) -> Frame | None:
        """The frame as it is to be delivered; None for what was delivered before or is nobody's any more."""
        if frame["ev"] not in (DATA, END, ROTATED, TRUNCATED):
            return frame
        with self._lock:
            tail = next((t for t in self._tails.values() if t.wire == frame.get("tail")), None)
            if tail is None:
                return None
            if frame["ev"] == DATA:
                return _rest(tail, frame)
            if frame["ev"] == END:
                del self._tails[tail.key]
            elif frame["ev"] == ROTATED:
                tail.offset, tail.log_id = 0, frame.get("log_id")
            else:
                tail.offset = 0
            return {**frame, "tail": tail.key}

    @staticmethod
    def consumed(client: Client, frame: Frame) -> None:
        """Give a tail the credit of a DATA frame (as it came) back, once the console has taken it."""
        if frame["ev"] == DATA:
            client.tell(CREDIT, tail=frame.get("tail"), bytes=len(_bytes(frame)))

    def _watch(self, client: Client, run: str) -> None:
        try:
            client.request(WATCH, run=run)
        except RemoteError:
            self._forget_run(run)
            raise

    def _take_up(self, client: Client, tail: _Tail) -> None:
        with self._lock:
            if tail.client is client:
                return  # its owner was faster than the renewal
            tail.client = client
            tail.wire = f"{tail.key}.{next(self._numbers)}"
            request = tail.request()
        try:
            client.request(TAIL, **request)
        except RemoteError:
            with self._lock:
                if self._tails.get(tail.key) is tail:
                    del self._tails[tail.key]
            raise

    def _forget_run(self, run: str) -> None:
        with self._lock:
            if run in self._runs:
                self._runs.remove(run)


def _rest(tail: _Tail, frame: Frame) -> Frame | None:
    """The part of a DATA frame that was not delivered yet, None when there is none. Raises ProtocolError for a gap."""
    data, offset = _bytes(frame), frame.get("offset")
    if not isinstance(offset, int) or offset > tail.offset:
        raise ProtocolError(f"a log goes on at byte {offset}, but byte {tail.offset} was next")
    fresh = data[tail.offset - offset :]
    if not fresh:
        return None
    start, tail.offset = tail.offset, offset + len(data)
    tail.log_id = frame.get("log_id", tail.log_id)
    if len(fresh) < len(data):
        frame = {**frame, "data": base64.b64encode(fresh).decode()}
    return {**frame, "offset": start, "tail": tail.key}


def _bytes(frame: Frame) -> bytes:
    try:
        return base64.b64decode(frame.get("data", ""), validate=True)
    except (binascii.Error, ValueError, TypeError):
        raise ProtocolError("log data that is no base64") from None
