"""The zero-install bootstrap as the workstation needs it: the one command, and stage 1 as one line of source.

The conversation, after the command was started on the host:

    console  stage_one(nonce, digest, state)
    host     "\\nNONCE HAVE\\n" | "\\nNONCE NEED\\n" | "\\nNONCE ERR python 3.8\\n" | "\\nNONCE ERR nospace PATH\\n"
             | "\\nNONCE ERR state PATH: REASON\\n"
    console  after NEED only: b"%d\\n" % len(packed) + packed, where packed = zlib.compress(roll)
    host     "\\nNONCE RUN\\n" | "\\nNONCE BADSHA\\n" | "\\nNONCE ERR …\\n"
    both     frames of remote.protocol; the console sends none before it has read RUN
"""

from __future__ import annotations

import string
from pathlib import Path

COMMAND = 'exec {python} -Iu -c "import sys;exec(sys.stdin.buffer.readline())"'
"""Means the same in sh, bash, dash, fish and csh as long as `python` holds only PYTHON_CHARACTERS."""

PYTHON_CHARACTERS = frozenset(string.ascii_letters + string.digits + "/._+-")


def stage_one(nonce: str, digest: str, state: str | None) -> bytes:
    """The first line for the host's stdin, newline included.

    `digest` is the sha256 (hex) of the bundle's roll; `state` the state folder, None for the host's default.
    """
    source = Path(__file__).with_name("stage_one.py").read_text(encoding="utf-8")
    return b"exec(%s)\n" % ascii(f"{source}\nboot({nonce!r}, {digest!r}, {state!r})\n").encode()
