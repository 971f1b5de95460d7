"""Starting a supervisor: a fresh interpreter that detaches itself and answers with one line."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any, Literal

from remote.agent.layout import Attempt
from remote.protocol import RemoteError

CODE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
"""The folder that holds the package `remote`: the bundle this process runs from."""
ACK_PATIENCE = 60.0
ENTRY = "import sys;sys.path.insert(0,sys.argv[1]);from remote.agent.supervisor import main;main(*sys.argv[2:])"


class NotBegun(RemoteError):
    """The supervisor did not start the stage, for certain."""


def launch(attempt: Attempt, secrets: Mapping[str, str], role: Literal["run", "stand-in"] = "run") -> str:
    """Start the attempt's supervisor. Returns the attempt's state as the supervisor tells it (running, …).

    `secrets` travel over its standard input, so that neither arguments nor files hold them.
    Raises NotBegun (busy: another supervisor has the attempt, or had it; no_space; internal), and RemoteError
    internal when no answer came, so that it may have begun or not.
    """
    try:
        process = subprocess.Popen(
            [sys.executable, "-Iu", "-c", ENTRY, CODE, attempt.folder, role],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        raise NotBegun("internal", f"cannot start a supervisor: {error.strerror}") from None
    assert process.stdin is not None
    assert process.stdout is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(json.dumps({"secrets": dict(secrets)}).encode())
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()
    try:
        answer = _line(process.stdout.fileno(), time.monotonic() + ACK_PATIENCE)
    finally:
        process.stdout.close()
        if process.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(1.0)
    return _judge(attempt, answer)


def _line(fd: int, until: float) -> bytes:
    data = b""
    while b"\n" not in data:
        if not select.select([fd], [], [], max(0.0, until - time.monotonic()))[0]:
            raise RemoteError("internal", f"the supervisor has not answered for {ACK_PATIENCE:.0f} s")
        part = os.read(fd, 65536)
        if not part:
            break
        data += part
    return data


def _judge(attempt: Attempt, answer: bytes) -> str:
    try:
        ack: dict[str, Any] = json.loads(answer)
    except ValueError:
        raise RemoteError("internal", f"the supervisor of {attempt.key} died before it answered") from None
    if not ack.get("ok"):
        raise NotBegun(str(ack.get("kind", "internal")), str(ack.get("error", "the supervisor failed")))
    return str(ack.get("state"))
