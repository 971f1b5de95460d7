"""status.json as its one writer, the attempt's supervisor, keeps it; exit.rec as the copy for a full disk."""

from __future__ import annotations

import os
import time
from typing import Any

from remote.agent import files, processes
from remote.agent.layout import Attempt

FINAL = frozenset({"exited", "signaled", "failed_to_start", "lost"})


class Status:
    """The state of one attempt. Writing it never ends its supervisor: what failed is tried again with `settle`."""

    def __init__(self, attempt: Attempt, record: files.Record, before: dict[str, Any] | None = None) -> None:
        me = processes.identify(os.getpid())
        assert me is not None
        self.fields: dict[str, Any] = {
            **(before or {"seq": 0}),
            "v": files.VERSION,
            "boot": processes.boot_id(),
            "supervisor": me.to_json(),
        }
        self._attempt = attempt
        self._record = record
        self._unsaved = False

    def save(self, **fields: Any) -> None:
        self.fields.update(fields)
        self.fields["seq"] += 1
        self.fields["written"] = time.time()
        self.settle()
        if self.fields["state"] in FINAL:
            try:
                self._record.write(self.fields)
            except OSError:
                self._unsaved = True

    def settle(self) -> bool:
        """Try to write what is not on disk yet. True when all is."""
        try:
            files.write_json(self._attempt.status, self.fields)
            self._unsaved = False
        except OSError:
            self._unsaved = True
        return not self._unsaved

    @property
    def unsaved(self) -> bool:
        return self._unsaved
