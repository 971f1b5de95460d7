"""Single tensors of a target: the head of one that is tied is its embedding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from safetensors_files import safetensors, write_model

from pipeline.report import StageError
from pipeline.weights import Weights


@pytest.mark.parametrize("config", [{}, {"tie_word_embeddings": True}])
def test_a_target_without_a_head_of_its_own_is_tied_unless_it_says_no(tmp_path: Path, config: dict[str, Any]) -> None:
    """Many configs leave it to the model's class."""
    folder = write_model(tmp_path / "model")
    assert Weights(folder).head(config).name == "lm_head.weight"
    (folder / "model-00002-of-00003.safetensors").write_bytes(safetensors(name="model.norm.weight"))
    assert Weights(folder).head(config).name == "model.embed_tokens.weight"
    with pytest.raises(StageError, match=r"whose name ends in lm_head\.weight"):
        Weights(folder).head({"tie_word_embeddings": False})
