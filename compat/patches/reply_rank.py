"""collective_rpc with a reply rank gives the reply itself now, not a list of one."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from compat import source
from compat.patch import Patch, Probe, Sign, Symptom
from compat.replace import GENERATOR, check_override, generator_module, subclass

CALLEE = "vllm.v1.executor.multiproc_executor.MultiprocExecutor.collective_rpc"
REPLACES = f"{GENERATOR}.VllmHiddenStatesGenerator.generate"
WRITTEN_FOR = ("6800c30a41ded4457e14f5e3f11b51f7b576a7a30ce72c8c60de914c4d5c2431",)


def probe(site: Path) -> Probe:
    callee = source.find(site, CALLEE)
    caller = source.find(site, REPLACES)
    bare = next(
        (n for n in ast.walk(callee.node) if isinstance(n, ast.IfExp) and ast.unparse(n.body) == "responses[0]"), None
    )
    if bare is None:
        return Probe(False, f"{callee.place} always returns a list")
    for node in ast.walk(caller.node):
        if isinstance(node, ast.Subscript) and ast.unparse(node) == "captured_states_list[0]":
            return Probe(
                True, f"{callee.at(bare)} returns the one reply itself, of which {caller.at(node)} takes element 0"
            )
    return Probe(False, f"{caller.place} does not index the reply")


def apply() -> None:
    subclass(generator_module(), "MultiprocExecutor", _members)


def verify() -> str:
    return check_override(generator_module().MultiprocExecutor, "collective_rpc", __name__)


def _members(base: Any) -> Mapping[str, Any]:
    def collective_rpc(self: Any, method: Any, *args: Any, **given: Any) -> Any:
        reply = base.collective_rpc(self, method, *args, **given)
        return [reply] if method == "_get_captured_states" else reply

    return {"collective_rpc": collective_rpc}


PATCH = Patch(
    id="reply-rank",
    drift="D09",
    title="A reply from one rank is no list any more",
    speculators="==0.3.0",
    vllm=">=0.11.1",
    symptoms=(
        Symptom(
            "RuntimeError",
            message=r"Boolean value of Tensor with more than one value is ambiguous",
            source=r"if not aux_hidden_states",
            innermost="generate",
        ),
        Symptom("RuntimeError", message=r"Boolean value of Tensor with more than one", innermost="generate"),
    ),
    cause="Since vLLM 0.11.1 collective_rpc(unique_reply_rank=0) returns the reply itself; the generator's [0] then "
    "takes the first layer's tensor instead of the list of layers.",
    mend="Puts the reply to _get_captured_states back into a list of one.",
    replaces=REPLACES,
    where="driver",
    after=GENERATOR,
    probe=probe,
    apply=apply,
    verify=verify,
    story="Named there as collective_rpc indexing, and right.",
    references=("vllm-project/speculators#225",),
    written_for=WRITTEN_FOR,
    signs=(Sign("changed-return", "MultiprocExecutor.collective_rpc"),),
)
