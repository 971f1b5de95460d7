"""A port for a server that takes it only later, and takes it again after a restart."""

from __future__ import annotations

import random
import socket


def free_port() -> int:
    """None of those that the kernel gives to whoever asks for any, or connects: such a one may be gone by then."""
    while True:
        port = random.SystemRandom().randrange(15_000, 30_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
