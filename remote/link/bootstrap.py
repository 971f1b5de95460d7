"""From a connection to a running agent: one command, everything else over its standard input."""

from __future__ import annotations

import secrets
import time
from typing import Any

from remote.agent import boot
from remote.bundle import Bundle, bundle
from remote.link.errors import (
    BootstrapFailed,
    BootstrapTimeout,
    BundleRefused,
    NoPython,
    NoSpace,
    OldPython,
    VersionRefused,
)
from remote.link.hosts import HostProfile
from remote.link.stream import ByteStream, Link
from remote.protocol import HELLO, LINE_CAP, MIN_VERSION, VERSION, Decoder, ProtocolError

NOISE_CAP = 64 << 10
"""Bytes of rc-file output that are skipped before the first marker."""
ANSWER_SECONDS = 30.0
_SLOWEST_LINK = 4096
"""Bytes a second at which an upload still is given its time."""
_OLDEST_PYTHON = "3.10"


def bootstrap(
    link: Link, profile: HostProfile, seconds: float = ANSWER_SECONDS, cargo: Bundle | None = None
) -> tuple[ByteStream, dict[str, Any]]:
    """Start the agent on the host: its stream, from the first frame after hello, and its hello.

    `seconds` bounds the wait for each answer; `cargo` None sends the console's own bundle. Raises LinkError.
    """
    profile.check()
    stream = link.open_stream(boot.COMMAND.format(python=profile.python))
    try:
        return stream, _Conversation(stream, profile, seconds).run(cargo or bundle())
    except BaseException:
        stream.close()
        raise


class _Conversation:
    def __init__(self, stream: ByteStream, profile: HostProfile, seconds: float) -> None:
        self.stream = stream
        self.profile = profile
        self.seconds = seconds
        self.nonce = secrets.token_hex(16)
        self.buffer = b""
        self.noise = b""
        self.noise_bytes = 0

    def run(self, cargo: Bundle) -> dict[str, Any]:
        self._write(boot.stage_one(self.nonce, cargo.digest, self.profile.state))
        word, rest = self._marker(self.seconds)
        if word == "NEED":
            self._write(b"%d\n" % len(cargo.packed) + cargo.packed)
            word, rest = self._marker(self.seconds + len(cargo.packed) / _SLOWEST_LINK)
        elif word == "HAVE":
            word, rest = self._marker(self.seconds)
        if word != "RUN":
            raise self._refusal(word, rest)
        return self._hello()

    def _write(self, data: bytes) -> None:
        try:
            self.stream.write(data)
        except OSError:
            raise self._ended() from None

    def _marker(self, seconds: float) -> tuple[str, str]:
        """The next marker's word and the rest of its line; noise before it is skipped, up to NOISE_CAP."""
        deadline = time.monotonic() + seconds
        prefix = self.nonce.encode() + b" "
        while True:
            line = self._line(deadline, NOISE_CAP - self.noise_bytes)
            if line.startswith(prefix):
                word, _, rest = line[len(prefix) :].decode("utf-8", "replace").partition(" ")
                return word, rest
            self.noise_bytes += len(line) + 1
            self.noise = (self.noise + line + b"\n")[-400:]

    def _line(self, deadline: float, cap: int) -> bytes:
        while b"\n" not in self.buffer:
            if len(self.buffer) > cap:
                raise BootstrapFailed(
                    f"host {self.profile.name}: its login files print more than {NOISE_CAP >> 10} KiB "
                    "before the agent's first word",
                    "make ~/.bashrc (or the login shell's file) print nothing when it is not interactive",
                )
            left = deadline - time.monotonic()
            try:
                data = self.stream.read(LINE_CAP, max(left, 0.01))
            except TimeoutError:
                raise self._silent() from None
            if not data:
                raise self._ended()
            self.buffer += data
        line, _, self.buffer = self.buffer.partition(b"\n")
        if len(line) > cap:
            self.buffer = line  # judged by the test above, in the same words
            return self._line(deadline, cap)
        return line

    def _hello(self) -> dict[str, Any]:
        line = self._line(time.monotonic() + self.seconds, LINE_CAP)
        try:
            frames = Decoder().feed(line + b"\n")
        except ProtocolError as error:
            raise BootstrapFailed(f"host {self.profile.name}: the agent does not greet: {error}") from None
        hello = frames[0] if frames else {}
        if hello.get("ev") != HELLO:
            raise BootstrapFailed(f"host {self.profile.name}: the agent does not greet: {line[:80]!r}")
        version, oldest = int(hello.get("version", 0)), int(hello.get("min_version", 0))
        if version < MIN_VERSION or oldest > VERSION:
            raise VersionRefused(
                f"host {self.profile.name}: its agent speaks protocol {oldest} to {version}, "
                f"this console {MIN_VERSION} to {VERSION}",
                "use the console of the version that started the agent",
            )
        self.stream.unread(self.buffer)
        return hello

    def _refusal(self, word: str, rest: str) -> BootstrapFailed:
        name = self.profile.name
        kind, _, what = rest.partition(" ")
        if word == "BADSHA":
            return BundleRefused(
                f"host {name}: the bundle that arrived is not the one that was sent",
                "something between here and the host changes bytes; try another way to reach it",
            )
        if kind == "python":
            return OldPython(
                f"host {name}: {self.profile.python} is Python {what}, and the agent needs {_OLDEST_PYTHON} or newer",
                f'set python = "/path/to/python{_OLDEST_PYTHON}" in the host\'s profile',
            )
        if kind == "nospace":
            return NoSpace(
                f"host {name}: no space is left for the agent in {what}",
                "free some space there, or set state in the host's profile to a folder that has room",
            )
        if kind == "state":
            return BootstrapFailed(
                f"host {name}: no folder can hold the runs: {what}",
                "set state in the host's profile to a folder of your own on the host",
            )
        return BootstrapFailed(f"host {name}: the agent did not start: {word} {rest}".rstrip())

    def _silent(self) -> BootstrapTimeout:
        last = " ".join(self.noise.decode("utf-8", "replace").split())[-120:]
        heard = f" (it printed: {last})" if last else ""
        return BootstrapTimeout(
            f"host {self.profile.name}: the agent did not answer in time{heard}",
            "likely causes: a login file (~/.bashrc, config.fish) that reads standard input or starts another shell "
            "(exec fish, exec tmux), or a host too busy to start Python",
        )

    def _ended(self) -> BootstrapFailed:
        """The command ended without the marker: say why as well as the host told."""
        name, python = self.profile.name, self.profile.python
        status = self.stream.exit_status()
        why = self.stream.why_closed() or "it ended without a word"
        missing = status == 127 or (status in (1, 126) and ("not found" in why or "No such file" in why))
        if missing and python in why + " " + python:
            return NoPython(
                f"host {name}: {python} cannot be run there ({why})",
                f'set python = "/path/to/python3" ({_OLDEST_PYTHON} or newer) in the host\'s profile',
            )
        if "Unknown option: -I" in why or "SyntaxError" in why:
            return OldPython(
                f"host {name}: {python} is older than Python 3.6, and the agent needs {_OLDEST_PYTHON} or newer",
                f'set python = "/path/to/python{_OLDEST_PYTHON}" in the host\'s profile',
            )
        if status is None:
            # The link broke rather than the agent: as good a moment to try again as any.
            return BootstrapFailed(f"host {name}: the link ended while the agent started: {why}", retry=True)
        return BootstrapFailed(
            f"host {name}: the agent did not start: {why}", "run the python of the profile there by hand"
        )
