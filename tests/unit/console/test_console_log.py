"""The log as it is read in the app: followed, paused, moved about in, cut at the edge."""

from __future__ import annotations

import pytest
from console_pilot import failed, log_view, opened, screen_text, until


async def test_scrolling_up_pauses_and_the_end_or_f_follows_again() -> None:
    host = failed()
    async with opened(host) as (app, pilot):
        await pilot.press("2")
        view = log_view(app)
        assert view.following
        assert view.top == view.last_top
        await pilot.press("k")
        assert not view.following
        assert "paused: f follows" in screen_text(app)
        host.push_log(b"late\n", offset=app.snapshot.log.next_offset)
        await until(pilot, lambda: app.snapshot.log.count == 71, "the late line")
        await pilot.pause()
        assert "late" not in screen_text(app)
        await pilot.press("f")
        await until(pilot, lambda: "late" in screen_text(app), "the end")
        await pilot.press("g")
        await until(pilot, lambda: view.top == 0 and not view.following, "the start")
        await pilot.press("G")
        assert view.following
        assert view.top == view.last_top


@pytest.mark.parametrize(("down", "up"), [("j", "k"), ("down", "up"), ("pagedown", "pageup"), ("ctrl+d", "ctrl+u")])
async def test_the_log_moves_both_ways(down: str, up: str) -> None:
    async with opened(failed()) as (app, pilot):
        await pilot.press("2", "g")
        view = log_view(app)
        await until(pilot, lambda: not view.following, "the start")
        await pilot.press(down, down)
        there = view.top
        assert there > 0
        await pilot.press(up)
        assert view.top < there


async def test_long_lines_are_cut_with_a_sign_and_reached_sideways() -> None:
    host = failed()
    host.log = b"head " + b"x" * 200 + b" tail\n"
    async with opened(host) as (app, pilot):
        await pilot.press("2")
        assert "…" in screen_text(app)
        assert "tail" not in screen_text(app)
        await pilot.press(*["right"] * 10)
        assert " tail" in screen_text(app)
        await pilot.press(*["left"] * 10)
        assert "head" in screen_text(app)
