"""Every patch, in the order in which its incompatibility is met."""

from __future__ import annotations

from compat.patch import Patch
from compat.patches import (
    chunked_prefill,
    cpu_rotary,
    cuda_memory_info,
    embed_input_ids,
    encoder_decoder_flag,
    kv_cache_specs,
    prefix_caching,
    reply_rank,
    row_attribution,
    scheduler_block_size,
    two_phase_execution,
)

PATCHES: tuple[Patch, ...] = (
    encoder_decoder_flag.PATCH,
    cuda_memory_info.PATCH,
    kv_cache_specs.PATCH,
    scheduler_block_size.PATCH,
    embed_input_ids.PATCH,
    prefix_caching.PATCH,
    reply_rank.PATCH,
    two_phase_execution.PATCH,
    chunked_prefill.PATCH,
    row_attribution.PATCH,
    cpu_rotary.PATCH,
)

_BY_ID = {patch.id: patch for patch in PATCHES}


def get(patch_id: str) -> Patch | None:
    """The patch of that id, None when there is none."""
    return _BY_ID.get(patch_id)
