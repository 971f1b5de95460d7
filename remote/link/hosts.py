"""Which host is meant, and where it is: a profile's name through the user's own ssh configuration.

`ssh -G` answers where ssh exists, because only ssh reads its configuration right.
"""

from __future__ import annotations

import getpass
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from remote.link.errors import BadHost
from remote.link.known_hosts import known_name

_TARGET = re.compile(
    r"(?:(?P<user>[A-Za-z0-9_.][A-Za-z0-9_.+-]*)@)?"
    r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9_][A-Za-z0-9_.-]*))"
    r"(?::(?P<port>[0-9]{1,5}))?"
)
_PYTHON = re.compile(r"[A-Za-z0-9/._+][A-Za-z0-9/._+-]*")
_MAX_JUMPS = 8


@dataclass(frozen=True)
class HostProfile:
    """One host as the settings name it."""

    name: str
    ssh: str | None = None
    """A Host of the ssh configuration, or user@name:port."""
    embedded: bool = False
    """True: no host at all, but an SSH server of our own on loopback."""
    python: str = "python3"
    """Runs the agent on the host."""
    state: str | None = None
    """Folder on the host that holds the runs; None: the host's default."""
    pass_env: tuple[str, ...] = ()
    """Names of the workstation's variables that a started stage gets."""
    expected_fingerprint: str | None = None
    """`SHA256:…` of the host key: any other is refused, this one is accepted unasked."""
    known_hosts: Path = Path(os.devnull)
    """Our own record of host keys on the workstation; by default nothing is on record and nothing is kept."""
    ssh_config: Path | None = None
    """Another ssh configuration than the user's."""

    def check(self) -> None:
        """Raise BadHost for what cannot be used as it stands."""
        if not _PYTHON.fullmatch(self.python):
            raise BadHost(
                f"host {self.name}: python = {self.python!r} holds a character that some shells would change",
                "name a path made of letters, digits and / . _ + - only",
            )
        if self.embedded == bool(self.ssh):
            raise BadHost(f"host {self.name}: name either an ssh host or the embedded one", 'set ssh = "user@name"')

    def secrets(self, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
        """Values of `pass_env` that are set: for the `secrets` of a start or relaunch request, never for disk."""
        return {name: environ[name] for name in self.pass_env if name in environ}


@dataclass(frozen=True)
class HostAddress:
    """Where a host is and how to get in, resolved."""

    hostname: str
    port: int
    user: str
    identity_files: tuple[Path, ...] = ()
    """May name files that are not there."""
    user_known_hosts: tuple[Path, ...] = ()
    """The user's and the system's files: read only."""
    proxy_jump: tuple[HostAddress, ...] = ()
    """Hosts on the way, nearest first, each without jumps of its own."""
    host_key_alias: str | None = None
    identities_only: bool = False
    identity_agent: str | None = None
    """Socket of the key agent; None: $SSH_AUTH_SOCK; 'none': no agent."""
    warnings: tuple[str, ...] = ()

    @property
    def key_name(self) -> str:
        """How known-hosts files call this host."""
        return self.host_key_alias or known_name(self.hostname, self.port)

    def __str__(self) -> str:
        return f"{self.user}@{known_name(self.hostname, self.port)}"


@dataclass(frozen=True)
class Target:
    """`user@name:port` taken apart; what is None is the configuration's to say."""

    name: str
    user: str | None = None
    port: int | None = None


def parse_target(text: str) -> Target:
    """Take `alias`, `user@name`, `user@name:port` or `user@[v6]:port` apart. Raises BadHost."""
    match = _TARGET.fullmatch(text)
    port = int(match["port"]) if match and match["port"] else None
    if match is None or port == 0 or (port or 1) > 65535:
        raise BadHost(
            f"{text!r} is no name of a host",
            "write a Host of the ssh configuration or user@name:port; a name may not begin with '-'",
        )
    return Target(match["v6"] or match["name"], match["user"], port)


def resolve(ssh: str, config: Path | None = None, binary: str | None = "ssh") -> HostAddress:
    """Where `ssh` (as the profile has it) is. `binary` None: without the ssh program. Raises BadHost."""
    return _resolve(parse_target(ssh), config, shutil.which(binary) if binary else None, 0)


def _resolve(target: Target, config: Path | None, binary: str | None, depth: int) -> HostAddress:
    if depth > _MAX_JUMPS:
        raise BadHost(f"{target.name}: more than {_MAX_JUMPS} jump hosts", "look for a ProxyJump that leads to itself")
    warnings: tuple[str, ...] = ()
    if binary:
        options = _ask_ssh(target, config, binary)
    else:
        from remote.link.paramiko_config import look_up

        options, warnings = look_up(target.name, config)
    return _address(target, options, _jumps(target, options, config, binary, depth), warnings)


def _ask_ssh(target: Target, config: Path | None, binary: str) -> dict[str, list[str]]:
    """Every option of `ssh -G` with its values, in order."""
    command = [binary, *(["-F", str(config)] if config else []), "-G"]
    command += ["-l", target.user] if target.user else []
    command += ["-p", str(target.port)] if target.port else []
    try:
        answer = subprocess.run(
            [*command, "--", target.name], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BadHost(f"ssh -G {target.name} does not work: {error}", "mend the ssh configuration") from None
    if answer.returncode:
        said = " ".join(answer.stderr.split())
        raise BadHost(f"ssh -G {target.name} refuses: {said}", "mend the ssh configuration")
    options: dict[str, list[str]] = {}
    for line in answer.stdout.splitlines():
        key, _, value = line.partition(" ")
        options.setdefault(key.lower(), []).append(value)
    return options


def _jumps(
    target: Target, options: Mapping[str, list[str]], config: Path | None, binary: str | None, depth: int
) -> tuple[HostAddress, ...]:
    """The hosts on the way, nearest first. As with ssh -J, only the first jump's own jumps count."""
    spelled = _first(options, "proxyjump")
    if not spelled or spelled == "none":
        command = _first(options, "proxycommand")
        if command and command != "none":
            raise BadHost(
                f"{target.name} is reached by a ProxyCommand, which this link does not run",
                "reach it by a ProxyJump in the ssh configuration instead",
            )
        return ()
    chain: list[HostAddress] = []
    for place, text in enumerate(spelled.split(",")):
        hop = _resolve(parse_target(text.strip().removeprefix("ssh://")), config, binary, depth + 1)
        if place == 0:
            chain += hop.proxy_jump
        chain.append(replace(hop, proxy_jump=()))
    return tuple(chain)


def _address(
    target: Target, options: Mapping[str, list[str]], jumps: tuple[HostAddress, ...], warnings: tuple[str, ...]
) -> HostAddress:
    hostname = _first(options, "hostname") or target.name
    user = target.user or _first(options, "user") or getpass.getuser()
    port = target.port or int(_first(options, "port") or 22)
    tokens = {"h": hostname, "n": target.name, "p": str(port), "r": user, "d": str(Path.home()), "%": "%"}
    tokens |= {"u": getpass.getuser(), "l": socket.gethostname(), "i": str(os.getuid())}
    records = [*options.get("userknownhostsfile", []), *options.get("globalknownhostsfile", [])]
    agent = _first(options, "identityagent")
    if agent == "SSH_AUTH_SOCK":
        agent = None
    elif agent and agent.startswith("$"):
        agent = os.environ.get(agent.strip("${}")) or "none"
    return HostAddress(
        hostname=hostname,
        port=port,
        user=user,
        identity_files=tuple(_path(f, tokens) for f in options.get("identityfile", []) if f != "none"),
        user_known_hosts=tuple(_path(f, tokens) for line in records for f in _split_paths(line) if f != "none"),
        proxy_jump=jumps,
        host_key_alias=_first(options, "hostkeyalias"),
        identities_only=_first(options, "identitiesonly") == "yes",
        identity_agent=str(_path(agent, tokens)) if agent and agent != "none" else agent,
        warnings=warnings,
    )


def _first(options: Mapping[str, list[str]], key: str) -> str | None:
    values = options.get(key)
    return values[0] if values else None


def _path(text: str, tokens: Mapping[str, str]) -> Path:
    expanded = re.sub(r"%(.)", lambda m: tokens.get(m[1], m[0]), text)
    return Path(os.path.expandvars(expanded)).expanduser()


def _split_paths(line: str) -> list[str]:
    """Paths of one line. ssh -G leaves the quotes out, so a part that begins no path belongs to the one before."""
    paths: list[str] = []
    for part in line.split():
        if paths and part[0] not in "/~%$" and part != "none":
            paths[-1] += " " + part
        else:
            paths.append(part)
    return paths
