"""The child's end of the embedded host: accepts one user key, runs commands, and ends with its standard input."""

from __future__ import annotations

import base64
import getpass
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import paramiko  # type: ignore[import-untyped]

from remote.link.keys import generate

_CONNECTIONS = 16
_PIECE = 32 << 10
_LOGIN_SECONDS = 30.0
_LOOK_SECONDS = 0.5
_HANG_UP_SECONDS = 3.0
"""A command whose channel is gone may end by itself for so long, then it is killed."""
_LAST_SECONDS = 1.0
"""The same when the whole server ends."""


class _Server(paramiko.ServerInterface):  # type: ignore[misc]
    """One connection: this user, one key, exec requests only."""

    def __init__(self, user_key: bytes, commands: set[_Command]) -> None:
        self._user_key = user_key
        self._commands = commands

    def get_allowed_auths(self, username: str) -> str:
        return "publickey"

    def check_auth_publickey(self, username: str, key: Any) -> int:
        good = username == getpass.getuser() and key.asbytes() == self._user_key
        return int(paramiko.AUTH_SUCCESSFUL if good else paramiko.AUTH_FAILED)

    def check_channel_request(self, kind: str, chanid: int) -> int:
        session = kind == "session"
        return int(paramiko.OPEN_SUCCEEDED if session else paramiko.OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED)

    def check_channel_exec_request(self, channel: Any, command: bytes) -> bool:
        # On the transport's thread, which must not wait for a process.
        threading.Thread(target=self._run, args=(channel, os.fsdecode(command)), daemon=True).start()
        return True

    def _run(self, channel: Any, command: str) -> None:
        running = _Command(channel, command)
        self._commands.add(running)
        try:
            running.run()
        finally:
            self._commands.discard(running)


class _Command:
    """A command in its own process group, its three pipes tied to a channel."""

    def __init__(self, channel: Any, command: str) -> None:
        self._channel = channel
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            cwd=Path.home(),
            start_new_session=True,
        )

    def run(self) -> None:
        """Until the command has ended and its output is sent, or its channel is gone and it was made to end."""
        process = self._process
        assert process.stdin and process.stdout and process.stderr
        threading.Thread(target=_feed, args=(self._channel, process.stdin), daemon=True).start()
        pumps = [
            threading.Thread(target=_pump, args=(process.stdout, self._channel.sendall), daemon=True),
            threading.Thread(target=_pump, args=(process.stderr, self._channel.sendall_stderr), daemon=True),
        ]
        for pump in pumps:
            pump.start()
        while any(pump.is_alive() for pump in pumps) and not self._gone():
            pumps[0].join(_LOOK_SECONDS)
            pumps[1].join(_LOOK_SECONDS if not pumps[0].is_alive() else 0)
        if self._gone():
            self.end(_HANG_UP_SECONDS)
            return
        status = self._process.wait()
        with suppress(Exception):
            self._channel.send_exit_status(status if status >= 0 else 128 - status)
            self._channel.close()

    def end(self, grace: float) -> None:
        """Its channel is gone: let it read the end of its input, then kill its whole group."""
        with suppress(Exception):
            self._channel.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(grace)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _gone(self) -> bool:
        return self._channel.closed or not self._channel.get_transport().is_active()


def _feed(channel: Any, sink: IO[bytes]) -> None:
    """The channel's input into the command's, to the end of either."""
    with suppress(OSError, EOFError, paramiko.SSHException):
        while data := channel.recv(_PIECE):
            view = memoryview(data)
            while view:
                view = view[os.write(sink.fileno(), view) :]
    with suppress(OSError):
        sink.close()


def _pump(source: IO[bytes], send: Callable[[bytes], None]) -> None:
    with suppress(OSError, EOFError, paramiko.SSHException):
        while data := os.read(source.fileno(), _PIECE):
            send(data)


class _Listener:
    """Accepts connections for as long as the process lives."""

    def __init__(self, user_key: bytes) -> None:
        self._user_key = user_key
        self._host_key = generate()
        self._commands: set[_Command] = set()
        self._transports: set[paramiko.Transport] = set()
        self._socket = socket.create_server(("127.0.0.1", 0))

    def greeting(self) -> dict[str, Any]:
        return {"port": self._socket.getsockname()[1], "host_key": self._host_key.asbytes().hex()}

    def accept(self) -> None:
        while True:
            connection, _ = self._socket.accept()
            self._transports = {t for t in self._transports if t.is_active()}
            if len(self._transports) >= _CONNECTIONS:
                connection.close()
                continue
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            transport = paramiko.Transport(connection)
            transport.add_server_key(self._host_key)
            self._transports.add(transport)
            with suppress(paramiko.SSHException, OSError):
                transport.start_server(event=threading.Event(), server=_Server(self._user_key, self._commands))
            stranger = threading.Timer(_LOGIN_SECONDS, lambda t=transport: t.is_authenticated() or t.close())
            stranger.daemon = True
            stranger.start()

    def end(self) -> None:
        ends = [threading.Thread(target=command.end, args=(_LAST_SECONDS,)) for command in list(self._commands)]
        for thread in ends:
            thread.start()
        for thread in ends:
            thread.join()


def main() -> int:
    """First line of standard input: {"user_key": base64}; printed: {"port", "host_key" (hex)}. Ends at its end."""
    logging.getLogger("paramiko").addHandler(logging.NullHandler())
    order = json.loads(sys.stdin.buffer.readline(4096))
    listener = _Listener(base64.b64decode(order["user_key"]))
    threading.Thread(target=listener.accept, daemon=True).start()
    print(json.dumps(listener.greeting()), flush=True)
    while os.read(0, 4096):
        pass
    listener.end()
    return 0
