"""What is known of each pair of releases: which incompatibilities are live, and what every other finding is worth."""

from __future__ import annotations

from dataclasses import dataclass

from compat.versions import within

KIMI = "KimiK25ForConditionalGeneration"
DEEPSEEK = "DeepseekV3ForCausalLM"


@dataclass(frozen=True)
class Item:
    """One incompatibility of the catalogue, with the pairs in which it is live."""

    drift: str
    patch: str
    live: tuple[tuple[str, str], ...]
    """(speculators, range of vLLM)."""
    unseen: tuple[tuple[str, str], ...] = ()
    """Those pairs among them that the probe is known to miss."""
    architecture: str = ""

    def is_live(self, speculators: str, vllm: str) -> bool:
        return any(name == speculators and within(vllm, wanted) for name, wanted in self.live)

    def is_unseen(self, speculators: str, vllm: str) -> bool:
        return any(name == speculators and within(vllm, wanted) for name, wanted in self.unseen)


def both(wanted: str) -> tuple[tuple[str, str], ...]:
    return ("0.3.0", wanted), ("0.4.0.1", wanted)


def old(wanted: str) -> tuple[tuple[str, str], ...]:
    return (("0.3.0", wanted),)


def new(wanted: str) -> tuple[tuple[str, str], ...]:
    return (("0.4.0.1", wanted),)


ITEMS = (
    Item("D01", "encoder-decoder-flag", old(">=0.12.0")),
    Item("D02", "kv-cache-specs", old(">=0.12.0")),
    Item("D02r", "kv-cache-specs-required", new("<0.12.0")),
    Item("D03", "scheduler-block-size", old(">=0.11.1")),
    Item("D04", "embed-input-ids", old(">=0.11.1")),
    Item("D05", "eagle3-gate", old("<0.18.0"), architecture=DEEPSEEK),
    Item("D06", "wrapped-language-model", (*old(">=0.15.0"), *new("==0.15.*")), architecture=KIMI),
    Item("D07", "prefix-caching", old(">=0.12.0")),
    Item("D08", "two-phase-execution", old(">=0.11.1")),
    Item("D09", "reply-rank", old(">=0.11.1")),
    Item("D10", "eos-token-id", both(">=0.17.0")),
    Item("D11", "hashing-module", new("<0.11.1")),
    Item("D12", "warm-up", both(">=0.27.0")),
    Item("D13", "kv-cache-layout", both(">=0.29.0")),
    Item("D14", "v2-model-runner", new(">=0.22.0")),
    Item("D15", "async-scheduling", both(">=0.14.0")),
    Item("D17", "chunked-prefill", old(">=0.11.0"), unseen=old("<0.11.1")),
    Item("D19", "deepstack-inputs", both(">=0.11.0"), unseen=old("<0.11.1")),
    Item("D22", "native-extraction", (("0.9.0", "<0.17.0"),)),
)
"""By release as the sources of vLLM have it, not as the probe sees it. D16, D18, D20, D23, D25 and D26 are in the logic
of one side alone, or in what both sides write to files: no comparison of signatures tells of them."""

TRUE, FALSE = "true", "false positive"
JUDGED = {
    ("narrow-override", "visual_token_mask"): (TRUE, "a target of Ernie 4.5 VL or InternLM2-VE loses the argument"),
    ("narrow-override", "per_layer_inputs"): (TRUE, "a target of Gemma 3n or 4 loses the argument"),
    ("unknown-argument", "residual"): (TRUE, "layers of Granite, Arctic and others take no residual"),
    ("unknown-argument", "positions"): (TRUE, "layers of OPT and others take no positions"),
    ("missing-attribute", "embed_input_ids"): (TRUE, "D04 the other way round"),
    ("missing-method", "sample_tokens"): (TRUE, "D08 the other way round"),
    ("unknown-argument", "block_size"): (TRUE, "D03 the other way round"),
    ("unknown-argument", "is_encoder_decoder"): (TRUE, "D01 the other way round"),
    ("missing-import", "SupportsHMA"): (TRUE, "this vLLM is older than hs-connectors needs"),
    ("missing-import", "AttentionMetadata"): (TRUE, "this vLLM is older than hs-connectors needs"),
    ("missing-import", "HiddenStateCacheSpec"): (TRUE, "this vLLM is older than hs-connectors needs"),
    ("missing-import", "CacheOnlyAttentionLayer"): (TRUE, "this vLLM is older than hs-connectors needs"),
    ("missing-import", "vllm.v1.attention.backend"): (TRUE, "this vLLM is older than hs-connectors needs"),
    ("missing-import", "vllm.model_executor.models.extract_hidden_states"): (TRUE, "older than hs-connectors needs"),
    ("changed-default", "disable_hybrid_kv_cache_manager"): (FALSE, "None is settled as False was for these models"),
    ("changed-default", "disable_nccl_for_dp_synchronization"): (FALSE, "only for data parallelism"),
    ("changed-default", "enable_chunked_prefill"): (FALSE, "None was settled as True too"),
    ("changed-default", "seed"): (FALSE, "prefill draws no numbers"),
    ("changed-default", "scheduler_cls"): (FALSE, "the caller builds its scheduler itself"),
}
"""(kind, name) of every uncatalogued finding → whether it is right, judged by hand from both sources."""
