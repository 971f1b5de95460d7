"""Where the sets of prompts come from."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipeline.dataset import Sample
from pipeline.draft import prompts


class Chat:
    """Encodes a message as the number in its text; the assistant's are masked."""

    def encode(self, messages: Sequence[dict[str, Any]]) -> tuple[list[int], list[int]]:
        return [int(m["content"]) for m in messages], [int(m["role"] == "assistant") for m in messages]


def source(folder: Path, count: int) -> str:
    rows = [[{"role": "user", "content": str(n)}, {"role": "assistant", "content": "9"}] for n in range(count)]
    path = folder / "chat.jsonl"
    path.write_text("".join(json.dumps({"messages": row}) + "\n" for row in rows))
    return str(path)


def samples_of(path: str, count: int) -> list[Sample]:
    return [Sample(n, (n, 9), (0, 1), f"{path}:{n + 1}") for n in range(count)]


def test_held_out_prompts_come_after_the_data_and_where_none_are_left_from_what_training_held_out(
    tmp_path: Path,
) -> None:
    path = source(tmp_path, 20)
    after = prompts.held_out(path, samples_of(path, 15), Chat(), 3, 8)  # type: ignore[arg-type]
    assert after.prompts == ((15,), (16,), (17,)) and "that come after" in after.source
    used_up = prompts.held_out(path, samples_of(path, 20), Chat(), 3, 8)  # type: ignore[arg-type]
    assert used_up.prompts == ((18,), (19,)) and "training held out" in used_up.source
    learnt = prompts.trained(samples_of(path, 20), 99, 8)
    assert not set(learnt.prompts) & set(used_up.prompts)
