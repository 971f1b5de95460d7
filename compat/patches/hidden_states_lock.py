"""vLLM writes hidden states while it goes on, behind a lock file; speculators 0.5 reads without waiting for it."""

from __future__ import annotations

from pathlib import Path

from compat import source
from compat.patch import Patch, Probe, Symptom

WRITER = "vllm.distributed.kv_transfer.kv_connector.v1.example_hidden_states_connector"
READER = "speculators.train.data"


def probe(site: Path) -> Probe:
    writer = source.module(site, WRITER)
    reader = source.module(site, READER)
    if ".lock" not in writer.text:
        return Probe(False, f"{writer.file} writes a file before it names it")
    if "lock" in reader.text:
        return Probe(False, f"{reader.file} waits for the lock")
    return Probe(True, f"{writer.file} holds a lock while it writes, for which {reader.file} does not wait")


PATCH = Patch(
    id="hidden-states-lock",
    drift="D23",
    title="Hidden states are read while vLLM still writes them",
    speculators="==0.5.*",
    vllm=">=0.22.0",
    symptoms=(
        Symptom("SafetensorError", functions=("_maybe_generate_hs",)),
        Symptom("FileNotFoundError", functions=("_maybe_generate_hs",)),
    ),
    cause="vLLM 0.22.0 writes asynchronously and holds a lock on FILE.lock until it is done; speculators 0.5 loads the "
    "file as soon as the request answers.",
    mend="Use speculators 0.6 or later. The connector's use_synchronization_lock is no cure: it only drops the lock.",
    probe=probe,
    references=("vllm-project/vllm#37374",),
)
