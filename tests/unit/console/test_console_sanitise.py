"""Whatever a host sends, nothing that a terminal would obey gets past the border."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.sanitise import MARK, one_line, sanitise, sanitise_json

HOSTILE = [
    "\x1b]0;T\x07",
    "\x1b]52;c;UFdORUQ=\x07",
    "\x1b]52;c;UFdORUQ=\x1b\\",
    "\x9b31m",
    "\x9d52;c;UFdORUQ=\x9c",
    "\x1b[5;5H",
    "\x1bPq#0;2;0;0;0\x1b\\",
    "\x1b]",
    "\x1b[",
    "\x1b",
    "\x1bP unterminated",
    "\x1b_apc\x1b\\",
    "\x1b^pm\x1b\\",
    "\x1bXsos\x1b\\",
    "\x1bNx",
    "\x1bOP",
    "\x1bc",
    "\x1b(0",
    "\x1b[2J\x1b[?1049l",
    "\u202eevil\u2066x\u2069",
    "a\u2028b\u2029c",
    "nul\0",
    "bell\a back\b",
    "\r overwrite",
    "\x7f",
    "\ud800",
    "\U000e0041",
    "\x1b\x1b[31m[31m",
    "\x1b]8;;http://x\x07link\x1b]8;;\x07",
]
HARMLESS = ["[/]", "[bold", "[type=x, v={'a[0]'}]", "你好", "👩\u200d🚀", "naïve ✔ ━", "tab\there", ""]


def is_safe(text: str, newlines: bool = False) -> bool:
    allowed = "\t\n" if newlines else "\t"
    tags = {*map(chr, range(0xE0000, 0xE0080))}
    bidi = tags | {*"\u061c\u200e\u200f", *map(chr, range(0x202A, 0x202F)), *map(chr, range(0x2066, 0x206A))}
    return all(
        char in allowed or (unicodedata.category(char) not in ("Cc", "Cs", "Zl", "Zp") and char not in bidi)
        for char in text
    )


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_keeps_nothing_a_terminal_obeys(text: str) -> None:
    assert not is_safe(text)
    assert is_safe(sanitise(f"before {text} after"))
    assert sanitise(f"before {text}").startswith("before ")


@pytest.mark.parametrize("text", HARMLESS)
def test_harmless_text_is_left_as_it_is(text: str) -> None:
    assert sanitise(text) == text


@given(st.text(st.characters(codec=None), max_size=200))
def test_any_text_becomes_safe_and_encodable(text: str) -> None:
    clean = sanitise(text)
    assert is_safe(clean)
    clean.encode()
    assert sanitise(clean) == clean


@given(st.lists(st.sampled_from(["\x1b", "[", "]", "m", "3", ";", "\x07", "\\", "P", "\x9b", "\x9c", "x", "\n"])))
def test_no_arrangement_of_pieces_of_sequences_slips_through(pieces: list[str]) -> None:
    assert is_safe(sanitise("".join(pieces), newlines=True), newlines=True)


def test_colour_goes_without_a_trace_and_other_sequences_leave_a_mark() -> None:
    assert sanitise("\x1b[1;36m(Worker_TP0 pid=1)\x1b[0;0m hello") == "(Worker_TP0 pid=1) hello"
    assert sanitise("a\x1b]52;c;eA==\x07b\x1b[2Jc") == f"a{MARK}b{MARK}c"


def test_what_follows_an_unterminated_sequence_stays_readable() -> None:
    assert sanitise("\x1b]0;the error is here") == f"{MARK}0;the error is here"


def test_newlines_stay_only_when_asked_for() -> None:
    assert "\n" not in sanitise("a\nb")
    assert sanitise("a\nb", newlines=True) == "a\nb"


def test_every_string_of_a_frame_is_sanitised_keys_included() -> None:
    frame = {"a\x1b[2J": ["\x1b]0;x\x07", {"b": "c\x9b5n"}], "n": 3, "none": None}
    assert sanitise_json(frame) == {f"a{MARK}": [MARK, {"b": f"c{MARK}"}], "n": 3, "none": None}


def test_a_megabyte_line_is_sanitised_whole() -> None:
    assert len(sanitise("\x1b[31m" + "x" * (1 << 20))) == 1 << 20


def test_tabs_are_expanded_where_a_row_is_drawn() -> None:
    assert one_line("a\tb\nc") == "a   b␊c"
