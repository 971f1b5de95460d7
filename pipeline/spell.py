"""`python -m pipeline.spell TARGET`, run by `show` in the stage environment: lists of token ids on standard input,
their texts as the last line of standard output."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pipeline.chat.load import template_of


def main() -> None:
    template = template_of(Path(sys.argv[1]))
    print(json.dumps([template.decode(ids) for ids in json.load(sys.stdin)]))


if __name__ == "__main__":
    main()
