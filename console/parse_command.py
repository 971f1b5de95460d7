"""The `eyas parse` command: files in, a report or JSON out, and an exit status that scripts can use.

It is on the way of every shell pipe, so it reads its own command line: Typer alone takes longer to import than most
logs take to read.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

from console import parse
from console.errors import UserError
from console.parse_report import report
from console.sanitise import sanitise

HELP = "Say what broke in any log on this machine. Exit status: 0 clean, 1 a failure found, 2 unreadable."


def main(words: Sequence[str]) -> int:
    """Run the command and give its exit status. Raises UserError, and SystemExit as argparse does."""
    known = argparse.ArgumentParser(prog="eyas parse", description=HELP)
    known.add_argument("files", nargs="+", metavar="FILE", help="a log, plain or gzip; - is standard input")
    known.add_argument("--json", action="store_true", dest="as_json", help="answer in JSON")
    given = known.parse_args(words)
    if given.files.count(parse.STANDARD_INPUT) > 1:
        raise UserError("Standard input can be read only once.", "Name `-` once.")
    bodies: list[dict[str, Any]] = []
    status = parse.CLEAN
    for place, name in enumerate(given.files):
        try:
            found = parse.read_log(name)
        except UserError as error:
            status = parse.UNREADABLE
            bodies.append({"file": parse.shown_name(name), "error": str(error)})
            print(f"eyas: {sanitise(str(error))}", file=sys.stderr)
            continue
        status = max(status, parse.exit_status(found))
        if given.as_json:
            bodies.append(parse.as_json(name, found))
        else:
            print(("\n" if place else "") + report(parse.shown_name(name), found), flush=True)
    if given.as_json:
        print(json.dumps(bodies[0] if len(given.files) == 1 else bodies, indent=1), flush=True)
    return status
