"""What a draft model is made of, apart from its target: what an engine must be able to load."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.draft_settings import SPECULATIVE_TOKENS


@dataclass(frozen=True)
class Shape:
    """The draft model's decoder and norms, by the names of speculators' configuration."""

    arch: str = "llama"
    """Type of the decoder layers, `llama` or `qwen3`."""
    layers: int = 1
    norm_before_residual: bool = True
    norm_before_fc: bool = False
    """A norm over the three aux states together (EAGLE-3.1)."""
    fc_norm: bool = False
    """A norm over each of the aux states (EAGLE-3.1)."""
    norm_output: bool = False
    """The states after the norm are fed back in the next step (EAGLE-3.1)."""
    speculative_tokens: int = SPECULATIVE_TOKENS
    """Tokens that the engine lets it propose in a round."""
