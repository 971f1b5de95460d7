"""Reading in a log of any size: one look-up on the host at a time, the newest wish wins, little travels.

A wish is a generator that makes a request a step; between two steps a newer wish takes its place, and what the screen
needs to scroll on is fetched. Nothing here blocks the screen: wishes are left, answers become Snapshots.
"""

from __future__ import annotations

import itertools
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from console.errors import words_of
from console.logwindow import LogKey, LogWindow
from console.store import Snapshot
from remote import protocol

ROWS = 100
"""Rows on either side of a place that is jumped to."""
REWRITTEN = "the log was rewritten on the host"

Change = Callable[[Callable[[Snapshot], Snapshot]], None]
Step = Literal[-1, 1]
Wish = Iterator[None]


class Rewritten(Exception):
    """A page is of another file than the rows that are held."""


@dataclass(frozen=True)
class _Extension:
    """Rows before (-1) or behind (1) what is held; `edge`: where that ended when they were wished for."""

    step: Step
    edge: int
    rows: int


class Browser:
    def __init__(
        self,
        request: Callable[..., Mapping[str, Any]],
        snapshot: Callable[[], Snapshot],
        change: Change,
        tell: Callable[[str, Literal["information", "warning"]], object],
        reopen: Callable[[str], None],
    ) -> None:
        """`change` applies a pure function to the Snapshot; `reopen` opens the log anew and says why."""
        self._request = request
        self._snapshot = snapshot
        self._change = change
        self._tell = tell
        self._reopen = reopen
        self._jumps = itertools.count(1)
        self._wake = threading.Condition()
        self._wish: Wish | None = None
        self._served: Wish | None = None
        """The wish that makes its step now; it may be wanted no more."""
        self._extension: _Extension | None = None
        self._counting = False
        self._failed: _Extension | None = None
        """It was refused, the link was gone, or there was nothing."""
        self._uncounted = -1
        """Where the rows began for which numbers were refused."""
        self._closed = False

    # Wishes, called from the screen; none blocks -------------------------------------------------------------

    def open(self) -> None:
        threading.Thread(target=self._run, name="eyas-browsing", daemon=True).start()

    def close(self) -> None:
        with self._wake:
            self._closed = True
            self._wake.notify()

    def pause(self, window: LogWindow) -> None:
        """Stay in these rows while the log goes on."""
        self._change(lambda s: replace(s, browsed=window) if window.key == s.log.key else s)

    def follow(self) -> None:
        """Back to the end; whatever is being looked up is not wanted any more."""
        self.cancel()
        self._change(lambda s: replace(s, browsed=None))

    def extend(self, step: Step, window: LogWindow, rows: int, again: bool = False) -> None:
        """Fetch what stands before, or behind, the rows that are held; `again`: even where that failed."""
        wanted = _Extension(step, window.start if step < 0 else window.next_offset, rows)
        with self._wake:
            if again or wanted != self._failed:
                self._extension = wanted
                self._wake.notify()

    def count(self, window: LogWindow, again: bool = False) -> None:
        """Have the rows that are held numbered, once the host has counted so far."""
        with self._wake:
            if not self._counting and (again or window.start != self._uncounted):
                self._counting = True
                self._wake.notify()

    def go(self, place: Mapping[str, Any], mark: bool = True) -> None:
        """To a line, a time or an offset, as PAGE takes them; `mark` its row."""
        self._want(self._going(self._key(), dict(place), mark), "looking it up")

    def search(self, pattern: str, start: int, back: bool) -> None:
        """To the next line that matches, from the byte `start` on or back from it, round the log's end if need be."""
        wanted = {"pattern": pattern, "ignore_case": pattern == pattern.lower()}
        self._want(self._finding(self._key(), wanted, start, back, f"No line matches {pattern}"), "searching")

    def next_error(self, start: int, back: bool) -> None:
        self._want(self._finding(self._key(), {"errors": True}, start, back, "No error in this log."), "looking")

    def cancel(self) -> bool:
        """Forget what is being looked up. False when nothing is."""
        with self._wake:
            self._extension = None
            return self._end(self._wish)

    def _key(self) -> LogKey:
        return self._snapshot().log.key or LogKey("", "", 0)

    def _want(self, wish: Wish, words: str) -> None:
        with self._wake:
            self._wish, self._extension = wish, None
            self._change(lambda s: replace(s, looking=f"{words} …"))
            self._wake.notify()

    def _end(self, wish: Wish | None) -> bool:
        """Nothing is looked up any more; False when that wish was not wanted any more: a newer one's words stay."""
        with self._wake:
            if wish is None or self._wish is not wish:
                return False
            self._wish = None
            self._change(lambda s: replace(s, looking=""))
            return True

    # On the browsing thread ------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            with self._wake:
                while not (self._closed or self._wish or self._extension or self._counting):
                    self._wake.wait()
                if self._closed:
                    return
                wish, extension = self._wish, self._extension
            if extension is not None:
                if self._trouble(partial(self._extend, extension)) is not None:
                    self._failed = extension
                with self._wake:
                    if self._extension == extension:  # wished for again meanwhile: this was it
                        self._extension = None
            elif wish is not None:
                trouble = self._trouble(partial(self._step, wish))
                if trouble is not None and self._end(wish) and trouble:
                    self._tell(trouble, "warning")
            elif self._trouble(self._count) is not None:
                shown = self._snapshot()
                self._counting, self._uncounted = False, (shown.browsed or shown.log).start

    def _trouble(self, work: Callable[[], None]) -> str | None:
        """Do it: what went wrong, in words ('' where that is told elsewhere), never a dead thread."""
        try:
            work()
        except Rewritten:
            self._reopen(REWRITTEN)
            return ""
        except (KeyError, TypeError, ValueError) as error:
            return f"The host's answer about the log cannot be read ({error!r})."
        except Exception as error:
            return ": ".join(filter(None, words_of(error)))
        return None

    def _step(self, wish: Wish) -> None:
        self._served = wish
        try:
            next(wish)
        except StopIteration:
            self._end(wish)

    def _ask(self, op: str, key: LogKey, **params: Any) -> Mapping[str, Any]:
        return self._request(op, run=key.run, stage=key.stage, attempt=key.attempt, **params)

    def _say(self, wish_words: str, part: float) -> None:
        self._change(lambda s: replace(s, looking=f"{wish_words} {part:.0%} …") if s.looking else s)

    def _going(self, key: LogKey, place: dict[str, Any], mark: bool = True) -> Wish:
        while (page := self._ask(protocol.PAGE, key, before=ROWS, rows=ROWS, numbers=False, **place))["place"] is None:
            self._say("counting lines", page["indexed"] / max(1, page["size"]))
            yield
        at = int(page["place"]) if mark else None
        window = LogWindow.of_page(key, page, mark=at, jump=next(self._jumps))

        def arrive(snapshot: Snapshot) -> Snapshot:
            wanted = self._served is self._wish and snapshot.log.key == key
            return replace(snapshot, browsed=window) if wanted else snapshot

        self._change(arrive)

    def _finding(self, key: LogKey, wanted: dict[str, Any], start: int, back: bool, none: str) -> Wish:
        offset: int | None = start
        round_it = False
        while True:
            found = self._ask(protocol.SEARCH, key, offset=offset, back=back, limit=1, **wanted)
            size, following = int(found["size"]), found["next"]
            passed = round_it and following is not None and (following <= start if back else following >= start)
            if found["hits"]:
                if round_it:
                    self._tell("Round the start of the log." if back else "Round the end of the log.", "information")
                yield from self._going(key, {"offset": int(found["hits"][0]["offset"])})
                return
            if passed or (following is None and (round_it or start == (size if back else 0))):
                self._tell(none, "information")
                return
            if following is None:
                round_it, following = True, size if back else 0
            offset = int(following)
            done = found.get("read", size - offset if back else offset)
            self._say("reading" if "read" in found else "searching", int(done) / max(1, size))
            yield

    def _extend(self, extension: _Extension) -> None:
        shown = self._snapshot()
        window = shown.browsed or shown.log
        key, back = window.key, extension.step < 0
        if key is None or extension.edge != (window.start if back else window.next_offset):
            return
        if not back and window.joined(shown.log) is not window:  # what follows is held already
            self._grow(key, lambda w: w.joined(shown.log) if w is window else w)
            return
        rows = {"before": extension.rows, "rows": 0} if back else {"before": 0, "rows": extension.rows}
        page = self._ask(protocol.PAGE, key, offset=extension.edge, exact=True, numbers=False, **rows)
        if window.log_id not in (None, page["log_id"]) or int(page["size"]) < window.end:
            raise Rewritten
        if not page["rows"]:
            self._failed = extension
        self._grow(key, lambda w: w.earlier(page) if back else w.later(page))

    def _count(self) -> None:
        shown = self._snapshot()
        window = shown.browsed or shown.log
        if window.key is None or not window.rows or window.rows[0].line is not None:
            self._counting = False
            return
        page = self._ask(protocol.PAGE, window.key, offset=window.start, exact=True, rows=1)
        if not page["rows"] or page["rows"][0]["line"] is None:
            self._counting = int(page["indexed"]) < int(page["size"]) and bool(page["rows"])
            return
        self._grow(window.key, lambda w: w.numbered(page))

    def _grow(self, key: LogKey, grow: Callable[[LogWindow], LogWindow]) -> None:
        """Apply it to the rows that are held of that log."""

        def change(snapshot: Snapshot) -> Snapshot:
            if snapshot.log.key != key:
                return snapshot
            browsed = snapshot.browsed
            return replace(snapshot, log=grow(snapshot.log), browsed=browsed and grow(browsed))

        self._change(change)


_LINE = re.compile(r"[1-9]\d{0,17}$")
_OFFSET = re.compile(r"@(\d{1,18})$")
_PART = re.compile(r"(\d{1,3}(?:\.\d+)?) ?%$")


def place_of(text: str, size: int) -> dict[str, Any]:
    """What is meant by `1234` (a line), `50 %`, `@OFFSET`, and else by a time, as PAGE takes it."""
    text = text.strip()
    if _LINE.match(text):
        return {"line": int(text)}
    if match := _OFFSET.match(text):
        return {"offset": int(match[1])}
    if match := _PART.match(text):
        return {"offset": int(size * min(100.0, float(match[1])) / 100)}
    return {"time": text}
