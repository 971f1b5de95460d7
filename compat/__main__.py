"""`python -m compat status | drift --site DIR [--switches JSON] [--json]`: one environment, without importing it."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from compat import environment, record
from compat.drift import command as drift
from compat.status import in_attempt, status_in
from compat.switches import parse


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m compat")
    commands = parser.add_subparsers(dest="command", required=True)
    show = commands.add_parser("status", help="which patches an environment needs")
    show.add_argument("--site", type=Path, required=True, help="site-packages of the environment")
    show.add_argument("--switches", default="", help='JSON, such as {"off": ["prefix-caching"]}')
    show.add_argument("--attempt", type=Path, help="an attempt's folder: what its processes applied is active")
    show.add_argument("--json", action="store_true")
    drift.add_arguments(commands.add_parser("drift", help=drift.HELP))
    options = parser.parse_args(argv)
    if options.command == "drift":
        return drift.run(options)
    try:
        if not options.site.is_dir():
            raise ValueError(f"There is no folder {options.site}; give the site-packages of an environment.")
        found = environment.read(options.site)
        rows = status_in(found, parse(options.switches))
        if options.attempt:
            rows = in_attempt(rows, record.patches(options.attempt), str(options.attempt))
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    told = [one.told for one in found.both]
    if options.json:
        print(json.dumps({"environment": told, "patches": [asdict(row) for row in rows]}, indent=1))
    else:
        print("\n".join(told))
        for row in rows:
            print(f"{row.state:15} {row.drift:4} {row.id:22} {row.reason}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
