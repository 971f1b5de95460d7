"""Every entry: first those that fail, in the order in which they are met; then the silent ones."""

from __future__ import annotations

from compat.patch import Patch
from compat.patches import (
    async_scheduling,
    aux_layers,
    chunked_prefill,
    connector_layout,
    cpu_event_query,
    cpu_pinned_memory,
    cpu_rotary,
    cuda_memory_info,
    deepseek_layer_call,
    deepstack_inputs,
    eagle3_gate,
    embed_input_ids,
    empty_dataset,
    encoder_decoder_flag,
    eos_token_id,
    full_tracebacks,
    fused_loss_dynamo,
    hashing_module,
    hidden_states_lock,
    hybrid_block_size,
    kv_cache_layout,
    kv_cache_specs,
    kv_cache_specs_required,
    native_extraction,
    newer_norms,
    prefix_cache_rows,
    prefix_caching,
    reasoning_erased,
    reply_rank,
    request_starvation,
    result_order,
    row_attribution,
    scheduler_block_size,
    target_norm,
    two_phase_execution,
    v2_model_runner,
    warm_up,
    wrapped_language_model,
)

HARD: tuple[Patch, ...] = (
    native_extraction.PATCH,
    hashing_module.PATCH,
    encoder_decoder_flag.PATCH,
    async_scheduling.PATCH,
    v2_model_runner.PATCH,
    full_tracebacks.PATCH,
    eagle3_gate.PATCH,
    wrapped_language_model.PATCH,
    deepseek_layer_call.PATCH,
    cuda_memory_info.PATCH,
    kv_cache_specs.PATCH,
    kv_cache_specs_required.PATCH,
    kv_cache_layout.PATCH,
    scheduler_block_size.PATCH,
    warm_up.PATCH,
    embed_input_ids.PATCH,
    deepstack_inputs.PATCH,
    eos_token_id.PATCH,
    prefix_caching.PATCH,
    reply_rank.PATCH,
    two_phase_execution.PATCH,
    request_starvation.PATCH,
    hidden_states_lock.PATCH,
    cpu_pinned_memory.PATCH,
    cpu_event_query.PATCH,
    fused_loss_dynamo.PATCH,
)
SILENT: tuple[Patch, ...] = (
    prefix_cache_rows.PATCH,
    chunked_prefill.PATCH,
    row_attribution.PATCH,
    cpu_rotary.PATCH,
    result_order.PATCH,
    empty_dataset.PATCH,
    reasoning_erased.PATCH,
    aux_layers.PATCH,
    target_norm.PATCH,
    newer_norms.PATCH,
    hybrid_block_size.PATCH,
    connector_layout.PATCH,
)
PATCHES = HARD + SILENT

_BY_ID = {patch.id: patch for patch in PATCHES}


def get(patch_id: str) -> Patch | None:
    """The patch of that id, None when there is none."""
    return _BY_ID.get(patch_id)
