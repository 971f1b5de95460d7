"""First paint of the console, beside a Textual app that does nothing."""

from __future__ import annotations

import os
import pty
import select
import signal
import statistics
import sys
import time
from pathlib import Path

from bench.figures import show
from workstation import EYAS, Workstation

MINIMAL = """
from textual.app import App
from textual.widgets import Static
class Minimal(App):
    def compose(self):
        yield Static("painted")
Minimal().run()
"""
ROUNDS = 7


def seconds_until(argv: list[str], words: bytes, env: dict[str, str]) -> float:
    """From the start of a command on a terminal of its own to the first output that holds `words`."""
    began = time.perf_counter()
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe(argv[0], argv, {**os.environ, **env, "LINES": "24", "COLUMNS": "80"})
    seen = b""
    try:
        while words not in seen:
            assert select.select([terminal], [], [], 30)[0], f"{argv} painted nothing: {seen[-500:]!r}"
            seen += os.read(terminal, 1 << 16)
        return time.perf_counter() - began
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(terminal)


def test_first_paint_beside_a_minimal_textual_app(tmp_path: Path) -> None:
    workstation = Workstation(tmp_path)
    (tmp_path / "eyas.toml").write_text("project = 'bench'\n[host.bench]\nembedded = true\n", encoding="utf-8")
    os.chdir(tmp_path)
    minimal, console = [], []
    for _ in range(ROUNDS):
        minimal.append(seconds_until([sys.executable, "-c", MINIMAL], b"painted", workstation.env))
        console.append(seconds_until([EYAS], b"tracebacks", workstation.env))
    show("first paint", console, statistics.median(minimal), "a minimal Textual app's")
