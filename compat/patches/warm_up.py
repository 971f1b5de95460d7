"""vLLM took the warm-up out of initialize_from_config; speculators does not call it by itself."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from compat import source
from compat.patch import Patch, Probe, Sign
from compat.replace import GENERATOR, check_override, generator_module, subclass

EXECUTOR = "vllm.v1.executor.abstract.Executor"
REPLACES = f"{GENERATOR}.VllmHiddenStatesGenerator.__init__"
WRITTEN_FOR = (
    "645fe509445cbb697326d36fe9fa17afcda7018e96de1ca211a7397c42b6126f",  # 0.3.0
    "631a3d8bcdbedaf0cac8c2dbc86a81d524a1bc8af6b370f1343b46aef0f271ba",  # 0.4
)


def probe(site: Path) -> Probe:
    caller = source.find(site, REPLACES)
    try:
        own = source.find(site, f"{EXECUTOR}.compile_or_warm_up_model")
    except source.SourceNotFound:
        return Probe(False, "Executor warms up in initialize_from_config")
    if source.calls(caller, "self.executor.compile_or_warm_up_model"):
        return Probe(False, f"{caller.place} warms up by itself")
    return Probe(True, f"{own.place} (compile_or_warm_up_model) is a step of its own, which {caller.place} leaves out")


def apply() -> None:
    subclass(generator_module(), "MultiprocExecutor", _members)


def verify() -> str:
    return check_override(generator_module().MultiprocExecutor, "initialize_from_config", __name__)


def _members(base: Any) -> Mapping[str, Any]:
    def initialize_from_config(self: Any, *args: Any, **given: Any) -> Any:
        result = base.initialize_from_config(self, *args, **given)
        self.compile_or_warm_up_model()
        return result

    return {"initialize_from_config": initialize_from_config}


PATCH = Patch(
    id="warm-up",
    drift="D12",
    title="The warm-up is left out",
    speculators=">=0.3.0,<0.5.0",
    vllm=">=0.27.0",
    cause="Since vLLM 0.27.0 Executor.initialize_from_config only makes the KV caches; compiling and warming up is a "
    "call of its own, which the generator does not make. Nothing is known to fail by it; the first batch pays for it.",
    mend="Warms up right after the KV caches are made.",
    replaces=REPLACES,
    where="driver",
    after=GENERATOR,
    probe=probe,
    apply=apply,
    verify=verify,
    risk="Read from the sources of vLLM 0.27 and later, never run on them.",
    written_for=WRITTEN_FOR,
    signs=(Sign("needed-step", "MultiprocExecutor", "compile_or_warm_up_model"),),
)
