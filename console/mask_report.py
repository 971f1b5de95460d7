"""A sample of the dataset with its loss mask, for a terminal: what is trained on in green, the rest dim.

Without colours the sign before a line tells the same: every change of the mask begins a new line, and a line break of
the text itself is shown as one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import typer

from console.sanitise import one_line, sanitise

TRAINED, OTHER, BREAK = "+", " ", "⏎"


def lines(sample: Mapping[str, Any]) -> Iterator[str]:
    """With colour sequences of our own; `typer.echo` takes them out where there is no terminal."""
    place = f" ({sample['place']})" if sample["place"] else ""
    counts = f"{sample['tokens']} tokens, {sample['trained']} of them trained on ({TRAINED})"
    yield sanitise(f"sample {sample['index']}{place}: {counts}")
    for run in sample["runs"]:
        *whole, last = str(run["text"]).split("\n")
        for text in [*(line + BREAK for line in whole), last]:
            if text:
                yield _styled(one_line(text), bool(run["trained"]))


def _styled(text: str, trained: bool) -> str:
    if trained:
        return typer.style(f"{TRAINED} {text}", fg=typer.colors.GREEN)
    return typer.style(f"{OTHER} {text}", dim=True)
