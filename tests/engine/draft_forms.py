"""Run in the current pair's environment: serves an exported draft model for a target that lies elsewhere.

`draft_forms.py DRAFT TARGET`, with EYAS_RUN and EYAS_ATTEMPT as a stage has them, answers the evaluation's prompts and
prints `RESULT {set: its figures}`. DRAFT is the folder in either form. In the figures, `by_steps` says whether the
rounds that are read off single steps, for releases that do not count them, are those that this one counts.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pipeline import dataset, products, settings
from pipeline.draft import acceptance, measure
from pipeline.draft.measure import Task
from pipeline.draft.prompts import PromptSet
from pipeline.draft.serve import Engine


def main() -> None:
    draft, target = map(Path, sys.argv[1:])
    wanted = settings.of_attempt()
    about = json.loads((products.dataset() / dataset.ABOUT).read_text())
    asked = measure.task(wanted, dataset.read(products.dataset()), about)
    with Engine(draft, asked.proposed, asked.max_length, target=target) as engine:
        found = {one.name: _served(engine, one, asked) for one in asked.sets}
    print("RESULT " + json.dumps(found), flush=True)


def _served(engine: Engine, one: PromptSet, asked: Task) -> dict[str, Any]:
    together = engine.answer(one.prompts, asked.max_tokens, asked.ends)
    engine.one_by_one = True
    by_steps = engine.answer(one.prompts, asked.max_tokens, asked.ends)
    engine.one_by_one = False
    return {**acceptance.total(together, asked.proposed).to_json(), "by_steps": by_steps == together}


if __name__ == "__main__":
    main()
