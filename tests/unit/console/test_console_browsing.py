"""Reading in a log that is far larger than what the console holds: the host looks it up, the screen never waits."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from console_fakes import TRACE_TEXT, FakeSession, failed_run
from console_pilot import log_view, opened, screen_text, session, settle, until
from textual.widgets import Input

from console.app import EyasApp
from console.browsing import ROWS, Browser, place_of
from console.live import FIRST_ROWS
from console.logwindow import KEEP, LogKey, LogWindow
from console.screens.dialogs import Help, Prompt
from console.store import Snapshot
from remote import protocol
from remote.protocol import RemoteError

COUNT = 20_000
LINES = [b"INFO 03-01 %02d:%02d:%02d [a.py:1] step %d" % (n // 3600, n // 60 % 60, n % 60, n) for n in range(COUNT)]
LATE_TRACE = TRACE_TEXT.replace(b"AssertionError\n", b"KeyError: 'late'\n")
LOG = b"\n".join([*LINES[:5000], TRACE_TEXT[:-1], *LINES[5000:15000], LATE_TRACE[:-1], *LINES[15000:]]) + b"\n"


def host_with(log: bytes = LOG) -> FakeSession:
    made = session(failed_run())
    made.log = log
    return made


class Held(FakeSession):
    """A host that answers look-ups only when told to."""

    def __init__(self) -> None:
        made = host_with()
        super().__init__(made.run, made.patches, LOG)
        self.sample = made.sample
        self.gate = threading.Event()
        self.hold = ""
        self.waiting = 0

    def request(self, op: str, /, **params: Any) -> dict[str, Any]:
        if op == self.hold:
            self.waiting += 1
            self.gate.wait(60)
        return super().request(op, **params)


def first_row(app: EyasApp) -> str:
    view = log_view(app)
    return view.window.row(view.top).text


def moved(host: FakeSession) -> int:
    """Rows that the host was asked for."""
    return sum(asked.get("rows", 0) + asked.get("before", 0) for asked in host.asked(protocol.PAGE))


async def test_only_the_end_of_a_long_log_is_fetched_and_its_lines_are_numbered() -> None:
    host = host_with()
    async with opened(host, (80, 24)) as (app, pilot):
        await pilot.press("2")
        await settle(app, pilot)
        number = f"{LOG.count(chr(10).encode())} INFO"
        await until(pilot, lambda: number in screen_text(app), "the line numbers")
        assert f"step {COUNT - 1}" in screen_text(app)
        assert moved(host) <= 2 * FIRST_ROWS
        assert host.tails[-1][-1] > len(LOG) - 200


async def test_scrolling_up_past_what_is_held_meets_every_line_once() -> None:
    host = host_with()
    async with opened(host, (80, 24)) as (app, pilot):
        await pilot.press("2")
        await settle(app, pilot)
        seen: list[str] = []
        while len(seen) < 1200:
            view = log_view(app)
            rows = [
                view.window.row(i).text for i in range(view.top, min(view.top + view.size.height, view.window.count))
            ]
            seen[:0] = rows[: len(rows) - 1] if seen else rows
            await pilot.press("pageup")
            await settle(app, pilot)
        assert seen == [line.decode() for line in LINES[COUNT - len(seen) :]]
        assert log_view(app).window.count <= KEEP
        assert moved(host) < 1200 + 2 * FIRST_ROWS + 3 * ROWS


async def test_down_again_to_the_end_follows() -> None:
    host = host_with()
    async with opened(host, (80, 24)) as (app, pilot):
        await pilot.press("2", *["pageup"] * 4)
        await settle(app, pilot)
        assert not log_view(app).following
        host.push_log(b"late\n", offset=len(LOG))
        await until(pilot, lambda: app.snapshot.log.row(app.snapshot.log.count - 1).text == "late", "the late line")
        for _ in range(6):
            await pilot.press("pagedown")
            await settle(app, pilot)
        assert log_view(app).following
        assert app.snapshot.browsed is None
        assert "late" in screen_text(app)
        assert not any(asked.get("rows", 0) > 1 for asked in host.asked(protocol.PAGE)), "what is held is not fetched"


async def test_while_the_operator_reads_elsewhere_nothing_of_the_live_end_travels() -> None:
    host = host_with()
    async with opened(host, (80, 24)) as (app, pilot):
        await pilot.press("2", "pageup")
        await until(pilot, lambda: host.untailed == ["log-1"], "the end of the tail")
        await settle(app, pilot)
        place = log_view(app).place
        host.log = LOG + b"".join(b"later %d\n" % n for n in range(3000))
        await pilot.press("1")
        await until(pilot, lambda: "later 2999" in screen_text(app), "the live end in the run view")
        await pilot.press("2")
        await until(pilot, lambda: host.untailed == ["log-1", "log-2"], "the end of that tail too")
        await settle(app, pilot)
        assert (log_view(app).place, log_view(app).following) == (place, False)
        host.log += b"and more\n"
        await pilot.press("f")
        await until(pilot, lambda: "and more" in screen_text(app), "the end")
        assert len(host.tails) == 3
        host.push_log(b"it goes on\n", offset=len(host.log))
        await until(pilot, lambda: "it goes on" in screen_text(app), "what is added to it")


async def test_first_and_last() -> None:
    host = host_with()
    async with opened(host, (80, 24)) as (app, pilot):
        await pilot.press("2", "g")
        await settle(app, pilot)
        assert (first_row(app), log_view(app).following) == (LINES[0].decode(), False)
        for _ in range(12):
            await pilot.press("pagedown")
            await settle(app, pilot)
        assert first_row(app) == LINES[12 * (log_view(app).size.height - 1)].decode()
        await pilot.press("G")
        await pilot.pause()
        assert log_view(app).following
        assert f"step {COUNT - 1}" in screen_text(app)
        assert moved(host) < 1200


@pytest.mark.parametrize(
    ("text", "row"),
    [("12345", 12334), ("02:30", 9000), ("03-01 05:00:10", 18010), ("@0", 0), ("50%", 10000)],
    ids=["line", "clock", "time", "offset", "part"],
)
async def test_j_jumps_to_a_line_a_time_an_offset_or_a_part(text: str, row: int) -> None:
    async with opened(host_with(), (80, 24)) as (app, pilot):
        await pilot.press("2", "J")
        assert isinstance(app.screen, Prompt)
        app.screen.query_one(Input).value = text
        await pilot.press("enter")
        await settle(app, pilot)
        view = log_view(app)
        assert view.marked is not None
        shown = int(view.window.row(view.marked).text.rpartition(" ")[2])
        assert abs(shown - row) <= (200 if text == "50%" else 0)
        assert "at " in screen_text(app).splitlines()[1]


async def test_a_line_that_is_not_there_is_said_and_the_place_stays() -> None:
    async with opened(host_with(), (80, 24)) as (app, pilot):
        await pilot.press("2", "J", *"99999999", "enter")
        await until(pilot, lambda: any("so there is no line" in n.message for n in app._notifications), "the notice")
        assert log_view(app).following
        await settle(app, pilot)
        assert app.snapshot.looking == ""


async def test_a_search_goes_over_the_whole_log_and_round_its_end() -> None:
    async with opened(host_with(), (80, 24)) as (app, pilot):
        await pilot.press("2", "slash", *r"step \d*777$", "enter")
        await settle(app, pilot)
        places = [log_view(app).window.mark]
        for key in ("N", "n", "n", "n"):
            await pilot.press(key)
            await settle(app, pilot)
            places.append(log_view(app).window.mark)
        steps = [LOG[at or 0 :].partition(b"\n")[0].rpartition(b" ")[2].decode() for at in places]
        assert steps == ["19777", "18777", "19777", "777", "1777"]
        assert any("Round the end" in notice.message for notice in app._notifications)


async def test_a_pattern_that_is_none_and_one_that_matches_nothing_are_said() -> None:
    async with opened(host_with(), (80, 24)) as (app, pilot):
        for text, said in (("step (", "is no regular expression"), ("nowhere", "No line matches nowhere")):
            await pilot.press("2", "slash")
            app.screen.query_one(Input).value = text
            await pilot.press("enter")
            await until(pilot, lambda said=said: any(said in n.message for n in app._notifications), said)
            await settle(app, pilot)


async def test_errors_are_those_of_the_whole_log_wherever_they_stand() -> None:
    async with opened(host_with(), (80, 24)) as (app, pilot):
        await pilot.press("2")
        found = []
        for key in ("E", "E", "E", "e", "e"):
            await pilot.press(key)
            await settle(app, pilot)
            view = log_view(app)
            assert view.marked is not None
            await until(pilot, lambda view=view: view.window.rows[0].line is not None, "line numbers")
            found.append(view.window.row(view.marked).line)
        assert found == [15011, 5001, 15011, 5001, 15011]
        assert "Traceback (most recent call last):" in screen_text(app)
        assert any("Round the start" in notice.message for notice in app._notifications)


async def test_escape_ends_a_search_and_then_leaves_the_view() -> None:
    host = Held()
    async with opened(host, (80, 24)) as (app, pilot):
        await pilot.press("2")
        host.hold = protocol.SEARCH
        await pilot.press("slash", *"step 7$", "enter")
        await until(pilot, lambda: host.waiting, "the search")
        await until(pilot, lambda: "searching …" in screen_text(app), "a word about it")
        await pilot.press("escape")
        assert app.view == "log"
        await until(pilot, lambda: "searching" not in screen_text(app), "its end")
        host.gate.set()
        await until(pilot, lambda: len(host.asked(protocol.SEARCH)) == 1, "the late answer")
        await pilot.pause(0.2)
        assert log_view(app).following
        await pilot.press("escape")
        assert app.view == "run"


async def test_while_the_host_is_silent_the_screen_moves_and_the_newest_wish_wins() -> None:
    host = Held()
    async with opened(host, (80, 24)) as (app, pilot):
        await pilot.press("2")
        await settle(app, pilot)
        host.hold, host.requests = protocol.PAGE, []
        await pilot.press("g")
        await until(pilot, lambda: host.waiting == 1, "the first wish")
        for key in ("k", "k", "pageup"):
            top = log_view(app).top
            await pilot.press(key)
            assert log_view(app).top < top
        for line in ("100", "200", "300"):
            await pilot.press("J", *line, "enter")
        await pilot.pause(0.2)
        assert host.waiting == 1, "one request at a time"
        host.gate.set()
        await settle(app, pilot)
        await until(pilot, lambda: log_view(app).window.row(log_view(app).marked or 0).line == 300, "the newest")
        asked = [params.get("line") for params in host.asked(protocol.PAGE)]
        assert 100 not in asked and 200 not in asked


async def test_a_refused_page_leaves_what_is_held_and_is_not_asked_for_again_and_again() -> None:
    host = host_with()
    async with opened(host, (80, 24)) as (app, pilot):
        await pilot.press("2")
        await settle(app, pilot)
        host.refuse[protocol.PAGE] = RemoteError("internal", "the disk is gone", "look at dmesg")
        await pilot.press(*["pageup"] * 8)
        await settle(app, pilot)
        before = len(host.asked(protocol.PAGE))
        await pilot.pause(2.5)
        assert len(host.asked(protocol.PAGE)) == before
        assert log_view(app).top == 0
        del host.refuse[protocol.PAGE]
        await pilot.press("pageup")
        await until(pilot, lambda: log_view(app).top > 0, "the rows before")


async def test_a_log_that_was_rewritten_meanwhile_is_opened_anew_and_says_so() -> None:
    host = host_with()
    async with opened(host, (80, 24)) as (app, pilot):
        await pilot.press("2", "g")
        await settle(app, pilot)
        host.log = b"a new log\n"
        await pilot.press(*["pagedown"] * 8)
        await until(pilot, lambda: "a new log" in screen_text(app), "the new log")
        assert "rewritten on the host" in screen_text(app)
        assert log_view(app).following


async def test_a_truncated_log_is_opened_anew_at_its_end() -> None:
    host = host_with()
    async with opened(host, (80, 24)) as (app, pilot):
        await pilot.press("2")
        await settle(app, pilot)
        host.log = b"cut\n"
        host.on_push({"ev": protocol.TRUNCATED, "tail": host.tails[-1][0], "size": 4, "was": len(LOG)})
        await until(pilot, lambda: "cut" in screen_text(app), "the rest")
        assert "truncated on the host" in screen_text(app)


async def test_a_bar_that_fills_the_log_s_end_leaves_no_empty_screen() -> None:
    bar = b"(Worker_TP0 pid=1) " + b"".join(b"\rsamples %d/99999 [00:01<00:01]" % n for n in range(20_000))
    host = host_with(b"\n".join(LINES[:300]) + b"\n" + bar)
    async with opened(host, (80, 24)) as (app, pilot):
        await until(pilot, lambda: "step 299" in screen_text(app), "what stands before the bar")
        await pilot.press("2")
        await until(pilot, lambda: "step 299" in screen_text(app), "the same in the log view")
        assert "samples 19999/99999" in screen_text(app)
        host.push_log(b"\rsamples 20000/99999\nthen\n", offset=len(host.log))
        await until(pilot, lambda: "302 then" in screen_text(app), "the line behind it, numbered")


async def test_the_end_of_a_log_that_ran_ahead_is_gone_to_at_once() -> None:
    host = host_with()
    async with opened(host, (80, 24)) as (app, pilot):
        await settle(app, pilot)
        tails = len(host.tails)
        host.log = LOG + b"much more\n" * (1 << 20)
        stage = host.run.stages[3]  # type: ignore[union-attr]
        attempt = replace(stage.attempts[0], log_bytes=len(host.log))
        host.run = replace(host.run, stages=(*host.run.stages[:3], replace(stage, attempts=(attempt,))))  # type: ignore
        host.push_run()
        await until(pilot, lambda: len(host.tails) == tails + 1, "a new tail")
        await until(pilot, lambda: "much more" in screen_text(app), "the end")
        assert host.tails[-1][-1] > len(host.log) - 100


async def test_help_and_key_line_name_the_keys_of_the_log() -> None:
    async with opened(host_with(), (120, 60)) as (app, pilot):
        await pilot.press("2")
        assert "/ search" in screen_text(app).splitlines()[-1]
        await pilot.press("question_mark")
        assert isinstance(app.screen, Help)
        for words in ("Search the whole log on the host", "Next line that matches", "Jump to a line, a time"):
            assert words in screen_text(app)


def test_a_look_up_that_fails_takes_nothing_from_one_that_comes_at_that_moment() -> None:
    asked, gate, later = threading.Event(), threading.Event(), threading.Thread(target=lambda: browser.go({"line": 2}))
    snapshot = Snapshot(log=LogWindow(LogKey("run", "extract", 1)))

    def request(op: str, **params: Any) -> dict[str, Any]:
        if params.get("line") == 2:
            asked.set()
            gate.wait(60)
        raise RemoteError("internal", "the disk is gone")

    def change(to: Callable[[Snapshot], Snapshot]) -> None:
        nonlocal snapshot
        if later.ident is None and snapshot.looking and not to(snapshot).looking:
            later.start()
            later.join(0.5)  # as far as it comes while the first one's words are taken away
        snapshot = to(snapshot)

    browser = Browser(request, lambda: snapshot, change, lambda *_: None, lambda _: None)
    browser.open()
    browser.go({"line": 1})
    try:
        assert asked.wait(60)
        later.join()
        assert snapshot.looking == "looking it up …"
    finally:
        gate.set()
        browser.close()


def test_what_is_jumped_to() -> None:
    assert place_of(" 1234 ", 0) == {"line": 1234}
    assert place_of("@77", 0) == {"offset": 77}
    assert place_of("12.5 %", 800) == {"offset": 100}
    assert place_of("15:30", 0) == {"time": "15:30"}
    assert place_of("0", 0) == {"time": "0"}
