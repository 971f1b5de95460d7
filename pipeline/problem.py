"""A request the pipeline refuses before anything runs: one sentence and its remedy."""

from __future__ import annotations


class Problem(Exception):
    """Kinds: bad_settings, no_target, no_space (as in `remote.protocol.RemoteError`)."""

    def __init__(self, kind: str, message: str, remedy: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.remedy = remedy

    def to_json(self) -> dict[str, str]:
        return {"kind": self.kind, "message": self.message, "remedy": self.remedy}
