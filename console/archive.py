"""A run's archive: one deterministic tar.gz, and how it is read again without trusting it."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import re
import tarfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from console.errors import UserError
from console.figures import Figures
from remote.protocol import plain_name

VERSION = 1
INDEX = "bundle.json"
CONFIGURATION = "eyas.toml"
PROMPTS = "prompts/"
SIZE_MAX = 1 << 30
"""Bytes of all members, unpacked."""


@dataclass(frozen=True)
class Archive:
    """A run that travels. `about` is bundle.json."""

    about: Mapping[str, Any]
    files: Mapping[str, bytes]

    @property
    def run(self) -> str:
        return str(self.about.get("run", ""))

    @property
    def settings(self) -> dict[str, Any]:
        """As the host got them: {"run", "stage"}."""
        return dict(self.about.get("settings") or {})

    @property
    def figures(self) -> Figures:
        return dict(self.about.get("figures") or {})

    def prompts(self, name: str) -> str | None:
        """Name of the file in here of a set of prompts; None when it was left out."""
        folder = f"{PROMPTS}{plain_name(name)}/"
        return next((path for path in self.files if path.startswith(folder)), None)

    @property
    def conversations(self) -> str | None:
        """Name of the file of conversations in here; None when it was left out, or there is none."""
        return next((path for path in self.files if path.startswith("conversations/")), None)


def pack(about: Mapping[str, Any], files: Mapping[str, bytes]) -> bytes:
    """The archive's bytes: the same run gives the same bytes, whoever packs it and when."""
    digests = {path: hashlib.sha256(data).hexdigest() for path, data in sorted(files.items())}
    index = json.dumps({"v": VERSION, **about, "files": digests}, indent=1, sort_keys=True).encode() + b"\n"
    packed = io.BytesIO()
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=packed, compresslevel=6, mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.USTAR_FORMAT) as tar,
    ):
        for path, data in [(INDEX, index), *sorted(files.items())]:
            member = tarfile.TarInfo(path)
            member.size, member.mode = len(data), 0o644
            tar.addfile(member, io.BytesIO(data))
    return packed.getvalue()


def write(file: Path, data: bytes) -> None:
    """Whole or not at all. Raises UserError."""
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        draft.write_bytes(data)
        draft.replace(file)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise UserError(f"{file} cannot be written: {error.strerror}.", "Name another place with -o FILE.") from None


def read(file: Path) -> Archive:
    """Raises UserError for what is no archive of a run, is damaged, or of a newer form."""
    files = _members(file)
    try:
        about = json.loads(files.pop(INDEX))
        version, digests = int(about["v"]), dict(about["files"])
    except (KeyError, ValueError, TypeError):
        raise UserError(f"{file} is no bundle of a run: it has no {INDEX}.", "Make one: `eyas bundle RUN`.") from None
    if version > VERSION:
        raise UserError(f"{file} has form {version}, and this Eyas reads up to {VERSION}.", "Update Eyas.")
    for path in sorted(digests.keys() | files.keys()):
        data = files.get(path)
        if data is None or digests.get(path) != hashlib.sha256(data).hexdigest():
            raise UserError(f"{file} is damaged: {path} is not what {INDEX} says.", "Fetch the bundle again.")
    if wrong := _unsound(about):
        raise UserError(f"{file} is no bundle of a run: {wrong} in its {INDEX} is unsound.", "Make a new bundle.")
    return Archive(about, files)


def _unsound(about: Mapping[str, Any]) -> str:
    """The first part that is not of its kind; "" when all are. A run's name leads to a folder on this machine."""
    settings, figures = about.get("settings") or {}, about.get("figures") or {}
    stages = settings.get("stage") or {} if isinstance(settings, dict) else None
    evaluate = stages.get("evaluate") or {} if isinstance(stages, dict) else None
    prompts = evaluate.get("prompts") or {} if isinstance(evaluate, dict) else None
    sound = {
        "run": re.fullmatch(r"[0-9A-Za-z][0-9A-Za-z_-]{0,63}", str(about.get("run"))),
        "settings": isinstance(prompts, dict) and isinstance(settings.get("run") or {}, dict),
        "switches": isinstance(about.get("switches") or {}, dict),
        "figures": isinstance(figures, dict) and all(isinstance(v, str | int | float) for v in figures.values()),
    }
    return next((name for name, good in sound.items() if not good), "")


def _members(file: Path) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    total = 0
    try:
        with tarfile.open(file, mode="r:gz") as tar:
            for member in tar:
                parts = PurePosixPath(member.name).parts
                if not member.isfile() or member.name.startswith("/") or ".." in parts or not parts:
                    raise UserError(f"{file} is no bundle of a run: it holds {member.name[:80]!r}.", "Make a new one.")
                total += member.size
                if total > SIZE_MAX:
                    raise UserError(f"{file} unpacks to more than {SIZE_MAX >> 20} MiB.", "Make a new bundle.")
                content = tar.extractfile(member)
                found[member.name] = content.read() if content else b""
    except FileNotFoundError:
        raise UserError(f"There is no file {file}.", "Make one: `eyas bundle RUN -o FILE`.") from None
    except (OSError, EOFError, tarfile.TarError, zlib.error) as error:
        raise UserError(f"{file} cannot be read as a bundle: {error}.", "Fetch the bundle again.") from None
    return found
