"""The agent starts on a bare host: any shell, noisy login files, bad caches; what cannot work is named."""

from __future__ import annotations

import dataclasses
import functools
import os
import shutil
import stat
import subprocess
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from integration.link.observer import session
from sshd import OpenSSHServer

from remote.agent.stage_one import digest_of
from remote.bundle import bundle
from remote.client import bootstrap
from remote.link.asker import RefusingAsker
from remote.link.errors import (
    BootstrapFailed,
    BootstrapTimeout,
    BundleRefused,
    LinkError,
    NoPython,
    NoSpace,
    OldPython,
)
from remote.link.hosts import HostProfile, resolve
from remote.link.keys import Credentials
from remote.link.paramiko_link import ParamikoLink, connect

pytestmark = pytest.mark.openssh

SHELLS = ["sh", "bash", "dash", "csh", "tcsh", "fish", "zsh", "ksh"]
OLD_PYTHON = f"""#!/bin/sh
exec {sys.executable} -Iu -c "import sys; sys.version_info = (3, 8, 18, 'final', 0); exec(sys.stdin.buffer.readline())"
"""


@contextmanager
def linked(profile: HostProfile) -> Iterator[ParamikoLink]:
    address = resolve(profile.ssh or "", profile.ssh_config)
    link = connect(address, profile.known_hosts, RefusingAsker(), Credentials())
    try:
        yield link
    finally:
        link.drop()


def greeted(profile: HostProfile, **more: Any) -> dict[str, Any]:
    """One bootstrap over a link of its own: the agent's hello."""
    with linked(profile) as link:
        stream, hello = bootstrap(link, profile, **more)
        stream.close()
        return hello


def cached(server: OpenSSHServer) -> Path:
    return server.home / ".local/state/eyas/bundles" / bundle().digest


def login_shell(folder: Path, before: str) -> str:
    """A login shell whose rc file does `before`."""
    file = folder / "login_shell"
    file.write_text(f'#!/bin/sh\n{before}\nexec /bin/sh "$@"\n')
    file.chmod(0o755)
    return str(file)


@pytest.mark.parametrize("shell", SHELLS)
def test_the_agent_starts_in_every_shell(tmp_path: Path, shell: str) -> None:
    path = shutil.which(shell)
    if path is None:
        pytest.skip(f"{shell} is not installed here")
    with OpenSSHServer(tmp_path / "server", shell=path) as server:
        assert greeted(server.profile())["uid"] == os.getuid()
        with pytest.raises(NoPython, match="/opt/none/python3"):
            greeted(server.profile(python="/opt/none/python3"))


def test_the_host_is_left_with_a_private_cache_that_the_next_start_uses(server: OpenSSHServer) -> None:
    hello = greeted(server.profile())
    folder = cached(server)
    assert hello["state"] == str(server.home / ".local/state/eyas")
    assert hello["bundle"] == bundle().digest
    assert digest_of(str(folder)) == bundle().digest
    everything = [server.home / ".local/state/eyas", *folder.rglob("*")]
    assert not [path for path in everything if stat.S_IMODE(path.stat().st_mode) & 0o077]
    before = folder.stat().st_ino
    greeted(server.profile(), cargo=dataclasses.replace(bundle(), packed=b"never sent"))
    assert folder.stat().st_ino == before


@pytest.mark.parametrize("how", ["altered", "removed", "added", "linked"])
def test_a_cache_that_was_touched_is_sent_anew(server: OpenSSHServer, tmp_path: Path, how: str) -> None:
    greeted(server.profile())
    victim = cached(server) / "remote/agent/server.py"
    if how == "altered":
        victim.write_text(victim.read_text() + "\nprint('altered')\n")
    elif how == "removed":
        victim.unlink()
    elif how == "added":
        victim.with_name("stowaway.py").write_text("")
    else:
        shutil.copy(victim, tmp_path / "elsewhere.py")
        victim.unlink()
        victim.symlink_to(tmp_path / "elsewhere.py")
    greeted(server.profile())
    assert digest_of(str(cached(server))) == bundle().digest


def test_a_bundle_that_changes_on_the_way_is_not_run(server: OpenSSHServer) -> None:
    evil = dataclasses.replace(bundle(), packed=zlib.compress(bundle().roll + b"evil.py\0000\n"))
    with pytest.raises(BundleRefused, match="not the one that was sent"):
        greeted(server.profile(), cargo=evil)
    assert not cached(server).exists()


@pytest.mark.parametrize(
    "noise",
    [
        "echo Welcome to gpu-box",
        "printf '\\033]0;title\\007no newline'",
        "head -c 20000 /dev/zero | tr '\\0' '#'",
        "head -c 20000 /dev/urandom",
        "yes 'last login: yesterday' | head -n 2000",
        "echo warning >&2; umask 000",
    ],
    ids=["greeting", "escape", "20 kB", "bytes", "2000 lines", "stderr and umask"],
)
def test_what_login_files_print_is_skipped(tmp_path: Path, noise: str) -> None:
    with OpenSSHServer(tmp_path / "server", shell=login_shell(tmp_path, noise)) as server:
        assert greeted(server.profile())["ev"] == "hello"
        assert stat.S_IMODE(cached(server).stat().st_mode) == 0o700


@pytest.mark.parametrize("noise", ["yes", "head -c 1000000 /dev/zero"], ids=["lines", "no newline"])
def test_login_files_that_never_stop_printing_are_named(tmp_path: Path, noise: str) -> None:
    with (
        OpenSSHServer(tmp_path / "server", shell=login_shell(tmp_path, f"{noise} | head -c 1000000")) as server,
        pytest.raises(BootstrapFailed, match="more than 64 KiB") as noisy,
    ):
        greeted(server.profile())
    assert "bashrc" in noisy.value.remedy


def test_a_login_file_that_reads_standard_input_is_named_as_the_likely_cause(tmp_path: Path) -> None:
    shell = login_shell(tmp_path, "echo Password for the proxy; read answer")
    with (
        OpenSSHServer(tmp_path / "server", shell=shell) as server,
        pytest.raises(BootstrapTimeout, match="it printed: Password for the proxy") as stuck,
    ):
        greeted(server.profile(), seconds=8.0)
    assert "reads standard input" in stuck.value.remedy


def test_an_old_python_is_refused_with_its_version(server: OpenSSHServer) -> None:
    old = server.folder / "python3.8"
    old.write_text(OLD_PYTHON)
    old.chmod(0o755)
    with pytest.raises(OldPython, match=r"is Python 3\.8, and the agent needs 3\.10"):
        greeted(server.profile(python=str(old)))
    assert not cached(server).exists()


def real_python(version: str) -> str | None:
    """A real interpreter of that version, wherever this machine keeps it."""
    direct = shutil.which(f"python{version}")
    if direct and ".pyenv/shims" not in direct:
        return direct
    if shutil.which("pyenv"):
        root = subprocess.run(["pyenv", "root"], capture_output=True, text=True).stdout.strip()
        found = sorted(Path(root).glob(f"versions/{version}.*/bin/python{version}"))
        return str(found[0]) if found else None
    return None


@pytest.mark.parametrize("version", ["2.7", "3.6", "3.7", "3.8", "3.9"])
def test_a_real_old_python_refuses_politely(server: OpenSSHServer, version: str) -> None:
    python = real_python(version)
    if python is None:
        pytest.skip(f"no Python {version} here")
    with pytest.raises(OldPython, match="older than" if version == "2.7" else f"is Python {version}"):
        greeted(server.profile(python=python))


@pytest.mark.parametrize("version", ["3.10", "3.11", "3.12", "3.13"])
def test_every_supported_python_runs_the_agent(server: OpenSSHServer, version: str) -> None:
    python = real_python(version)
    if python is None:
        pytest.skip(f"no Python {version} here")
    assert greeted(server.profile(python=python))["python"].startswith(version + ".")


def test_a_state_folder_that_cannot_be_is_named(server: OpenSSHServer) -> None:
    blocked = server.folder / "file"
    blocked.write_text("")
    with pytest.raises(BootstrapFailed, match=f"no folder can hold the runs: {blocked}/state") as refused:
        greeted(server.profile(state=str(blocked / "state")))
    assert "state" in refused.value.remedy


def test_a_full_disk_is_named(server: OpenSSHServer) -> None:
    small = server.folder / "small"
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k,mode=700", "tmpfs", str(small)])
    if mounted.returncode:
        pytest.skip("mounting a small file system is not allowed here")
    try:
        with pytest.raises(NoSpace, match=f"no space is left for the agent in {small}/state") as full:
            greeted(server.profile(state=str(small / "state")))
        assert full.value.remedy
        assert not [path for path in small.rglob("*") if path.is_file()], "nothing is left behind"
    finally:
        subprocess.run(["umount", "-l", str(small)], check=True)


def test_a_host_that_refuses_commands_is_told_from_one_without_python(tmp_path: Path) -> None:
    with OpenSSHServer(
        tmp_path / "server", extra="ForceCommand echo This account is not available; exit 1\n"
    ) as server:
        with pytest.raises(BootstrapFailed, match="status 1") as refused:
            greeted(server.profile())
        assert not isinstance(refused.value, NoPython)


def test_too_many_sessions_are_told(tmp_path: Path) -> None:
    with OpenSSHServer(tmp_path / "server", extra="MaxSessions 0\n") as server:
        with pytest.raises(LinkError, match="opens no further session") as refused:
            greeted(server.profile())
        assert "MaxSessions" in refused.value.remedy


def test_a_failed_bootstrap_ends_the_session_with_its_reason(server: OpenSSHServer) -> None:
    with session(server.profile(python="/opt/none/python3")) as (made, seen):
        with pytest.raises(NoPython):
            made.wait_connected(60)
        seen.until(lambda: seen.phases == ["connecting", "refused"])
        assert "/opt/none/python3 cannot be run there" in seen.states[-1].detail
        assert "python = " in seen.states[-1].remedy


def test_closing_in_the_middle_of_a_bootstrap_ends_the_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("remote.session.bootstrap", functools.partial(bootstrap, seconds=3600.0))
    with (
        OpenSSHServer(tmp_path / "server", shell=login_shell(tmp_path, "read answer")) as server,
        session(server.profile()) as (made, seen),
    ):
        seen.until(server.commands, "the stuck login file")
        made.close()
        seen.until(lambda: not server.sessions(), "the connection's end")
