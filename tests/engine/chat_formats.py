"""Run in a stage's environment: `make FOLDER` makes a target folder for each format and variant there; `read FOLDER
CONVERSATIONS` prints `RESULT {format: [{"name", "tokens", "erased", "runs": [[masked, text]…]} | {"error"}…]}`.
"""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path
from typing import Any

from chat_tokenizers import FORMATS, VARIANTS, make

from pipeline import masking
from pipeline.chat.load import chat_of, template_of
from pipeline.masking import MaskError


def read(target: Path, conversations: list[Any]) -> list[dict[str, Any]]:
    chat, template = chat_of(target), template_of(target)
    assert chat.marks
    found: list[dict[str, Any]] = []
    for one in conversations:
        messages, tools = (one["messages"], one["tools"]) if isinstance(one, dict) else (one, [])
        try:
            ids, mask = chat.encode(messages, tools)
        except MaskError as error:
            found.append({"error": str(error)})
            continue
        assert mask == masking.mask(ids, masking.Marks.from_json(json.loads(json.dumps(chat.marks.to_json()))))
        runs = [
            (bool(on), template.decode([token for token, _ in pairs]))
            for on, pairs in itertools.groupby(zip(ids, mask, strict=True), key=lambda pair: pair[1])
        ]
        found.append({"name": chat.name, "tokens": len(ids), "runs": runs, "erased": chat.erased})
    return found


def main() -> None:
    what, folder, *more = sys.argv[1:]
    if what == "make":
        for name, form in FORMATS.items():
            make(Path(folder) / name, form)
        for name, (form, ids, template) in VARIANTS.items():
            make(Path(folder) / name, form, ids, template)
        return
    conversations = json.loads(Path(more[0]).read_text(encoding="utf-8"))
    print("RESULT " + json.dumps({name: read(Path(folder) / name, conversations[name]) for name in conversations}))


if __name__ == "__main__":
    main()
