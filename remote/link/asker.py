"""Questions that only the operator can answer, put by the link's threads. Never input(), never getpass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

QuestionKind = Literal["host_key", "password", "passphrase", "interactive"]


@dataclass(frozen=True)
class Question:
    """One question. `title` and `text` may hold words of the host: sanitise before they reach a terminal."""

    kind: QuestionKind
    title: str
    text: str
    secret: bool
    """True when the answer must not be shown as it is typed."""
    details: Mapping[str, str] = field(default_factory=dict)
    """For host_key: host, port, key_type, fingerprint, note. Else: host, user, and what the secret opens."""


class Asker(Protocol):
    def ask(self, question: Question) -> str | None:
        """The operator's answer, None when refused. Called on a thread of the link, never the screen's.

        For `host_key`, "yes" or the fingerprint itself accepts.
        """


class RefusingAsker:
    """Answers nothing: for use without an operator."""

    def ask(self, question: Question) -> str | None:
        return None
