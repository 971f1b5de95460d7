"""On PYTHONPATH, it does to speculators' generator what the obvious mend of the assertion in cache_full_blocks does."""

from __future__ import annotations

import os
from typing import Any

from compat.hooks import after_import
from compat.replace import GENERATOR, generator_module


def give_block_hashes() -> None:
    from vllm.utils.hashing import get_hash_fn_by_name
    from vllm.v1.core import kv_cache_utils

    module: Any = generator_module()
    request, function = module.Request, get_hash_fn_by_name("sha256")
    kv_cache_utils.init_none_hash(function)
    block_hasher = kv_cache_utils.get_request_block_hasher(16, function)
    module.Request = lambda **given: request(block_hasher=block_hasher, **given)


if os.environ.get("EYAS_ATTEMPT"):
    after_import(GENERATOR, give_block_hashes)
