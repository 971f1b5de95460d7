"""The ssh configuration where there is no ssh to ask: paramiko's parser, and a word on what it gets wrong."""

from __future__ import annotations

import re
from pathlib import Path

import paramiko  # type: ignore[import-untyped]

from remote.link.errors import BadHost

_UNFOLLOWED = re.compile(r"^\s*(include\b|match\s.*\b(localnetwork|tagged|sessiontype|version|command)\b)", re.I | re.M)


def look_up(name: str, config: Path | None) -> tuple[dict[str, list[str]], tuple[str, ...]]:
    """Options for `name` as `ssh -G` would list them, and warnings. Raises BadHost."""
    file = config or Path.home() / ".ssh" / "config"
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        text = ""
    except OSError as error:
        raise BadHost(f"{file} cannot be read: {error.strerror}", "make it readable or name another one") from None
    try:
        found = paramiko.SSHConfig.from_text(text).lookup(name)
    except Exception as error:
        raise BadHost(f"{file} cannot be understood: {error}", "install the ssh program, or mend the line") from None
    options: dict[str, list[str]] = {}
    for key, value in found.items():
        options[key.lower()] = [str(v) for v in value] if isinstance(value, list) else [str(value)]
    folder = Path.home() / ".ssh"
    options.setdefault("identityfile", [str(folder / f"id_{kind}") for kind in ("rsa", "ecdsa", "ed25519")])
    options.setdefault("userknownhostsfile", [f"{folder / 'known_hosts'} {folder / 'known_hosts2'}"])
    options.setdefault("globalknownhostsfile", ["/etc/ssh/ssh_known_hosts"])
    unfollowed = sorted({" ".join(m.group(0).split()[:2]) for m in _UNFOLLOWED.finditer(text)})
    if not unfollowed:
        return options, ()
    return options, (
        f"no ssh program here, and without it these lines of {file} are not followed right: {'; '.join(unfollowed)}",
    )
