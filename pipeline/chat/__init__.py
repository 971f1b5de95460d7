"""Conversations through a target's own tokenizer and chat template: token ids and loss mask."""
