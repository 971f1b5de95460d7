"""Settings: `EYAS_…` variables over `eyas.toml` over the user's `config.toml` over defaults.

Every key is declared here once, with its meaning; an unknown key is an error that names the nearest known one.
Secrets are never settings: `pass_env` only names variables to hand on.
"""

from __future__ import annotations

import os
import tomllib
import typing
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from console.errors import UserError, nearest


class Section(BaseModel):
    """A table of eyas.toml; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class EnvironmentSettings(Section):
    python: str | None = Field(
        None, description="Python of an environment that exists already; leave out to let provision make it"
    )
    torch_index: str | None = Field(
        None,
        description="where the CPU build of torch is to be had: a package index, or a folder of wheels on the host",
    )
    build: Literal["cpu", "cuda"] | None = Field(
        None, description="which build of vLLM provision installs; left out, what the host can run"
    )


class HostSettings(Section):
    ssh: str | None = Field(None, description="a Host of your ssh config, or user@name:port")
    embedded: bool = Field(False, description="use an SSH server of Eyas's own on this machine instead of a host")
    ssh_config: Path | None = Field(None, description="another ssh configuration than your own")
    python: str = Field("python3", description="runs the agent on the host; 3.10 or newer, standard library only")
    state: str | None = Field(None, description="where runs live on the host; default ~/.local/state/eyas")
    pass_env: tuple[str, ...] = Field((), description="names of variables of this machine to hand to the stages")
    fingerprint: str | None = Field(None, description="the host key's SHA256 fingerprint, where you know it beforehand")
    environment: dict[str, EnvironmentSettings] = Field({}, description="stage environments that exist on the host")


class RunSettings(Section):
    host: str | None = Field(None, description="which [host.NAME] to run on; needed when there are several")
    target: str = Field(
        "tiny",
        description="target model: a folder on the host; `tiny`, `tiny-qwen3`, `tiny-deepseek-v3` or `tiny-kimi-k25` "
        "to have one made and trained; `smollm2` to have SmolLM2-135M-Instruct fetched",
    )
    conversations: str = Field(
        "stdlib",
        description="conversations: a .json or .jsonl file, by its full path on the host, or by a path from the "
        "project's folder (or ~) on this machine, which is sent; or `stdlib` for Python's docstrings",
    )
    pair: Literal["seed", "current"] = Field("seed", description="which environments the stages use")
    tensor_parallel: Annotated[int, Field(ge=1)] = Field(1, description="GPUs (on the CPU: workers) per target model")
    max_length: Annotated[int, Field(ge=8)] = Field(2048, description="tokens of the longest sample")
    layers: Literal["auto"] | tuple[int, ...] = Field(
        "auto", description="aux layers in vLLM's convention, or `auto` for its default"
    )
    samples: Annotated[int, Field(ge=1)] = Field(64, description="conversations to extract hidden states for")
    batch_size: Annotated[int, Field(ge=1)] = Field(32, description="conversations that the engine is given at once")
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = Field(
        "auto", description="the target's number format; float32 for exact comparisons"
    )
    until: str = Field("", description="the last stage to run; left out, all of them")
    draft_vocabulary: Annotated[int, Field(ge=2)] | None = Field(
        None, description="tokens that the draft model can say; left out, 32000, or the target's own if it has fewer"
    )


class StageSettings(Section):
    env: dict[str, str] = Field({}, description="variables for this stage's process")
    pair: Literal["seed", "current"] | None = Field(
        None, description="in which pair's environment this stage runs, where not in the run's"
    )


class TargetStageSettings(StageSettings):
    steps: Annotated[int, Field(ge=1)] | None = Field(None, description="training steps of the tiny target")


class PrepareStageSettings(StageSettings):
    long: Literal["truncate", "drop"] = Field(
        "truncate", description="what becomes of a conversation longer than run.max_length"
    )


class ExtractStageSettings(StageSettings):
    backend: Literal["auto", "native", "generator", "transformers"] = Field(
        "auto", description="the way to have hidden states; auto takes what the environment offers"
    )
    engines: Annotated[int, Field(ge=1)] | None = Field(
        None, description="engines that work side by side on the host, each on run.tensor_parallel GPUs of its own"
    )
    world_size: Annotated[int, Field(ge=1)] | None = Field(
        None, description="runs, on as many hosts, that share the samples of one data set"
    )
    rank: Annotated[int, Field(ge=0)] | None = Field(None, description="which of those this run is, from 0")
    folder: str | None = Field(
        None, description="where the hidden states lie on the host, such as a folder that several hosts share"
    )
    endpoint: str | None = Field(
        None, description="a vLLM server that extracts, http://host:port/v1; left out, the stage starts its own engine"
    )
    states: Literal["full", "fp8"] | None = Field(
        None, description="how states are stored: as the engine computes them, or in 8-bit floats, half the size"
    )


class TrainStageSettings(StageSettings):
    epochs: Annotated[int, Field(ge=1)] | None = Field(None, description="times that training sees every sample")
    lr: Annotated[float, Field(gt=0)] | None = Field(None, description="highest learning rate")
    optimizer: Literal["muon", "adamw"] | None = Field(None, description="muon (the default) or adamw")
    patience: Annotated[int, Field(ge=0)] | None = Field(
        None, description="epochs without a better acceptance after which training ends (3; 0: never early)"
    )
    checkpoint_steps: Annotated[int, Field(ge=1)] | None = Field(
        None, description="steps between two checkpoints inside an epoch (500)"
    )
    pack_tokens: Annotated[int, Field(ge=8)] | None = Field(
        None, description="tokens of one GPU's batch, several samples packed (8192; on the CPU 512)"
    )
    gpus: Annotated[int, Field(ge=1)] | None = Field(
        None, description="GPUs of the host to train on (on the CPU: processes); left out, all of them"
    )
    shard: bool | None = Field(None, description="share the draft's weights between the GPUs (FSDP)")
    nodes: Annotated[int, Field(ge=1)] | None = Field(None, description="hosts that train together")
    node_rank: Annotated[int, Field(ge=0)] | None = Field(None, description="this host's number among them, from 0")
    rendezvous: str | None = Field(None, description="HOST:PORT of the first of several hosts")
    ttt_steps: Annotated[int, Field(ge=1)] | None = Field(None, description="steps of training-time test")
    norms: Literal["auto"] | tuple[Literal["norm_before_fc", "fc_norm", "norm_output"], ...] = Field(
        "auto", description="norms of EAGLE-3.1; `auto` takes what the serving engine applies"
    )
    layer: Literal["llama", "qwen3"] = Field("llama", description="type of the draft model's decoder layer")


class EvaluateStageSettings(StageSettings):
    prompts: dict[str, str] = Field(
        {}, description="further sets of prompts: name = a .json or .jsonl file of conversations on the host"
    )
    set_size: Annotated[int, Field(ge=1)] | None = Field(None, description="prompts of a set")
    max_tokens: Annotated[int, Field(ge=2)] | None = Field(None, description="tokens said after a prompt, at most")
    min_acceptance: Annotated[float, Field(ge=0)] | None = Field(
        None, description="served acceptance length of the held-out prompts below which the stage fails"
    )
    simulate: bool = Field(True, description="decode speculatively outside of the engine as well, and compare")
    speed: Literal["auto", "always", "never"] = Field(
        "auto", description="serve the target alone as well, to tell the speed-up; auto does so on a GPU"
    )


class ExportStageSettings(StageSettings):
    engine: str | None = Field(
        None, description="the vLLM that will serve the draft, such as `0.32`; left out, the current pair's"
    )


class StagesSettings(Section):
    provision: StageSettings = Field(StageSettings(), description="makes the stage environment")
    target: TargetStageSettings = Field(TargetStageSettings(), description="makes the tiny target model")
    prepare: PrepareStageSettings = Field(
        PrepareStageSettings(), description="conversations to token ids and loss mask"
    )
    extract: ExtractStageSettings = Field(ExtractStageSettings(), description="hidden states of the target model")
    verify: StageSettings = Field(StageSettings(), description="proves the hidden states")
    vocab: StageSettings = Field(StageSettings(), description="chooses the draft vocabulary")
    loadcheck: StageSettings = Field(StageSettings(), description="loads an untrained draft in the engine")
    train: TrainStageSettings = Field(TrainStageSettings(), description="trains the draft model")
    evaluate: EvaluateStageSettings = Field(
        EvaluateStageSettings(), description="measures acceptance, simulated and served"
    )
    export: ExportStageSettings = Field(ExportStageSettings(), description="writes the draft model's folder")


class PatchSettings(Section):
    mode: Literal["auto", "off"] = Field("auto", description="auto applies what the probes find needed")
    on: tuple[str, ...] = Field((), description="patches switched on by hand")
    off: tuple[str, ...] = Field((), description="patches switched off by hand")


class Settings(BaseSettings):
    """One project's settings, all sources merged."""

    model_config = SettingsConfigDict(
        extra="forbid",
        frozen=True,
        env_prefix="EYAS_",
        env_nested_delimiter="__",
        nested_model_default_partial_update=True,
    )

    project: str | None = Field(None, description="the project's name; default: the folder's")
    host: dict[str, HostSettings] = Field({}, description="hosts, by a name of your choice")
    run: RunSettings = Field(RunSettings(), description="what a run does")
    stage: StagesSettings = Field(StagesSettings(), description="settings of single stages")
    patches: PatchSettings = Field(PatchSettings(), description="switches of compat patches")


def user_config() -> Path:
    """The user's own settings file, under all projects."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "eyas" / "config.toml"


def load(project_file: Path) -> Settings:
    """Settings for `project_file` (an eyas.toml). Raises UserError naming the file, the key and the remedy."""
    paths = (project_file, user_config())
    for path in paths:
        _check_syntax(path)

    class Layered(Settings):
        """The settings with this project's files as sources: pydantic-settings asks the class for them."""

        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,
            file_secret_settings: PydanticBaseSettingsSource,
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            files = [TomlConfigSettingsSource(settings_cls, path) for path in paths if path.is_file()]
            return (env_settings, *files)

    try:
        return Layered()
    except ValidationError as error:
        raise _explain(error, paths) from None


def _check_syntax(path: Path) -> None:
    try:
        tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read: {error}.", "Check its permissions and that it is UTF-8.") from None
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{path} is not valid TOML: {error}.", "Mend that line and try again.") from None


def _explain(error: ValidationError, paths: tuple[Path, ...]) -> UserError:
    first = min(error.errors(), key=lambda found: found["type"] != "extra_forbidden")
    keys = [str(part) for part in first["loc"]]
    dotted = ".".join(keys)
    written = keys[:-1] if first["type"] == "missing" else keys
    place = next((str(p) for p in paths if p.is_file() and _has(p, written)), "an EYAS_ variable")
    if first["type"] == "extra_forbidden":
        return UserError(f"{place} has an unknown key `{dotted}`.", nearest(keys[-1], _known_keys(keys[:-1])))
    return UserError(
        f"{place}: `{dotted}` is wrong: {first['msg']}.", f"Got {first['input']!r}; correct it and try again."
    )


def _has(path: Path, keys: list[str]) -> bool:
    node: Any = tomllib.loads(path.read_text(encoding="utf-8"))
    for key in keys:
        if not isinstance(node, dict) or key not in node:
            return False
        node = node[key]
    return True


def _known_keys(keys: list[str]) -> list[str]:
    """Fields of the section that `keys` lead to."""
    fields: dict[str, FieldInfo] = dict(Settings.model_fields)
    rest = list(keys)
    while rest:
        field = fields.get(rest.pop(0))
        if field is None:
            return []
        model = _section_of(field.annotation)
        if model is None:
            return []
        if typing.get_origin(field.annotation) is dict and rest:
            rest.pop(0)  # the name of a host, a stage or an environment
        fields = dict(model.model_fields)
    return list(fields)


def _section_of(annotation: Any) -> type[BaseModel] | None:
    inside = typing.get_args(annotation)
    if inside:
        return next((m for m in map(_section_of, inside) if m), None)
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None
