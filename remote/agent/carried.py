"""What of a run travels: its records and the small products, from which another person can repeat it.

No weights, no hidden states. A file is named in the archive's terms; only files of the listing are ever read, by
pieces, and no symbolic link is followed.
"""

from __future__ import annotations

import base64
import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from remote.agent import files
from remote.agent.layout import Run
from remote.protocol import RemoteError, plain_name

PIECE = 256 << 10
"""Bytes in one answer."""
FILE_MAX = 64 << 20
TOTAL_MAX = 256 << 20
ATTEMPT_FILES = ("spec.json", "status.json", "events.jsonl")
TEXTS = frozenset({".json", ".jsonl", ".md", ".txt", ".jinja"})
MANIFEST = "products/hidden_states/manifest.jsonl"
"""Travels also where the states lie elsewhere and their folder is a link."""
DEPTH = 3
"""Folders below `products` that are looked into."""


class Carried:
    """The files of one run that travel."""

    def __init__(self, run: Run) -> None:
        self.run = run
        try:
            self._described = files.read_json(run.json) or {}
        except files.Unreadable as error:
            raise RemoteError("internal", f"run {run.id} cannot be bundled: {error}") from None

    def listing(self) -> dict[str, Any]:
        """`{"files": [{path, size}], "left_out": [{path, size, why}], "found": {python: [distribution]}}`."""
        taken: list[dict[str, Any]] = []
        left_out: list[dict[str, Any]] = []
        total = 0
        for path, real in sorted(self._places().items()):
            size = _size(real)
            if size is None:
                continue
            total += size
            if size > FILE_MAX or total > TOTAL_MAX:
                total -= size
                why = f"over {FILE_MAX >> 20} MiB" if size > FILE_MAX else f"the others are {TOTAL_MAX >> 20} MiB"
                left_out.append({"path": path, "size": size, "why": f"{why}; on the host it is {real}"})
            else:
                taken.append({"path": path, "size": size})
        return {"files": taken, "left_out": left_out, "found": dict(self._found())}

    def piece(self, path: str, offset: int) -> dict[str, Any]:
        """`{"data": base64, "size", "id"}` from `offset` on; a file that was replaced meanwhile has another id."""
        real = self._places().get(path)
        try:
            if real is None:
                raise FileNotFoundError
            fd = files.open_read(real)
        except OSError:
            raise RemoteError("bad_request", f"run {self.run.id} has no file {path[:200]!r} that travels") from None
        try:
            facts = os.fstat(fd)
            data = os.pread(fd, PIECE, offset)
        finally:
            os.close(fd)
        return {"data": base64.b64encode(data).decode(), "size": facts.st_size, "id": files.file_id(facts)}

    def _places(self) -> dict[str, str]:
        """Name in the archive -> where it lies."""
        found = {"run.json": self.run.json}
        for stage in self.run.stage_folders():
            for attempt in self.run.attempts(stage):
                for name in ATTEMPT_FILES:
                    found[f"attempts/{stage}/{attempt.number}/{name}"] = os.path.join(attempt.folder, name)
        found.update(_texts(os.path.join(self.run.folder, "products")))
        found[MANIFEST] = os.path.join(self.run.folder, MANIFEST)
        found.update(self._given())
        found.update(self._pinned())
        return found

    def _given(self) -> Iterator[tuple[str, str]]:
        """The operator's own files that the run read: conversations, sets of prompts."""
        settings = self._described.get("settings")
        settings = settings if isinstance(settings, Mapping) else {}
        source = _table(settings, "run").get("conversations")
        if isinstance(source, str) and os.path.isabs(source):
            yield f"conversations/{plain_name(os.path.basename(source))}", source
        prompts = _table(_table(_table(settings, "stage"), "evaluate"), "prompts")
        for name, path in prompts.items():
            if isinstance(path, str) and os.path.isabs(path):
                yield f"prompts/{plain_name(name)}/{plain_name(os.path.basename(path))}", path

    def _pinned(self) -> Iterator[tuple[str, str]]:
        """The pinned lists of the code that the run used."""
        bundle = str(self._described.get("bundle") or "")
        folder = os.path.join(bundle, "pipeline", "environments")
        with contextlib.suppress(OSError):
            for name in os.listdir(folder) if os.path.isabs(bundle) else ():
                if name.endswith(".txt"):
                    yield f"environments/{name}", os.path.join(folder, name)

    def _found(self) -> Iterator[tuple[str, list[str]]]:
        """The distributions in the environments of the run's stages: `name-version` as their metadata is called."""
        plan = self._described.get("plan")
        pythons = {str(s["argv"][0]) for s in plan if isinstance(s, dict) and s.get("argv")} if plan else set()
        for python in sorted(pythons):
            library = os.path.join(os.path.dirname(os.path.dirname(python)), "lib")
            names: set[str] = set()
            with contextlib.suppress(OSError):
                for version in os.listdir(library):
                    site = os.path.join(library, version, "site-packages")
                    with contextlib.suppress(OSError):
                        names |= {n.removesuffix(".dist-info") for n in os.listdir(site) if n.endswith(".dist-info")}
            if names:
                yield os.path.basename(os.path.dirname(os.path.dirname(python))), sorted(names)


def _texts(products: str) -> Iterator[tuple[str, str]]:
    for folder, folders, names in os.walk(products):
        inner = os.path.relpath(folder, os.path.dirname(products))
        if len(PurePosixPath(inner).parts) > DEPTH:
            folders.clear()
        for name in names:
            if os.path.splitext(name)[1] in TEXTS and not name.startswith("."):
                yield f"{inner}/{name}", os.path.join(folder, name)


def _size(path: str) -> int | None:
    """Of a plain file; None of anything else."""
    try:
        facts = os.lstat(path)
    except OSError:
        return None
    return facts.st_size if os.path.isfile(path) and not os.path.islink(path) else None


def _table(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = data.get(key)
    return value if isinstance(value, Mapping) else {}
