"""Conversations read from files: both spellings, both layouts, in bounded memory, each fault with its place."""

from __future__ import annotations

import json
import random
import tracemalloc
from pathlib import Path

import pytest

from pipeline import conversations, json_rows
from pipeline.conversations import Conversation
from pipeline.json_rows import Row
from pipeline.report import StageError

TALK = ({"role": "user", "content": "a"}, {"role": "assistant", "content": "b"})
SHAREGPT = {"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]}
ROLES = {"messages": list(TALK)}


def call(arguments: str) -> str:
    function = {"name": "f", "arguments": arguments}
    return json.dumps({"messages": [{"role": "assistant", "content": None, "tool_calls": [{"function": function}]}]})


def read(path: Path, text: str | bytes) -> list[Conversation]:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return list(conversations.read(str(path)))


def test_both_spellings_and_both_layouts_are_read(tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    lines = read(path, f"{json.dumps(ROLES)}\n\n{json.dumps(SHAREGPT)}\r\n")
    assert lines == [Conversation(f"{path}:1", TALK), Conversation(f"{path}:3", TALK)]
    array = read(path, b"\xef\xbb\xbf" + json.dumps([ROLES, SHAREGPT], indent=1).encode())
    assert [c.messages for c in array] == [TALK, TALK]
    assert [c.place for c in array] == [f"{path}:2, row 1", f"{path}:14, row 2"]


def test_a_system_prompt_beside_the_turns_and_reasoning_are_kept(tmp_path: Path) -> None:
    row = {"system": "be kind", "messages": [TALK[0], {**TALK[1], "reasoning_content": "why"}]}
    (found,) = read(tmp_path / "chat.jsonl", json.dumps(row))
    assert found.messages == ({"role": "system", "content": "be kind"}, TALK[0], {**TALK[1], "reasoning": "why"})


def test_a_column_that_a_table_left_empty_does_not_count(tmp_path: Path) -> None:
    (found,) = read(tmp_path / "chat.jsonl", json.dumps({"messages": None, **SHAREGPT}))
    assert found.messages == TALK


def test_parts_of_text_are_one_text(tmp_path: Path) -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": " b"}]
    row = {"messages": [{"role": "user", "content": parts}, {"role": "assistant", "content": []}]}
    (found,) = read(tmp_path / "chat.jsonl", json.dumps(row))
    assert [message["content"] for message in found.messages] == ["a b", ""]


def test_calls_of_tools_and_the_tools_are_kept(tmp_path: Path) -> None:
    """Arguments come as JSON or as an object, tools as a list or as the JSON of one."""
    tools = [{"type": "function", "function": {"name": "weather", "parameters": {}}}]
    calls = [
        {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Rom"}'}},
        {"name": "time", "arguments": {"zone": 1}},
    ]
    row = {
        "messages": [
            {"role": "user", "content": "?"},
            {"role": "assistant", "content": None, "tool_calls": calls},
            {"role": "tool", "content": "sunny", "tool_call_id": "c1", "name": "weather"},
            {"role": "assistant", "content": "Sunny."},
        ]
    }
    texts = [json.dumps(row | {"tools": tools}), json.dumps(row | {"tools": json.dumps(tools)}), json.dumps(row)]
    found = read(tmp_path / "chat.jsonl", "\n".join(texts))
    assert [list(one.tools) for one in found] == [tools, tools, []]
    _, calling, told, _ = found[0].messages
    assert calling["content"] == ""
    assert calling["tool_calls"] == [
        {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": {"city": "Rom"}}},
        {"type": "function", "function": {"name": "time", "arguments": {"zone": 1}}},
    ]
    assert (told["tool_call_id"], told["name"]) == ("c1", "weather")


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("{", 1, "is no JSON (Expecting property name"),
        (b'{"messages": "\xff"}', 1, "is not UTF-8 (byte 15)"),
        pytest.param("[" * 200_000, 1, "is nested too deeply", id="deep array"),
        pytest.param('{"a": ' + "[" * 200_000, 1, "is nested too deeply", id="deep object"),
        ('"x"', 1, 'is no object but "x"'),
        ('{"text": "x"}', 1, 'has no conversation but ["text"]'),
        ('\n{"messages": []}', 2, "is an empty conversation; leave it out"),
        ('{"conversations": null}', 1, "is an empty conversation"),
        ('{"messages": {"a": 1}}', 1, 'has no list of turns as "messages" but {"a": 1}'),
        ('{"messages": ["x"]}', 1, 'has a turn 1 that is no object but "x"'),
        ('{"messages": [{"role": "user", "content": null}]}', 1, "has a turn 1 that is not understood"),
        ('{"messages": [{"role": "assistant", "tool_calls": [1]}]}', 1, "turn 1 with a tool call that names no"),
        ('{"messages": [{"role": "assistant", "tool_calls": "f"}]}', 1, "turn 1 whose tool_calls are no list"),
        (call("{"), 1, "turn 1 whose call of f has arguments that are no JSON"),
        (call("[]"), 1, "turn 1 whose call of f has arguments that are no object"),
        ('{"messages": [{"role": "user", "content": "x"}], "tools": "["}', 1, "has tools that are no JSON"),
        ('{"messages": [{"role": "user", "content": "x"}], "tools": [{}]}', 1, "has tools that are not understood"),
        ('{"messages": [{"role": "user", "content": "\\ud800"}]}', 1, "has half a character"),
        ('{"messages": [{"role": "user", "content": "x"}], "tools": [{"name": "\\ud800"}]}', 1, "half a character"),
        ('{"messages": [{"role": "user", "content": "x"}], "system": "\\ud800"}', 1, "half a character"),
        ('{"messages": [{"role": "user", "content": ["x"]}]}', 1, 'has a part in turn 1 that is no object but "x"'),
        ('{"messages": [{"role": "user", "content": [{"type": "text"}]}]}', 1, "has a part in turn 1 that is no text"),
        (
            '{"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}',
            1,
            'has a part of the type "image_url" in turn 1, and only text is trained on; leave the conversation out',
        ),
        ('[\n{"messages": [\n{"role": "user" "content": "x"}]}]', 3, "is no JSON (Expecting ',' delimiter)"),
        ('[\n{"messages": [', 2, "is no JSON (Expecting value)"),
        ('[{"messages": "x', 1, "is no JSON (Unterminated string"),
        ("[\n1\n2]", 3, "has '2]' where a comma or the array's end belongs"),
        ("[\n1", 2, "has the end of the file where a comma"),
        ("[1]\nx", 2, "has something behind the end of the array"),
        ("[1,", 1, "is no JSON (Expecting value)"),
        (b'[1,\n"\xff"]', 1, "is not UTF-8"),
        pytest.param(f"[{'9' * 5000}]", 1, "is no JSON (Exceeds the limit", id="long number"),
    ],
)
def test_a_fault_is_told_with_its_line_and_the_next_rows_are_still_read(
    tmp_path: Path, text: str | bytes, line: int, words: str
) -> None:
    path = tmp_path / "chat.jsonl"
    fault = next(c for c in read(path, text) if c.fault and "is no object but 1" not in c.fault)
    assert fault.place.split(", row")[0] == f"{path}:{line}"
    assert words in fault.fault
    assert "; " in fault.fault
    if text.lstrip()[:1] not in ("[", b"["):
        after = text if isinstance(text, bytes) else text.encode()
        assert read(path, after + b"\n" + json.dumps(ROLES).encode())[-1].messages == TALK


def test_a_file_without_rows_and_a_missing_one_are_errors(tmp_path: Path) -> None:
    for text in ("\n", "[]", " [ ] "):
        with pytest.raises(StageError, match="holds no conversation"):
            read(tmp_path / "chat.jsonl", text)
    with pytest.raises(StageError, match=r"no\.jsonl cannot be read: No such file"):
        list(conversations.read(str(tmp_path / "no.jsonl")))


def test_an_array_is_read_alike_whatever_the_pieces_it_comes_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = random.Random(3)
    texts = ['a"\\', "é你😀\u2028", "x" * 70, "\n\t]},{[", ""]
    items = [{"a": [draw.choice(texts) for _ in range(draw.randrange(4))], "n": 1.5e3} for _ in range(40)]
    path = tmp_path / "rows.json"
    for indent, ascii_only in ((None, True), (2, False)):
        path.write_text(json.dumps(items, indent=indent, ensure_ascii=ascii_only), encoding="utf-8")
        whole = list(json_rows.rows(path))
        assert [row.value for row in whole if isinstance(row, Row)] == items
        for chunk in (1, 2, 3, 7, 64):
            monkeypatch.setattr(json_rows, "CHUNK", chunk)
            assert list(json_rows.rows(path)) == whole
        monkeypatch.undo()


@pytest.mark.parametrize("layout", ["array", "lines"])
def test_memory_does_not_grow_with_the_file(tmp_path: Path, layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_rows, "CHUNK", 1 << 16)
    row = json.dumps({"messages": [{"role": "user", "content": "x" * 1000}, TALK[1]]})
    path = tmp_path / "rows.json"
    count = 2_000
    text = ",\n".join([row] * count)
    path.write_text(f"[{text}]" if layout == "array" else text.replace(",\n", "\n"))
    tracemalloc.start()
    try:
        assert sum(1 for c in conversations.read(str(path)) if not c.fault) == count
        assert tracemalloc.get_traced_memory()[1] < path.stat().st_size // 4
    finally:
        tracemalloc.stop()


def test_a_broken_array_is_not_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    path.write_text('[{"a" 1},\n' + '{"a": 1},\n' * 1_000_000 + "1]")
    tracemalloc.start()
    try:
        (fault,) = json_rows.rows(path)
        assert fault.line == 1
        assert tracemalloc.get_traced_memory()[1] < 4 * json_rows.CHUNK
    finally:
        tracemalloc.stop()
