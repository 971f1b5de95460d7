"""A sample with its loss mask in the terminal: told by colour, and by a sign where there is none."""

from __future__ import annotations

import re
from typing import Any

import typer
from pytest import CaptureFixture

from console.mask_report import lines

SAMPLE: dict[str, Any] = {
    "index": 3,
    "place": "chat.jsonl:7",
    "tokens": 9,
    "trained": 4,
    "runs": [
        {"trained": False, "tokens": 5, "text": "<|im_user|>a\nb<|im_end|>"},
        {"trained": True, "tokens": 4, "text": "so\n\nis it\n<|im_end|>"},
    ],
}
COLOUR = re.compile(r"\x1b\[([0-9]*)m")


def test_each_line_says_by_its_sign_whether_it_is_trained_on(capsys: CaptureFixture[str]) -> None:
    typer.echo("\n".join(lines(SAMPLE)))
    assert capsys.readouterr().out.splitlines() == [
        "sample 3 (chat.jsonl:7): 9 tokens, 4 of them trained on (+)",
        "  <|im_user|>a⏎",
        "  b<|im_end|>",
        "+ so⏎",
        "+ ⏎",
        "+ is it⏎",
        "+ <|im_end|>",
    ]


def test_what_is_trained_on_is_green_and_the_rest_dim() -> None:
    _, *body = lines(SAMPLE)
    assert [COLOUR.findall(line) for line in body] == [["2", "0"]] * 2 + [["32", "0"]] * 4


def test_hostile_text_drives_no_terminal() -> None:
    text = "\x1b]0;title\x07\x1b[2J\rgone\u202e\x9b31m"
    hostile = {**SAMPLE, "place": text, "runs": [{"trained": True, "tokens": 1, "text": text}]}
    for line in lines(hostile):
        rest = COLOUR.sub("", line)
        assert rest.isprintable(), ascii(rest)
        assert "gone" in rest
