"""What a test sees of a session: link states, pushes, and the bytes of each tail, checked as they come."""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from remote.link.asker import Asker, Question, RefusingAsker
from remote.link.hosts import HostProfile
from remote.session import HostSession, LinkState

PATIENCE = 60.0


class Observer:
    """Give `on_link` and `on_push` to a session."""

    def __init__(self) -> None:
        self.states: list[LinkState] = []
        self.pushes: list[dict[str, Any]] = []
        self.logs: dict[str, bytearray] = {}
        self.faults: list[str] = []
        """Log bytes that came twice, out of order, or never."""
        self._changed = threading.Condition()

    def on_link(self, state: LinkState) -> None:
        with self._changed:
            self.states.append(state)
            self._changed.notify_all()

    def on_push(self, frame: dict[str, Any]) -> None:
        with self._changed:
            self.pushes.append(frame)
            if frame["ev"] == "data":
                log = self.logs.setdefault(frame["tail"], bytearray())
                if frame["offset"] != len(log):
                    self.faults.append(f"bytes from {frame['offset']} came where {len(log)} was next")
                log += base64.b64decode(frame["data"])
            self._changed.notify_all()

    def until(self, look: Callable[[], Any], what: str = "") -> Any:
        """The first true value of `look`, asked again after every state and push."""
        deadline = time.monotonic() + PATIENCE
        with self._changed:
            while not (value := look()):
                if time.monotonic() > deadline:
                    raise AssertionError(f"waited in vain for {what or look}: {self.phases[-5:]} {self.states[-1:]}")
                self._changed.wait(0.1)
        return value

    def ended(self, key: str) -> bool:
        return any(push["ev"] == "end" and push["tail"] == key for push in self.pushes)

    @property
    def phases(self) -> list[str]:
        return [state.phase for state in self.states]

    def times(self, phase: str) -> int:
        return self.phases.count(phase)


class Operator:
    """Answers by a function of the question, and keeps the questions."""

    def __init__(self, answer: Callable[[Question], str | None]) -> None:
        self._answer = answer
        self.questions: list[Question] = []

    def ask(self, question: Question) -> str | None:
        self.questions.append(question)
        return self._answer(question)

    @property
    def kinds(self) -> list[str]:
        return [question.kind for question in self.questions]


@contextmanager
def session(profile: HostProfile, asker: Asker | None = None, **more: Any) -> Iterator[tuple[HostSession, Observer]]:
    """A started session and its observer; closed at the end."""
    observer = Observer()
    made = HostSession(profile, asker or RefusingAsker(), observer.on_link, observer.on_push, **more)
    made.start()
    try:
        yield made, observer
    finally:
        made.close()
        assert not observer.faults, observer.faults
