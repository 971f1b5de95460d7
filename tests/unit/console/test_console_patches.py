"""The patches view: what stands where, and both pieces of code, stacked or side by side."""

from __future__ import annotations

from dataclasses import replace

import pytest
from console_pilot import failed, opened, screen_text, until
from textual.widgets import Static

from console.screens.patches import PatchesScreen
from remote import protocol

TROUBLE = "two copies of vLLM are in /env (vllm 0.15.1, vllm 0.16.0): remove all but one"


@pytest.mark.parametrize(
    ("size", "beside"), [((80, 24), False), ((119, 40), False), ((120, 40), True), ((200, 60), True)]
)
async def test_the_two_pieces_of_code_stand_beside_each_other_where_there_is_room(
    size: tuple[int, int], beside: bool
) -> None:
    async with opened(failed(), size) as (app, pilot):
        await pilot.press("4")
        does, replaces = app.query_one("#patch-does", Static), app.query_one("#patch-replaces", Static)
        await until(pilot, lambda: replaces.virtual_region.height, "the code")
        assert (does.virtual_region.y == replaces.virtual_region.y) is beside
        assert "_without_caching" in str(does.render())
        assert "def _setup_scheduler" in str(replaces.render())


async def test_what_is_wrong_with_the_environment_stands_above_the_patches() -> None:
    host = failed()
    host.troubles = [TROUBLE]
    async with opened(host, (120, 40)) as (app, pilot):
        await pilot.press("4")
        await until(pilot, lambda: f"! {TROUBLE}" in screen_text(app), "the trouble")


async def test_what_does_not_concern_the_environment_is_last_and_advice_has_no_switch() -> None:
    host = failed()
    first, *others = host.patches
    host.patches = (replace(others[-1], state="not applicable"), replace(first, advice=True, code=""), *others[:-1])
    async with opened(host, (120, 40)) as (app, pilot):
        await pilot.press("4")
        view = app.query_one(PatchesScreen)
        assert view.selected and view.selected.id == first.id
        assert "advice" in screen_text(app)
        await pilot.press("space")
        assert any("so it has no switch" in notice.message for notice in app._notifications)
        assert len(host.asked(protocol.PATCHES)) == 1
        await pilot.press("G")
        assert view.selected.id == others[-1].id


async def test_a_patch_of_which_nothing_can_be_shown_says_so() -> None:
    host = failed()
    async with opened(host, (120, 40)) as (app, pilot):
        await pilot.press("4", "j")
        await until(pilot, lambda: "the host does not show its code" in screen_text(app), "the word about it")
        assert "its source is not readable in this environment" in screen_text(app)
