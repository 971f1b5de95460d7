"""A project: the folder with an eyas.toml, its host, its patch switches."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.items import Table

from compat.patch import Switches
from console import settings as settings_module
from console.errors import UserError, nearest
from console.patching import require_patch
from console.settings import HostSettings, Settings
from remote.link.hosts import HostProfile
from remote.wire import to_wire

FILE = "eyas.toml"


def workstation_state() -> Path:
    """What Eyas remembers on this machine: known host keys, the last project, the demo's folder."""
    base = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "eyas"
    folder = base / "workstation"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


@dataclass(frozen=True)
class Project:
    folder: Path
    settings: Settings
    host: HostProfile

    @property
    def name(self) -> str:
        return self.settings.project or re.sub(r"[^A-Za-z0-9._-]", "-", self.folder.name) or "project"

    @property
    def file(self) -> Path:
        return self.folder / FILE

    def switches(self) -> Switches:
        """The switches as eyas.toml has them now, not as they were when the project was opened.

        Raises UserError for a patch that there is none of: a switch with a slip in it would do nothing, unnoticed.
        """
        patches = settings_module.load(self.file).patches
        for name, ids in (("on", patches.on), ("off", patches.off)):
            for patch in ids:
                require_patch(patch, f"patches.{name} of {self.file}")
        return Switches(patches.mode, patches.on, patches.off)

    def set_switch(self, patch: str, to: str) -> None:
        """Write `auto`, `on` or `off` for one patch into eyas.toml; comments and order are kept."""
        document = tomlkit.parse(self.file.read_text(encoding="utf-8")) if self.file.exists() else tomlkit.document()
        table = document.get("patches")
        if not isinstance(table, Table):
            table = tomlkit.table()
            document["patches"] = table
        for name in ("on", "off"):
            listed = [str(p) for p in table.get(name, []) if str(p) != patch]
            if name == to:
                listed.append(patch)
            if listed or name in table:
                table[name] = listed
        _write_whole(self.file, tomlkit.dumps(document))

    def host_settings(self) -> dict[str, Any]:
        """What the host needs to know, as JSON: see the agent's START."""
        run = self.settings.run.model_dump(mode="json", exclude={"host"})
        host = self.settings.host.get(self.host.name, HostSettings())
        return {
            "run": run,
            "stage": self.settings.stage.model_dump(mode="json", exclude_none=True),
            "environment": {name: env.model_dump(mode="json") for name, env in host.environment.items()},
        }

    def start_params(self) -> dict[str, Any]:
        """Parameters of START and RELAUNCH. Secrets go by value in the frame only, never to a disk."""
        return {
            "project": self.name,
            "settings": self.host_settings(),
            "switches": to_wire(self.switches()),
            "secrets": self.host.secrets(),
        }


def open_project(folder: Path | None = None, host: str | None = None) -> Project:
    """The project of `folder`, else of the working directory or above, else the last one used.

    Raises UserError when there is none, or its settings are wrong.
    """
    place = _locate(folder)
    settings = settings_module.load(place / FILE)
    project = Project(place, settings, _profile(place / FILE, settings, host))
    (workstation_state() / "last-project").write_text(str(place), encoding="utf-8")
    return project


def _locate(folder: Path | None) -> Path:
    if folder is not None:
        if not (folder / FILE).is_file():
            raise UserError(f"{folder} has no {FILE}.", "Name a folder that has one, or try `eyas demo`.")
        return folder.resolve()
    here = Path.cwd().resolve()
    for place in (here, *here.parents):
        if (place / FILE).is_file():
            return place
    remembered = workstation_state() / "last-project"
    if remembered.is_file():
        last = Path(remembered.read_text(encoding="utf-8"))
        if (last / FILE).is_file():
            return last
    raise UserError(f"There is no {FILE} in {here} or above it.", "Write one (see the README), or try `eyas demo`.")


def _profile(file: Path, settings: Settings, name: str | None) -> HostProfile:
    hosts = settings.host
    wanted = name or settings.run.host
    if wanted is None:
        if len(hosts) != 1:
            several = "several hosts" if hosts else "no host"
            remedy = (
                f"Say which with --host: {', '.join(hosts)}." if hosts else "Add a [host.NAME] table with `ssh = …`."
            )
            raise UserError(f"{file} has {several}.", remedy)
        wanted = next(iter(hosts))
    if wanted not in hosts:
        raise UserError(f"{file} has no host `{wanted}`.", nearest(wanted, hosts))
    host = hosts[wanted]
    if not host.embedded and not host.ssh:
        raise UserError(
            f"{file}: [host.{wanted}] has no `ssh`.", 'Add `ssh = "user@name:port"` or a Host of ssh config.'
        )
    return HostProfile(
        name=wanted,
        ssh=host.ssh,
        embedded=host.embedded,
        ssh_config=host.ssh_config,
        python=host.python,
        state=host.state,
        pass_env=host.pass_env,
        expected_fingerprint=host.fingerprint,
        known_hosts=workstation_state() / "known_hosts",
    )


def _write_whole(path: Path, text: str) -> None:
    """Never a torn settings file: a sibling is written, synced and renamed over it."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with draft.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
