"""Gate `checksums`: every sample's file is the one that the manifest tells of, and no sample is left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeline.gates.report import GateReport, failed, passed

GATE = "checksums"
MISSING = ""
"""In the place of the digest of a file that is not there."""


def check(entry: Mapping[str, Any] | None, tokens: str, digest: str, size: int, whole: int) -> GateReport:
    """`entry` is the sample's line of the manifest, `tokens` the digest of its token ids in the data set.

    `digest` is the sha256 of its file and `size` its bytes; `whole` are those that its own header tells of, 0 where it
    cannot be read.
    """
    if entry is None:
        return failed(GATE, "not extracted", "The manifest has no line of it.")
    if entry.get("tokens_sha256") != tokens:
        return failed(
            GATE, "other tokens", f"It was extracted of {entry.get('rows')} tokens that are not the data set's."
        )
    if digest == MISSING:
        return failed(GATE, "file missing", f"{entry.get('file')} of {entry.get('rows')} rows is not there.")
    if digest == entry.get("sha256"):
        return passed(GATE, f"{size} bytes are as they were written.")
    if size < whole or not whole:
        told = f"of {whole}" if whole else "that hold no header"
        return failed(GATE, "truncated file", f"{entry.get('file')} is cut off: {size} bytes {told}.")
    return failed(
        GATE,
        "altered file",
        f"The {size} bytes of {entry.get('file')} are not those that were written: sha256 {digest[:12]}…, and the "
        f"manifest says {str(entry.get('sha256'))[:12]}….",
    )
