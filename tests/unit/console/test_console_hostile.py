"""Hostile text in every place that a host can fill neither crashes the console nor reaches the terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time
from pathlib import Path

import pytest
from console_pilot import SIZES, failed, opened, screen_text
from hostile_app import EVIL, hostile_session
from test_console_sanitise import is_safe

from remote.protocol import RemoteError

HERE = Path(__file__).parent
FOREIGN = {
    "clipboard": b"\x1b]52",
    "title": b"\x1b]0;",
    "hyperlink": b"\x1b]8;",
    "C1": "\x9b".encode(),
    "raw C1 string": b"\x9d52",
    "DCS": b"\x1bPq",
    "cursor": b"\x1b[5;5HPWNED",
    "right-to-left": "\u202e".encode(),
    "NUL": b"\0",
}


@pytest.mark.parametrize("size", SIZES)
async def test_no_view_shows_a_control_character_and_none_crashes(size: tuple[int, int]) -> None:
    async with opened(hostile_session(), size) as (app, pilot):
        seen = ""
        for keys in (["1"], ["j", "enter"], ["g"], ["t"], ["pagedown"], ["4"], ["pagedown"], ["R"], ["escape"], ["K"]):
            await pilot.press(*keys)
            for row in screen_text(app).splitlines():
                assert is_safe(row), repr(row)
                seen += row
        assert "PWNED" in seen  # what is harmless of it is shown: the text did get this far


async def test_notices_and_problems_of_a_hostile_host_are_text_and_no_markup() -> None:
    host = failed()
    host.refuse["relaunch"] = RemoteError("busy", f"no: {EVIL}", EVIL)
    async with opened(host) as (app, pilot):
        app.tell(f"told {EVIL}", "warning")
        await pilot.press("r")
        for _ in range(5):
            await pilot.pause(0.05)
            assert all(is_safe(row) for row in screen_text(app).splitlines())


def drive(argv: list[str], keys: list[tuple[bytes, bytes]]) -> tuple[bytes, int]:
    """Every byte that the app wrote to a terminal of its own, from its start to its end; its exit status.

    Of `keys` each is pressed once the bytes before it were written since the last one.
    """
    pid, terminal = pty.fork()
    if pid == 0:
        environ = {**os.environ, "TERM": "xterm-256color", "TEXTUAL_ANIMATIONS": "none"}
        os.execvpe(sys.executable, [sys.executable, *argv], environ)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    written, deadline, waiting = b"", time.monotonic() + 120, list(keys)
    mark = 0
    try:
        while time.monotonic() < deadline:
            ready, _, _ = select.select([terminal], [], [], 0.5)
            if ready:
                try:
                    data = os.read(terminal, 1 << 16)
                except OSError:
                    break
                if not data:
                    break
                written += data
            if waiting and waiting[0][0] in written[mark:]:
                mark = len(written)
                os.write(terminal, waiting.pop(0)[1])
        else:
            os.kill(pid, signal.SIGKILL)
    finally:
        os.close(terminal)
        _, status = os.waitpid(pid, 0)
    return written, os.waitstatus_to_exitcode(status)


def test_no_foreign_sequence_is_in_the_bytes_that_the_real_app_writes() -> None:
    views = [(b"harmless last line", b"2"), (b" search", b"3"), (b"root cause", b"4"), (b"prefix-caching", b"q")]
    written, status = drive([str(HERE / "hostile_app.py")], views)
    assert status == 0, written[-2000:]
    for control in (b"harmless last line", b"tracebacks", b"prefix-caching", b"PWNED"):
        assert control in written, "positive control: the app had painted it"
    assert {name for name, sequence in FOREIGN.items() if sequence in written} == set()
    assert b"goes on" in written


def test_the_same_look_finds_them_when_the_border_is_taken_out() -> None:
    """Negative control: without the sanitiser this very test would see the clipboard being written."""
    # Without the border the app may well crash; what it wrote before is what matters here.
    written, _ = drive([str(HERE / "hostile_app.py"), "--raw"], [(b"\x1b]52", b"q")])
    assert b"\x1b]52" in written
