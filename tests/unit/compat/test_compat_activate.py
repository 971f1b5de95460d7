"""Activation: after the module's import, once, refused where the code differs or the patch does not come into force."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from compat import activate as activate_module
from compat import source
from compat.activate import activate
from compat.catalogue import get
from compat.patch import Applied, Patch, Switches
from compat.replace import GENERATOR

PROBED = get("prefix-caching")
AUTO = Switches()


@pytest.fixture
def installed(site: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(str(site))
    finders = list(sys.meta_path)
    yield site
    sys.meta_path[:] = finders
    for name in [name for name in sys.modules if name.split(".")[0] == "speculators"]:
        del sys.modules[name]


@pytest.fixture
def run(installed: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Activates one patch, made from a real one, imports its module, and gives (reports, times applied)."""
    assert PROBED
    digest = source.find(installed, PROBED.replaces).digest
    times: list[str] = []

    def made(**changes: Any) -> Patch:
        assert PROBED
        fitting: dict[str, Any] = {
            "apply": lambda: times.append("applied"),
            "verify": None,
            "written_for": (digest,),
            **changes,
        }
        return replace(PROBED, **fitting)

    def run(switches: Switches = AUTO, calls: int = 1, **changes: Any) -> tuple[list[Applied], list[str]]:
        monkeypatch.setattr(activate_module, "PATCHES", (made(**changes),))
        reports: list[Applied] = []
        for _ in range(calls):
            activate("driver", switches, reports.append)
        assert not reports
        importlib.import_module(GENERATOR)
        return reports, times

    return run


def test_it_is_applied_after_the_import_and_reports_both_digests(run: Any) -> None:
    (report,), times = run()
    assert (report.id, report.state, times) == ("prefix-caching", "active", ["applied"])
    assert len(report.digest) == len(report.replaced_digest) == 64
    assert report.digest != report.replaced_digest


def test_activating_twice_applies_once(run: Any) -> None:
    reports, times = run(calls=2)
    assert [report.state for report in reports] == ["active", "active"]
    assert times == ["applied"]


def test_other_code_is_refused_with_its_place_and_left_alone(run: Any) -> None:
    (report,), times = run(written_for=("0" * 64,))
    assert (report.state, times) == ("refused", [])
    assert "vllm_hidden_states_generator.py:" in report.reason


def test_a_patch_that_is_not_in_force_is_refused_in_its_own_words(run: Any) -> None:
    (report,), times = run(verify=lambda: "CacheConfig still turns prefix caching on.")
    assert times == ["applied"]
    assert (report.state, report.reason) == ("refused", "CacheConfig still turns prefix caching on.")


def test_a_patch_that_raises_is_refused_and_the_import_goes_on(run: Any) -> None:
    def apply() -> None:
        raise AttributeError("no CacheConfig here")

    (report,), _ = run(apply=apply)
    assert report.state == "refused"
    assert "AttributeError: no CacheConfig here" in report.reason
    assert GENERATOR in sys.modules


def test_what_is_off_or_not_needed_is_only_reported(run: Any) -> None:
    (report,), times = run(Switches(off=("prefix-caching",)))
    assert (report.state, times) == ("off", [])


def test_an_entry_that_only_advises_is_never_activated(run: Any) -> None:
    reports, times = run(apply=None)
    assert (reports, times) == ([], [])
