"""What does not fit between a caller of vLLM's insides and the vLLM that is installed, found by reading sources."""

from compat.drift.frames import concerning
from compat.drift.probe import Report, probe

__all__ = ["Report", "concerning", "probe"]
