"""Entry point of the `eyas` command."""

from __future__ import annotations

import os
import sys

from console.errors import UserError


def main() -> None:
    """Run the command line. `parse` starts without what only the commands for a host need."""
    try:
        if sys.argv[1:2] == ["parse"]:
            sys.exit(_parse(sys.argv[2:]))
        from console import commands

        commands.app()
    except UserError as error:
        print(f"eyas: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("eyas: left; what runs on the host goes on.", file=sys.stderr)
        sys.exit(130)


def _parse(words: list[str]) -> int:
    from console import parse_command

    try:
        return parse_command.main(words)
    except BrokenPipeError:  # a reader like `head` has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    main()
