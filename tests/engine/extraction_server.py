"""A vLLM server that extracts, started as an operator starts it, in the environment of a run's extract stage."""

from __future__ import annotations

import os
import signal
import subprocess
import time
import urllib.request
from pathlib import Path

from engine_run import ROOT, Run
from free_port import free_port

MAX_LENGTH = 128


class Server:
    def __init__(self, run: Run, target: Path, folder: Path, max_length: int = MAX_LENGTH) -> None:
        port = free_port()
        self.endpoint = f"http://127.0.0.1:{port}/v1"
        self.storage = folder / "storage"
        stage = run.plan["extract"]
        command = [stage["argv"][0], "-m", "pipeline.engine.serve", str(target), "--storage", str(self.storage)]
        command += ["--port", str(port), "--max-length", str(max_length), "--dtype", "float32", "--start"]
        self._log = folder / "server.log"
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                command, cwd=ROOT, env={**os.environ, **stage["env"]}, stdout=log, stderr=log, start_new_session=True
            )

    def wait(self) -> None:
        deadline = time.monotonic() + 600
        while True:
            assert self.process.poll() is None and time.monotonic() < deadline, self._log.read_text()[-4000:]
            try:
                urllib.request.urlopen(f"{self.endpoint}/models", timeout=5).close()
                return
            except OSError:
                time.sleep(0.5)

    def kill(self) -> None:
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return
        self.process.wait(60)
