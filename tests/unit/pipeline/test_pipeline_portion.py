"""The part of the data that is extracted again has what shows a fault, and is always the same part."""

from __future__ import annotations

from itertools import accumulate

import pytest

from pipeline.dataset import Sample
from pipeline.gates.report import failed
from pipeline.verifying import portion, remedies


def sample(index: int, length: int, prefix: tuple[int, ...] = ()) -> Sample:
    ids = (*prefix, *(100 * index + k for k in range(length)))
    return Sample(index, ids, (1,) * len(ids))


COMMON = tuple(range(9000, 9040))
SAMPLES = [sample(i, 40 + i, COMMON if i in (11, 17) else ()) for i in range(30)] + [sample(30, 3), sample(31, 90)]


def test_the_shortest_the_longest_a_shared_prefix_and_the_suspects_are_in_it() -> None:
    part = portion.choose(SAMPLES, 128, 8192, {5, 8})
    assert {30, 31, 11, 17, 5, 8, 0} <= {s.index for s in part.samples}
    assert len({s.index for s in part.samples}) == len(part.samples) <= 12
    assert part == portion.choose(list(SAMPLES), 128, 8192, [8, 5])


@pytest.mark.parametrize("max_length", [8, 100, 128, 256, 2048, 40000])
def test_the_batch_is_longer_than_a_step_and_no_prompt_ends_where_the_step_does(max_length: int) -> None:
    part = portion.choose(SAMPLES, max_length, 8192, ())
    lengths = [len(s.token_ids) for s in part.samples] + [len(p) for p in part.fillers]
    assert sum(lengths) > 8192
    assert 8192 not in accumulate(lengths)
    assert all(len(prompt) <= max_length for prompt in (*part.made, *part.fillers))
    assert portion.choose(SAMPLES, max_length, 0, ()).fillers == ()


def test_a_filler_that_would_end_with_the_step_is_a_token_shorter() -> None:
    (only,) = portion.choose([sample(0, 192)], 400, 8192, ()).samples
    part = portion.choose([only], 400, 8192, ())
    assert (8192 - 192) % 400 == 0
    assert 8192 not in accumulate([192, *map(len, part.fillers)])


def test_the_made_prompts_share_a_prefix_are_repeated_and_begin_as_no_sample_does() -> None:
    made = portion.choose(SAMPLES, 128, 8192, ()).made
    assert len(set(made)) < len(made)
    assert sum(prompt[:64] == made[0][:64] for prompt in made) >= 5
    assert {len(prompt) for prompt in made} >= {1, 64, 94}
    known = {s.token_ids[:8] for s in SAMPLES}
    assert not {prompt[:8] for prompt in made} & known
    tokens = {token for s in SAMPLES for token in s.token_ids}
    assert all(token in tokens for prompt in made for token in prompt)


def test_one_short_sample_is_enough() -> None:
    part = portion.choose([sample(0, 1)], 8, 0, ())
    assert [s.index for s in part.samples] == [0]
    assert all(1 <= len(prompt) <= 8 for prompt in part.made)


def test_the_cause_is_told_before_what_follows_from_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EYAS_SWITCHES", '{"off": ["cpu-rotary", "prefix-caching"]}')
    faults = [
        failed("aux-layers", "wrong layer", "2 in the place of 4."),
        failed("attribution", "numbers differ", "They differ."),
        failed("rotary", "rotary", "The first is right."),
    ]
    told = remedies.sentence(faults, remedies.first(faults))
    assert told.startswith("rotary (rotary): The first is right. Switched off here: cpu-rotary. Let the engine rotate")
    assert told.endswith("and verify.")
    faults = [failed("finite", "NaN", "One is."), failed("rows", "rows missing", "Two are.")]
    single = remedies.sentence(faults, remedies.first(faults))
    assert single.startswith("NaN (finite): One is. Relaunch extract")
    assert single.endswith("Also found: rows missing.")
