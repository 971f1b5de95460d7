"""Tiny target models, one file an architecture: `make(common)` builds one, `save(model, folder, shard)` writes it.

`common` are the values that every config shares: vocabulary, special tokens, longest sequence.
"""
