"""Every family's chat format with real tokenizers, made and read by both pairs' transformers."""

from __future__ import annotations

import json
import random
import unicodedata
from typing import Any

import pytest
from chat_tokenizers import FORMATS, Format
from engine_run import PAIRS, Run

pytestmark = pytest.mark.engine

TEXTS = (
    "Hello there.",
    "a",
    "one\n\ntwo\n",
    "\n\nbegins with line breaks",
    "  begins with blanks",
    "你好 Überraschung 😀 e\u0301",
    "assistant",
    "<b>x</b> <think and </thinking>",
    "1 2  3\t4",
    '{"role": "user"}',
)
CASES = 24


def conversation(form: Format, draw: random.Random, reasoning: bool) -> list[dict[str, str]]:
    system = draw.choice([None, "", "Be kind.", "\n"])
    messages = [] if system is None else [{"role": "system", "content": system}]
    for _ in range(draw.randrange(1, 5)):
        messages.append({"role": "user", "content": draw.choice(TEXTS)})
        messages.append({"role": "assistant", "content": draw.choice(TEXTS)})
    if reasoning and form.between is not None:
        place = draw.choice(("key", "text"))
        thought = draw.choice(TEXTS)
        if place == "key":
            messages[-1]["reasoning"] = thought
        else:
            messages[-1]["content"] = f"<think>\n{thought}\n</think>\n\n{messages[-1]['content']}"
    return messages


def spoken(form: Format, messages: list[dict[str, str]]) -> list[str]:
    """What the assistant says in each turn, its end-of-turn token with it."""
    said = []
    for message in messages:
        if message["role"] == "assistant":
            thought, mark, answer = message["content"].rpartition("</think>")
            thought = message.get("reasoning", thought.removeprefix("<think>"))
            text = answer.strip("\n") if mark or thought else answer
            said.append((f"{form.prefix}{thought.strip()}{form.between}{text}" if thought else text) + form.end)
    return said


@pytest.mark.parametrize("reader", PAIRS)
@pytest.mark.parametrize("maker", PAIRS)
def test_the_masked_tokens_are_what_the_assistant_says(pairs: dict[str, Run], maker: str, reader: str) -> None:
    draw = random.Random(f"{maker} {reader}")
    talks = {
        name: [conversation(form, draw, reasoning=bool(k % 2)) for k in range(CASES)] for name, form in FORMATS.items()
    }
    asked = pairs[reader].folder / f"{maker}.json"
    asked.write_text(json.dumps(talks), encoding="utf-8")
    output = pairs[reader].script("chat_formats.py", "read", str(pairs[maker].folder / "targets"), str(asked))
    found: dict[str, Any] = json.loads(output.split("RESULT ")[1].splitlines()[0])
    assert set(found) == set(FORMATS)
    for name, form in FORMATS.items():
        for messages, row in zip(talks[name], found[name], strict=True):
            assert "error" not in row, (name, messages, row)
            masked = [composed(text) for on, text in row["runs"] if on]
            wanted = [composed(text) for text in spoken(form, messages)]
            if name == "llama-3":  # its template strips the texts
                masked, wanted = [[t.removesuffix(form.end).strip() for t in row] for row in (masked, wanted)]
            assert masked == wanted, (name, messages)
            rest = composed("".join(text for on, text in row["runs"] if not on))
            for message in messages:
                assert message["role"] == "assistant" or composed(message["content"].strip()) in rest


def composed(text: str) -> str:
    """Qwen's tokenizers compose characters, and transformers 5 makes one of any for a model of Qwen's type."""
    return unicodedata.normalize("NFC", text)


def test_what_cannot_be_a_sample_is_refused_with_the_reason(pairs: dict[str, Run]) -> None:
    user, answer = {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}
    cases = {
        "kimi-k2.5": [
            ([{"role": "critic", "content": "a"}, answer], "turn 1 has the role 'critic', which Kimi-K2 does not know"),
            ([user, {**answer, "content": "b<|im_end|>"}], "the text of turn 2 holds '<|im_end|>'"),
            ([user, user], "its mask is all zero"),
            ([user, {**answer, "content": " \n"}], "turn 2 is the assistant's and empty"),
        ],
        "kimi-k2": [([user, {**answer, "reasoning": "r"}], "turn 2 has reasoning, and this target's tokenizer has no")],
        "deepseek-v3": [
            ([user, answer, {"role": "tool", "content": "42 degrees"}], "leaves out turn 3, of the role 'tool'")
        ],
        "raising": [([answer], "the chat template refuses it (the user begins)")],
        "altering": [([{**user, "content": "A"}, answer], "the assistant's turn 1 says 'b' and its tokens say 'B'")],
    }
    run = pairs["current"]
    asked = run.folder / "refused.json"
    asked.write_text(json.dumps({name: [messages for messages, _ in rows] for name, rows in cases.items()}))
    output = run.script("chat_formats.py", "read", str(run.folder / "targets"), str(asked))
    found: dict[str, Any] = json.loads(output.split("RESULT ")[1].splitlines()[0])
    for name, rows in cases.items():
        for (_, words), row in zip(rows, found[name], strict=True):
            assert words in row.get("error", "") and "; " in row["error"], (name, row)


def test_reasoning_of_earlier_turns_is_counted(pairs: dict[str, Run]) -> None:
    user, answer = {"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "reasoning": "r"}
    asked = pairs["seed"].folder / "earlier.json"
    asked.write_text(json.dumps({"kimi-k2.5": [[user, answer, user, answer]], "qwen3": [[user, answer, user, answer]]}))
    output = pairs["seed"].script("chat_formats.py", "read", str(pairs["seed"].folder / "targets"), str(asked))
    found: dict[str, Any] = json.loads(output.split("RESULT ")[1].splitlines()[0])
    for name, said in (("kimi-k2.5", "r</think>b<|im_end|>"), ("qwen3", "<think>\nr\n</think>\n\nb<|im_end|>")):
        (row,) = found[name]
        assert row["erased"] == 1
        assert [text for on, text in row["runs"] if on] == ["b<|im_end|>", said]


@pytest.mark.parametrize("reader", PAIRS)
def test_a_template_that_writes_the_day_writes_the_same_on_every_day(pairs: dict[str, Run], reader: str) -> None:
    run = pairs[reader]
    asked = run.folder / "dated.json"
    asked.write_text(json.dumps({"dated": [[{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]]}))
    output = run.script("chat_formats.py", "read", str(run.folder / "targets"), str(asked))
    ((row,),) = json.loads(output.split("RESULT ")[1].splitlines()[0]).values()
    assert "Today is 26 Jul 2024." in row["runs"][0][1]


CALL = {"type": "function", "function": {"name": "weather", "arguments": {"city": 'R"om', "days": [1, None]}}}
TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}]
TALK = [
    {"role": "user", "content": "Rain?"},
    {"role": "assistant", "content": "Let me see.", "tool_calls": [CALL]},
    {"role": "tool", "content": "none"},
    {"role": "assistant", "content": "No rain."},
]


@pytest.mark.parametrize("reader", PAIRS)
def test_calls_of_tools_are_trained_on_where_the_template_writes_them(pairs: dict[str, Run], reader: str) -> None:
    run = pairs[reader]
    asked = run.folder / "tools.json"
    takes = [{"messages": TALK, "tools": TOOLS}, {"messages": TALK, "tools": []}]
    without = [{"messages": TALK, "tools": []}, {"messages": [TALK[0], TALK[3]], "tools": TOOLS}]
    asked.write_text(json.dumps({"tools": takes, "joined": takes, "chatml": without, "llama-3": without}))
    output = run.script("chat_formats.py", "read", str(run.folder / "targets"), str(asked))
    found: dict[str, Any] = json.loads(output.split("RESULT ")[1].splitlines()[0])
    for name, end in (("tools", "<|im_end|>"), ("joined", "<｜end▁of▁sentence｜>")):
        for row in found[name]:
            calling, answer = [text for on, text in row["runs"] if on]
            assert calling.startswith("Let me see.") and calling.endswith(end), (name, calling)
            assert json.dumps(CALL["function"]["arguments"]) in calling and "weather" in calling  # type: ignore[index]
            assert answer == f"No rain.{end}"
    for name in ("chatml", "llama-3"):
        calls, tools = found[name]
        assert "turn 1 calls the tool 'weather', which the chat template does not write" in calls["error"]
        assert "its tool 'weather' is not in what the chat template writes" in tools["error"]
