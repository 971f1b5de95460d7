"""The loss mask is found in the token ids: headers, openings that nobody says, ends of turns."""

from __future__ import annotations

import json
import random
from collections.abc import Callable

import pytest

from pipeline import families
from pipeline.corpus import conversations
from pipeline.masking import Marks, mask, turns
from pipeline.report import StageError

USER, ASSISTANT, MIDDLE, END, STOP, THINK, ANSWER = 1, 2, 3, 4, 5, 6, 7
HEADER = (ASSISTANT, 50, MIDDLE)
MARKS = Marks.of(HEADER, [END, STOP], [[THINK], [THINK, ANSWER]])


def said(ids: list[int]) -> list[int]:
    return [i for i, on in zip(ids, mask(ids, MARKS), strict=True) if on]


def test_the_mask_covers_what_the_assistant_says_and_its_end_of_turn() -> None:
    ids = [USER, 60, END, *HEADER, 61, 62, END, USER, 61, END, *HEADER, 63, STOP, 9]
    assert said(ids) == [61, 62, END, 63, STOP]
    assert [list(turn) for turn in turns(ids, MARKS)] == [[6, 7, 8], [15, 16]]


def test_an_opening_that_the_prompt_or_the_template_wrote_is_not_said() -> None:
    assert said([*HEADER, THINK, ANSWER, 60, END]) == [60, END]
    assert said([*HEADER, THINK, 60, ANSWER, 61, END]) == [60, ANSWER, 61, END]
    assert said([*HEADER, 60, THINK, ANSWER, END]) == [60, THINK, ANSWER, END]


def test_a_turn_that_a_cut_left_open_is_covered_to_the_last_token() -> None:
    assert said([*HEADER, 60, 61]) == [60, 61]
    assert said([*HEADER]) == said([*HEADER[:2]]) == said([]) == []
    assert said([*HEADER, THINK, ANSWER]) == []


def test_of_an_opening_that_a_cut_went_through_nothing_is_said() -> None:
    marks = Marks.of(HEADER, [END], [[THINK, MIDDLE, ANSWER]])
    ids = (*HEADER, 60, END, *HEADER, THINK, MIDDLE, ANSWER, 61, END)
    whole = mask(ids, marks)
    cuts = range(len(ids) + 1)
    assert [mask(ids[:cut], marks) for cut in cuts] == [whole[:cut] for cut in cuts]


def test_random_rows_are_masked_turn_by_turn() -> None:
    draw = random.Random(7)
    for _ in range(300):
        ids: list[int] = []
        expected: list[int] = []
        for _ in range(draw.randrange(6)):
            words = [draw.choice([60, 61, 50, THINK, MIDDLE]) for _ in range(draw.randrange(5))]
            if draw.random() < 0.5:
                ids += [USER, *words, END]
                expected += [0] * (len(words) + 2)
            else:
                words = [60, *words]
                ids += [*HEADER, *words, END]
                expected += [0] * len(HEADER) + [1] * (len(words) + 1)
        assert mask(ids, MARKS) == expected


def test_marks_survive_the_file_they_are_kept_in() -> None:
    assert Marks.from_json(json.loads(json.dumps(MARKS.to_json()))) == MARKS
    assert MARKS.openings == ((THINK, ANSWER), (THINK,))


KIMI = {
    token: number
    for published in families.kimi.FAMILY.published[:1]
    for token, number in {**published.ids, "<|im_system|>": 163594}.items()
}
PROMPT = "<|im_user|>user<|im_middle|>1<|im_end|><|im_assistant|>assistant<|im_middle|>"


def encoder(table: dict[str, int]) -> Callable[[str], list[int]]:
    return lambda text: [table[text]] if text in table else [ord(c) for c in text]


def test_the_reference_ids_of_kimi_are_what_its_tokenizer_must_give() -> None:
    wanted = {"[BOS]": 163584, "[EOS]": 163585, "<|im_end|>": 163586, "<|media_pad|>": 163605}
    assert {**KIMI, **wanted, "<think>": 163606, "</think>": 163607} == KIMI
    chosen = families.choose(PROMPT, encoder(KIMI), {"kimi_k25", "deepseek_v3"}, 163840, "/m")
    assert chosen is families.kimi.FAMILY


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"<think>": 163607, "</think>": 163608},
            r"gives '<think>' the id 163607, and Kimi-K2 was published with 163606",
        ),
        ({"<|im_end|>": 163585, "[EOS]": 163586}, r"gives '\[EOS\]' the id 163586"),
        ({"</think>": None}, r"gives '</think>' 8 tokens, and Kimi-K2 was published with 163607"),
        ({"<|im_middle|>": None}, r"writes '<\|im_middle\|>', which its tokenizer takes apart into 13 tokens"),
    ],
)
def test_a_tokenizer_with_other_ids_than_the_model_was_published_with_is_refused(
    changes: dict[str, int | None], words: str
) -> None:
    table = {token: number for token, number in {**KIMI, **changes}.items() if number is not None}
    with pytest.raises(StageError, match=words):
        families.choose(PROMPT, encoder(table), {"kimi_k25", "deepseek_v3"}, 163840, "/m")


def test_a_model_with_the_chat_format_of_another_is_refused() -> None:
    table = {"<|im_start|>": 1, "<|im_end|>": 2}
    for prompt, spoken in (("<|im_start|>assistant\n", "ChatML"), ("[/INST]", "another chat format")):
        words = rf"is a DeepSeek-V3 \(deepseek_v3, vocabulary 129280\) and its tokenizer speaks {spoken}"
        with pytest.raises(StageError, match=words):
            families.choose(prompt, encoder(table), {"deepseek_v3"}, 129280, "/m")


def test_the_family_is_told_by_the_template_and_the_tokenizer_not_by_the_model_type_alone() -> None:
    chatml = {"<|im_start|>": 1, "<|im_end|>": 2}
    prompt = "<|im_start|>user\n1<|im_end|>\n<|im_start|>assistant\n"
    assert families.choose(prompt, encoder(chatml), {"llama"}, 128256, "/m") is families.chatml.FAMILY
    thinking = {**chatml, "<think>": 3, "</think>": 4}
    assert families.choose(prompt, encoder(thinking), {"llama"}, 49152, "/m") is families.qwen3.FAMILY
    assert families.choose("[INST] 1 [/INST]", encoder({}), {"mistral"}, 32000, "/m") is None
    with pytest.raises(StageError, match=r"writes '<\|im_start\|>', which its tokenizer takes apart into 12 tokens"):
        families.choose(prompt, encoder({}), {"llama"}, 128256, "/m")
    with pytest.raises(StageError, match=r"'<\|im_start\|>' the id 9, and the model's vocabulary ends at 8"):
        families.choose(prompt, encoder({"<|im_start|>": 9, "<|im_end|>": 2}), {"llama"}, 9, "/m")


def test_the_standard_library_s_conversations_are_always_the_same_and_share_a_prefix() -> None:
    first = conversations(40)
    assert first == conversations(40)
    assert len(first) == 40
    assert sum(messages[0]["role"] == "system" for messages in first) == 20
    assert all(messages[-1]["role"] == "assistant" for messages in first)
