"""One SSH connection: paramiko's Transport with our choices of algorithms, time-outs and host key order."""

from __future__ import annotations

import logging
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from threading import Thread
from typing import Any

import paramiko  # type: ignore[import-untyped]

from remote.link.errors import LinkError, UnknownName, Unreachable

CONNECT_SECONDS = 10.0
HANDSHAKE_SECONDS = 15.0
CHANNEL_SECONDS = 10.0

_CIPHERS = (
    "aes128-gcm@openssh.com",  # first: a third less CPU than counter mode
    "aes256-gcm@openssh.com",
    "aes128-ctr",
    "aes192-ctr",
    "aes256-ctr",
)
_DISABLED = {
    "ciphers": ["aes128-cbc", "aes192-cbc", "aes256-cbc", "3des-cbc"],
    "macs": ["hmac-sha1", "hmac-md5", "hmac-sha1-96", "hmac-md5-96"],
}
_KEEPALIVE_IDLE, _KEEPALIVE_INTERVAL, _KEEPALIVE_COUNT = 3, 3, 3
_USER_TIMEOUT_MS = 9000

# Without a handler, Python would print paramiko's complaints over the screen.
logging.getLogger("paramiko").addHandler(logging.NullHandler())


class ClientTransport(paramiko.Transport):  # type: ignore[misc]
    """Remembers why the server said good-bye, and can be dropped even when its own locks are stuck."""

    def __init__(self, sock: Any) -> None:
        self.raw = sock
        self.goodbye = ""
        """The server's words in its disconnect message."""
        super().__init__(sock, disabled_algorithms=_DISABLED)
        self.daemon = True
        self.banner_timeout = HANDSHAKE_SECONDS
        self.handshake_timeout = HANDSHAKE_SECONDS
        self.channel_timeout = CHANNEL_SECONDS
        self.get_security_options().ciphers = _CIPHERS

    def _parse_disconnect(self, m: Any) -> None:
        m.get_int()
        self.goodbye = m.get_text()

    def prefer_key_types(self, known: Sequence[str]) -> None:
        """Put the types of the keys on record first, so that an honest host shows one of them."""
        wanted = [name for known_type in known for name in _algorithms_of(known_type)]
        options = self.get_security_options()
        first = [name for name in wanted if name in options.key_types]
        options.key_types = (*first, *(name for name in options.key_types if name not in first))

    def drop(self) -> None:
        """End it now. Never blocks: the socket goes first, what may hang on a lock goes to a thread of its own."""
        with suppress(Exception):
            if isinstance(self.raw, socket.socket):
                self.raw.shutdown(socket.SHUT_RDWR)
        with suppress(Exception):
            if isinstance(self.raw, socket.socket):
                self.raw.close()
        Thread(target=self._close_quietly, name="link-close", daemon=True).start()

    def _close_quietly(self) -> None:
        with suppress(Exception):
            self.close()


def dial(hostname: str, port: int) -> socket.socket:
    """A TCP connection that notices a dead peer by itself within about 12 s. Raises LinkError."""
    try:
        sock = socket.create_connection((hostname, port), timeout=CONNECT_SECONDS)
    except socket.gaierror as error:
        raise UnknownName(
            f"no address is known for the host name {hostname!r} ({error.strerror})",
            "check the spelling, the ssh configuration (HostName), and the network or VPN",
        ) from None
    except OSError as error:
        reason = "no answer" if isinstance(error, TimeoutError) else (error.strerror or str(error))
        raise Unreachable(
            f"{hostname} port {port} cannot be reached: {reason}",
            "check that the host is up, that sshd listens on that port, and the network or VPN",
        ) from None
    sock.settimeout(None)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    _set_tcp(sock, "TCP_KEEPIDLE" if sys.platform != "darwin" else "TCP_KEEPALIVE", _KEEPALIVE_IDLE)
    _set_tcp(sock, "TCP_KEEPINTVL", _KEEPALIVE_INTERVAL)
    _set_tcp(sock, "TCP_KEEPCNT", _KEEPALIVE_COUNT)
    _set_tcp(sock, "TCP_USER_TIMEOUT", _USER_TIMEOUT_MS)
    return sock


def negotiate(sock: Any, key_types: Sequence[str], where: str) -> ClientTransport:
    """Key exchange over `sock`; no host key is judged yet. Raises LinkError."""
    transport = ClientTransport(sock)
    try:
        transport.prefer_key_types(key_types)
        transport.start_client(timeout=HANDSHAKE_SECONDS)
    except paramiko.ssh_exception.IncompatiblePeer as error:
        transport.drop()
        raise LinkError(
            f"{where} and this link have no algorithm in common: {error}",
            "allow aes128-gcm or aes256-ctr with curve25519 or rsa-sha2 on the server",
        ) from None
    except Exception as error:  # paramiko raises plain Exceptions too
        transport.drop()
        said = transport.goodbye or str(error) or "it closed the connection"
        raise Unreachable(
            f"{where} does not complete the SSH greeting: {said}",
            "check that it is an SSH server; one that is overloaded or refuses this address for a while answers so too",
        ) from None
    return transport


def _set_tcp(sock: socket.socket, option: str, value: int) -> None:
    number = getattr(socket, option, None)
    if number is not None:
        sock.setsockopt(socket.IPPROTO_TCP, number, value)


def _algorithms_of(key_type: str) -> tuple[str, ...]:
    return ("rsa-sha2-512", "rsa-sha2-256") if key_type == "ssh-rsa" else (key_type,)
