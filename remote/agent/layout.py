"""Where things lie below the state folder, and the only names that lead there."""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass

from remote.protocol import RemoteError

RUN_ID = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{8}")
STAGE_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")
RESERVED = frozenset({"products", "lock"})
"""Names in a run folder that no stage may take."""


def new_run_id() -> str:
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()) + "-" + os.urandom(4).hex()


def is_stage_name(name: object) -> bool:
    return isinstance(name, str) and STAGE_NAME.fullmatch(name) is not None and name not in RESERVED


@dataclass(frozen=True)
class Attempt:
    """The folder of one execution of a stage."""

    folder: str

    def __post_init__(self) -> None:
        if not os.path.isabs(self.folder):
            raise ValueError(f"attempt folder {self.folder} is not absolute")

    @property
    def number(self) -> int:
        return int(os.path.basename(self.folder))

    @property
    def stage(self) -> str:
        return os.path.basename(os.path.dirname(self.folder))

    @property
    def run_folder(self) -> str:
        return os.path.dirname(os.path.dirname(self.folder))

    @property
    def run(self) -> str:
        return os.path.basename(self.run_folder)

    @property
    def key(self) -> str:
        return f"{self.run}/{self.stage}/{self.number}"

    @property
    def spec(self) -> str:
        return os.path.join(self.folder, "spec.json")

    @property
    def status(self) -> str:
        return os.path.join(self.folder, "status.json")

    @property
    def record(self) -> str:
        return os.path.join(self.folder, "exit.rec")

    @property
    def lock(self) -> str:
        return os.path.join(self.folder, "lock")

    @property
    def log(self) -> str:
        return os.path.join(self.folder, "stdout.log")

    @property
    def reader(self) -> str:
        """State of the log's reader at a byte offset: a cache of the agents."""
        return os.path.join(self.folder, "reader.state")

    @property
    def events(self) -> str:
        return os.path.join(self.folder, "events.jsonl")

    @property
    def control(self) -> str:
        return os.path.join(self.folder, "control")

    @property
    def stop_request(self) -> str:
        return os.path.join(self.control, "stop.json")


@dataclass(frozen=True)
class Run:
    """The folder of one run."""

    folder: str

    @property
    def id(self) -> str:
        return os.path.basename(self.folder)

    @property
    def json(self) -> str:
        return os.path.join(self.folder, "run.json")

    @property
    def lock(self) -> str:
        return os.path.join(self.folder, "lock")

    def attempts(self, stage: str) -> list[Attempt]:
        """Oldest first."""
        base = os.path.join(self.folder, stage)
        try:
            numbers = sorted(int(n) for n in os.listdir(base) if n.isdecimal() and n.isascii() and n[0] != "0")
        except OSError:
            return []
        return [Attempt(os.path.join(base, str(n))) for n in numbers]

    def stage_folders(self) -> list[str]:
        """Stages that have a folder, in no order of meaning: for runs whose run.json cannot be read."""
        try:
            return sorted(n for n in os.listdir(self.folder) if is_stage_name(n) and self.attempts(n))
        except OSError:
            return []


@dataclass(frozen=True)
class State:
    """The state folder of one user on one host."""

    folder: str

    @property
    def runs(self) -> str:
        return os.path.join(self.folder, "runs")

    @property
    def lock(self) -> str:
        return os.path.join(self.folder, "lock")

    def run_ids(self) -> list[str]:
        """Newest first."""
        try:
            return sorted((n for n in os.listdir(self.runs) if RUN_ID.fullmatch(n)), reverse=True)
        except OSError:
            return []

    def run(self, run: object) -> Run:
        """Raises RemoteError no_such_run, for every text that is no id of a run here (paths too)."""
        if isinstance(run, str) and RUN_ID.fullmatch(run):
            folder = os.path.join(self.runs, run)
            if os.path.isdir(folder) and not os.path.islink(folder):
                return Run(folder)
        raise RemoteError(
            "no_such_run", f"there is no run {str(run)[:80]!r} on this host", "list the runs with `eyas status --all`"
        )

    def attempt(self, run: object, stage: object, number: object) -> Attempt:
        """Raises RemoteError no_such_run, no_such_stage, no_such_attempt."""
        found = self.run(run)
        if not isinstance(stage, str) or not is_stage_name(stage):
            raise RemoteError("no_such_stage", f"{str(stage)[:80]!r} is no stage of run {found.id}")
        for attempt in found.attempts(stage):
            if attempt.number == number:
                return attempt
        raise RemoteError("no_such_attempt", f"run {found.id} has no attempt {number!r} of stage {stage}")
