"""`python -m compat status --site DIR [--switches JSON] [--json]`: the patches against one environment."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from compat.status import status
from compat.switches import parse


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m compat")
    commands = parser.add_subparsers(dest="command", required=True)
    show = commands.add_parser("status", help="which patches an environment needs")
    show.add_argument("--site", type=Path, required=True, help="site-packages of the environment")
    show.add_argument("--switches", default="", help='JSON, such as {"off": ["prefix-caching"]}')
    show.add_argument("--json", action="store_true")
    options = parser.parse_args(argv)
    if not options.site.is_dir():
        print(f"There is no folder {options.site}; give the site-packages of an environment.", file=sys.stderr)
        return 2
    try:
        switches = parse(options.switches)
    except ValueError as error:
        print(f"The switches cannot be read: {error}.", file=sys.stderr)
        return 2
    rows = status(options.site, switches, {})
    if options.json:
        print(json.dumps([asdict(row) for row in rows], indent=1))
    else:
        for row in rows:
            print(f"{row.state:15} {row.drift:4} {row.id:22} {row.reason}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
