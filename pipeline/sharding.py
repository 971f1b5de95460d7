"""Several engines on one host: a process for each, its share of the batches, its GPUs; one progress for all."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Protocol

from pipeline.report import StageError

SHARE = "pipeline.share"
"""The module that a process of one engine runs."""
_END_S = 60.0
"""Seconds for the other engines to write what they have, once one has failed."""


def gpus(root: Path = Path("/")) -> list[str]:
    """Ids of the GPUs that this process may use, as CUDA_VISIBLE_DEVICES takes them."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return [entry for entry in named.split(",") if entry]
    found = (root / "proc/driver/nvidia/gpus").glob("*")
    return [str(number) for number in range(len(list(found)))]


def environments(engines: int, each: int, on_gpus: bool) -> list[Mapping[str, str]]:
    """What each engine's process gets besides: `each` GPUs of its own. Raises StageError when there are too few."""
    if not on_gpus:
        return [{}] * engines
    found = gpus()
    if len(found) < engines * each:
        raise StageError(
            f"stage.extract.engines is {engines}, of {each} GPUs each, and {len(found)} can be used here "
            "(CUDA_VISIBLE_DEVICES); lower it."
        )
    return [{"CUDA_VISIBLE_DEVICES": ",".join(found[n * each : (n + 1) * each])} for n in range(engines)]


class Listener(Protocol):
    """Is told of samples on the disk and of engines that are ready; one line of JSON each, from any engine."""

    def heard(self, engine: int, line: Mapping[str, Any]) -> None: ...


def run(shares: Sequence[Mapping[str, Any]], surroundings: Sequence[Mapping[str, str]], listener: Listener) -> None:
    """Starts one process a share (JSON of `pipeline.share`), and returns once all have done theirs.

    Raises StageError naming the first engine that failed; the others write what they have, and end.
    """
    pairs = zip(shares, surroundings, strict=True)
    children = [_Child(number, share, env, listener) for number, (share, env) in enumerate(pairs)]
    ended = threading.Condition()
    waiting = [threading.Thread(target=child.wait, args=(ended,), name=f"engine-{child.number}") for child in children]
    try:
        for thread in waiting:
            thread.start()
        with ended:
            ended.wait_for(lambda: all(c.rc is not None for c in children) or any(c.rc for c in children))
            failed = next((child for child in children if child.rc), None)
    finally:
        for child in children:
            child.stop()
        for thread in waiting:
            if thread.ident is not None:
                thread.join(_END_S)
        for child in children:
            child.kill()
    if failed is not None:
        how = f"by signal {-failed.rc}" if failed.rc and failed.rc < 0 else f"with exit status {failed.rc}"
        raise StageError(
            f"Engine {failed.number} of {len(children)} ended {how}; its lines in the log above begin with "
            f"({failed.name} pid={failed.pid}). What the engines have written stays; relaunch the stage."
        )


class _Child:
    """The process of one engine. It ends by itself when this one dies, since its standard input ends then."""

    def __init__(self, number: int, share: Mapping[str, Any], env: Mapping[str, str], listener: Listener) -> None:
        self.number = number
        self.name = f"Engine{number}"
        self.rc: int | None = None
        self._share = share
        self._listener = listener
        self._told, told = os.pipe()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", SHARE, str(told)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={**os.environ, **env},
                pass_fds=(told,),
            )
        finally:
            os.close(told)
        self.pid = self._process.pid

    def wait(self, ended: threading.Condition) -> None:
        """Hands over the share, passes the log on, and waits for the end."""
        log = threading.Thread(target=self._pass_on, name=f"log-{self.number}")
        log.start()
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(self._share).encode() + b"\n")
            self._process.stdin.flush()  # and left open
        except BrokenPipeError:
            pass  # its own log says why it is gone
        with os.fdopen(self._told, "rb") as told:
            for line in told:
                self._listener.heard(self.number, json.loads(line))
        rc = self._process.wait()
        log.join()
        with ended:
            self.rc = rc
            ended.notify_all()

    def stop(self) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        if self._process.stdin is not None:
            self._process.stdin.close()

    def _pass_on(self) -> None:
        """Each line behind `(Engine0 pid=17) `, as vLLM marks those of its workers, so that a log reader tells them."""
        mark = f"({self.name} pid={self.pid}) ".encode()
        output: IO[bytes] | None = self._process.stdout
        assert output is not None
        for line in output:
            sys.stdout.buffer.write(mark + line)
            sys.stdout.buffer.flush()
