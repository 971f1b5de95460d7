"""The bundle is what the host needs, whole, canonical, and unpacks to what was packed."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zlib
from pathlib import Path

from remote.agent import stage_one
from remote.bundle import bundle, make_roll, sources


def test_the_roll_is_sorted_counted_bytes() -> None:
    assert make_roll({"b/c.py": b"xy\n", "a.py": b""}) == b"a.py\0000\nb/c.py\0003\nxy\n"


def test_the_digest_and_the_packed_form_are_of_this_roll() -> None:
    made = bundle()
    assert hashlib.sha256(made.roll).hexdigest() == made.digest
    assert zlib.decompress(made.packed) == made.roll
    assert bundle() is made, "made once per process"


def test_everything_the_host_runs_travels_and_nothing_of_the_workstation() -> None:
    paths = set(sources())
    assert {"remote/protocol.py", "remote/agent/boot.py", "remote/agent/stage_one.py"} <= paths
    assert {"remote/logs/findings.py", "compat/patch.py", "pipeline/__init__.py", "pynvml.py"} <= paths
    assert any(path.startswith("pipeline/environments/") and path.endswith(".txt") for path in paths)
    assert "compat/drift/baselines/speculators-0.3.0.json" in paths
    assert any(path.endswith(".dist-info/entry_points.txt") for path in paths), "vLLM's workers find the patches by it"
    assert not any(p.startswith(("remote/link", "console")) or "__pycache__" in p for p in paths)
    assert not {"remote/session.py", "remote/client.py", "remote/bundle.py"} & paths


def test_the_host_s_unpacking_gives_the_same_digest(tmp_path: Path) -> None:
    made = bundle()
    folder = tmp_path / made.digest
    stage_one.unpack(made.roll, str(folder))
    assert stage_one.digest_of(str(folder)) == made.digest
    assert (folder / "remote/protocol.py").read_bytes() == sources()["remote/protocol.py"]


def test_the_unpacked_agent_runs_without_anything_of_the_workstation(tmp_path: Path) -> None:
    folder = tmp_path / "bundle"
    stage_one.unpack(bundle().roll, str(folder))
    check = (
        f"import sys; sys.path.insert(0, {str(folder)!r}); import remote.agent.server, compat.catalogue, pynvml; "
        f"assert remote.__path__ == [{str(folder / 'remote')!r}]"
    )
    subprocess.run([sys.executable, "-ISc", check], check=True, cwd=tmp_path)
