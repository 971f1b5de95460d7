"""The modals: stop (asks), run (from where), a question of the link, help. Enter is always the focused button."""

from __future__ import annotations

import queue
from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Button, Input, OptionList, Static
from textual.widgets.option_list import Option

from console import actions
from console.actions import View
from console.widgets.paint import Part, styled
from remote.link.asker import Question
from remote.views import AttemptView, RunView, StageView


class ConfirmStop(ModalScreen[bool]):
    """Names what would be stopped, and where. The focus is on Cancel."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,n", "dismiss(False)", show=False),
        Binding("left,right,h,l,j,k,up,down", "app.focus_next", show=False),
    ]

    def __init__(self, host: str, run: str, stage: StageView, attempt: AttemptView) -> None:
        super().__init__()
        self._text = styled(
            ("Stop ", "strong"),
            (f"{stage.name}, attempt {attempt.number}", "bad"),
            ("?\n\n", "strong"),
            ("host   ", "muted"),
            f"{host}\n",
            ("run    ", "muted"),
            f"{run}\n",
            ("stage  ", "muted"),
            f"{stage.name} ({stage.title})\n\n" if stage.title else f"{stage.name}\n\n",
            ("Its whole process tree gets TERM, time to end, then KILL.", "muted"),
        )

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(self._text)
            with Horizontal(classes="buttons"):
                yield Button("Cancel", id="cancel")
                yield Button("Stop it", id="stop", variant="error")

    def on_mount(self) -> None:
        self.query_one("#cancel").focus()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        self.dismiss(event.button.id == "stop")


class ChooseRun(ModalScreen[str | None]):
    """Where to run from: '' the whole pipeline as a new run, else the name of a stage of this run."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "dismiss(None)", show=False),
        Binding("j", "list('cursor_down')", show=False),
        Binding("k", "list('cursor_up')", show=False),
    ]

    def __init__(self, host: str, run: RunView | None) -> None:
        super().__init__()
        self._host, self._run = host, run

    def compose(self) -> ComposeResult:
        options = [Option(styled(("The whole pipeline", "strong"), ("  as a new run", "muted")), id="run")]
        for index, stage in enumerate(self._run.stages if self._run else ()):
            again = f"  attempt {len(stage.attempts) + 1}, then what follows"
            options.append(Option(styled("From ", (stage.name, "strong"), (again, "muted")), id=f"stage-{index}"))
        title: list[Part | str] = [("Run on ", "strong"), (self._host, "strong")]
        if self._run:
            title += ["\n", ("or go on in run ", "muted"), (self._run.run, "muted")]
        with Vertical(classes="dialog"):
            yield Static(styled(*title))
            yield OptionList(*options)
            yield Static(styled(("enter", "key"), (" starts it   ", "muted"), ("esc", "key"), (" leaves it", "muted")))

    def on_mount(self) -> None:
        self.query_one(OptionList).focus()

    def action_list(self, move: str) -> None:
        getattr(self.query_one(OptionList), f"action_{move}")()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        stages = self._run.stages if self._run else ()
        self.dismiss("" if event.option_index == 0 else stages[event.option_index - 1].name)


class Ask(ModalScreen[str | None]):
    """A question of the link. A host key wants the typed word `yes`; secrets are masked."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", show=False)]

    def __init__(self, question: Question) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        question = self._question
        parts: list[Part | str] = [(question.title + "\n", "strong"), (question.text + "\n", "text")]
        for name, value in question.details.items():
            if value:
                ink = "strong" if name == "fingerprint" else "text"
                parts += [(f"\n{name.replace('_', ' '):<12}", "muted"), (value, ink)]
        host_key = question.kind == "host_key"
        hint = "yes, if the fingerprint is the host's own" if host_key else ""
        with Vertical(classes="dialog"):
            yield Static(styled(*parts))
            yield Input(password=question.secret, placeholder=hint, select_on_focus=False)
            yield Static("", id="ask-note")
            refuse = " refuses" if host_key else " gives up"
            yield Static(styled(("enter", "key"), (" answers   ", "muted"), ("esc", "key"), (refuse, "muted")))

    def on_mount(self) -> None:
        self.query_one(Input).focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        answer = event.value
        if self._question.kind == "host_key":
            answer = answer.strip()
            if answer not in ("yes", self._question.details.get("fingerprint", "yes")):
                note = styled(("Type yes in full to trust this key, or esc to refuse it.", "warn"))
                self.query_one("#ask-note", Static).update(note)
                return
        self.dismiss(answer)


class Prompt(ModalScreen[str | None]):
    """One line of the operator's own; '' and None for none."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", show=False)]

    def __init__(self, title: str, hint: str, value: str = "") -> None:
        super().__init__()
        self._title, self._hint, self._value = title, hint, value

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(styled((self._title + "\n", "strong"), (self._hint, "muted")))
            yield Input(self._value)
            yield Static(styled(("enter", "key"), (" goes   ", "muted"), ("esc", "key"), (" leaves it", "muted")))

    def on_mount(self) -> None:
        self.query_one(Input).focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value)


class Asked(Message):
    """A question on its way from the link's thread to the screen; the answer goes back through the queue."""

    def __init__(self, question: Question, answer: queue.Queue[str | None]) -> None:
        super().__init__()
        self.question = question
        self.answer = answer


class ModalAsker:
    """The link's Asker on this screen: blocks the link's thread until the operator has answered."""

    def __init__(self, post: Callable[[Message], bool]) -> None:
        self._post = post
        self._closed = False
        self._waiting: list[queue.Queue[str | None]] = []

    def ask(self, question: Question) -> str | None:
        answer: queue.Queue[str | None] = queue.Queue()
        self._waiting.append(answer)  # before it is posted: close() may come right behind
        try:
            if self._closed or not self._post(Asked(question, answer)):
                return None
            return answer.get()
        finally:
            self._waiting.remove(answer)

    def close(self) -> None:
        """Nobody will answer any more."""
        self._closed = True
        for answer in list(self._waiting):
            answer.put(None)


class Help(ModalScreen[None]):
    """The keys of the view it was opened on, made from the registry."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,f1,enter", "dismiss(None)", show=False),
        Binding("j,down", "scroll(1)", show=False),
        Binding("k,up", "scroll(-1)", show=False),
        Binding("pagedown,ctrl+d", "scroll(10)", show=False),
        Binding("pageup,ctrl+u", "scroll(-10)", show=False),
    ]

    def __init__(self, view: View) -> None:
        super().__init__()
        self._view = view

    def compose(self) -> ComposeResult:
        parts: list[Part | str] = [(f"Keys of the {self._view} view\n", "strong")]
        group = ""
        for action in actions.for_view(self._view):
            if action.group != group:
                group = action.group
                parts.append((f"\n{group}\n", "muted"))
            keys = " ".join(actions.show_key(key) for key in action.keys)
            parts += [(f"  {keys:<10}", "key"), f" {action.help}\n"]
        with Vertical(classes="dialog tall"):
            with VerticalScroll(can_focus=False):
                yield Static(styled(*parts))
            yield Static(styled(("esc", "key"), (" closes", "muted")))

    def action_scroll(self, rows: int) -> None:
        self.query_one(VerticalScroll).scroll_relative(y=rows, animate=False)
