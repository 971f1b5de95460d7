"""The bootstrap as a shell runs it: markers, cache, refusals, and what it leaves on disk."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from faults.agent_link import AgentLink
from faults.fake_host import PIPELINE, ROOT, sh

from remote import protocol
from remote.agent import boot

NONCE = "n0nce"


def a_roll() -> tuple[bytes, str]:
    """The agent and a fake pipeline as the link sends them."""
    contents = {f"remote/{p.name}": p.read_bytes() for p in (ROOT / "remote").glob("*.py")}
    for part in ("agent", "logs"):
        contents |= {f"remote/{part}/{p.name}": p.read_bytes() for p in (ROOT / "remote" / part).glob("*.py")}
    contents |= {"pipeline/__init__.py": b"", "pipeline/__main__.py": PIPELINE.encode()}
    parts = [b"%s\0%d\n" % (name.encode(), len(data)) + data for name, data in sorted(contents.items())]
    roll = b"".join(parts)
    return roll, hashlib.sha256(roll).hexdigest()


class Booting:
    """One bootstrap on its way."""

    def __init__(self, digest: str, state: Path | None, shell: str = "sh", python: str = sys.executable, **env: str):
        command = boot.COMMAND.format(python=python)
        self.process = subprocess.Popen(
            [shell, "-c", command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **env},
        )
        self.send(boot.stage_one(NONCE, digest, str(state) if state else None))

    def send(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send_roll(self, roll: bytes) -> None:
        packed = zlib.compress(roll)
        self.send(b"%d\n" % len(packed) + packed)

    def line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline().decode()
        assert line, self.end()
        return line.rstrip("\n")

    def marker(self) -> str:
        while True:
            line = self.line()
            if line.startswith(NONCE):
                return line[len(NONCE) + 1 :]
            assert line == ""

    def end(self) -> str:
        _, errors = self.process.communicate(timeout=60)
        return errors.decode()


@pytest.fixture
def roll() -> tuple[bytes, str]:
    return a_roll()


def installed(roll: tuple[bytes, str], state: Path | None, **env: str) -> dict[str, object]:
    booting = Booting(roll[1], state, **env)
    assert booting.marker() == "NEED"
    booting.send_roll(roll[0])
    assert booting.marker() == "RUN"
    hello: dict[str, object] = json.loads(booting.line())
    booting.end()
    return hello


def test_a_first_start_is_sent_the_bundle_and_becomes_the_agent(tmp_path: Path, roll: tuple[bytes, str]) -> None:
    hello = installed(roll, tmp_path / "eyas")
    assert hello["ev"] == "hello"
    assert hello["state"] == str(tmp_path / "eyas")
    assert hello["bundle"] == roll[1]


@pytest.mark.parametrize("shell", ["sh", "bash", "dash", "fish", "csh"])
def test_a_second_start_uses_the_cache_in_every_shell(tmp_path: Path, roll: tuple[bytes, str], shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed here")
    installed(roll, tmp_path / "eyas")
    booting = Booting(roll[1], tmp_path / "eyas", shell=shell)
    assert booting.marker() == "HAVE"
    assert booting.marker() == "RUN"
    assert json.loads(booting.line())["ev"] == "hello"
    booting.end()


def test_everything_it_writes_is_for_its_user_alone(tmp_path: Path, roll: tuple[bytes, str]) -> None:
    before = os.umask(0)
    try:
        installed(roll, tmp_path / "eyas")
    finally:
        os.umask(before)
    for path in [tmp_path / "eyas", *(tmp_path / "eyas").rglob("*")]:
        assert not path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO), path


@pytest.mark.parametrize("damage", ["altered", "added", "removed", "writable", "linked"])
def test_a_cache_that_is_not_what_was_sent_is_sent_anew(tmp_path: Path, roll: tuple[bytes, str], damage: str) -> None:
    installed(roll, tmp_path / "eyas")
    victim = tmp_path / "eyas" / "bundles" / roll[1] / "remote" / "agent" / "server.py"
    if damage == "altered":
        victim.write_text(victim.read_text() + "#")
    elif damage == "added":
        victim.with_name("json.py").write_text("")
    elif damage == "removed":
        victim.unlink()
    elif damage == "writable":
        victim.chmod(0o666)
    else:
        (tmp_path / "copy.py").write_bytes(victim.read_bytes())
        victim.unlink()
        victim.symlink_to(tmp_path / "copy.py")
    assert installed(roll, tmp_path / "eyas")["ev"] == "hello"
    assert [p.name for p in (tmp_path / "eyas" / "bundles").iterdir()] == [roll[1]]
    again = Booting(roll[1], tmp_path / "eyas")
    assert again.marker() == "HAVE"
    again.end()


def test_a_bundle_with_another_digest_is_not_run(tmp_path: Path, roll: tuple[bytes, str]) -> None:
    booting = Booting(roll[1], tmp_path / "eyas")
    assert booting.marker() == "NEED"
    booting.send_roll(roll[0] + b"evil.py\x000\n")
    assert booting.marker() == "BADSHA"
    assert booting.process.wait(60) == 5
    assert list((tmp_path / "eyas" / "bundles").iterdir()) == []


def test_a_path_that_leaves_the_bundle_is_not_written(tmp_path: Path) -> None:
    evil = b"../../evil.py\x001\n#"
    booting = Booting(hashlib.sha256(evil).hexdigest(), tmp_path / "eyas")
    assert booting.marker() == "NEED"
    booting.send_roll(evil)
    booting.end()
    assert booting.process.returncode != 0
    assert not list(tmp_path.rglob("evil.py"))


def test_a_link_lost_in_the_middle_of_the_bundle_leaves_nothing(tmp_path: Path, roll: tuple[bytes, str]) -> None:
    booting = Booting(roll[1], tmp_path / "eyas")
    assert booting.marker() == "NEED"
    booting.send(b"100000\nhalf")
    booting.end()
    assert booting.process.returncode == 4
    assert list((tmp_path / "eyas" / "bundles").iterdir()) == []


def test_a_stray_print_cannot_corrupt_the_frames(tmp_path: Path) -> None:
    shouting = b"def main(state, source, out):\n    print('stray')\n"
    contents = {"remote/__init__.py": b"", "remote/agent/__init__.py": b"", "remote/agent/server.py": shouting}
    roll = b"".join(b"%s\0%d\n" % (n.encode(), len(d)) + d for n, d in sorted(contents.items()))
    booting = Booting(hashlib.sha256(roll).hexdigest(), tmp_path / "eyas")
    assert booting.marker() == "NEED"
    booting.send_roll(roll)
    assert booting.marker() == "RUN"
    out, errors = booting.process.communicate(timeout=60)
    assert (out, errors) == (b"", b"stray\n")


def test_a_state_folder_that_others_may_write_to_is_refused(tmp_path: Path, roll: tuple[bytes, str]) -> None:
    (tmp_path / "eyas").mkdir(mode=0o700)
    (tmp_path / "eyas").chmod(0o777)
    booting = Booting(roll[1], tmp_path / "eyas")
    assert booting.marker() == f"ERR state {tmp_path / 'eyas'}: others may write to it (chmod go-w)"
    assert booting.process.wait(60) == 6


def test_the_state_falls_back_to_where_it_can_be_written(tmp_path: Path, roll: tuple[bytes, str]) -> None:
    home = tmp_path / "home"
    home.mkdir()
    hello = installed(roll, None, XDG_STATE_HOME="/proc/nowhere", HOME=str(home))
    assert hello["state"] == str(home / ".local" / "state" / "eyas")


def test_a_state_folder_that_was_named_has_no_substitute(tmp_path: Path, roll: tuple[bytes, str]) -> None:
    booting = Booting(roll[1], Path("/proc/nowhere"), HOME=str(tmp_path))
    assert booting.marker().startswith("ERR state /proc/nowhere: ")
    booting.end()


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "full"
    place.mkdir()
    options = ["mount", "-t", "tmpfs", "-o", "size=64k,mode=700", "tmpfs", str(place)]
    mounted = subprocess.run(options, capture_output=True, check=False)
    if mounted.returncode != 0:
        pytest.skip(f"a small file system needs the right to mount: {mounted.stderr.decode().strip()}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_full_disk_is_named_and_nothing_is_left(full_disk: Path, roll: tuple[bytes, str]) -> None:
    booting = Booting(roll[1], full_disk / "eyas")
    assert booting.marker() == "NEED"
    booting.send_roll(roll[0])
    assert booting.marker() == f"ERR nospace {full_disk / 'eyas'}"
    assert booting.process.wait(60) == 6
    assert list((full_disk / "eyas" / "bundles").iterdir()) == []


def test_stage_1_can_be_read_by_python_3_6() -> None:
    line = boot.stage_one(NONCE, "0" * 64, "/a 'b\" c")
    assert line.endswith(b"\n") and line.count(b"\n") == 1
    call = ast.parse(line, feature_version=(3, 6)).body[0]
    assert isinstance(call, ast.Expr) and isinstance(call.value, ast.Call)
    source = ast.literal_eval(call.value.args[0])
    ast.parse(source, feature_version=(3, 6))


@pytest.mark.parametrize("version", ["3.6", "3.7", "3.8", "3.9"])
def test_a_python_that_is_too_old_is_named(tmp_path: Path, version: str) -> None:
    found = [p for p in Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}") if p.exists()]
    python = str(found[0]) if found else shutil.which(f"python{version}")
    if python is None or subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode != 0:
        pytest.skip(f"no Python {version} here")
    booting = Booting("0" * 64, tmp_path / "eyas", python=python)
    assert booting.marker() == f"ERR python {version}"
    assert booting.process.wait(60) == 3
    assert not (tmp_path / "eyas").exists()


def test_the_command_means_the_same_in_every_shell() -> None:
    assert not set(boot.COMMAND) & set("!$`\\'\n")
    assert set(sys.executable) <= boot.PYTHON_CHARACTERS


@pytest.mark.parametrize("version", ["3.10", "3.11", "3.12", "3.13", "3.14"])
def test_the_whole_agent_runs_in_every_python_from_3_10_on(
    tmp_path: Path, roll: tuple[bytes, str], version: str
) -> None:
    found = [p for p in Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}") if p.exists()]
    python = str(found[0]) if found else shutil.which(f"python{version}")
    if python is None or subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode != 0:
        pytest.skip(f"no Python {version} here")
    booting = Booting(roll[1], tmp_path / "eyas", python=python)
    assert booting.marker() == "NEED"
    booting.send_roll(roll[0])
    assert booting.marker() == "RUN"
    link = AgentLink(booting.process)
    try:
        hello = link.push(protocol.HELLO)
        assert str(hello["python"]).startswith(version)
        stages = [sh("one", "echo one"), sh("two", "echo two; exit 3")]
        asked = {"settings": {"stages": stages}, "project": "p", "request_id": "r", "switches": {}, "secrets": {}}
        run = link.ask(protocol.START, **asked)["run"]
        link.ask(protocol.WATCH, run=run)
        link.ask(protocol.TELEMETRY, on=True, period=0.5)
        view = link.view(run, lambda view: view.state == "failed" and view.stages[1].attempts[0].clean)
        assert view.stages[1].attempts[0].rc == 3
        assert link.tail(run, "two") == b"two\n"
        assert link.push(protocol.SAMPLE)["sample"]["memory_total"]
    finally:
        link.kill()
