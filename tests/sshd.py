"""A real OpenSSH server on loopback for tests: own port, own keys, own home; runs as whoever runs the tests."""

from __future__ import annotations

import contextlib
import getpass
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from free_port import free_port

from remote.link.hosts import HostProfile

START_SECONDS = 30.0


def sshd_binary() -> str:
    """The server's program. Raises FileNotFoundError with the remedy."""
    found = shutil.which("sshd", path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin:/sbin")
    if found is None:
        raise FileNotFoundError("no sshd here: install openssh-server (apt-get install openssh-server)")
    return found


def make_key(file: Path, kind: str = "ed25519", passphrase: str = "") -> Path:
    file.unlink(missing_ok=True)
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-C", "test", "-f", str(file)], check=True)
    return file


def process_tree(root: int) -> list[int]:
    """Living descendants of `root`, zombies left out."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            facts = _stat(int(entry.name))
            if facts and facts[0] != "Z":
                children.setdefault(int(facts[1]), []).append(int(entry.name))
    found, todo = [], [root]
    while todo:
        below = children.get(todo.pop(), [])
        found += below
        todo += below
    return found


def _stat(pid: int) -> list[str] | None:
    """Fields of /proc/PID/stat from the state on."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return None


class OpenSSHServer:
    """`with OpenSSHServer(tmp_path / "host") as server:` … `HostSession(server.profile(), …)`.

    Sessions see `home` as their HOME (login files are read from there) and `env` on top. `shell` runs every command
    by that shell instead of the user's own; `extra` are further lines of sshd_config.
    """

    def __init__(
        self, folder: Path, *, shell: str | None = None, env: Mapping[str, str] | None = None, extra: str = ""
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.home = folder / "home"
        self.home.mkdir(exist_ok=True)
        self.port = free_port()
        self.user = getpass.getuser()
        self.host_key = make_key(folder / "host_key")
        self.user_key = make_key(folder / "user_key")
        self.authorize(self.user_key)
        self.known_hosts = folder / "known_hosts"
        self._env = {"HOME": str(self.home), "XDG_STATE_HOME": str(self.home / ".local/state"), **(env or {})}
        self._config = folder / "sshd_config"
        self._config.write_text(self._configuration(shell, extra))
        self._listener: subprocess.Popen[bytes] | None = None
        self._orphans: dict[int, str] = {}

    def __enter__(self) -> OpenSSHServer:
        self.restart()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        for pid in [*self.sessions(), *self.commands()]:
            _kill(pid)
        self.kill_listener()

    # What the tests do to it ------------------------------------------------------------------------------

    def authorize(self, key: Path) -> None:
        with (self.folder / "authorized_keys").open("a") as file:
            file.write(key.with_name(key.name + ".pub").read_text())

    def sessions(self) -> list[int]:
        """Pids of the server's own session processes, those that outlived their listener included."""
        found = process_tree(self._listener.pid) if self._listener else []
        found = [pid for pid in found if _is_sshd(pid)]
        return found + [pid for pid, start in self._orphans.items() if _start(pid) == start and pid not in found]

    def commands(self) -> list[int]:
        """Pids of what the sessions run."""
        return [pid for session in self.sessions() for pid in process_tree(session) if not _is_sshd(pid)]

    def kill_sessions(self) -> list[int]:
        """kill -9 of every session process; what they ran only loses its pipes."""
        killed = self.sessions()
        for pid in killed:
            _kill(pid)
        return killed

    def kill_listener(self) -> None:
        """kill -9 of the listener; sessions go on, new connections are refused."""
        if self._listener is None:
            return
        self._orphans.update({pid: _start(pid) for pid in self.sessions()})
        self._listener.kill()
        self._listener.wait()
        self._listener = None

    def restart(self) -> None:
        """(Re)start the listener on the same port; sessions of the old one go on."""
        self.kill_listener()
        if os.getuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        log = (self.folder / "sshd.log").open("ab")
        self._listener = subprocess.Popen(
            [sshd_binary(), "-D", "-e", "-f", str(self._config)], stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
        log.close()
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self._listener.poll() is not None:
                break
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.05)
        raise RuntimeError("sshd does not start: " + (self.folder / "sshd.log").read_text())

    def swap_host_key(self) -> None:
        """Another host key from now on."""
        make_key(self.host_key)
        self.restart()

    # How to reach it --------------------------------------------------------------------------------------

    def know(self, file: Path | None = None, port: int | None = None) -> Path:
        """Put the host key on record in `file` (the server's own known_hosts by default)."""
        file = file or self.known_hosts
        kind, key = self.host_key.with_suffix(".pub").read_text().split()[:2]
        with file.open("a") as record:
            record.write(f"[127.0.0.1]:{port or self.port} {kind} {key}\n")
        return file

    def ssh_config(self, port: int | None = None, key: Path | None = None, extra: str = "") -> Path:
        """An ssh configuration whose Host `gpu` is this server."""
        file = self.folder / f"ssh_config_{port or self.port}"
        file.write_text(
            f"Host gpu\n  HostName 127.0.0.1\n  Port {port or self.port}\n  User {self.user}\n"
            f"  IdentityFile {key or self.user_key}\n  IdentitiesOnly yes\n  IdentityAgent none\n"
            f"  UserKnownHostsFile {self.folder / 'users_known_hosts'}\n  GlobalKnownHostsFile none\n{extra}"
        )
        return file

    def profile(
        self, *, known: bool = True, port: int | None = None, key: Path | None = None, **more: object
    ) -> HostProfile:
        """A profile for this server, reached at `port` when something stands between; its key on record if `known`."""
        record = self.folder / f"known_hosts_{port or self.port}"
        if known and not record.exists():
            self.know(record, port)
        return HostProfile(
            "gpu",
            "gpu",
            known_hosts=record,
            ssh_config=self.ssh_config(port, key),
            **more,  # type: ignore[arg-type]
        )

    def _configuration(self, shell: str | None, extra: str) -> str:
        variables = " ".join(f'{name}="{value}"' for name, value in self._env.items())
        force = f'ForceCommand exec {shell} -c "$SSH_ORIGINAL_COMMAND"\n' if shell else ""
        return (
            f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey {self.host_key}\nPidFile none\n"
            f"AuthorizedKeysFile {self.folder / 'authorized_keys'}\nStrictModes no\nPermitRootLogin yes\n"
            "UsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nPrintMotd no\nUseDNS no\n"
            f"MaxStartups 100\nLogLevel ERROR\nSetEnv {variables}\n{_no_penalties()}{force}{extra}"
        )


def _no_penalties() -> str:
    """From 9.8 on, sshd shuts out whoever's sessions crash; the tests kill them on purpose."""
    told = subprocess.run([sshd_binary(), "-V"], capture_output=True, text=True).stderr
    version = re.search(r"OpenSSH_(\d+)\.(\d+)", told)
    return "PerSourcePenalties no\n" if version and (int(version[1]), int(version[2])) >= (9, 8) else ""


def _is_sshd(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_text().startswith("sshd")
    except OSError:
        return False


def _start(pid: int) -> str:
    facts = _stat(pid)
    return facts[19] if facts and facts[0] != "Z" else ""


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
