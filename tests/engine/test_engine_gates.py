"""Each gate names the fault it is there for: injected into real states, and left in by a patch that is switched off."""

from __future__ import annotations

import json

import pytest
from engine_run import Run

pytestmark = pytest.mark.engine


def result(output: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(
        next(line for line in output.splitlines() if line.startswith("RESULT "))[len("RESULT ") :]
    )
    return found


@pytest.fixture(scope="module")
def deepseek(tmp_path_factory: pytest.TempPathFactory) -> Run:
    made = Run(tmp_path_factory.mktemp("deepseek"), {"run": {"target": "tiny-deepseek-v3"}})
    for name in ("provision", "target"):
        attempt = made.stage(name)
        assert attempt.rc == 0, attempt.log
    return made


KNOWN = {
    "",
    "rows missing",
    "rows too many",
    "layers missing",
    "other tokens",
    "NaN",
    "zeros",
    "truncated",
    "prefix-cache hit",
    "shifted",
    "numbers differ",
    "missing norm",
    "norm twice",
    "wrong layer",
    "rotary",
}


def test_a_fault_injected_into_real_states_is_named_and_clean_states_pass(run: Run) -> None:
    cases = result(run.script("gate_faults.py", str(run.products / "target")))
    assert {fault for _, fault, _ in cases.values()} == KNOWN  # type: ignore[misc]
    for case, (gate, fault, sentence) in cases.items():  # type: ignore[misc]
        wanted = "" if case.startswith("clean") else case.split(" (")[0]
        assert fault == wanted, f"{gate}, {case}: {sentence}"
        assert any(character.isdigit() for character in sentence), sentence


FAULTS = {
    "all patches on": {
        "rows": "",
        "finite": "",
        "attribution": "",
        "aux-layers": "",
        "final-norm": "",
        "rotary": "",
    },
    "chunked-prefill off, layers left to speculators": {
        "attribution": "truncated",
        "aux-layers": "wrong layer",
        "final-norm": "missing norm",
        "rows": "rows missing",
    },
    "prefix-caching off, block hasher given": {"attribution": "prefix-cache hit"},
    "DeepSeek-V3, all patches on": {"rotary": ""},
    "DeepSeek-V3, cpu-rotary off": {"rotary": "rotary"},
}


def test_a_silent_entry_that_is_switched_off_is_stopped_by_its_gate(
    run: Run, deepseek: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    output = run.script("engine_gates.py", str(run.products / "target"), str(deepseek.products / "target"))
    found = result(output)
    with capsys.disabled():
        for case, reports in found.items():
            print(f"\n    {case}:", end="")
            for gate, (_, sentence) in reports.items():  # type: ignore[attr-defined]
                print(f"\n        {gate}: {sentence}", end="")
    told = {case: {gate: fault for gate, (fault, _) in reports.items()} for case, reports in found.items()}  # type: ignore[attr-defined]
    assert told == FAULTS
