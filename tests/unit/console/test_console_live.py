"""The bridge: frames in from the session's threads, paced Snapshots out, commands that never die silently."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace

import pytest
from console_fakes import LOG, PATCHES, RUN, FakeProject, FakeSession, LinkState, failed_run, running_run

from console.live import Live
from console.store import Snapshot
from remote import protocol
from remote.link.errors import LinkLost, NoAnswer
from remote.protocol import RemoteError
from remote.views import RUNNING, AttemptView


class Screen:
    """What a screen does with the bridge: takes Snapshots, says when it has drawn them."""

    def __init__(self, host: FakeSession, project: FakeProject | None = None, **options: object) -> None:
        self.shown: list[Snapshot] = []
        self.told: list[str] = []
        self.draw = True
        self.live = Live(
            project or FakeProject(),
            host.factory,
            None,
            self._take,
            lambda text, _: self.told.append(text),
            **options,  # type: ignore[arg-type]
        )

    def _take(self, snapshot: Snapshot) -> None:
        if self.draw:
            self.live.consumed()
        self.shown.append(snapshot)

    def until(self, condition: Callable[[Snapshot], object]) -> Snapshot:
        deadline = time.monotonic() + 30
        while not (self.shown and condition(self.shown[-1])):
            assert time.monotonic() < deadline, self.shown[-1:]
            time.sleep(0.01)
        return self.shown[-1]


@pytest.fixture
def open_screen():  # type: ignore[no-untyped-def]
    made: list[Screen] = []

    def make(host: FakeSession, **options: object) -> Screen:
        screen = Screen(host, **options)  # type: ignore[arg-type]
        made.append(screen)
        screen.live.open()
        return screen

    yield make
    for screen in made:
        screen.live.close()


def test_it_attaches_to_the_newest_run_and_opens_the_log_of_the_live_attempt(open_screen) -> None:  # type: ignore[no-untyped-def]
    host = FakeSession(running_run(), PATCHES, LOG)
    shown = open_screen(host).until(lambda s: s.log.count and s.patches and not s.pending)
    assert shown.run == running_run()
    (tail,) = host.tails
    assert tail[:4] == ("log-1", RUN, "extract", 1)
    assert LOG[tail[4] :] == LOG.splitlines(keepends=True)[-1], "the last line may not be whole"
    assert not host.asked(protocol.START)


def test_it_attaches_to_the_run_that_was_asked_for(open_screen) -> None:  # type: ignore[no-untyped-def]
    host = FakeSession(failed_run(), PATCHES, LOG)
    open_screen(host, run=RUN).until(lambda s: s.run)
    assert host.asked(protocol.SHOW) == [{"run": RUN}]
    assert not host.asked(protocol.LIST)


def test_it_starts_a_run_at_once_when_told_to_and_only_once_over_reconnects(open_screen) -> None:  # type: ignore[no-untyped-def]
    host = FakeSession(running_run(), PATCHES, LOG)
    screen = open_screen(host, start=True)
    screen.until(lambda s: s.run)
    host.on_link(LinkState("waiting", "lost", retry_in=1.0))
    host.on_link(LinkState("connected"))
    screen.live.stop(RUN)  # in the same lane: whatever the reconnect set off is done by then
    screen.until(lambda s: s.link.phase == "connected" and screen.told)
    (asked,) = host.asked(protocol.START)
    assert asked["project"] == "story"
    assert asked["request_id"]


def test_a_link_lost_while_the_run_is_started_starts_no_second_one(open_screen) -> None:  # type: ignore[no-untyped-def]
    class Flapping(FakeSession):
        def request(self, op: str, /, **params: object) -> dict[str, object]:
            answer = super().request(op, **params)
            if op == protocol.START:
                self.on_link(LinkState("waiting", "lost", retry_in=1.0))
                self.on_link(LinkState("connected"))
            return answer

    host = Flapping(running_run(), PATCHES, LOG)
    screen = open_screen(host, start=True)
    screen.until(lambda s: s.run)
    screen.live.stop(RUN)  # in the same lane, behind whatever the reconnect set off
    screen.until(lambda _: screen.told)
    assert len(host.asked(protocol.START)) == 1


def test_a_start_without_an_answer_is_asked_for_again_as_the_same_run(open_screen) -> None:  # type: ignore[no-untyped-def]
    host = FakeSession(running_run(), PATCHES, LOG)
    host.refuse[protocol.START] = NoAnswer("gpu-box has not answered 'start' within 30 s")  # type: ignore[assignment]
    screen = open_screen(host, start=True)
    screen.until(lambda s: s.problem and not s.pending)
    del host.refuse[protocol.START]
    host.on_link(LinkState("connected"))
    screen.until(lambda s: s.run)
    first, again = host.asked(protocol.START)
    assert first["request_id"] == again["request_id"], "the host may have started it without having said so"


def test_the_tail_moves_to_the_attempt_that_became_live(open_screen) -> None:  # type: ignore[no-untyped-def]
    host = FakeSession(failed_run(), PATCHES, LOG)
    screen = open_screen(host)
    screen.until(lambda s: s.log.count)
    stage = host.run.stages[3]  # type: ignore[union-attr]
    second = AttemptView(2, "running", elapsed=0.1, log_bytes=0, log_id="1:9")
    again = replace(stage, state=RUNNING, attempts=(*stage.attempts, second))
    host.run = replace(host.run, stages=(*host.run.stages[:3], again))  # type: ignore[union-attr,type-var]
    host.push_run()
    screen.until(lambda s: s.log.key and s.log.key.attempt == 2 and not s.pending)
    assert [(stage, attempt) for _, _, stage, attempt, _ in host.tails] == [("extract", 1), ("extract", 2)]


def test_who_reads_in_a_log_is_not_taken_away_when_the_next_attempt_begins(open_screen) -> None:  # type: ignore[no-untyped-def]
    host = FakeSession(failed_run(), PATCHES, LOG)
    screen = open_screen(host)
    shown = screen.until(lambda s: s.log.count and not s.pending)
    screen.live.browser.pause(shown.log.frozen())
    stage = host.run.stages[3]  # type: ignore[union-attr]
    again = replace(stage, state=RUNNING, attempts=(*stage.attempts, AttemptView(2, "running", log_bytes=0)))
    host.run = replace(host.run, stages=(*host.run.stages[:3], again))  # type: ignore[union-attr,type-var]
    host.push_run()
    screen.until(lambda s: s.run and s.run.live_stage)
    assert screen.told == ["extract, attempt 2, has begun: ] goes to its log."]
    assert len(host.tails) == 1
    assert screen.live.snapshot.log.key.attempt == 1


def test_a_log_that_is_not_there_yet_is_waited_for(open_screen) -> None:  # type: ignore[no-untyped-def]
    host = FakeSession(running_run(), PATCHES)
    host.refuse[protocol.PAGE] = RemoteError("bad_request", "stdout.log cannot be read: No such file or directory")
    screen = open_screen(host)
    screen.until(lambda s: s.log.tail and not s.pending)
    assert host.tails[0][4] == 0
    host.push_log(b"first words\n")
    shown = screen.until(lambda s: s.log.count)
    assert (shown.log.row(0).text, shown.log.row(0).line) == ("first words", 1)


def test_a_log_that_was_being_opened_when_the_link_was_lost_is_opened_on_the_next(open_screen) -> None:  # type: ignore[no-untyped-def]
    host = FakeSession(running_run(), PATCHES, LOG)
    host.refuse[protocol.PAGE] = LinkLost("the link to gpu-box ended")  # type: ignore[assignment]
    screen = open_screen(host)
    screen.until(lambda s: s.problem and s.log.opening)
    del host.refuse[protocol.PAGE]
    host.on_link(LinkState("connected"))
    assert screen.until(lambda s: s.log.count).log.tail


def test_a_command_that_succeeds_takes_no_problem_away_that_came_while_it_ran(open_screen) -> None:  # type: ignore[no-untyped-def]
    class Slow(FakeSession):
        """Answers a watch only when the log, whose opening it set off, could not be opened."""

        def watch(self, run: str) -> None:
            super().watch(run)
            opened.wait(30)
            screen.until(lambda s: s.problem)

    opened = threading.Event()
    host = Slow(running_run(), PATCHES, LOG)
    host.refuse[protocol.PAGE] = LinkLost("the link to gpu-box ended")  # type: ignore[assignment]
    screen = open_screen(host)
    opened.set()
    assert screen.until(lambda s: s.problem and not s.pending).problem.message == "the link to gpu-box ended"
    screen.live.stop(RUN)
    screen.until(lambda s: screen.told and not s.problem)


def test_nothing_is_published_until_the_screen_has_drawn_and_then_the_newest(open_screen) -> None:  # type: ignore[no-untyped-def]
    host = FakeSession(running_run(), PATCHES, LOG)
    screen = open_screen(host)
    screen.until(lambda s: s.log.count and s.patches and not s.pending)
    screen.draw = False
    host.push_log(b"first\n", offset=len(LOG))
    screen.until(lambda s: s.log.count == 31)
    count = len(screen.shown)
    at = len(LOG) + 6
    for i in range(500):
        host.push_log(b"more %d\n" % (i % 10), offset=at)
        at += 7
    time.sleep(0.5)  # five ticks in which a pump that does not wait would publish
    assert len(screen.shown) == count
    screen.draw = True
    screen.live.consumed()
    shown = screen.until(lambda s: s.log.count == 531)
    assert shown.log.next_offset == at
    assert len(screen.shown) <= count + 2


def test_no_change_publishes_nothing(open_screen) -> None:  # type: ignore[no-untyped-def]
    host = FakeSession(running_run(), PATCHES, LOG)
    screen = open_screen(host)
    screen.until(lambda s: s.log.count and s.patches and not s.pending)
    count = len(screen.shown)
    for _ in range(50):
        host.on_push({"ev": "news of a newer host"})
    host.push_log(b"x\n", offset=len(LOG))
    screen.until(lambda s: s.log.count == 31)
    assert len(screen.shown) == count + 1


def test_a_refused_command_shows_the_host_s_sentence_and_remedy_until_one_succeeds(open_screen) -> None:  # type: ignore[no-untyped-def]
    host = FakeSession(failed_run(), PATCHES, LOG)
    screen = open_screen(host)
    screen.until(lambda s: s.log.count and s.patches)
    host.refuse[protocol.RELAUNCH] = RemoteError("busy", "extract is running\x1b[2J", "stop it first")
    screen.live.relaunch(RUN, "extract")
    problem = screen.until(lambda s: s.problem).problem
    assert problem is not None
    assert (problem.message, problem.remedy) == ("extract is running␛", "stop it first")
    del host.refuse[protocol.RELAUNCH]
    screen.live.relaunch(RUN, "extract")
    screen.until(lambda s: s.problem is None)
    assert screen.told == ["extract: attempt 2 started."]


def test_what_is_put_away_is_the_problem_that_was_read(open_screen) -> None:  # type: ignore[no-untyped-def]
    host = FakeSession(failed_run(), PATCHES, LOG)
    screen = open_screen(host)
    screen.until(lambda s: s.log.count and s.patches and not s.pending)
    host.on_push({"ev": protocol.FAILED, "error": {"message": "first"}})
    read = screen.until(lambda s: s.problem).problem
    host.on_push({"ev": protocol.FAILED, "error": {"message": "second"}})
    screen.live.dismiss_problem(read)
    assert screen.live.snapshot.problem.message == "second"
    screen.live.dismiss_problem(screen.live.snapshot.problem)
    assert screen.live.snapshot.problem is None


def test_a_fault_of_our_own_is_shown_and_the_lane_lives_on(open_screen) -> None:  # type: ignore[no-untyped-def]
    host = FakeSession(failed_run(), PATCHES, LOG)
    screen = open_screen(host)
    screen.until(lambda s: s.log.count and s.patches)
    host.refuse[protocol.STOP] = KeyError("odd")  # type: ignore[assignment]
    screen.live.stop(RUN)
    screen.until(lambda s: s.problem and s.problem.message.startswith("KeyError"))
    screen.live.relaunch(RUN, "extract")
    screen.until(lambda s: s.problem is None)


def test_a_command_before_the_connection_says_so(open_screen) -> None:  # type: ignore[no-untyped-def]
    gate = threading.Event()
    host = FakeSession(failed_run(), PATCHES, LOG)

    class Slow(FakeSession):
        def factory(self, *callbacks: object) -> FakeSession:
            gate.wait(30)
            return host.factory(*callbacks)  # type: ignore[arg-type]

    screen = Screen(Slow())
    screen.live.open()
    screen.live.show_attempt(failed_log_key())
    problem = screen.until(lambda s: s.problem).problem
    gate.set()
    screen.live.close()
    assert problem is not None
    assert "no connection" in problem.message


def failed_log_key():  # type: ignore[no-untyped-def]
    from console.store import log_target

    return log_target(failed_run())


def test_switches_pressed_in_a_hurry_end_where_the_operator_left_them(open_screen) -> None:  # type: ignore[no-untyped-def]
    gate = threading.Event()

    class SlowDisk(FakeProject):
        def set_switch(self, patch: str, to: str) -> None:
            gate.wait(30)
            super().set_switch(patch, to)

    project, host = SlowDisk(), FakeSession(failed_run(), PATCHES, LOG)
    screen = open_screen(host, project=project)
    screen.until(lambda s: s.patches and not s.pending)
    assert [screen.live.toggle_switch("kv-cache-config") for _ in range(3)] == ["off", "on", "auto"]
    gate.set()
    screen.until(lambda _: not screen.live.snapshot.pending and len(project.saved) == 3)
    assert project.saved == [("kv-cache-config", to) for to in ("off", "on", "auto")]
    assert len(host.asked(protocol.PATCHES)) == 2  # when it attached, and once for all three
    assert "next relaunch" in screen.told[-1]


def test_patches_that_cannot_be_told_are_no_problem_of_the_run(open_screen) -> None:  # type: ignore[no-untyped-def]
    host = FakeSession(failed_run(), PATCHES, LOG)
    host.refuse[protocol.PATCHES] = RemoteError("bad_settings", "no environment yet", "start a run")
    shown = open_screen(host).until(lambda s: s.patches_problem)
    assert shown.problem is None
    assert shown.patches_problem.remedy == "start a run"


def test_closing_closes_the_session(open_screen) -> None:  # type: ignore[no-untyped-def]
    host = FakeSession(failed_run(), PATCHES, LOG)
    screen = open_screen(host)
    screen.until(lambda s: s.run)
    screen.live.close()
    assert host.closed.is_set()
