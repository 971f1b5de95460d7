"""A link to one host over paramiko: jump hosts, host keys, authentication, and commands as byte streams."""

from __future__ import annotations

import contextlib
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import paramiko  # type: ignore[import-untyped]

from remote.link import host_key
from remote.link.asker import Asker
from remote.link.auth import authenticate
from remote.link.errors import LinkLost, Unreachable
from remote.link.hosts import HostAddress
from remote.link.keys import Credentials
from remote.link.known_hosts import KnownHosts
from remote.link.transport import CHANNEL_SECONDS, ClientTransport, dial, negotiate

STDERR_KEPT = 4096
_SAID = 400
"""Characters of it that fit in a sentence."""
_STATUS_SECONDS = 10.0
"""How long the exit status may lag behind the end of the output."""
_WRITE_SECONDS = 60.0


class ChannelStream:
    """One exec channel. Never made into a file object: those deadlock the transport when they are collected."""

    def __init__(self, channel: Any, link: ParamikoLink) -> None:
        self._channel = channel
        self._link = link
        self._given_back = b""
        self._stderr = b""
        self._write_lock = threading.Lock()

    def read(self, size: int, timeout: float) -> bytes:
        if self._given_back:
            data, self._given_back = self._given_back[:size], self._given_back[size:]
            return data
        try:
            self._channel.settimeout(timeout)
            return bytes(self._channel.recv(size))
        except TimeoutError:
            raise TimeoutError(f"nothing came for {timeout:g} s") from None
        except (paramiko.SSHException, EOFError, OSError):
            return b""
        finally:
            self._drain_stderr()

    def unread(self, data: bytes) -> None:
        self._given_back = data + self._given_back

    def write(self, data: bytes) -> None:
        with self._write_lock:
            view = memoryview(data)
            while view:
                # sendall() would take the reader's time-out, which is shorter than a slow link may need.
                sent = self._send(view[: 32 << 10])
                view = view[sent:]

    def close(self) -> None:
        with suppress(Exception):
            self._channel.close()

    def exit_status(self) -> int | None:
        """Waits a moment for it once the output has ended."""
        if not self._channel.status_event.wait(_STATUS_SECONDS if self._channel.eof_received else 0):
            return None
        status = int(self._channel.exit_status)
        return None if status < 0 else status

    def why_closed(self) -> str:
        self._drain_stderr()
        status = self.exit_status()
        said = " ".join(self._stderr.decode("utf-8", "replace").split())[-_SAID:]
        parts = [f"the command ended with status {status}"] if status is not None else []
        if status is None and not self._link.is_open():
            parts.append(self._link.why_closed())
        parts += [f"it said: {said}"] if said else []
        return "; ".join(parts)

    def stderr(self) -> str:
        """The last 4 KiB that the command wrote to its standard error."""
        self._drain_stderr()
        return self._stderr.decode("utf-8", "replace")

    def _send(self, piece: memoryview) -> int:
        deadline = time.monotonic() + _WRITE_SECONDS
        while time.monotonic() < deadline:
            try:
                sent = int(self._channel.send(bytes(piece)))
            except TimeoutError:
                continue
            if sent == 0:
                break
            return sent
        raise BrokenPipeError("the channel is closed or stuck")

    def _drain_stderr(self) -> None:
        # Unread standard error would use up the window that it shares with the output.
        with suppress(Exception):
            while self._channel.recv_stderr_ready():
                self._stderr = (self._stderr + self._channel.recv_stderr(32 << 10))[-STDERR_KEPT:]


class ParamikoLink:
    """An authenticated connection to one host, and the connections to the jump hosts below it."""

    def __init__(self, address: HostAddress, transports: list[ClientTransport]) -> None:
        self.address = address
        self._transports = transports

    def open_stream(self, command: str) -> ChannelStream:
        """Run `command` by the user's login shell. Raises LinkError."""
        try:
            channel = self._transports[-1].open_session(timeout=CHANNEL_SECONDS)
            channel.settimeout(CHANNEL_SECONDS)
            channel.exec_command(command)
        except (paramiko.SSHException, EOFError, OSError) as error:
            reason = str(error) or type(error).__name__
            if self.is_open() and isinstance(error, paramiko.ChannelException):
                raise Unreachable(
                    f"{self.address} opens no further session: {reason}", "close other sessions, or raise MaxSessions"
                ) from None
            if self.is_open() and "timeout" not in reason.lower():
                raise Unreachable(
                    f"{self.address} does not run commands: {reason}",
                    "look for a ForceCommand or a restricted key on the host",
                    retry=False,
                ) from None
            raise LinkLost(f"{self.address} was lost while opening a session: {reason}") from None
        return ChannelStream(channel, self)

    def is_open(self) -> bool:
        return all(transport.is_active() for transport in self._transports)

    def why_closed(self) -> str:
        for transport in self._transports:
            if not transport.is_active():
                return transport.goodbye or "the connection ended"
        return ""

    def drop(self) -> None:
        """End the connection now. Never blocks, not even when the transport's own locks are stuck."""
        for transport in self._transports:
            transport.drop()


def connect(
    address: HostAddress,
    own_known_hosts: Path,
    asker: Asker,
    credentials: Credentials,
    expected_fingerprint: str | None = None,
) -> ParamikoLink:
    """Reach `address` hop by hop; each hop shows its key before it hears anything of ours. Raises LinkError."""
    transports: list[ClientTransport] = []
    with contextlib.ExitStack() as undo:
        for hop in (*address.proxy_jump, address):
            known = KnownHosts(own_known_hosts, hop.user_known_hosts)
            sock = _through(transports[-1], hop) if transports else dial(hop.hostname, hop.port)
            transport = negotiate(sock, known.key_types(hop.key_name), str(hop))
            undo.callback(transport.drop)
            key = transport.get_remote_server_key()
            expected = expected_fingerprint if hop is address else None
            host_key.verify(hop, key.get_name(), key.asbytes(), known, asker, expected)
            authenticate(transport, hop, asker, credentials)
            transports.append(transport)
        undo.pop_all()
    return ParamikoLink(address, transports)


def _through(transport: ClientTransport, hop: HostAddress) -> Any:
    """A channel from a jump host to the next hop."""
    try:
        return transport.open_channel(
            "direct-tcpip", (hop.hostname, hop.port), ("127.0.0.1", 0), timeout=CHANNEL_SECONDS
        )
    except (paramiko.SSHException, EOFError, OSError) as error:
        raise Unreachable(
            f"the jump host does not reach {hop.hostname} port {hop.port}: {error or type(error).__name__}",
            "check the ProxyJump line, and that the jump host allows forwarding",
        ) from None
