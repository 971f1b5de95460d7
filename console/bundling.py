"""Making a run's archive: fetched from the host by pieces, freed of secrets, every omission said."""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

import tomlkit

from console import archive
from console.errors import UserError
from console.figures import SAMPLES, Figures, figures, needed
from console.reports import tracebacks_json
from console.secrets import redact
from remote import protocol
from remote.views import RunView

PATIENCE = 180.0
"""Seconds that one piece may take, a link that comes and goes included."""
Request = Callable[..., dict[str, Any]]
DATA = ("conversations/", "prompts/", SAMPLES)
"""What must stay as it is: a secret in it keeps it out, for a changed file would be another data set."""


@dataclass
class Gathered:
    """The files of a run on their way into an archive."""

    files: dict[str, bytes] = field(default_factory=dict)
    left_out: list[dict[str, Any]] = field(default_factory=list)
    redacted: list[dict[str, Any]] = field(default_factory=list)
    found: dict[str, Any] = field(default_factory=dict)

    def add(self, path: str, data: bytes, secrets: Mapping[str, str]) -> None:
        clean, what = redact(data, secrets)
        if what and path.startswith(DATA):
            self.left_out.append({"path": path, "size": len(data), "why": f"it holds {', '.join(what)}"})
            return
        if what:
            self.redacted.append({"path": path, "what": list(what)})
        self.files[path] = clean


def gather(request: Request, view: RunView, secrets: Mapping[str, str], tell: Callable[[str], None]) -> Gathered:
    """Fetch what travels of a run. Raises RemoteError, LinkError, UserError."""
    listing = request(protocol.CARRIED, run=view.run)
    gathered = Gathered(left_out=list(listing["left_out"]), found=dict(listing["found"]))
    for entry in listing["files"]:
        path, size = str(entry["path"]), int(entry["size"])
        tell(f"{path}, {size:,} bytes")
        gathered.add(path, fetch(request, view.run, path, size), secrets)
    if any(entry["path"].startswith("conversations/") and "holds" in entry["why"] for entry in gathered.left_out):
        samples = gathered.files.pop(SAMPLES, None)
        if samples is not None:
            why = "it is made of conversations that hold a secret"
            gathered.left_out.append({"path": SAMPLES, "size": len(samples), "why": why})
    findings = {stage.name: tracebacks_json(view, stage) for stage in view.stages if stage.attempts}
    gathered.add("findings.json", json.dumps(findings, indent=1, sort_keys=True).encode(), secrets)
    return gathered


def fetch_figures(request: Request, run: str) -> Figures:
    """The figures of a run, without the rest of what travels."""
    listed = request(protocol.CARRIED, run=run)["files"]
    files = {f["path"]: fetch(request, run, f["path"], int(f["size"])) for f in listed if needed(f["path"])}
    return figures(files)


def fetch(request: Request, run: str, path: str, size: int) -> bytes:
    """One file by pieces, as large as the listing said; taken up again where the link broke. Raises UserError."""
    data, identity = bytearray(), None
    while len(data) < size or identity is None:
        # With an id of its own a question waits for the next link and is asked again.
        again = {"request_id": uuid.uuid4().hex, "timeout": PATIENCE}
        piece = request(protocol.FETCH, run=run, path=path, offset=len(data), **again)
        if identity is not None and piece["id"] != identity:
            data, identity = bytearray(), None  # replaced meanwhile: from its beginning
            continue
        identity = piece["id"]
        part = base64.b64decode(piece["data"])
        if not part and len(data) < size:
            raise UserError(f"{path} of run {run} became shorter while it was fetched.", "Bundle the run again.")
        data += part
    return bytes(data[:size])


def make(gathered: Gathered, view: RunView, pass_env: tuple[str, ...], embedded: bool) -> bytes:
    """The archive's bytes."""
    described = json.loads(gathered.files["run.json"])
    settings = {key: described.get("settings", {}).get(key, {}) for key in ("run", "stage")}
    switches = described.get("switches") or {}
    gathered.files[archive.CONFIGURATION] = configuration(settings, switches, view.project).encode()
    gathered.files["versions.json"] = json.dumps(
        {"pair": view.pair, "asked": view.versions, "found": gathered.found}, indent=1, sort_keys=True
    ).encode()
    patches = described.get("patches") or {}
    gathered.files["patches.json"] = json.dumps(patches, indent=1, sort_keys=True).encode()
    about = {
        "run": view.run,
        "state": view.state,
        "project": view.project,
        "pair": view.pair,
        "code": PurePosixPath(str(described.get("bundle", ""))).name,
        "embedded": embedded,
        "settings": settings,
        "switches": switches,
        "pass_env": sorted(pass_env),
        "conversations": _said(settings, gathered),
        "left_out": sorted(gathered.left_out, key=lambda entry: str(entry["path"])),
        "redacted": sorted(gathered.redacted, key=lambda entry: str(entry["path"])),
        "figures": figures(gathered.files),
    }
    return archive.pack(about, gathered.files)


def _said(settings: Mapping[str, Any], gathered: Gathered) -> str:
    """Which of the conversations and the samples made of them are inside, in a sentence."""
    source = str(settings["run"].get("conversations", "stdlib"))
    inside = next((path for path in gathered.files if path.startswith("conversations/")), None)
    samples = f"the samples made of it are {SAMPLES}" if SAMPLES in gathered.files else "the samples are not inside"
    if not source.startswith("/"):
        return f"The conversations are `{source}`, made anew on any host; {samples}."
    if inside:
        return f"The conversations are inside, {inside}; {samples}."
    return f"The conversations, {PurePosixPath(source).name}, are not inside; {samples}."


def configuration(settings: Mapping[str, Any], switches: Mapping[str, Any], project: str) -> str:
    """The run's effective settings as an eyas.toml, hosts left out."""
    document = tomlkit.document()
    document.add(tomlkit.comment("The settings that a run was started with; hosts are the operator's own."))
    document["project"] = project
    document["run"] = _plain(settings.get("run") or {})
    document["stage"] = _plain(settings.get("stage") or {})
    patches = {key: switches[key] for key in ("mode", "on", "off") if switches.get(key)}
    if patches:
        document["patches"] = patches
    return tomlkit.dumps(document)


def _plain(table: Mapping[str, Any]) -> dict[str, Any]:
    """Without what says nothing: None and empty tables have no place in TOML."""
    kept: dict[str, Any] = {}
    for key, value in table.items():
        inner = _plain(value) if isinstance(value, Mapping) else value
        if inner not in (None, "", {}):
            kept[key] = inner
    return kept
