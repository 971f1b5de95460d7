"""Hidden states on disk: `hs_{index}.safetensors` and `manifest.jsonl`, resumable at the sample.

A sample is `{"hidden_states": [S, L, H], "token_ids": int64 [S]}`, the layers in the order of `pipeline.layers`. It
counts only with a line of the manifest whose digests fit the file and the dataset's token ids; the latest line of an
index wins. The file is renamed into place before its line is added, so a crash in between costs that sample only.
A line without an index, `{"attempt", "backend", "patches"}`, stands before the samples that this attempt made: the
patches that were in force, each with the process it was applied in, its digest, and the digest of the code that it
replaced.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline.dataset import Sample
from pipeline.files import sync_folder, write_whole
from pipeline.report import StageError

MANIFEST = "manifest.jsonl"
CONDEMNED = "condemned"
"""In a line of the manifest: the fault for which `verify` wants it extracted again; its file stays till then."""


def entries(folder: Path) -> dict[int, dict[str, Any]]:
    """Index → the latest line of the manifest of it; {} where there is none. Lines cut off by a crash are left out."""
    path = folder / MANIFEST
    return _parse(path.read_bytes().split(b"\n"))[0] if path.exists() else {}


def data_digest(folder: Path, samples: Iterable[Sample]) -> str:
    """sha256 that names a data set: its hidden states and, of each sample, the loss mask. By it, what was made of the
    data (a verdict, a vocabulary, a draft model) knows them again. No file of states is read."""
    known = entries(folder)
    found = hashlib.sha256()
    for sample in samples:
        entry = known.get(sample.index, {})
        found.update(json.dumps([sample.index, entry.get("sha256"), sample.digest, sample.loss_mask]).encode())
    return found.hexdigest()


def condemn(folder: Path, faults: Mapping[int, str], attempt: str) -> int:
    """Index → fault: `extract` will do these samples again. Gives how many of them were not condemned before."""
    known = entries(folder)
    lines = [
        {**known[index], CONDEMNED: fault, "condemned_by": attempt}
        for index, fault in sorted(faults.items())
        if index in known and known[index].get(CONDEMNED) != fault
    ]
    _append(folder, lines)
    return len(lines)


def pardon(folder: Path) -> int:
    """Takes back what `verify` condemned before and has passed since; gives the number of samples."""
    lines = [
        {key: value for key, value in entry.items() if key not in (CONDEMNED, "condemned_by")}
        for entry in entries(folder).values()
        if CONDEMNED in entry
    ]
    _append(folder, lines)
    return len(lines)


class Store:
    """The hidden states of one run. `origin` is what they depend on beside their tokens: target, layers, dtype…

    Raises StageError when the folder holds states of another origin: they are never mixed, and never thrown away.
    """

    def __init__(self, folder: Path, origin: dict[str, Any]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._origin = origin
        self._attempt = ""
        self._entries = self._load()
        self._refuse_others()
        for half in folder.glob(".hs_*.tmp"):
            half.unlink()

    def path(self, index: int) -> Path:
        return self.folder / f"hs_{index}.safetensors"

    def missing(self, samples: Sequence[Sample], tell: Callable[[], None] = lambda: None) -> list[Sample]:
        """Samples that must be done: absent, cut off, altered, of other tokens, or of another origin.

        `tell` is called after each sample, since every file is read whole.
        """
        wanted = []
        for sample in samples:
            if not self._is_valid(sample):
                wanted.append(sample)
            tell()
        return wanted

    def condemned(self) -> dict[str, int]:
        """Fault → the number of samples that `verify` wants extracted again for it."""
        faults = [entry[CONDEMNED] for entry in self._entries.values() if CONDEMNED in entry]
        return {fault: faults.count(fault) for fault in dict.fromkeys(faults)}

    def begin(self, attempt: str, backend: str, patches: Sequence[Mapping[str, str]]) -> None:
        """The samples saved from now on are made by this attempt (`RUN/STAGE/N`), with these patches in force."""
        self._attempt = attempt
        self._append({"attempt": attempt, "backend": backend, "patches": list(patches)})

    def save(self, sample: Sample, data: bytes, rows: int) -> None:
        """Puts one sample in place and then into the manifest; both are on the disk when this returns."""
        path = self.path(sample.index)
        write_whole(path, data)
        entry = {
            "index": sample.index,
            "file": path.name,
            "sha256": hashlib.sha256(data).hexdigest(),
            "rows": rows,
            "tokens_sha256": sample.digest,
            **self._origin,
            "attempt": self._attempt,
        }
        self._append(entry)
        self._entries[sample.index] = entry

    def _refuse_others(self) -> None:
        for entry in self._entries.values():
            other = [key for key, value in self._origin.items() if entry.get(key, value) != value]
            if other:
                raise StageError(
                    f"{self.folder} holds hidden states of another {' and another '.join(other)} ({entry.get('file')}, "
                    f"by attempt {entry.get('attempt')}), which cannot be mixed with what this run asks for. Start a "
                    "new run, or move that folder away and relaunch the stage."
                )

    def _is_valid(self, sample: Sample) -> bool:
        entry = self._entries.get(sample.index)
        if entry is None or CONDEMNED in entry or entry.get("tokens_sha256") != sample.digest:
            return False
        try:
            with self.path(sample.index).open("rb") as file:
                digest = hashlib.sha256()
                while block := file.read(1 << 20):
                    digest.update(block)
        except OSError:
            return False
        return digest.hexdigest() == entry.get("sha256")

    def _load(self) -> dict[int, dict[str, Any]]:
        path = self.folder / MANIFEST
        if not path.exists():
            return {}
        lines = path.read_bytes().split(b"\n")
        found, whole = _parse(lines)
        if b"\n".join([*whole, b""]) != b"\n".join(lines):
            write_whole(path, b"\n".join([*whole, b""]))
        return found

    def _append(self, entry: dict[str, Any]) -> None:
        _append(self.folder, [entry])


def _append(folder: Path, lines: Iterable[dict[str, Any]]) -> None:
    path = folder / MANIFEST
    new = not path.exists()
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        for line in lines:
            os.write(handle, json.dumps(line, separators=(",", ":")).encode() + b"\n")
        os.fsync(handle)
    finally:
        os.close(handle)
    if new:
        sync_folder(folder)


def _parse(lines: Sequence[bytes]) -> tuple[dict[int, dict[str, Any]], list[bytes]]:
    """(index → its latest entry, the lines that are whole)."""
    found: dict[int, dict[str, Any]] = {}
    whole = []
    for line in lines:
        try:
            entry = json.loads(line)
            if "index" in entry or "attempt" not in entry:
                found[int(entry["index"])] = entry
        except (ValueError, KeyError, TypeError):  # a line cut off by a crash
            continue
        whole.append(line)
    return found, whole
