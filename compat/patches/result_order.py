"""speculators 0.4 gives results back in the order of their ids as texts: 0, 1, 10, 11, 2, …"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from compat import source
from compat.patch import Patch, Probe, Symptom
from compat.replace import GENERATOR, generator_module

REPLACES = f"{GENERATOR}.VllmHiddenStatesGenerator.generate"
WRITTEN_FOR = ("7bf379176a53b961671ed50acf1b2ce3698184d060cd9116dce5bb38397abf6f",)


def probe(site: Path) -> Probe:
    caller = source.find(site, REPLACES)
    sorts = source.calls(caller, "sorted")
    if not sorts or 'f"req_' not in caller.text:
        return Probe(False, f"{caller.place} keeps the order of its inputs")
    return Probe(True, f"{caller.at(sorts[0])} sorts results by their ids as texts: req_0_10 comes before req_0_2")


def apply() -> None:
    generator_module().sorted = _as_they_are  # the module's only use of it; its ids are in the order of the inputs


def verify() -> str:
    if getattr(generator_module(), "sorted", None) is _as_they_are:
        return ""
    return "the generator sorts its results by their ids as texts again"


def _as_they_are(ids: Iterable[str]) -> list[str]:
    return list(ids)


PATCH = Patch(
    id="result-order",
    drift="D20",
    title="Results come in the order of their ids as texts",
    speculators="==0.4.*",
    vllm=">=0.11.0",
    cause="The generator returns its results by sorted request id, and ids are texts. With more than ten prompts the "
    "results are in another order than the prompts, and whoever pairs them by position gives states to the wrong loss "
    "mask. Batches of up to ten, such as the default of eight, hide it.",
    mend="Leaves the results in the order of the prompts.",
    replaces=REPLACES,
    where="driver",
    after=GENERATOR,
    probe=probe,
    apply=apply,
    verify=verify,
    symptoms=(Symptom("StageError", message=r"has \d+ rows of hidden states for \d+ tokens"),),
    silent=True,
    gate="loss-mask",
    references=("vllm-project/speculators#365",),
    written_for=WRITTEN_FOR,
)
