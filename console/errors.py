"""What the command line says when it cannot do what was asked: one sentence and the remedy, exit status 2."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """Bad input or an unusable host: nothing was changed."""

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        """Both, as sentences, whatever their authors left off."""
        return " ".join(_sentence(part) for part in (self.message, self.remedy) if part)


def _sentence(text: str) -> str:
    text = text.strip()
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "?", "!", ":")) else ".")


def nearest(word: str, known: Iterable[str]) -> str:
    """` Did you mean `x`?` for the closest known word, else the list of known words."""
    words = sorted(known)
    close = difflib.get_close_matches(word, words, n=1)
    if close:
        return f"Did you mean `{close[0]}`?"
    return f"Known: {', '.join(words)}." if words else ""


def words_of(error: Exception) -> tuple[str, str]:
    """The sentence and the remedy of an error of ours; anything else by its type, for it is a fault of Eyas."""
    message = getattr(error, "message", None)
    if isinstance(message, str):
        return message, str(getattr(error, "remedy", ""))
    return f"{type(error).__name__}: {error}", ""
