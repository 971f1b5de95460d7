"""The registry is the only list of keys: complete, without a clash, and answered by the app."""

from __future__ import annotations

from collections import Counter

import pytest
from console_fakes import FakeProject, FakeSession, failed_run, running_run

from console import actions
from console.app import MAKERS, EyasApp
from console.store import Snapshot

REQUIRED = (
    "R r K 1 2 3 4 5 m w t p slash n N J j k down up g G pagedown pageup ctrl+u ctrl+d e E f space "
    "question_mark ctrl+p q escape"
)


@pytest.mark.parametrize("view", actions.VIEWS)
def test_no_key_means_two_things_on_one_screen(view: actions.View) -> None:
    counts = Counter(key for action in actions.for_view(view) for key in action.keys)
    assert [key for key, count in counts.items() if count > 1] == []


def test_no_key_means_two_things_anywhere() -> None:
    counts = Counter(key for action in actions.ACTIONS for key in action.keys)
    assert [key for key, count in counts.items() if count > 1] == []


def test_the_promised_keys_are_there() -> None:
    assert set(REQUIRED.split()) <= {key for action in actions.ACTIONS for key in action.keys}


def test_ids_are_unique_and_every_binding_comes_from_the_registry() -> None:
    assert len(actions.BY_ID) == len(actions.ACTIONS)
    assert {binding.id for binding in actions.bindings()} == set(actions.BY_ID)


@pytest.mark.parametrize("view", actions.VIEWS)
def test_every_action_is_answered_by_its_view_or_by_the_app(view: actions.View) -> None:
    app = EyasApp(FakeProject(), FakeSession().factory)
    widget = MAKERS[view]()
    unanswered = [
        action.id
        for action in actions.for_view(view)
        if not hasattr(widget, f"do_{action.id}") and not hasattr(app, f"do_{action.id}")
    ]
    assert unanswered == []


def test_every_answer_belongs_to_an_action() -> None:
    names = {name for cls in (EyasApp, *(type(make()) for make in MAKERS.values())) for name in dir(cls)}
    assert {name.removeprefix("do_") for name in names if name.startswith("do_")} == set(actions.BY_ID)


def test_what_cannot_be_done_says_why() -> None:
    assert "no run" in actions.why_not("relaunch", Snapshot())
    assert "K stops it" in actions.why_not("relaunch", Snapshot(run=running_run()))
    assert actions.why_not("relaunch", Snapshot(run=failed_run())) == ""
    assert actions.why_not("stop", Snapshot(run=failed_run())) == "Nothing is running."
    assert actions.why_not("stop", Snapshot(run=running_run())) == ""
