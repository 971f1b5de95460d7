"""`python -m compat drift --site DIR [--architecture CLASS] [--switches JSON] [--json]`."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from compat.drift.library import Unreadable
from compat.drift.probe import probe
from compat.drift.report import UNREADABLE, Judged, judge, lines
from compat.patch import Switches
from compat.status import status
from compat.switches import parse

HELP = (
    "what of speculators does not fit the installed vLLM; exit status: 0 nothing that fails, 1 something, 2 unreadable"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--site", type=Path, required=True, help="site-packages of the environment")
    parser.add_argument("--architecture", default="", help="class of the target model, as its config.json names it")
    parser.add_argument("--switches", default="", help='JSON, such as {"off": ["prefix-caching"]}')
    parser.add_argument("--json", action="store_true")


def check(site: Path, switches: Switches, architecture: str = "") -> Judged:
    """The probe's report on an environment, judged by its patches. Raises Unreadable."""
    if not site.is_dir():
        raise Unreadable(f"There is no folder {site}; give the site-packages of an environment.")
    return judge(probe(site, architecture), status(site, switches, {}))


def run(options: argparse.Namespace) -> int:
    try:
        judged = check(options.site, parse(options.switches), options.architecture)
    except (Unreadable, ValueError) as error:
        print(error, file=sys.stderr)
        return UNREADABLE
    print(json.dumps(asdict(judged), indent=1) if options.json else "\n".join(lines(judged)))
    return judged.verdict
