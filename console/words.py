"""Figures and states in words: how long, how much, which glyph. A state has a glyph and a word, never colour alone."""

from __future__ import annotations

from remote import views

MISSING = "n/a"

STAGE_GLYPHS: dict[str, tuple[str, str]] = {
    views.WAITING: ("○", "muted"),
    views.RUNNING: ("▶", "accent"),
    views.STOPPING: ("◧", "warn"),
    views.DONE: ("✔", "good"),
    views.FAILED: ("✖", "bad"),
    views.STOPPED: ("■", "warn"),
    views.LOST: ("?", "bad"),
}
"""State of a stage or a run -> glyph, ink."""

PATCH_GLYPHS: dict[str, tuple[str, str]] = {
    "needed": ("◆", "accent"),
    "active": ("●", "good"),
    "off": ("○", "bad"),
    "not applicable": ("·", "muted"),
    "refused": ("✖", "bad"),
}

LINK_GLYPHS: dict[str, tuple[str, str]] = {
    "connecting": ("◌", "warn"),
    "connected": ("●", "good"),
    "waiting": ("◌", "warn"),
    "refused": ("✖", "bad"),
    "closed": ("○", "muted"),
}


def duration(seconds: float | None) -> str:
    """`4s`, `2m 05s`, `1h 02m`, `3d 04h`."""
    if seconds is None:
        return MISSING
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02d}s"
    if whole < 86400:
        return f"{whole // 3600}h {whole % 3600 // 60:02d}m"
    return f"{whole // 86400}d {whole % 86400 // 3600:02d}h"


def size(count: float | None) -> str:
    """Bytes in binary units, three figures: `812 MiB`, `15.5 GiB`."""
    if count is None:
        return MISSING
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 999.5:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 99.95 else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.0f} TiB" if value >= 99.95 else f"{value:.1f} TiB"


def gib(count: int | None) -> str:
    """Bytes as a bare number of GiB, for columns that name the unit once."""
    return MISSING if count is None else f"{count / 2**30:.1f}" if count < 99.95 * 2**30 else f"{count / 2**30:.0f}"


def amount(value: float) -> str:
    if value and abs(value) < 0.01:
        return f"{value:.2e}"
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.2f}" if abs(value) < 1000 else f"{value:,.0f}"


def many(count: int, noun: str, plural: str = "") -> str:
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"
