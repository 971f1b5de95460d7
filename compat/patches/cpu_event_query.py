"""The CPU build's stand-in for a CUDA event lacks `query`, which vLLM's hidden-states connector asks for."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from compat import source
from compat.patch import Patch, Probe, Symptom

ID = "cpu-event-query"
MODULE = "vllm.v1.worker.cpu.shm"
REPLACES = f"{MODULE}._EventPlaceholder"
CALLER = "vllm.distributed.kv_transfer.kv_connector.v1.example_hidden_states_connector.ExampleHiddenStatesConnector"
WRITTEN_FOR = (
    "0123484999ceb00d635f9d20b003519c9365cf7cefb31a744adbbabd02af3bd5",
    "a0758d2a514cc13055c5001a04e6c205dbbc09310e87bf040b0eee5a8abc87e7",
)


def probe(site: Path) -> Probe:
    placeholder = source.find(site, REPLACES)
    caller = source.find(site, f"{CALLER}.get_finished")
    asked = source.calls(caller, "event.query")
    if not asked:
        return Probe(False, f"{caller.place} does not ask an event whether it is over")
    if "query" in placeholder.text:
        return Probe(False, f"{placeholder.place} has query")
    return Probe(True, f"{caller.at(asked[0])} asks event.query(), which {placeholder.place} does not have")


def apply() -> None:
    def query(self: Any) -> bool:
        return True  # on the CPU a copy is over when its call returns

    _placeholder().query = query


def verify() -> str:
    return "" if _placeholder()().query() is True else "the event's stand-in does not say that it is over"


def _placeholder() -> Any:
    return importlib.import_module(MODULE)._EventPlaceholder


PATCH = Patch(
    id=ID,
    drift="D32",
    title="The CPU build's event has no query",
    speculators=">=0.5.0",
    vllm=">=0.24.0",
    cause="The CPU build puts a placeholder in the place of torch.cuda.Event, with record, wait and synchronize only. "
    "ExampleHiddenStatesConnector polls event.query() for each finished request, so the worker dies.",
    mend="Gives the placeholder a query that says the event is over.",
    probe=probe,
    apply=apply,
    verify=verify,
    where="worker",
    after=MODULE,
    replaces=REPLACES,
    written_for=WRITTEN_FOR,
    symptoms=(
        Symptom(
            "AttributeError",
            message=r"'_EventPlaceholder' object has no attribute 'query'",
            innermost="get_finished",
        ),
        Symptom("AttributeError", message=r"'_EventPlaceholder' object has no attribute 'query'"),
    ),
    cpu_only=True,
    risk="None: on the CPU every copy is over when its call returns. Run on vLLM 0.32.0, read in 0.24.0 to 0.29.0.",
)
