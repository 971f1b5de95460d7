"""A training's processes end with the stage that started them, also when it was killed and could say nothing.

torchrun starts each of its processes in a session of its own: a signal to the stage's group does not reach them, and
what is left of a training would go on writing the checkpoints that the next attempt goes on from. So the stage starts
torchrun through this file, `python -m pipeline.draft.tied STAGE_PID ARGUMENTS…`.
"""

from __future__ import annotations

import ctypes
import os
import runpy
import signal
import sys

LAUNCHER = "EYAS_LAUNCHER"
"""The variable in which torchrun's processes find its pid."""
_PR_SET_PDEATHSIG = 1


def to(parent: int) -> None:
    """Lets this process be killed when its parent, which should be the process `parent`, ends. Elsewhere than on Linux
    it does nothing."""
    if not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:  # it ended before
        os.kill(os.getpid(), signal.SIGKILL)


def to_launcher() -> None:
    """The same for one of torchrun's processes; nothing where torchrun was started by hand."""
    if launcher := os.environ.get(LAUNCHER):
        to(int(launcher))


def main() -> None:
    parent = int(sys.argv.pop(1))
    to(parent)
    os.environ[LAUNCHER] = str(os.getpid())
    runpy.run_module("torch.distributed.run", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
