"""`python -m compat.drift.record PACKAGE --site DIR`: keeps the facts that a caller relies on, for `baseline`.

DIR holds the caller's release beside the vLLM that it declares: for a range, the oldest, since everything that changed
after it may be what the caller does not know of.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from compat import environment
from compat.drift import baseline
from compat.drift.callers import read_caller
from compat.drift.classes import Classes
from compat.drift.context import Context
from compat.drift.driver import read_driver
from compat.drift.facts import Facts, gather
from compat.drift.library import Library, Unreadable
from compat.drift.probe import CALLEE, run_checks, version_of


def facts_of(package: str, site: Path) -> Facts:
    """Raises Unreadable."""
    library = Library(site, CALLEE)
    classes = Classes(library)
    driver = read_driver(library, classes)
    caller = read_caller(Library(site, package), library, classes)
    findings = run_checks(Context(caller, library, classes, driver, None))
    known = frozenset((f.kind, f.callee, f.name) for f in findings)
    names = (f"{package} {version_of(site, package)}", f"vLLM {environment.read(site).vllm.version}")
    return gather(caller, driver, names, known)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m compat.drift.record")
    parser.add_argument("package", help="the caller, such as speculators")
    parser.add_argument("--site", type=Path, required=True)
    parser.add_argument("--into", type=Path, default=baseline.FOLDER)
    options = parser.parse_args(argv)
    try:
        facts = facts_of(options.package, options.site)
    except Unreadable as error:
        print(error, file=sys.stderr)
        return 2
    print(baseline.save(facts, options.into))
    return 0


if __name__ == "__main__":
    sys.exit(main())
