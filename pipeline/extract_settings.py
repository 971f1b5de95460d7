"""Settings of the stage that extracts hidden states, checked value by value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pipeline.checked import bad, choice, integer, text
from pipeline.sample_files import FORMS, FULL

PLACE = "stage.extract"


@dataclass(frozen=True)
class ExtractSettings:
    """[stage.extract], beside its backend."""

    engines: int = 1
    """Engines that work side by side on this host, each with a target of its own, on GPUs of its own."""
    world_size: int = 1
    """Runs, on as many hosts, that share the samples of one data set."""
    rank: int = 0
    """Which of those this run is."""
    folder: str = ""
    """Where the hidden states lie, such as a folder that several hosts share; "": in the run's own products."""
    endpoint: str = ""
    """An OpenAI-compatible vLLM server that extracts, `http://host:port/v1`; "": an engine of the stage's own."""
    states: str = FULL
    """How states are stored: one of FORMS."""

    def rank_of(self, batch: int) -> int:
        """Which run does the batch of that number."""
        return batch % self.world_size

    @classmethod
    def parse(cls, section: Mapping[str, Any]) -> ExtractSettings:
        world_size = integer(section, "world_size", cls.world_size, 1, 4096, PLACE)
        rank = integer(section, "rank", cls.rank, 0, 4095, PLACE)
        if rank >= world_size:
            raise bad(
                f"{PLACE}.rank is {rank}, and {PLACE}.world_size is {world_size}", "Ranks count from 0; lower it."
            )
        folder = text(section, "folder", cls.folder, PLACE) if section.get("folder") else ""
        if world_size > 1 and not folder:
            raise bad(
                f"{PLACE}.world_size is {world_size}, and no {PLACE}.folder is named in which they meet",
                "Name a folder on a disk that those hosts share.",
            )
        if folder and not Path(folder).expanduser().is_absolute():
            raise bad(f"{PLACE}.folder is {folder!r}", "Give the full path of a folder on the host.")
        endpoint = text(section, "endpoint", cls.endpoint, PLACE) if section.get("endpoint") else ""
        engines = integer(section, "engines", cls.engines, 1, 64, PLACE)
        if endpoint and (engines > 1 or section.get("backend", "auto") not in ("auto", "native")):
            raise bad(
                f"{PLACE}.endpoint names a server, and {PLACE} asks for another backend or several engines besides",
                "A server extracts by itself; leave the others out.",
            )
        return cls(
            engines=engines,
            world_size=world_size,
            rank=rank,
            folder=str(Path(folder).expanduser()) if folder else "",
            endpoint=_endpoint(endpoint),
            states=choice(section, "states", cls.states, FORMS, PLACE),
        )


def _endpoint(value: str) -> str:
    if not value:
        return ""
    try:
        parts = urlsplit(value)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        sound = False
    if not sound or parts.path.rstrip("/") != "/v1" or parts.query or parts.fragment:
        raise bad(f"{PLACE}.endpoint is {value!r}", "Give a server's address, such as http://127.0.0.1:8000/v1.")
    return value.rstrip("/")
