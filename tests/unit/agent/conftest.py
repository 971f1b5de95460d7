"""The same fake host that the fault tests use."""

from faults.conftest import host

__all__ = ["host"]
