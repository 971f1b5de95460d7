"""speculators 0.4 imports vllm.utils.hashing, which vLLM 0.11.0 does not have."""

from __future__ import annotations

from pathlib import Path

from compat import source
from compat.patch import Patch, Probe, Sign, Symptom
from compat.replace import GENERATOR


def probe(site: Path) -> Probe:
    caller = source.module(site, GENERATOR)
    if "from vllm.utils.hashing import" not in caller.text:
        return Probe(False, f"{caller.file} does not import vllm.utils.hashing")
    try:
        found = source.module(site, "vllm.utils.hashing")
    except source.SourceNotFound:
        return Probe(True, f"{caller.file} imports vllm.utils.hashing, which this vLLM does not have")
    return Probe(False, f"{found.file} is there")


PATCH = Patch(
    id="hashing-module",
    drift="D11",
    title="vllm.utils.hashing does not exist yet",
    speculators="==0.4.*",
    vllm="==0.11.0",
    symptoms=(Symptom("ModuleNotFoundError", message=r"No module named 'vllm\.utils\.hashing'"),),
    cause="vLLM 0.11.1 moved get_hash_fn_by_name there. It is only the first thing that 0.11.0 lacks: Scheduler takes "
    "no block_size, SchedulerConfig no is_encoder_decoder, and a step has no sample_tokens.",
    mend="Use speculators 0.3.0, which was written for vLLM 0.11.0; or vLLM 0.12 to 0.16, which speculators 0.4 "
    "declares.",
    probe=probe,
    replaces=f"{GENERATOR}.VllmHiddenStatesGenerator",
    signs=(Sign("missing-import", "vllm.utils.hashing"),),
)
