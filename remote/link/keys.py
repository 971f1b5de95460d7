"""Private keys: from files and from the key agent, with the passphrases asked for and remembered in memory only."""

from __future__ import annotations

import base64
import binascii
import io
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import paramiko  # type: ignore[import-untyped]
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from paramiko import PKey

from remote.link.asker import Asker, Question
from remote.link.errors import AuthenticationFailed
from remote.link.hosts import HostAddress

PASSPHRASE_TRIES = 3


@dataclass
class Credentials:
    """What the operator has given in this session, so that a reconnect at night need not wake him. Memory only."""

    keys: dict[Path, PKey] = field(default_factory=dict)
    passwords: dict[str, str] = field(default_factory=dict)
    """`user@host` -> password that was accepted."""
    declined: set[Path] = field(default_factory=set)
    """Keys whose passphrase the operator would not give."""
    extra: tuple[PKey, ...] = ()
    """Keys given by the program itself (the embedded host's); when set, no others are tried."""


@dataclass(frozen=True)
class Candidate:
    """A key worth offering."""

    name: str
    """In words, for messages."""
    key: PKey | None = None
    file: Path | None = None
    """Where the key is still to be read from."""


def generate() -> PKey:
    """A fresh ed25519 key."""

    return _as_paramiko(ed25519.Ed25519PrivateKey.generate())


@contextmanager
def candidates(address: HostAddress, credentials: Credentials) -> Iterator[list[Candidate]]:
    """Keys to offer, most likely first; the key agent stays open inside the block.

    Order: agent keys that an identity file names, plain identity files, other agent keys (unless identities_only),
    and last the files that need a passphrase, so that none is asked for in vain.
    """
    if credentials.extra:
        yield [Candidate("the session's own key", key) for key in credentials.extra]
        return
    agent = _open_agent(address.identity_agent)
    try:
        held = {key.asbytes(): key for key in (agent.get_keys() if agent else ())}
        named: list[Candidate] = []
        plain: list[Candidate] = []
        locked: list[Candidate] = []
        for file in address.identity_files:
            blob = _public_blob(file)
            if blob in held:
                named.append(Candidate(f"{file} (from the key agent)", held.pop(blob)))
            elif file in credentials.keys:
                plain.append(Candidate(str(file), credentials.keys[file]))
            elif file.suffix != ".pub" and file.is_file():
                (locked if _needs_passphrase(file) else plain).append(Candidate(str(file), file=file))
        others = [Candidate(f"{_comment(key)} (from the key agent)", key) for key in held.values()]
        yield [*named, *plain, *([] if address.identities_only else others), *locked]
    finally:
        if agent:
            agent.close()


def load(candidate: Candidate, asker: Asker, credentials: Credentials) -> PKey | None:
    """The candidate's key; None when its passphrase was refused. Raises AuthenticationFailed for an unusable file."""
    if candidate.key is not None or candidate.file is None:
        return candidate.key
    file = candidate.file
    if file in credentials.declined:
        return None
    if not _needs_passphrase(file):
        return _load(file, None)
    for turn in range(PASSPHRASE_TRIES):
        again = "That passphrase does not open it. " if turn else ""
        answer = asker.ask(
            Question("passphrase", "Key passphrase", f"{again}Passphrase for {file}", True, {"file": str(file)})
        )
        if answer is None:
            credentials.declined.add(file)
            return None
        with suppress(ValueError):
            key = _load(file, answer.encode())
            credentials.keys[file] = key
            return key
    raise AuthenticationFailed(
        f"{file}: {PASSPHRASE_TRIES} passphrases, and none opens it", f"check it with: ssh-keygen -y -f '{file}'"
    )


def _open_agent(socket_path: str | None) -> Any:
    """The key agent, None when there is none that answers."""

    if socket_path == "none":
        return None
    try:
        if socket_path is None:
            return paramiko.Agent() if os.environ.get("SSH_AUTH_SOCK") else None
        return _AgentAt(socket_path).open()
    except Exception:  # a dead or strange agent only means: no keys from it
        return None


class _AgentAt:
    """paramiko looks for its agent in the environment only; IdentityAgent names another socket."""

    def __init__(self, path: str) -> None:
        self.path = path

    def open(self) -> Any:

        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(10)
        try:
            connection.connect(self.path)
            agent = paramiko.agent.AgentSSH()
            agent._connect(connection)
        except BaseException:
            connection.close()
            raise
        agent.close = agent._close
        return agent


def _comment(key: Any) -> str:
    return str(getattr(key, "comment", "") or key.get_name())


def _public_blob(file: Path) -> bytes | None:
    """The public half of an identity, from the .pub file beside it (or from itself, when it is one)."""
    public = file if file.suffix == ".pub" else file.with_name(file.name + ".pub")
    try:
        return base64.b64decode(public.read_bytes().split()[1], validate=True)
    except (OSError, IndexError, binascii.Error):
        return None


def _needs_passphrase(file: Path) -> bool:

    try:
        _private(file.read_bytes(), None)
    except TypeError:
        return True
    except (ValueError, OSError, UnsupportedAlgorithm):
        return False  # unusable rather than locked: load() says so
    return False


def _load(file: Path, passphrase: bytes | None) -> PKey:
    """Raises ValueError for a wrong passphrase, AuthenticationFailed for what can never be used."""

    try:
        return _as_paramiko(_private(file.read_bytes(), passphrase))
    except ValueError:
        if passphrase is not None:
            raise
        reason = "not a private key"
    except UnsupportedAlgorithm as error:
        reason = str(error)
    except OSError as error:
        reason = str(error.strerror)
    raise AuthenticationFailed(f"{file} cannot be used: {reason}", "name another IdentityFile in the ssh configuration")


def _private(data: bytes, passphrase: bytes | None) -> Any:

    if b"OPENSSH PRIVATE KEY" in data:
        return serialization.load_ssh_private_key(data, passphrase)
    return serialization.load_pem_private_key(data, passphrase)


def _as_paramiko(key: Any) -> PKey:

    kinds: dict[Any, Any] = {
        rsa.RSAPrivateKey: paramiko.RSAKey,
        ec.EllipticCurvePrivateKey: paramiko.ECDSAKey,
        ed25519.Ed25519PrivateKey: paramiko.Ed25519Key,
    }
    for kind, wrapper in kinds.items():
        if isinstance(key, kind):
            text = key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
            )
            return wrapper.from_private_key(io.StringIO(text.decode()))
    raise ValueError(f"a {type(key).__name__} is of no use for SSH")
