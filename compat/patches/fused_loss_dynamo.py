"""speculators' two fused loss kernels share one list of autotuner configs, which torch's compiler cannot trace."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import sys
from pathlib import Path

from compat import roots, source
from compat.patch import Patch, Probe, Symptom

MODULE = "speculators.losses.fused"
REPLACES = f"{MODULE}.loss_backward_kernel"
WRITTEN_FOR = ("8ad792063e73842b107b7ee1efc2bfa6aa488ddbf2eb6fbec668f01e2925f477",)


def probe(site: Path) -> Probe:
    if not roots.of(site, "triton") and not _within_reach(site):
        return Probe(False, "triton is not installed, so the fused losses cannot be used")
    kernels = [source.find(site, f"{MODULE}.{name}") for name in ("loss_forward_kernel", "loss_backward_kernel")]
    first, second = (_decorators(kernel) for kernel in kernels)
    shared = sorted(first & second - {"triton.jit"})
    tuned = [name for name in shared if _is_autotuner(source.module(site, MODULE), name)]
    if not tuned:
        return Probe(False, f"{kernels[1].place}: the two loss kernels have configs of their own")
    return Probe(True, f"{kernels[0].place} and {kernels[1].place} share {tuned[0]}, one list of autotuner configs")


def _within_reach(site: Path) -> bool:
    """Whether this process is of that environment and imports triton from another place, such as the system's."""
    return str(site) in sys.path and importlib.util.find_spec("triton") is not None


def _decorators(kernel: source.Code) -> set[str]:
    return {ast.unparse(decorator) for decorator in getattr(kernel.node, "decorator_list", ())}


def _is_autotuner(module: source.Code, name: str) -> bool:
    for node in getattr(module.node, "body", ()):
        if isinstance(node, ast.Assign) and name in map(ast.unparse, node.targets):
            return ast.unparse(node.value).startswith("triton.autotune(")
    return False


def apply() -> None:
    kernel = importlib.import_module(MODULE).loss_backward_kernel
    kernel.configs = list(kernel.configs)


def verify() -> str:
    module = importlib.import_module(MODULE)
    shared = module.loss_forward_kernel.configs is module.loss_backward_kernel.configs
    return "the two loss kernels still share their list of configs" if shared else ""


PATCH = Patch(
    id="fused-loss-dynamo",
    drift="D33",
    title="The fused loss cannot be compiled",
    speculators=">=0.9.0",
    vllm=">=0.11.0",
    cause="Training compiles the draft model. The forward and the backward kernel of the fused loss were decorated by "
    "one triton.autotune(...), so they hold the same list of configs; torch 2.11's tracer wraps the list for the first "
    "kernel and raises when it meets it again for the second, at the first backward pass.",
    mend="Gives the backward kernel a list of its own; the loss stays fused. Without the patch, "
    "--loss-implementation eager trains too, slower and in more memory.",
    probe=probe,
    apply=apply,
    verify=verify,
    where="driver",
    after=MODULE,
    replaces=REPLACES,
    written_for=WRITTEN_FOR,
    symptoms=(
        Symptom(
            "AssertionError",
            message=r"ListVariable\(length=\d+\) is already tracked for mutation",
            innermost="_track_obj",
        ),
        Symptom("AssertionError", message=r"ListVariable\(length=\d+\) is already tracked for mutation"),
    ),
    risk="None known: the list holds the same configs. Tried on torch 2.11.0 with Triton 3.6.0 on an H200 with the "
    "kernels reduced to the KL loss: without it the compiled loss fails at the backward pass, with it loss and "
    "gradients equal PyTorch's own; whole trainings ran with it there since.",
)
