"""Host keys on record: read line by line, so that one bad line costs only itself, and judged without a bypass.

The user's files are only read. Our own file is only appended to.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path


class Verdict(Enum):
    KNOWN = "known"
    UNKNOWN = "unknown"
    CHANGED = "changed"
    REVOKED = "revoked"


@dataclass(frozen=True)
class Entry:
    """One usable line of a known-hosts file."""

    file: Path
    line: int
    marker: str
    """'', '@revoked' or '@cert-authority'."""
    hosts: str
    """Patterns as written: comma separated, or one hashed name."""
    key_type: str
    key: bytes

    def matches(self, name: str) -> bool:
        """Whether the line is about `name` (`host`, or `[host]:port` off port 22)."""
        name = name.lower()
        if self.hosts.startswith("|1|"):
            return _hash_matches(self.hosts, name)
        found = False
        for pattern in self.hosts.lower().split(","):
            if pattern.startswith("!"):
                if _glob(pattern[1:], name):
                    return False
            elif _glob(pattern, name):
                found = True
        return found


@dataclass(frozen=True)
class Judgement:
    verdict: Verdict
    entries: tuple[Entry, ...] = ()
    """The lines that decided it."""
    authority: Entry | None = None
    """A @cert-authority line for this host: host certificates are not checked by this link."""


def known_name(host: str, port: int) -> str:
    """How known-hosts files call a host: bare on port 22, `[host]:port` elsewhere."""
    return host if port == 22 else f"[{host}]:{port}"


def fingerprint(key: bytes) -> str:
    """`SHA256:…` as OpenSSH prints it."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(key).digest()).decode().rstrip("=")


def same_fingerprint(given: str, key: bytes) -> bool:
    """Whether `given` (with or without `SHA256:` and padding) names `key`."""
    digest = fingerprint(key).removeprefix("SHA256:")
    return hmac.compare_digest(given.strip().removeprefix("SHA256:").rstrip("=").encode(), digest.encode())


def parse(file: Path, data: bytes) -> list[Entry]:
    """The usable lines of a file; comments, bad lines and unknown markers are skipped."""
    entries = []
    for number, raw in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        fields = raw.split()
        if not fields or fields[0].startswith("#"):
            continue
        marker = fields.pop(0) if fields[0].startswith("@") else ""
        if marker not in ("", "@revoked", "@cert-authority") or len(fields) < 3:
            continue
        key = _key_bytes(fields[1], fields[2])
        if key is not None:
            entries.append(Entry(file, number, marker, fields[0], fields[1], key))
    return entries


class KnownHosts:
    """Every key on record: our own file first, then the user's and the system's."""

    def __init__(self, own: Path, others: Sequence[Path] = ()) -> None:
        self.own = own
        self._entries: list[Entry] = []
        for file in (own, *others):
            try:
                self._entries += parse(file, file.read_bytes())
            except OSError:
                continue  # a file that is not there or not ours to read knows no host

    def judge(self, name: str, key: bytes) -> Judgement:
        """What the record says about `key` shown by `name`.

        Any key on record for the name, of whatever type, makes another one a changed key: key types are negotiated
        in the order of the known ones, so an honest host shows the one that is known.
        """
        about = self._about(name)
        revoked = tuple(e for e in about if e.marker == "@revoked" and e.key == key)
        if revoked:
            return Judgement(Verdict.REVOKED, revoked)
        plain = tuple(e for e in about if not e.marker)
        same = tuple(e for e in plain if e.key == key)
        if same:
            return Judgement(Verdict.KNOWN, same)
        authority = next((e for e in about if e.marker == "@cert-authority"), None)
        return Judgement(Verdict.CHANGED if plain else Verdict.UNKNOWN, plain, authority)

    def key_types(self, name: str) -> list[str]:
        """Types of the keys on record for `name`, in the order of the files."""
        return list(dict.fromkeys(e.key_type for e in self._about(name) if not e.marker))

    def remember(self, name: str, key_type: str, key: bytes) -> None:
        """Append one line to our own file (0600), on disk when this returns. Raises OSError."""
        self.own.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        line = f"{name} {key_type} {base64.b64encode(key).decode()}\n".encode()
        descriptor = os.open(self.own, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            size = os.fstat(descriptor).st_size
            if size and os.pread(descriptor, 1, size - 1) != b"\n":
                line = b"\n" + line
            os.write(descriptor, line)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        self._entries += parse(self.own, line)

    def _about(self, name: str) -> list[Entry]:
        return [entry for entry in self._entries if entry.matches(name)]


def removal_lines(name: str, entries: Iterable[Entry]) -> str:
    """The `ssh-keygen -R` commands that would take `entries` off the record."""
    files = dict.fromkeys(entry.file for entry in entries)
    return "; ".join(f"ssh-keygen -R '{name}' -f '{file}'" for file in files)


def _key_bytes(key_type: str, text: str) -> bytes | None:
    """The key, None when it is not base64 or not of the type that the line says."""
    try:
        key = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    length = int.from_bytes(key[:4], "big")
    return key if key[4 : 4 + length] == key_type.encode() and len(key) > 4 + length else None


def _hash_matches(field: str, name: str) -> bool:
    try:
        _, _, salt, digest = field.split("|")
        wanted = base64.b64decode(digest, validate=True)
        found = hmac.new(base64.b64decode(salt, validate=True), name.encode(), hashlib.sha1).digest()
    except (binascii.Error, ValueError):
        return False
    return hmac.compare_digest(found, wanted)


def _glob(pattern: str, name: str) -> bool:
    """OpenSSH's patterns: only * and ? are special; brackets are part of `[host]:port`."""
    expression = "".join(".*" if c == "*" else "." if c == "?" else re.escape(c) for c in pattern)
    return re.fullmatch(expression, name) is not None
