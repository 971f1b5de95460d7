"""What each key does, at every size, on a fake host."""

from __future__ import annotations

import subprocess
import sys
import threading
from dataclasses import replace

import pytest
from console_fakes import LOG, PATCHES, RUN, FakeProject, FakeSession, LinkState, running_run
from console_pilot import SIZES, failed, log_view, opened, running, screen_text, session, until
from rich.cells import cell_len
from textual.widgets import Button

from console.app import EyasApp
from console.screens.dialogs import ChooseRun, ConfirmStop, Help
from console.screens.patches import PatchesScreen
from console.screens.tracebacks import TracebacksScreen
from console.widgets.rail import Rail
from remote import protocol
from remote.logs.findings import Stall
from remote.protocol import RemoteError


@pytest.mark.parametrize("size", SIZES)
async def test_every_view_opens_at_every_size_and_fills_the_screen(size: tuple[int, int]) -> None:
    names = {"1": "run", "2": "log", "3": "tracebacks", "4": "patches", "t": "tracebacks", "p": "patches"}
    async with opened(failed(), size) as (app, pilot):
        for key, name in names.items():
            await pilot.press(key)
            assert app.view == name
            rows = screen_text(app).splitlines()
            assert len(rows) == size[1]
            assert {cell_len(row) for row in rows} == {size[0]}
            assert "q quit" in rows[-1]
            assert "connected" in rows[0]


async def test_at_80_by_24_eight_gpus_leave_room_for_stages_and_log() -> None:
    async with opened(session(running_run(), 8)) as (app, _):
        text = screen_text(app)
        for index in range(8):
            assert f"  {index}" in text
        assert "extract" in text
        assert "running" in text
        assert log_view(app).size.height >= 4


async def test_no_gpu_shows_the_reason_and_no_figure() -> None:
    async with opened(failed()) as (app, _):
        assert "NVML is not there: libnvidia-ml.so.1 not found" in screen_text(app)
        assert "0%" not in screen_text(app)


async def test_what_stands_still_is_said_while_it_runs() -> None:
    run = running_run()
    text = "Worker_TP0: Loading shards: no step for at least 9 min after 34 of 85; usually 30 s lie between two"
    stall = Stall(text, "safetensors_shards", 34, 85, 540.0, 30.0)
    findings = replace(run.stages[3].findings, stalls=(replace(stall, text="an old one", ended=True), stall))
    host = session(replace(run, stages=(*run.stages[:3], replace(run.stages[3], findings=findings))))
    async with opened(host, (120, 40)) as (app, _):
        assert f"◌ {text}" in screen_text(app)
        assert "an old one" not in screen_text(app)


async def test_old_figures_say_how_old_they_are() -> None:
    async with opened(running()) as (app, pilot):
        app.clock = lambda: 100.0 + 12.0
        await until(pilot, lambda: "figures are 12s old" in screen_text(app), "the age")


async def test_relaunch_asks_the_host_for_the_failed_stage() -> None:
    host = failed()
    async with opened(host) as (_, pilot):
        await pilot.press("r")
        await until(pilot, lambda: host.asked(protocol.RELAUNCH), "RELAUNCH")
        (asked,) = host.asked(protocol.RELAUNCH)
        assert (asked["run"], asked["stage"]) == (RUN, "extract")
        assert asked["request_id"]
        assert asked["switches"] == {"mode": "auto"}


async def test_relaunch_without_a_failed_stage_says_why_and_asks_nothing() -> None:
    host = running()
    async with opened(host) as (app, pilot):
        await pilot.press("r")
        await pilot.pause()
        assert not host.asked(protocol.RELAUNCH)
        assert any("K stops it" in notice.message for notice in app._notifications)


async def test_a_refused_relaunch_stays_on_screen_with_its_remedy() -> None:
    host = failed()
    host.refuse[protocol.RELAUNCH] = RemoteError("busy", "another console relaunched it", "look at attempt 2")
    async with opened(host) as (app, pilot):
        await pilot.press("r")
        await until(pilot, lambda: "another console relaunched it" in screen_text(app), "the problem")
        assert "→ look at attempt 2" in screen_text(app)
        await pilot.press("escape")
        await until(pilot, lambda: "another console" not in screen_text(app), "the problem's end")


async def test_stop_names_host_run_stage_and_attempt_and_enter_on_cancel_does_nothing() -> None:
    host = running()
    async with opened(host) as (app, pilot):
        await pilot.press("K")
        assert isinstance(app.screen, ConfirmStop)
        assert isinstance(app.focused, Button)
        assert app.focused.id == "cancel"
        for word in ("gpu-box", RUN, "extract, attempt 1"):
            assert word in screen_text(app)
        await pilot.press("enter")
        await pilot.pause()
        assert not isinstance(app.screen, ConfirmStop)
        assert not host.asked(protocol.STOP)


@pytest.mark.parametrize("keys", [("right", "enter"), ("tab", "enter")])
async def test_stop_is_sent_when_the_stop_button_is_focused_and_entered(keys: tuple[str, ...]) -> None:
    host = running()
    async with opened(host) as (_, pilot):
        await pilot.press("K", *keys)
        await until(pilot, lambda: host.asked(protocol.STOP) == [{"run": RUN}], "STOP")


async def test_what_is_stopped_is_the_run_that_was_named_whatever_the_screen_turns_to_meanwhile() -> None:
    gate = threading.Event()

    class Slow(FakeSession):
        def request(self, op: str, /, **params: object) -> dict[str, object]:
            return super().request(op, **params) if op != protocol.START or gate.wait(60) else {}

    host = Slow(running_run(), PATCHES, LOG)
    async with opened(host) as (app, pilot):
        app.live.start_run()
        app.live.turn_to("20260301T041500Z-5eed0002")
        await pilot.press("K")
        assert RUN in screen_text(app)
        await pilot.press("tab", "enter")
        gate.set()
        await until(pilot, lambda: host.asked(protocol.STOP) == [{"run": RUN}], "STOP")


@pytest.mark.parametrize("key", ["escape", "q", "n"])
async def test_stop_is_left_without_stopping_or_quitting(key: str) -> None:
    host = running()
    async with opened(host) as (app, pilot):
        await pilot.press("K", key)
        await pilot.pause()
        assert not host.asked(protocol.STOP)
        assert not isinstance(app.screen, ConfirmStop)
        assert app.is_running


async def test_run_offers_a_new_run_first_and_starts_it() -> None:
    host = failed()
    async with opened(host) as (app, pilot):
        await pilot.press("R")
        assert isinstance(app.screen, ChooseRun)
        assert not host.asked(protocol.START)
        await pilot.press("enter")
        await until(pilot, lambda: len(host.asked(protocol.START)) == 1, "START")


async def test_run_from_a_stage_relaunches_that_stage_of_this_run() -> None:
    host = failed()
    async with opened(host) as (_, pilot):
        await pilot.press("R", "j", "down", "enter")
        await until(pilot, lambda: host.asked(protocol.RELAUNCH), "RELAUNCH")
        assert host.asked(protocol.RELAUNCH)[0]["stage"] == "target"
        assert not host.asked(protocol.START)


async def test_patch_from_a_traceback_stands_on_its_patch() -> None:
    host = failed()
    host.patches = (*PATCHES[1:], PATCHES[0])
    async with opened(host) as (app, pilot):
        await pilot.press("t", "p")
        view = app.current
        assert isinstance(view, PatchesScreen)
        assert view.selected is not None
        assert view.selected.id == "prefix-caching"
        assert "enable_prefix_caching=False" in screen_text(app)


async def test_patch_waits_for_the_host_s_answer_and_stands_on_it_then() -> None:
    host = failed()
    host.patches = ()
    async with opened(host) as (app, pilot):
        await pilot.press("t", "p")
        host.patches = (*PATCHES[1:], PATCHES[0])
        app.live.refresh_patches()
        await until(pilot, lambda: "enable_prefix_caching=False" in screen_text(app), "the patch")


async def test_space_turns_the_switch_at_once_saves_it_and_says_when_it_counts() -> None:
    host, project = failed(), FakeProject()
    async with opened(host, project=project) as (app, pilot):
        await pilot.press("4", "j", "space")
        assert app.live.snapshot.patch("scheduler-arguments").switch in ("off", "auto")  # type: ignore[union-attr]
        await until(pilot, lambda: project.saved == [("scheduler-arguments", "off")], "the saved switch")
        await until(pilot, lambda: any("next relaunch" in n.message for n in app._notifications), "the notice")
        await until(pilot, lambda: len(host.asked(protocol.PATCHES)) == 2, "the host asked again")


async def test_the_tracebacks_show_root_cause_frames_source_and_the_way_to_the_patch() -> None:
    async with opened(failed(), (200, 60)) as (app, pilot):
        await pilot.press("t")
        text = screen_text(app)
        for words in (
            "root cause AssertionError at `assert len(request.block_hashes) >= num_full_blocks`"[:60],
            "in cache_full_blocks  vllm/v1/core/block_pool.py:243",
            "patch prefix-caching mends this",
            "press p",
            "printed by EngineCore",
            "main  pipeline/stages/extract.py:214",
            "wraps #1",
        ):
            assert words in text
        await pilot.press("e")
        assert "only says that another failed: #1 AssertionError" in screen_text(app)
        assert "Worker_TP0, Worker_TP1" in screen_text(app)


async def test_errors_are_walked_round() -> None:
    async with opened(failed()) as (app, pilot):
        await pilot.press("e")
        view = app.current
        assert isinstance(view, TracebacksScreen)
        picked = []
        for key in ("e", "e", "E", "E"):
            await pilot.press(key)
            picked.append(view.selected.index if view.selected else None)
        assert picked == [1, 0, 1, 0]


async def test_enter_on_a_traceback_goes_to_its_line_in_the_log() -> None:
    async with opened(failed()) as (app, pilot):
        await pilot.press("t", "enter")
        assert app.view == "log"
        await until(pilot, lambda: log_view(app).marked == 30, "the traceback's row")


async def test_the_stage_cursor_moves_and_enter_opens_that_stage_s_log() -> None:
    host = failed()
    async with opened(host) as (app, pilot):

        def shown(stage: str) -> bool:
            key = app.snapshot.log.key
            return key is not None and key.stage == stage and host.tails[-1][2:4] == (stage, 1)

        rail = app.query_one(Rail)
        assert rail.selected is not None
        assert rail.selected.name == "extract"
        await pilot.press("k", "k")
        assert rail.selected.name == "target"
        await pilot.press("enter")
        await until(pilot, lambda: shown("target"), "the log of target")
        assert app.view == "log"
        await pilot.press("right_square_bracket")
        await until(pilot, lambda: shown("prepare"), "the log of prepare")
        await pilot.press("left_square_bracket")
        await until(pilot, lambda: shown("target"), "the log of target again")


async def test_escape_goes_back_one_level_and_never_quits() -> None:
    async with opened(failed()) as (app, pilot):
        await pilot.press("4", "question_mark")
        assert isinstance(app.screen, Help)
        await pilot.press("escape")
        assert app.view == "patches"
        await pilot.press("escape")
        assert app.view == "run"
        await pilot.press("escape", "escape")
        assert app.is_running


async def test_help_is_made_from_the_registry() -> None:
    async with opened(failed(), (120, 60)) as (app, pilot):
        await pilot.press("4", "question_mark")
        text = screen_text(app)
        assert "Turn the patch's switch: auto, off, on" in text
        assert "Follow the end of the log" not in text


async def test_the_palette_runs_an_action_by_name() -> None:
    host = failed()
    async with opened(host) as (_, pilot):
        await pilot.press("ctrl+p", *"relaunch")
        await until(pilot, lambda: "Relaunch the failed" in screen_text(pilot.app), "the hit")  # type: ignore[arg-type]
        await pilot.press("down", "enter")
        await until(pilot, lambda: host.asked(protocol.RELAUNCH), "RELAUNCH")


async def test_quitting_leaves_a_live_run_going_and_says_so() -> None:
    host = running()
    async with opened(host) as (app, pilot):
        await pilot.press("q")
        await pilot.pause()
    assert "goes on" in app.farewell
    for word in (RUN, "gpu-box", "extract", "eyas stop"):
        assert word in app.farewell
    assert not host.asked(protocol.STOP)
    assert host.closed.is_set()


async def test_quitting_without_a_live_run_says_nothing() -> None:
    async with opened(failed()) as (app, pilot):
        await pilot.press("q")
        await pilot.pause()
    assert app.farewell == ""


async def test_an_empty_host_says_what_to_press() -> None:
    async with opened(session(None)) as (app, pilot):
        assert "press R to start one" in screen_text(app)
        await pilot.press("t")
        assert "R starts one" in screen_text(app)
        await pilot.press("2")
        assert "R starts one" in screen_text(app)


async def test_the_link_s_state_is_on_every_view_with_its_remedy() -> None:
    host = failed()
    async with opened(host) as (app, pilot):
        host.on_link(LinkState("waiting", "the link to gpu-box ended", "it is tried again", retry_in=7.0))
        await until(pilot, lambda: app.snapshot.link.phase == "waiting", "waiting")
        for key in "1234":
            await pilot.press(key)
            assert "retry in 7s" in screen_text(app)
            assert "the link to gpu-box ended" in screen_text(app)
            assert "it is tried again" in screen_text(app)


async def test_elapsed_and_eta_are_on_the_rail() -> None:
    async with opened(running()) as (app, _):
        (row,) = [row for row in screen_text(app).splitlines() if "›▶ extract" in row]
        for words in ("running", "1m 03s", "24/64", "ETA 1m 20s"):
            assert words in row


async def test_a_rank_without_a_bar_is_shown_by_what_it_has_read() -> None:
    async with opened(running(), (200, 60)) as (app, _):
        text = screen_text(app)
        (bar,) = [row for row in text.splitlines() if "Worker_TP0" in row and "safetensors shards" in row]
        assert "8/16" in bar
        assert "read 12.4 GiB" in bar
        (rank1,) = [row for row in text.splitlines() if "VLLM::Worker_TP1" in row]
        assert "read  11.9 GiB" in rank1


async def test_a_resize_keeps_the_view_the_cursor_and_the_following() -> None:
    async with opened(failed()) as (app, pilot):
        await pilot.press("4", "j", "j")
        await pilot.resize_terminal(40, 10)
        await pilot.resize_terminal(300, 80)
        await pilot.pause()
        view = app.current
        assert isinstance(view, PatchesScreen)
        assert view.selected is not None
        assert view.selected.id == "kv-cache-config"
        await pilot.press("2")
        await pilot.resize_terminal(80, 24)
        await pilot.pause()
        assert log_view(app).following
        assert "step 29" in screen_text(app)


def test_the_app_is_imported_without_any_ssh_library() -> None:
    code = "import sys, console.app; print([m for m in ('paramiko', 'cryptography', 'tomlkit') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


async def test_the_first_paint_comes_before_the_session_is_made() -> None:
    painted: list[bool] = []
    host = failed()

    def factory(*callbacks: object) -> object:
        painted.append(bool(app.screen_stack) and "eyas" in screen_text(app))
        painted.append(threading.current_thread() is threading.main_thread())
        return host.factory(*callbacks)  # type: ignore[arg-type]

    app = EyasApp(FakeProject(), factory)  # type: ignore[arg-type]
    async with app.run_test() as pilot:
        await until(pilot, lambda: app.snapshot.run, "the run")
    assert painted == [True, False]
