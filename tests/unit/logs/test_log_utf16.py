"""Logs that PowerShell wrote."""

from __future__ import annotations

import tracemalloc

import pytest
from log_tools import PLAIN, only, read

from remote.logs.utf16 import ToUtf8

TEXT = PLAIN.replace("main", "mäin_\U0001f985│").replace("\n", "\r\n")
POWERSHELL = (
    "python : Traceback (most recent call last):\n"
    "At line:1 char:1\n"
    "+ python stage.py > out.log 2>&1\n"
    "+ ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~\n"
    "    + CategoryInfo          : NotSpecified: (Traceback (most recent call last)::String) [], RemoteException\n"
    "    + FullyQualifiedErrorId : NativeCommandError\n \n"
) + PLAIN.split("\n", 1)[1]


def decoded(data: bytes, size: int) -> tuple[bytes, str]:
    text = ToUtf8()
    out = b"".join(text.feed(data[at : at + size]) for at in range(0, len(data), size)) + text.finish()
    assert text.bytes_read == len(data)
    return out, text.encoding


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 10_000])
@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("mark", ["\ufeff", ""], ids=["marked", "unmarked"])
def test_utf16_comes_out_as_utf8_in_pieces_of_any_size(size: int, encoding: str, mark: str) -> None:
    assert decoded((mark + TEXT).encode(encoding), size) == (TEXT.encode(), encoding)


@pytest.mark.parametrize(
    "data", [b"", b"x", b"\xff", TEXT.encode(), b"\xff\xfa\0" * 9, b"\0\0\0\0" + PLAIN.encode(), b"a\0b\0c d\0"]
)
@pytest.mark.parametrize("size", [1, 5, 10_000])
def test_everything_else_comes_out_as_it_is(data: bytes, size: int) -> None:
    assert decoded(data, size) == (data, "utf-8")


def test_half_a_character_at_the_end_is_marked() -> None:
    data = ("\ufeff" + PLAIN).encode("utf-16-le")
    assert decoded(data + b"x", 5)[0].decode() == PLAIN + "\ufffd"
    assert decoded(data + "\U0001f985".encode("utf-16-le")[:2], 5)[0].decode() == PLAIN + "\ufffd"


def test_the_frames_that_powershell_decorates_are_read() -> None:
    out, _ = decoded(("\ufeff" + POWERSHELL.replace("\n", "\r\n")).encode("utf-16-le"), 100)
    assert only(read(out)).frames == only(read(PLAIN)).frames


def test_a_long_log_takes_little_memory() -> None:
    piece, text = ("é" * 4000 + "\n").encode("utf-16-le"), ToUtf8()
    text.feed(b"\xff\xfe")
    tracemalloc.start()
    try:
        for _ in range(500):
            assert text.feed(piece + piece[:1]) + text.feed(piece[1:]) == 2 * piece.decode("utf-16-le").encode()
        assert tracemalloc.get_traced_memory()[1] < 200_000
    finally:
        tracemalloc.stop()
