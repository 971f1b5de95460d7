"""The agent on this process's own standard streams, for debugging: `python -m remote.agent --state DIR`."""

from __future__ import annotations

import argparse
import os

from remote.agent.launch import CODE
from remote.agent.server import main

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Speak the agent's protocol on standard input and output.")
    parser.add_argument("--state", required=True, help="the folder that holds runs and bundles")
    parser.add_argument("--bundle", default=CODE, help="the folder whose `pipeline` plans and runs the stages")
    given = parser.parse_args()
    output = os.dup(1)
    os.dup2(2, 1)
    main(os.path.abspath(given.state), 0, output, os.path.abspath(given.bundle))
