"""Patches come into force in the real environment whatever their order, and once."""

from __future__ import annotations

import json

import pytest
from engine_run import Run

from compat.patch import Switches
from compat.status import status

pytestmark = pytest.mark.engine


def test_in_every_order_each_needed_patch_is_in_force(run: Run) -> None:
    output = run.script("orders.py")
    orders = [json.loads(line[6:]) for line in output.splitlines() if line.startswith("ORDER ")]
    assert len({tuple(one["order"]) for one in orders}) == 6
    rows = status(run.site, Switches(), {})
    needed = {row.id for row in rows if row.state == "needed" and not row.advice}
    for one in orders:
        active = {name for name, states in one["states"].items() if set(states) == {"active"}}
        assert active == needed
        assert one["decoder"] == ["_extension", "embed_input_ids", "forward", "get_input_embeddings", "layers"]


def test_nothing_of_the_seed_environment_is_refused(run: Run) -> None:
    assert [row.reason for row in status(run.site, Switches(), {}) if row.state == "refused"] == []
