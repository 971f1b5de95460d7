"""A real terminal for tests: tmux on a private socket, keys in, the screen's text out."""

from __future__ import annotations

import shlex
import subprocess
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path


class Terminal:
    """One tmux pane that runs one command. A context manager: the server is killed at the end."""

    def __init__(self, argv: Sequence[str], width: int, height: int, env: Mapping[str, str], cwd: Path) -> None:
        self._socket = f"eyas-{uuid.uuid4().hex[:12]}"
        settings = [f"{name}={value}" for name, value in env.items()]
        # `remain-on-exit` keeps the last screen of a command that has ended.
        shell = shlex.join(["env", "-u", "COLUMNS", "-u", "LINES", *settings, *argv])
        self._tmux("-f", "/dev/null", "new-session", "-d", "-x", str(width), "-y", str(height), "-c", str(cwd), shell)
        self._tmux("set-option", "-g", "remain-on-exit", "on")

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        subprocess.run(["tmux", "-L", self._socket, "kill-server"], check=False, capture_output=True)

    def press(self, *keys: str) -> None:
        """Send keys by tmux's names: `r`, `Enter`, `Escape`, `C-p` …"""
        for key in keys:
            self._tmux("send-keys", key)

    def type(self, text: str) -> None:
        self._tmux("send-keys", "-l", text)

    def screen(self) -> str:
        return self._tmux("capture-pane", "-p")

    @property
    def pid(self) -> int:
        return int(self._tmux("display-message", "-p", "#{pane_pid}"))

    @property
    def ended(self) -> bool:
        return self._tmux("display-message", "-p", "#{pane_dead}").strip() == "1"

    def wait_for(self, *texts: str, timeout: float = 120.0, absent: Sequence[str] = ()) -> str:
        """The first screen that shows every one of `texts` and none of `absent`; fails with the last screen."""
        deadline = time.monotonic() + timeout
        while True:
            screen = self.screen()
            if all(text in screen for text in texts) and not any(text in screen for text in absent):
                return screen
            if time.monotonic() > deadline:
                raise AssertionError(f"waited {timeout:g} s for {texts!r} without {absent!r}; the screen is:\n{screen}")
            time.sleep(0.2)

    def wait_ended(self, timeout: float = 120.0) -> str:
        deadline = time.monotonic() + timeout
        while not self.ended:
            assert time.monotonic() < deadline, f"the command has not ended; the screen is:\n{self.screen()}"
            time.sleep(0.2)
        return self.screen()

    def _tmux(self, *args: str) -> str:
        done = subprocess.run(["tmux", "-L", self._socket, *args], check=True, capture_output=True, text=True)
        return done.stdout
