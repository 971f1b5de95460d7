"""The stages: their order, the pair each runs in, their process environment, how long each gets to end when asked."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pipeline.checked import bad
from pipeline.settings import Settings


@dataclass(frozen=True)
class Stage:
    name: str
    title: str
    grace_s: int
    """Seconds from SIGTERM to SIGKILL."""
    module: str
    drafts: bool = False
    """Makes or measures the draft model, in the pair DRAFT_PAIR whatever pair the data come from."""
    engine: bool = False
    """Starts vLLM."""


DRAFT_PAIR = "current"
"""Training, evaluation and serving need speculators and vLLM as they are now."""

STAGES = (
    Stage("provision", "Make the stage environments", 10, "pipeline.provision"),
    Stage("target", "Make or fetch the target model", 10, "pipeline.target"),
    Stage("prepare", "Conversations to token ids and loss mask", 10, "pipeline.prepare"),
    Stage("extract", "Extract hidden states", 30, "pipeline.extract", engine=True),
    Stage("verify", "Prove the hidden states", 30, "pipeline.verify", engine=True),
    Stage("vocab", "Choose the draft vocabulary", 10, "pipeline.vocab", drafts=True),
    Stage("loadcheck", "Load an untrained draft in the engine", 30, "pipeline.loadcheck", drafts=True, engine=True),
    Stage("train", "Train the draft model", 60, "pipeline.train", drafts=True),
    Stage("evaluate", "Measure acceptance, simulated and served", 30, "pipeline.evaluate", drafts=True, engine=True),
    Stage("export", "Write the draft model's folder", 10, "pipeline.export", drafts=True),
)


def wanted(settings: Settings) -> tuple[Stage, ...]:
    """The stages of a run, up to `run.until`; a target of the operator's own needs no `target` stage.

    Raises Problem when there is no stage of that name.
    """
    names = [stage.name for stage in STAGES]
    if settings.until and settings.until not in names:
        raise bad(f"run.until is {settings.until!r}, and there is no such stage", f"Use one of: {', '.join(names)}.")
    last = names.index(settings.until) if settings.until else len(names) - 1
    return tuple(stage for stage in STAGES[: last + 1] if stage.name != "target" or settings.makes_target)


def pair_of(stage: Stage, settings: Settings) -> str:
    """The pair in whose environment a stage runs: that of [stage.NAME], else the run's."""
    if stage.drafts:
        return DRAFT_PAIR
    asked = settings.stage_pair
    # What proves the hidden states runs the engine that made them.
    usual = asked.get("extract", settings.pair) if stage.name == "verify" else settings.pair
    return asked.get(stage.name, usual)


def pair_at(name: str, settings: Settings) -> str:
    """The pair of a stage by name."""
    return pair_of(next(stage for stage in STAGES if stage.name == name), settings)


def check_pairs(settings: Settings) -> None:
    """Raises Problem for a stage that [stage.NAME] puts where it cannot run."""
    for name, pair in settings.stage_pair.items():
        stage = next((stage for stage in STAGES if stage.name == name), None)
        if stage is None or stage.name == "provision":
            movable = ", ".join(s.name for s in STAGES if not s.drafts and s.name != "provision")
            raise bad(f"stage.{name}.pair is {pair!r}, and {name} runs in no pair's environment", f"Use: {movable}.")
        if stage.drafts and pair != DRAFT_PAIR:
            raise bad(
                f"stage.{name}.pair is {pair!r}, and {name} needs the modules of the {DRAFT_PAIR} pair: its "
                "speculators trains and its vLLM serves the draft model",
                f"Leave it out, or name a ready environment in environment.{DRAFT_PAIR}.python.",
            )


def pairs(settings: Settings) -> tuple[str, ...]:
    """The pairs that a run needs, the data's first."""
    return tuple(dict.fromkeys(pair_of(stage, settings) for stage in wanted(settings)))


def environment(stage: Stage, settings: Settings, bundle: Path) -> dict[str, str]:
    """Variables of a stage's process beside those it inherits. The operator's own win."""
    env = {
        # compat/plugin holds the entry point through which vLLM's workers find the patches.
        "PYTHONPATH": os.pathsep.join([str(bundle), str(bundle / "compat" / "plugin")]),
        "PYTHONUNBUFFERED": "1",
        "SPT_NOENV": "1",  # setproctitle must not wipe the environment the supervisor finds its processes by
    }
    if stage.name != "provision":
        env |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    if stage.engine:
        env |= _engine(settings, pair_of(stage, settings), settings.extract.engines if stage.name == "extract" else 1)
        if stage.name == "verify" and not has_gpu():
            env["TORCHDYNAMO_DISABLE"] = "1"  # else a function of a few lines behind the log-probabilities is compiled
        if stage.drafts and not has_gpu():
            env["VLLM_MLA_DISABLE"] = (
                "1"  # on the CPU it takes cache blocks of 16, and a draft's attention multiples of 32
            )
    elif stage.name in ("target", "train"):
        env["OMP_NUM_THREADS"] = str(_threads(1))
    return {**env, **settings.stage_env.get(stage.name, {})}


def has_gpu(root: Path = Path("/")) -> bool:
    """Whether the NVIDIA driver is loaded here."""
    return any((root / path).exists() for path in ("proc/driver/nvidia/version", "dev/nvidiactl"))


def cpus() -> int:
    return len(os.sched_getaffinity(0))


def _threads(ranks: int) -> int:
    # One core is left to the driver, which polls. Spinning OpenMP threads that outnumber the cores cost a factor of 10.
    return max(1, (cpus() - 1) // ranks)


def _engine(settings: Settings, pair: str, engines: int) -> Mapping[str, str]:
    env = {
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_HOST_IP": "127.0.0.1",
        "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
    }
    if has_gpu():
        return env
    if pair == "seed":
        env["VLLM_MLA_DISABLE"] = "1"  # 0.16's CPU build has no MLA; DeepSeek types run without
    return env | {
        "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB; left out, vLLM takes half of the memory
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # binding asks for one NUMA node a rank
        "OMP_NUM_THREADS": str(_threads(settings.tensor_parallel * engines)),
    }
