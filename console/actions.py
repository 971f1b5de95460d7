"""The registry: every action of the console, once. Bindings, the key line, `?` and the palette are made from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from textual.binding import Binding

from console.store import Snapshot
from console.troubles import has_troubles

View = Literal["run", "log", "tracebacks", "patches", "metrics"]
VIEWS: tuple[View, ...] = ("run", "log", "tracebacks", "patches", "metrics")
Group = Literal["Pipeline", "Views", "Move", "Errors and log", "Eyas"]


@dataclass(frozen=True)
class Action:
    id: str
    keys: tuple[str, ...]
    """As textual names them; the first is the one that is shown."""
    label: str
    """For the key line: a word or two."""
    help: str
    group: Group
    views: tuple[View, ...] = VIEWS
    rank: int = 0
    """Place in the key line, 1 first; 0 is not there."""
    palette: bool = True

    @property
    def key(self) -> str:
        return show_key(self.keys[0])


ACTIONS: tuple[Action, ...] = (
    Action("run", ("R",), "run", "Start the pipeline as a new run, or from a stage of this one", "Pipeline", rank=4),
    Action("relaunch", ("r",), "relaunch", "Relaunch the failed stage as a new attempt", "Pipeline", rank=1),
    Action("stop", ("K",), "stop", "Stop the running stage (asks first)", "Pipeline", rank=2),
    Action("toggle", ("space",), "switch", "Turn the patch's switch: auto, off, on", "Pipeline", ("patches",), rank=1),
    Action("view_run", ("1",), "run", "Stages, GPUs, progress and the live log", "Views"),
    Action("view_log", ("2",), "log", "The whole log of the attempt", "Views"),
    Action("view_tracebacks", ("t", "3"), "tracebacks", "What broke, the root cause first", "Views", rank=6),
    Action("view_patches", ("4",), "patches", "Compat patches and their switches", "Views"),
    Action(
        "view_metrics",
        ("5", "m"),
        "metrics",
        "Curves of training, acceptance as evaluation measured it",
        "Views",
        rank=10,
    ),
    Action("sweep", ("w",), "sweep", "A sweep's points beside each other, or back to the figures", "Views", rank=11),
    Action("patch", ("p",), "patch", "The patch that mends the traceback; elsewhere the patches", "Views", rank=3),
    Action(
        "open",
        ("enter",),
        "open",
        "The log of the stage, the log where the traceback is, the run of a sweep's point",
        "Views",
        ("run", "tracebacks", "metrics"),
        rank=5,
    ),
    Action("down", ("j", "down"), "down", "Next stage, line, traceback, patch or figure", "Move", palette=False),
    Action("up", ("k", "up"), "up", "Previous stage, line, traceback, patch or figure", "Move", palette=False),
    Action("top", ("g", "home"), "first", "To the first", "Move"),
    Action("bottom", ("G", "end"), "last", "To the last; in the log also follow it again", "Move"),
    Action("page_down", ("pagedown",), "page down", "Scroll the log or the details by a page", "Move", palette=False),
    Action("page_up", ("pageup",), "page up", "Scroll back by a page", "Move", palette=False),
    Action("half_down", ("ctrl+d",), "half page down", "Scroll by half a page", "Move", palette=False),
    Action("half_up", ("ctrl+u",), "half page up", "Scroll back by half a page", "Move", palette=False),
    Action(
        "right",
        ("right", "l"),
        "right",
        "Long lines: further right; metrics: the next stage",
        "Move",
        ("run", "log", "metrics"),
        palette=False,
    ),
    Action(
        "left",
        ("left", "h"),
        "left",
        "Long lines: back left; metrics: the stage before",
        "Move",
        ("run", "log", "metrics"),
        palette=False,
    ),
    Action(
        "next_error",
        ("e",),
        "next error",
        "Next error; in the log, where it stands",
        "Errors and log",
        rank=7,
    ),
    Action("previous_error", ("E",), "previous error", "Previous error", "Errors and log"),
    Action(
        "search",
        ("slash",),
        "search",
        "Search the whole log on the host: onwards, back while following",
        "Errors and log",
        ("log",),
        rank=3,
    ),
    Action("next_match", ("n",), "next match", "Next line that matches", "Errors and log", ("log",)),
    Action("previous_match", ("N",), "previous match", "Previous line that matches", "Errors and log", ("log",)),
    Action("jump", ("J",), "jump", "Jump to a line, a time, a percentage", "Errors and log", ("log",), rank=9),
    Action("follow", ("f",), "follow", "Follow the end of the log, or stay", "Errors and log", ("run", "log"), rank=8),
    Action(
        "older",
        ("left_square_bracket",),
        "older attempt",
        "The log of the attempt before",
        "Errors and log",
        ("run", "log"),
    ),
    Action(
        "newer",
        ("right_square_bracket",),
        "newer attempt",
        "The log of the attempt after",
        "Errors and log",
        ("run", "log"),
    ),
    Action("help", ("question_mark", "f1"), "help", "The keys of this screen", "Eyas", rank=20),
    Action("palette", ("ctrl+p",), "palette", "Every action, by name", "Eyas", palette=False),
    Action("back", ("escape",), "back", "Back one level, or end a search; never leaves Eyas", "Eyas", palette=False),
    Action("quit", ("q",), "quit", "Leave; a run goes on without you", "Eyas", rank=21),
)
BY_ID = {action.id: action for action in ACTIONS}

_KEY_NAMES = {
    "question_mark": "?",
    "slash": "/",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "escape": "esc",
    "pagedown": "pgdn",
    "pageup": "pgup",
    "down": "↓",
    "up": "↑",
    "left": "←",
    "right": "→",
    "f1": "F1",
}


def show_key(key: str) -> str:
    return _KEY_NAMES.get(key, key)


def bindings() -> list[Binding]:
    """One binding an action; the app's `act` finds out which view it is for."""
    return [
        Binding(",".join(action.keys), f"act({action.id!r})", action.label, show=False, id=action.id)
        for action in ACTIONS
    ]


def for_view(view: View) -> tuple[Action, ...]:
    return tuple(action for action in ACTIONS if view in action.views)


def why_not(action_id: str, snapshot: Snapshot) -> str:
    """Why an action has nothing to act on right now; '' when it has."""
    run = snapshot.run
    match action_id:
        case "relaunch":
            if run is None:
                return "There is no run to relaunch a stage of: R starts one."
            if run.live_stage is not None:
                return f"{run.live_stage.name} is running: K stops it."
            if run.failed_stage is None:
                return "No stage has failed: R starts from a stage of your choice."
        case "stop" if snapshot.live is None:
            return "Nothing is running."
        case "search" | "next_match" | "previous_match" | "jump" if snapshot.log.key is None:
            return "There is no log yet."
        case "toggle" if not snapshot.patches:
            return "The host has not told its patches yet."
    return ""


def worth_showing(action: Action, snapshot: Snapshot) -> bool:
    """Whether the key line offers it now. Pressing it is always allowed, and answered."""
    troubled = snapshot.run is not None and any(has_troubles(stage) for stage in snapshot.run.stages)
    match action.id:
        case "view_tracebacks" | "next_error" | "patch":
            return troubled
        case "sweep":
            return snapshot.run is not None and bool(snapshot.run.sweep)
        case "open" | "follow":
            return snapshot.run is not None
    return not why_not(action.id, snapshot)
