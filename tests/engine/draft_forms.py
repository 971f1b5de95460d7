"""Run in the current pair's environment: serves an exported draft model for a target that lies elsewhere.

`draft_forms.py DRAFT TARGET`, with EYAS_RUN and EYAS_ATTEMPT as a stage has them, answers the evaluation's prompts and
prints `RESULT {set: its figures}`. DRAFT is the folder in either form.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pipeline import dataset, products, settings
from pipeline.draft import acceptance, measure
from pipeline.draft.serve import Engine


def main() -> None:
    draft, target = map(Path, sys.argv[1:])
    wanted = settings.of_attempt()
    about = json.loads((products.dataset() / dataset.ABOUT).read_text())
    asked = measure.task(wanted, dataset.read(products.dataset()), about)
    with Engine(draft, asked.proposed, asked.max_length, target=target) as engine:
        found = {
            one.name: acceptance.total(engine.answer(one.prompts, asked.max_tokens, asked.ends), asked.proposed)
            for one in asked.sets
        }
    print("RESULT " + json.dumps({name: figures.to_json() for name, figures in found.items()}), flush=True)


if __name__ == "__main__":
    main()
