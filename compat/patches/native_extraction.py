"""speculators 0.5 and later extract through a feature of vLLM that older releases do not have."""

from __future__ import annotations

from pathlib import Path

from compat import source
from compat.patch import Patch, Probe, Sign, Symptom

PACKAGE = "vllm.distributed.kv_transfer.kv_connector.v1"
CONNECTOR = "example_hidden_states_connector"


def probe(site: Path) -> Probe:
    config = source.module(site, "vllm.config.speculative")
    if "extract_hidden_states" in config.text:
        return Probe(False, f"{config.file} knows extract_hidden_states")
    return Probe(True, f"{config.file} knows no method extract_hidden_states")


PATCH = Patch(
    id="native-extraction",
    drift="D22",
    title="vLLM cannot extract hidden states by itself yet",
    speculators=">=0.5.0",
    vllm="<0.17.0",
    symptoms=(
        Symptom("ValidationError", message=r"SpeculativeConfig[\s\S]*method"),
        Symptom("ValueError", message=r"Unsupported connector type: ExampleHiddenStatesConnector"),
    ),
    cause="speculators 0.5.0 deleted its own generator and asks a vLLM server for the speculative method "
    "extract_hidden_states, which is there from 0.17.0 on.",
    mend="Use vLLM 0.18 or later, or speculators 0.4 with vLLM 0.12 to 0.16.",
    probe=probe,
    references=("vllm-project/vllm#33736", "vllm-project/speculators#353", "vllm-project/speculators#433"),
    signs=(
        Sign("missing-import", f"{PACKAGE}.{CONNECTOR}"),
        Sign("missing-import", PACKAGE, CONNECTOR),
    ),
)
