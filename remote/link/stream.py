"""The byte stream of one remote command, whatever carries it."""

from __future__ import annotations

from typing import Protocol


class ByteStream(Protocol):
    def read(self, size: int, timeout: float) -> bytes:
        """Up to `size` bytes; b"" at the end. Raises TimeoutError after `timeout` seconds without any."""

    def unread(self, data: bytes) -> None:
        """Give back bytes that belong to the next reader."""

    def write(self, data: bytes) -> None:
        """All of `data`. Raises OSError when the stream is closed or stuck."""

    def close(self) -> None:
        """End the command's standard input and forget the stream. Never raises."""

    def why_closed(self) -> str:
        """In words, with the end of the command's standard error; '' while it is open and silent."""

    def exit_status(self) -> int | None:
        """Of the command, None while unknown."""


class Link(Protocol):
    """A connection to one host, as far as the client needs it."""

    def open_stream(self, command: str) -> ByteStream:
        """Run `command` on the host. Raises LinkError."""

    def is_open(self) -> bool: ...

    def drop(self) -> None:
        """End everything now, without blocking."""
