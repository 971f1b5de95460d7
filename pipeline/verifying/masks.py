"""The data set itself: nothing lost since `prepare`, and the masks on what the assistant says."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from pipeline import dataset
from pipeline.dataset import Sample
from pipeline.gates import dataset as dataset_gate
from pipeline.gates import loss_mask
from pipeline.gates.report import GateReport
from pipeline.masking import Marks
from pipeline.report import StageError
from pipeline.verifying.gathered import gather


def check(folder: Path, samples: Sequence[Sample]) -> tuple[list[GateReport], str]:
    """(reports, why the masks were not judged). `folder` is the data set's."""
    path = folder / dataset.ABOUT
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
        marks = Marks.from_json(about["marks"]) if about["marks"] else None
        prepared = int(about.get("samples", len(samples)))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise StageError(f"{path} cannot be read ({error}); run the stage prepare again.") from error
    reports = [dataset_gate.check(prepared, [sample.loss_mask for sample in samples], least=1.0)]
    if marks is None:
        return reports, "the data set's chat format has no marks of the assistant's turns"
    verdicts = {
        sample.index: loss_mask.check(sample.token_ids, sample.loss_mask, marks)
        for sample in samples
        if reports[0].fault != "empty masks"
    }
    learnt = sum(sum(sample.loss_mask) for sample in samples)
    good = f"The masks of {len(samples)} samples cover {learnt} tokens, all said by the assistant."
    return [*reports, *gather(loss_mask.GATE, verdicts, samples, good)], ""
