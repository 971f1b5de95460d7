"""What an environment has of speculators and vLLM, from its metadata; what cannot be known is said, never guessed."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from compat import distributions, roots
from compat.distributions import Distribution, read_text
from compat.versions import is_cpu_build, reading, version, vllm_version

PACKAGES = {"speculators": "speculators", "vLLM": "vllm"}
"""Name in sentences → package that is imported."""


@dataclass(frozen=True)
class Installed:
    """One of the two, as an environment has it."""

    name: str
    version: str = ""
    """As its metadata has it; "" where `missing` or `unknown` says why."""
    missing: str = ""
    unknown: str = ""
    """Why nothing can be said about it, with the remedy."""
    note: str = ""
    """How an uncommon version or install is read."""

    @property
    def told(self) -> str:
        """For one line: `vLLM 0.16.1.dev12+gabc (read as 0.16.1 before its release)`."""
        known = f"{self.name} {self.version}" + (f" ({self.note})" if self.note else "")
        return self.unknown or self.missing or known


@dataclass(frozen=True)
class Environment:
    """An environment, or a pair of pinned versions whose environment is not made yet (`site` None)."""

    site: Path | None
    speculators: Installed
    vllm: Installed
    cpu_build: bool = False

    @property
    def both(self) -> tuple[Installed, Installed]:
        return self.speculators, self.vllm

    @property
    def troubles(self) -> tuple[str, ...]:
        """What is missing or cannot be known, a sentence each."""
        return tuple(filter(None, (one.unknown or one.missing for one in self.both)))


def pinned(versions: Mapping[str, str]) -> Environment:
    """What a pinned list (distribution → version) will install."""
    have = {"speculators": versions.get("speculators"), "vLLM": vllm_version(versions)}
    told = {
        name: Installed(name, found, note=reading(found)) if found else Installed(name, missing=f"no {name} is pinned")
        for name, found in have.items()
    }
    return Environment(None, told["speculators"], told["vLLM"], is_cpu_build(versions))


def read(site: Path) -> Environment:
    """Looks at an environment's site-packages. Never raises: what is wrong with it is in what it gives."""
    try:
        found = [_installed(site, name, package) for name, package in PACKAGES.items()]
    except OSError as error:
        found = [
            Installed(name, unknown=f"{error.filename or site} cannot be read: {error.strerror}") for name in PACKAGES
        ]
    return Environment(site, found[0], found[1], is_cpu_build(installed(site)))


def here() -> Environment:
    """What this process imports: the first place on its path that has metadata of speculators or vLLM."""
    site = next((Path(entry) for entry in sys.path if entry and installed(Path(entry))), None)
    if site:
        return read(site)
    lost = "this process's path has no metadata of {}: which version its code is cannot be known"
    speculators, vllm = (Installed(name, unknown=lost.format(name)) for name in PACKAGES)
    return Environment(None, speculators, vllm)


def installed(site: Path) -> dict[str, str]:
    """Distribution → version for speculators and vLLM, aliases included."""
    try:
        return {
            d.name: d.version
            for package in PACKAGES.values()
            for d in distributions.named_for(site, package)
            if d.version
        }
    except OSError:
        return {}


def _installed(site: Path, name: str, package: str) -> Installed:
    own = roots.sites(site)
    places = [root for root in (*own, *roots.elsewhere(site, package)) if (root / package).is_dir()]
    owners = [d for d in distributions.named_for(site, package) if d.provides(package)]
    if not owners and not places:
        return Installed(name, missing=f"{name} is not installed in {site}")
    trouble = _trouble(site, name, package, owners, places)
    if trouble:
        return Installed(name, unknown=trouble)
    owner = owners[0]
    notes = [f"an editable install of {owner.editable or places[0]}"] if owner.editable or places[0] not in own else []
    notes += filter(None, [reading(owner.version)])
    return Installed(name, owner.version, note="; ".join(notes))


def _trouble(site: Path, name: str, package: str, owners: list[Distribution], places: list[Path]) -> str:
    """Why the version of the code cannot be known; "" when it can."""
    if len(owners) > 1 or len(places) > 1:
        copies = [f"{d.name} {d.version}" for d in owners] if len(owners) > 1 else [str(p / package) for p in places]
        return f"two copies of {name} are in {site} ({', '.join(copies)}): remove all but one"
    if not owners:
        foreign = distributions.foreign_owner(site, package)
        whose = f"{foreign}, whose versions are its own" if foreign else "no distribution that is recorded"
        return f"{places[0] / package} was installed by {whose}: which {name} its code is cannot be known"
    owner = owners[0]
    if not places:
        what = (
            "is an editable install whose code was not found"
            if owner.editable
            else "is recorded, its code is not there"
        )
        return f"{owner.name} {owner.version} {what} ({owner.folder}): install it again"
    try:
        recorded = version(owner.version)
    except ValueError:
        return f"{owner.folder} gives {owner.version or 'nothing'!r} as version: which {name} it is cannot be known"
    own = _own_version(places[0] / package)
    if own and own.split("+")[0] != owner.version.split("+")[0] and version(own).key != recorded.key:
        where = f"{places[0] / package / '_version.py'} says {own}"
        return f"{owner.folder} says {owner.version} and {where}: install {owner.name} again, nothing beside it"
    return ""


def _own_version(folder: Path) -> str:
    """What vLLM's `_version.py`, written when it was built, says; "" where there is none or it is no version."""
    found = re.search(
        r"""^__version__ = (?:version = )?["']([^"']+)["']""", read_text(folder / "_version.py"), re.MULTILINE
    )
    try:
        return version(found.group(1)).text if found else ""
    except ValueError:
        return ""
