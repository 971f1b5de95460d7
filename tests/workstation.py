"""A workstation of its own for tests that use `eyas` as its users do: as a command, from outside."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

EYAS = str(Path(sys.executable).with_name("eyas"))


@dataclass(frozen=True)
class Workstation:
    """A workstation of its own: state and settings in one folder, the `eyas` command, no project in sight."""

    folder: Path
    settings: Mapping[str, str] = field(default_factory=dict)
    """Settings over those of eyas.toml, by the names of their variables."""

    @property
    def env(self) -> dict[str, str]:
        return {
            **self.settings,
            "XDG_STATE_HOME": str(self.folder / "state"),
            "XDG_CONFIG_HOME": str(self.folder / "config"),
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
            "TEXTUAL_ANIMATIONS": "none",
        }

    @property
    def runs(self) -> Path:
        return self.folder / "state" / "eyas" / "runs"

    def eyas(self, *args: str, timeout: float = 1500) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [EYAS, *args],
            env={**os.environ, **self.env},
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def json(self, *args: str, status: int = 0, timeout: float = 1500) -> dict[str, Any]:
        """The JSON answer of a command that must end with `status`."""
        done = self.eyas(*args, "--json", timeout=timeout)
        assert done.returncode == status, f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}"
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    def stop_all(self) -> None:
        """Leave no process behind, whatever a test did."""
        for status in self.runs.glob("*/*/*/status.json"):
            record = json.loads(status.read_text(encoding="utf-8"))
            if record.get("state") in ("starting", "running", "stopping"):
                self.eyas("stop", "--run", status.parents[2].name, timeout=120)
