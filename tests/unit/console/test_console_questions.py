"""Questions of the link on the screen: an unknown host's key, a secret."""

from __future__ import annotations

import threading

from console_pilot import failed, opened, screen_text, until
from textual.message import Message
from textual.widgets import Input

from console.app import EyasApp
from console.screens.dialogs import Ask, ModalAsker
from remote.link.asker import Question


def ask(app: EyasApp, question: Question) -> tuple[threading.Thread, list[str | None]]:
    answers: list[str | None] = []
    thread = threading.Thread(target=lambda: answers.append(app._asker.ask(question)))
    thread.start()
    return thread, answers


HOST_KEY = Question(
    "host_key",
    "Unknown host key",
    "gpu-box is not known yet.",
    False,
    {"host": "gpu-box", "port": "22", "key_type": "ssh-ed25519", "fingerprint": "SHA256:abcDEF123", "note": ""},
)


async def test_a_host_key_shows_its_fingerprint_and_wants_the_whole_word_yes() -> None:
    async with opened(failed()) as (app, pilot):
        thread, answers = ask(app, HOST_KEY)
        await until(pilot, lambda: isinstance(app.screen, Ask), "the question")
        await until(pilot, lambda: "SHA256:abcDEF123" in screen_text(app), "the fingerprint")
        await pilot.press("y", "enter")
        assert isinstance(app.screen, Ask)
        assert "Type yes in full" in screen_text(app)
        await pilot.press("e", "s", "enter")
        await until(pilot, lambda: not thread.is_alive(), "the answer")
        assert answers == ["yes"]


async def test_escape_refuses_a_host_key() -> None:
    async with opened(failed()) as (app, pilot):
        thread, answers = ask(app, HOST_KEY)
        await until(pilot, lambda: isinstance(app.screen, Ask), "the question")
        await pilot.press("escape")
        await until(pilot, lambda: not thread.is_alive(), "the refusal")
        assert answers == [None]


async def test_a_secret_is_masked_and_given_whole() -> None:
    async with opened(failed()) as (app, pilot):
        thread, answers = ask(app, Question("password", "Password", "for me@gpu-box", True))
        await until(pilot, lambda: isinstance(app.screen, Ask), "the question")
        await pilot.press(*"s3cret")
        assert app.screen.query_one(Input).value == "s3cret"
        assert "s3cret" not in screen_text(app)
        await pilot.press("enter")
        await until(pilot, lambda: not thread.is_alive(), "the answer")
        assert answers == ["s3cret"]


async def test_leaving_the_app_answers_an_open_question_with_none() -> None:
    async with opened(failed()) as (app, pilot):
        thread, answers = ask(app, HOST_KEY)
        await until(pilot, lambda: isinstance(app.screen, Ask), "the question")
    thread.join(30)
    assert answers == [None]
    assert app._asker.ask(HOST_KEY) is None


def test_a_question_that_is_asked_while_the_app_is_left_is_answered_with_none() -> None:
    def post(_: Message) -> bool:
        asker.close()
        return True

    answers: list[str | None] = []
    asker = ModalAsker(post)
    thread = threading.Thread(target=lambda: answers.append(asker.ask(HOST_KEY)), daemon=True)
    thread.start()
    thread.join(30)
    assert answers == [None]
