"""The drift probe: every caller of vLLM's in an environment against the vLLM that is installed there.

Sources are parsed, never imported: nothing is loaded, and torch is not needed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from compat import environment, roots
from compat.catalogue import PATCHES
from compat.drift import baseline
from compat.drift.callers import read_caller
from compat.drift.checks import (
    architecture,
    attributes,
    calls,
    copies,
    defaults,
    imports,
    replacements,
    returns,
    steps,
    subclasses,
    workers,
)
from compat.drift.classes import Classes
from compat.drift.context import Context
from compat.drift.driver import read_driver
from compat.drift.finding import Finding
from compat.drift.library import Library, Unreadable
from compat.drift.ranking import catalogued, rank

CALLEE = "vllm"
CALLERS = ("speculators", "hs_connectors")
"""Packages that are written against vLLM's insides."""
CHECKS = (
    imports.check,
    calls.check,
    attributes.check,
    workers.check,
    replacements.check,
    subclasses.check,
    architecture.check,
    defaults.check,
    returns.check,
    steps.check,
    copies.check,
)


@dataclass(frozen=True)
class Report:
    """What the probe found in one environment."""

    site: str
    callers: tuple[str, ...]
    """`speculators 0.3.0`."""
    callee: str
    """`vLLM 0.16.0`."""
    baselines: tuple[str, ...]
    """What changed is told against these versions; () when none is known."""
    findings: tuple[Finding, ...]
    """Ranked."""
    notes: tuple[str, ...] = ()
    """What could not be compared, a sentence each."""
    unread: tuple[str, ...] = ()
    """Sources that could not be read, a sentence each: nothing is said about what they hold."""


def probe(site: Path, architecture: str = "", callers: tuple[str, ...] = CALLERS) -> Report:
    """Every finding in the environment whose site-packages `site` is. Raises Unreadable.

    `architecture` is the class of the target model, as its config.json names it. Of `callers`, packages, the first
    must be installed.
    """
    found = environment.read(site)
    notes = [one.unknown + "." for one in found.both if one.unknown]
    library = _library(site, CALLEE, found.vllm)
    classes = Classes(library)
    driver = read_driver(library, classes)
    findings: list[Finding] = []
    names, baselines, unread = [], [], []
    for package_name in callers:
        if package_name != callers[0] and not roots.of(site, package_name):
            continue
        is_known = package_name == "speculators"
        package = _library(site, package_name, found.speculators if is_known else environment.Installed(package_name))
        version = found.speculators.version if is_known else version_of(site, package_name)
        name = _named(package_name, version)
        names.append(name)
        caller = read_caller(package, library, classes)
        facts = baseline.load(package_name, version)
        if not caller.modules:
            notes.append(f"{name} uses nothing of vLLM's Python code.")
        elif facts is None:
            notes.append(
                f"Nothing is kept of the vLLM that {name} was written for: changed defaults, results and driver steps "
                "cannot be told."
            )
        else:
            baselines.append(facts.callee)
        findings += run_checks(Context(caller, library, classes, driver, facts, architecture))
        unread += [f"{file} {why}." for file, why in package.unreadable.items()]
    callee = _named("vLLM", found.vllm.version)
    if not driver.steps:
        notes.append(f"{callee} has no engine core that can be read: the steps of its own driver are not known.")
    unread += [f"{file} {why}." for file, why in library.unreadable.items()]
    ranked = catalogued(rank(findings), PATCHES, found.speculators.version, found.vllm.version)
    return Report(str(site), tuple(names), callee, tuple(baselines), ranked, tuple(notes), tuple(unread))


def run_checks(context: Context) -> list[Finding]:
    """The findings of every check, those marked that held in the baseline's version already."""
    known = context.baseline.known if context.baseline else frozenset()
    found = [finding for check in CHECKS for finding in check(context)]
    return [replace(f, known=(f.kind, f.callee, f.name) in known) for f in found]


def version_of(site: Path, package: str) -> str:
    """From the metadata of the distribution that is named like the package; "" when there is none."""
    for folder in sorted(site.glob(f"{package}-*.dist-info")):
        try:
            text = (folder / "METADATA").read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        told = re.search(r"^Version: *(\S+)", text, re.MULTILINE)
        if told:
            return told.group(1)
    return ""


def _library(site: Path, package: str, installed: environment.Installed) -> Library:
    places = roots.of(site, package)
    if len(places) != 1:
        why = installed.missing or installed.unknown or f"no code of {package} was found in {site}"
        raise Unreadable(f"Nothing can be checked: {why}.")
    return Library(places[0], package)


def _named(package: str, version: str) -> str:
    return f"{package} {version}" if version else f"{package} of unknown version"
