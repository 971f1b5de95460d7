"""Benches print ratios taken within one run; they hold no machine to a number of seconds."""

from __future__ import annotations

import statistics
from collections.abc import Sequence


def show(what: str, values: Sequence[float], baseline: float, of: str) -> None:
    middle = statistics.median(values)
    spread = f"{min(values):.3f} to {max(values):.3f} s"
    print(f"\n{what}: {middle:.3f} s ({spread}), {middle / baseline:.2f} of {of} ({baseline:.3f} s)")
