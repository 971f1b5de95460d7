"""A sample of a run's dataset, as the pipeline shows it."""

from __future__ import annotations

from typing import Any

from remote.agent import files
from remote.agent.layout import Run
from remote.agent.plan import ask_pipeline
from remote.protocol import RemoteError


def sample(run: Run, index: int, bundle: str) -> dict[str, Any]:
    """Raises RemoteError: the pipeline's own refusal, or internal when the run is not readable."""
    try:
        described = files.read_json(run.json) or {}
    except files.Unreadable as error:
        raise RemoteError("internal", f"run {run.id} cannot be read: {error}") from None
    given = {"settings": described.get("settings") or {}, "run_folder": run.folder, "index": index}
    return ask_pipeline("show", given, bundle)
