"""The embedded host: an SSH server of our own on loopback, for this user alone, with throw-away keys.

The server runs as a child process and lives exactly as long as the pipe from its parent. It runs commands by /bin/sh
and nothing else: no shell sessions, no forwarding, no files. Nothing of ~/.ssh is read or written.
"""

from __future__ import annotations

import getpass
import json
import os
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from remote.link.errors import LinkError
from remote.link.hosts import HostAddress
from remote.link.keys import Credentials, generate
from remote.link.known_hosts import fingerprint

_START_SECONDS = 30.0


@dataclass(frozen=True)
class Door:
    """How to get in."""

    address: HostAddress
    credentials: Credentials
    fingerprint: str
    """Of the server's key: no other is accepted."""


class EmbeddedHost:
    """The parent's end. `ensure` before every connection; `close` ends the server and every command it runs."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._door: Door | None = None
        self._closed = False

    @property
    def pid(self) -> int | None:
        return self._child.pid if self._child else None

    def ensure(self) -> Door:
        """The way into a server that runs, started anew when it has died. Raises LinkError."""
        with self._lock:
            if self._closed:
                raise LinkError("the embedded host is closed")
            if self._door is None or self._child is None or self._child.poll() is not None:
                self._end_child()
                self._door = self._start()
            return self._door

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._end_child()

    def _start(self) -> Door:
        key = generate()
        root = str(Path(__file__).resolve().parents[2])
        path = os.pathsep.join(p for p in (root, os.environ.get("PYTHONPATH", "")) if p)
        self._child = subprocess.Popen(
            [sys.executable, "-m", "remote.link.embedded"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
            start_new_session=True,  # Ctrl+C in the console's terminal is not meant for it
        )
        assert self._child.stdin and self._child.stdout
        timer = threading.Timer(_START_SECONDS, self._child.kill)
        timer.start()
        try:
            with suppress(BrokenPipeError):
                self._child.stdin.write(json.dumps({"user_key": key.get_base64()}).encode() + b"\n")
                self._child.stdin.flush()
            line = self._child.stdout.readline(4096)
        finally:
            timer.cancel()
        try:
            told = json.loads(line)
            port, shown = int(told["port"]), bytes.fromhex(told["host_key"])
        except (ValueError, KeyError):
            raise LinkError(
                f"the embedded host did not start: {self._last_words()}", "run: eyas demo, from an intact installation"
            ) from None
        threading.Thread(target=_forget_output, args=(self._child,), daemon=True).start()
        address = HostAddress("127.0.0.1", port, getpass.getuser(), identities_only=True, identity_agent="none")
        return Door(address, Credentials(extra=(key,)), fingerprint(shown))

    def _last_words(self) -> str:
        child = self._child
        if child is None or child.stderr is None:
            return "no process"
        child.kill()
        lines = child.stderr.read(65536).decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else f"it ended with status {child.wait()}"

    def _end_child(self) -> None:
        child, self._child, self._door = self._child, None, None
        if child is None:
            return
        if child.stdin:
            with suppress(OSError):
                child.stdin.close()  # the server's sign to go
        try:
            child.wait(timeout=2.0)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        for pipe in (child.stdout, child.stderr):
            if pipe:
                with suppress(OSError):
                    pipe.close()


def _forget_output(child: subprocess.Popen[bytes]) -> None:
    """Read what the server prints, so that it never waits for a full pipe."""
    assert child.stderr
    with suppress(OSError, ValueError):
        while os.read(child.stderr.fileno(), 65536):
            pass


if __name__ == "__main__":
    from remote.link.embedded_server import main

    sys.exit(main())
