"""An environment like another one, with another release of speculators: all else in it is links."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import venv
from pathlib import Path


def make(python: Path, speculators: str) -> Path:
    """The Python of the environment, made once beside the one that `python` belongs to."""
    origin = python.parent.parent
    folder = origin.with_name(f"{origin.name}-speculators-{speculators}")
    done = folder / "made"
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)
            _link(python, folder)
            _install(folder, speculators)
            done.touch()
    return folder / "bin" / "python"


def _link(python: Path, folder: Path) -> None:
    subprocess.run([python, "-m", venv.__name__, "--without-pip", folder], check=True)
    for entry in _site(python.parent.parent).iterdir():
        if not entry.name.startswith("speculators"):
            (_site(folder) / entry.name).symlink_to(entry)


def _install(folder: Path, speculators: str) -> None:
    pip = [folder / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "--quiet"]
    # Its requirements are there already: the older release has the same, but for pins of which none matters here.
    subprocess.run([*pip, "install", "--no-deps", f"speculators=={speculators}"], check=True)


def _site(folder: Path) -> Path:
    return next(folder.glob("lib/python3*/site-packages"))
