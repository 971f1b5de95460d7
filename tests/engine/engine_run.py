"""Runs stages as the supervisor runs them, without one: the plan's commands, its environment, an attempt folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
TIMEOUT = 1200
PAIRS = ("seed", "current")


@dataclass(frozen=True)
class Attempt:
    """A stage that has run."""

    folder: Path
    rc: int

    @property
    def log(self) -> str:
        return (self.folder / "stdout.log").read_text(errors="replace")

    def events(self, kind: str) -> list[dict[str, Any]]:
        lines = (self.folder / "events.jsonl").read_text().splitlines()
        return [event for event in map(json.loads, lines) if event["kind"] == kind]


class Run:
    """A run folder and its plan."""

    def __init__(self, folder: Path, settings: dict[str, Any]) -> None:
        self.folder = folder
        self.settings = settings
        folder.mkdir(exist_ok=True)
        request = {"settings": settings, "run_folder": str(folder), "python": sys.executable, "bundle": str(ROOT)}
        done = subprocess.run(
            [sys.executable, "-m", "pipeline", "plan"],
            input=json.dumps(request),
            capture_output=True,
            text=True,
            cwd=ROOT,
            timeout=60,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        self.plan = {stage["name"]: stage for stage in json.loads(done.stdout)["stages"]}

    @property
    def products(self) -> Path:
        return self.folder / "products"

    @property
    def site(self) -> Path:
        """site-packages of the environment that the extract stage runs in."""
        return next(Path(self.plan["extract"]["argv"][0]).parents[1].glob("lib/python3*/site-packages"))

    def start(self, name: str, off: tuple[str, ...] = ()) -> tuple[subprocess.Popen[bytes], Path]:
        """Starts a stage; (its process, its attempt's folder)."""
        stage = self.plan[name]
        number = 1 + len(list((self.folder / name).glob("*")))
        folder = self.folder / name / str(number)
        folder.mkdir(parents=True)
        switches = {"mode": "auto", "on": [], "off": list(off)}
        (folder / "spec.json").write_text(json.dumps({"settings": self.settings, "switches": switches}))
        env = {
            **os.environ,
            **stage["env"],
            "EYAS_RUN": str(self.folder),
            "EYAS_ATTEMPT": str(folder),
            "EYAS_SWITCHES": json.dumps(switches),
        }
        with (folder / "stdout.log").open("ab") as log:
            process = subprocess.Popen(stage["argv"], cwd=stage["cwd"], env=env, stdout=log, stderr=log)
        return process, folder

    def stage(self, name: str, off: tuple[str, ...] = ()) -> Attempt:
        """Runs a stage to its end."""
        process, folder = self.start(name, off)
        try:
            return Attempt(folder, process.wait(TIMEOUT))
        finally:
            process.kill()

    def script(self, name: str, *arguments: str, status: int = 0) -> str:
        """Runs a script of this folder in the environment of the extract stage, and returns its output."""
        return self._script(self.plan["extract"], {}, name, *arguments, status=status)

    def script_of(self, of: str, name: str, *arguments: str) -> str:
        """Runs a script of this folder in a stage's environment, with the run and the stage's latest attempt."""
        latest = max((self.folder / of).glob("*"), key=lambda path: int(path.name))
        own = {"EYAS_RUN": str(self.folder), "EYAS_ATTEMPT": str(latest)}
        return self._script(self.plan[of], own, name, *arguments, status=0)

    def _script(self, stage: Any, own: dict[str, str], name: str, *arguments: str, status: int) -> str:
        command = [stage["argv"][0], str(ROOT / "tests" / "engine" / name), *arguments]
        env = {**os.environ, **stage["env"], **own}
        done = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=env,
            cwd=self.folder,
            timeout=TIMEOUT,
        )
        assert done.returncode == status, done.stdout[-8000:]
        return done.stdout
