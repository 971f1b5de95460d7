"""An SSH server in this process that wants more than a key: passwords, a second factor, several methods in a row."""

from __future__ import annotations

import base64
import getpass
import socket
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import paramiko
from sshd import make_key

from remote.link.hosts import HostProfile
from remote.link.keys import generate


class LoginServer:
    """`steps`: methods that have to succeed in this order; each but the last is a partial success.

    `logins` counts connections that asked to log in, `given` the answers and passwords that came. Nothing runs here.
    """

    def __init__(self, folder: Path, steps: Sequence[str], secret: str = "123456") -> None:
        folder.mkdir()
        self.folder = folder
        self.steps = tuple(steps)
        self.secret = secret
        self.hangs_up = False
        """True: the connection ends where an answer would be judged."""
        self.logins = 0
        self.given: list[str] = []
        self.user_key = make_key(folder / "user_key")
        self.accepted_key = base64.b64decode(self.user_key.with_suffix(".pub").read_text().split()[1])
        self._host_key = generate()
        self._transports: list[paramiko.Transport] = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._socket.getsockname()[1])

    def __enter__(self) -> LoginServer:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        self._socket.close()
        self.hang_up()

    def hang_up(self) -> None:
        for transport in self._transports:
            transport.close()

    def profile(self) -> HostProfile:
        record = self.folder / "known_hosts"
        record.write_text(f"[127.0.0.1]:{self.port} {self._host_key.get_name()} {self._host_key.get_base64()}\n")
        config = self.folder / "config"
        config.write_text(
            f"Host gpu\n HostName 127.0.0.1\n Port {self.port}\n User {getpass.getuser()}\n"
            f" IdentityFile {self.user_key}\n IdentitiesOnly yes\n IdentityAgent none\n"
            " UserKnownHostsFile none\n GlobalKnownHostsFile none\n"
        )
        return HostProfile("gpu", "gpu", known_hosts=record, ssh_config=config)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            transport = paramiko.Transport(connection)
            transport.add_server_key(self._host_key)
            self._transports.append(transport)
            transport.start_server(event=threading.Event(), server=_Login(self))


class _Login(paramiko.ServerInterface):
    """One connection on its way through the steps."""

    def __init__(self, server: LoginServer) -> None:
        self._server = server
        self._done = 0

    def get_allowed_auths(self, username: str) -> str:
        return self._server.steps[self._done]

    def check_auth_none(self, username: str) -> int:
        self._server.logins += 1
        return paramiko.AUTH_FAILED

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        return self._step("publickey", key.asbytes() == self._server.accepted_key)

    def check_auth_password(self, username: str, password: str) -> int:
        self._server.given.append(password)
        return self._step("password", password == self._server.secret)

    def check_auth_interactive(self, username: str, submethods: str) -> paramiko.InteractiveQuery | int:
        if self._server.steps[self._done] != "keyboard-interactive":
            return paramiko.AUTH_FAILED
        query = paramiko.InteractiveQuery("Second factor", "Look at your phone.")
        query.add_prompt("Verification code: ", False)
        return query

    def check_auth_interactive_response(self, responses: list[str]) -> int:
        self._server.given += responses
        return self._step("keyboard-interactive", responses == [self._server.secret])

    def _step(self, method: str, right: bool) -> int:
        if self._server.hangs_up:
            self._server.hang_up()
        if not right or self._server.steps[self._done] != method:
            return paramiko.AUTH_FAILED
        if self._done + 1 == len(self._server.steps):
            return paramiko.AUTH_SUCCESSFUL
        self._done += 1
        return paramiko.AUTH_PARTIALLY_SUCCESSFUL
