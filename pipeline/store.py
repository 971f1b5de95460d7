"""Hidden states on disk: `hs_{index}.safetensors` and `manifest.jsonl`, resumable at the sample.

A sample is `{"hidden_states": [S, L, H], "token_ids": int64 [S]}`, the layers in the order of `pipeline.layers`
(`pipeline.sample_files` has the form with 8-bit floats). It counts only with a line of the manifest whose digests fit
the file and the dataset's token ids; the latest line of an index wins. The file is renamed into place before its line
is added, so a crash in between costs that sample only. A line without an index, `{"attempt", "backend", "patches"}`,
stands before the samples that this attempt made: the patches that were in force, each with the process it was applied
in, its digest, and the digest of the code that it replaced.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline import manifest
from pipeline.dataset import Sample
from pipeline.files import sync_folder
from pipeline.manifest import MANIFEST, UNSAID, entries
from pipeline.report import StageError

__all__ = ["CONDEMNED", "MANIFEST", "Part", "Store", "condemn", "data_digest", "entries", "pardon", "stamp_of"]

CONDEMNED = "condemned"
"""In a line of the manifest: the fault for which `verify` wants it extracted again; its file stays till then."""
READERS = 4
"""Threads that read files to check them."""
_TELL_EVERY = 0.1
"""Seconds between two words of how far the check is."""


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
    manifest.append(folder, lines)
    return len(lines)


def pardon(folder: Path) -> int:
    """Takes back what `verify` condemned before and has passed since; gives the number of samples."""
    lines = [
        {key: value for key, value in entry.items() if key not in (CONDEMNED, "condemned_by")}
        for entry in entries(folder).values()
        if CONDEMNED in entry
    ]
    manifest.append(folder, lines)
    return len(lines)


@dataclass(frozen=True)
class Part:
    """The file of one sample, whole and synced, on the store's disk but not in place."""

    sample: Sample
    path: Path
    sha256: str


class Store:
    """The hidden states of one run. `origin` is what they depend on beside their tokens: target, layers, dtype…

    Raises StageError when the folder holds states of another origin: they are never mixed, and never thrown away.
    """

    def __init__(self, folder: Path, origin: dict[str, Any]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._origin = origin
        self._attempt = ""
        manifest.mend(folder)
        self._entries = entries(folder)
        self._refuse_others()

    def path(self, index: int) -> Path:
        return self.folder / f"hs_{index}.safetensors"

    def missing(self, samples: Sequence[Sample], tell: Callable[[int], None] = lambda count: None) -> list[Sample]:
        """Samples that must be done: absent, cut off, altered, of other tokens, or of another origin.

        A file is read whole unless its size, times and inode are those that its line names. `tell` gets the number of
        samples checked since it was called last.
        """
        wanted, checked, last = [], 0, time.monotonic()
        with ThreadPoolExecutor(READERS, thread_name_prefix="checking") as pool:
            for sample, valid in zip(samples, pool.map(self._is_valid, samples), strict=True):
                if not valid:
                    wanted.append(sample)
                checked += 1
                if time.monotonic() - last >= _TELL_EVERY:
                    tell(checked)
                    checked, last = 0, time.monotonic()
        if checked:
            tell(checked)
        return wanted

    def condemned(self) -> dict[str, int]:
        """Fault → the number of samples that `verify` wants extracted again for it."""
        faults = [entry[CONDEMNED] for entry in self._entries.values() if CONDEMNED in entry]
        return {fault: faults.count(fault) for fault in dict.fromkeys(faults)}

    def begin(self, attempt: str, backend: str, patches: Sequence[Mapping[str, str]], **more: Any) -> None:
        """The samples saved from now on are made by this attempt (`RUN/STAGE/N`), with these patches in force."""
        self._attempt = attempt
        manifest.append(self.folder, [{"attempt": attempt, "backend": backend, **more, "patches": list(patches)}])

    def commit(self, parts: Sequence[Part]) -> None:
        """Puts files in place and then into the manifest, with one sync for all; done when this returns."""
        placed = []
        for part in parts:
            path = self.path(part.sample.index)
            part.path.replace(path)
            placed.append((part, path, stamp_of(path.stat())))
        sync_folder(self.folder)
        # Where half-made files are: what a kill leaves there is removed by the next attempt.
        _pass_a_tick(parts[0].path.with_suffix(".clock"), max(stamp[2] for _, _, stamp in placed))
        lines = []
        for part, path, stamp in placed:
            entry = {
                "index": part.sample.index,
                "file": path.name,
                "sha256": part.sha256,
                "rows": len(part.sample.token_ids),
                "tokens_sha256": part.sample.digest,
                **self._origin,
                "attempt": self._attempt,
            }
            if _is_fine(stamp) and stamp_of(path.stat()) == stamp:
                entry["stamp"] = stamp
            lines.append(entry)
        manifest.append(self.folder, lines)
        self._entries |= {entry["index"]: entry for entry in lines}

    def _refuse_others(self) -> None:
        for entry in self._entries.values():
            other = [key for key, value in self._origin.items() if entry.get(key, UNSAID.get(key, value)) != value]
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
                # Not by path: opening makes a network file system ask its server for the times as they are.
                if entry.get("stamp") == stamp_of(os.fstat(file.fileno())):
                    return True
                digest = hashlib.sha256()
                while block := file.read(1 << 20):
                    digest.update(block)
        except OSError:
            return False
        return digest.hexdigest() == entry.get("sha256")


def stamp_of(found: os.stat_result) -> list[int]:
    """Size, time of the content, time of any change, inode. The third is the kernel's own: nobody sets it back."""
    return [found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino]


def _is_fine(stamp: Sequence[int]) -> bool:
    """Whether the times are finer than whole seconds, as on all but very old file systems."""
    return bool(stamp[1] % 1_000_000_000 or stamp[2] % 1_000_000_000)


def _pass_a_tick(probe: Path, changed: int) -> None:
    """Returns once the file system's clock (ns) is past `changed`: whatever alters a file from now on gets another
    time, so that its stamp tells. A few milliseconds; in the writer's thread nobody waits for them."""
    try:
        deadline = time.monotonic() + 0.1  # a coarser clock is not waited for: its stamps are not used
        while time.monotonic() < deadline:
            probe.touch()
            if probe.stat().st_ctime_ns > changed:
                return
            time.sleep(0.001)
    finally:
        probe.unlink(missing_ok=True)
