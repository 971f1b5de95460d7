"""What was found in a log, as a narrow page to read: the root cause first, whole, then everything else in a line each.

Pure: findings in, text out. Every line is sanitised and at most WIDTH cells wide.
"""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Iterable, Iterator, Sequence

from console.parse import exit_status, patches
from console.sanitise import one_line
from console.words import amount, duration, many, size
from remote.logs.findings import Fatal, Findings, Milestone, Progress, Stall, Traceback

WIDTH = 80
OUTER_FRAMES, INNER_FRAMES = 2, 10
"""Frames shown of a long stack: its start and, where the failure is, its end."""
MESSAGE_LINES = 12
LISTED = 16
"""Entries shown of a long list."""
_RULE = "─"


def report(name: str, found: Findings) -> str:
    """The page for one log, without a newline at its end."""
    lines = [_title(name, found)]
    for heading, body in _sections(found):
        if body:
            lines += ["", heading, *body]
    if exit_status(found) == 0:
        lines += ["", "No failure in this log."]
    return "\n".join(lines)


def _title(name: str, found: Findings) -> str:
    told = f"{many(found.lines_read, 'line')}, {size(found.bytes_read)}"
    room = WIDTH - cells(told) - 6
    shown = _tail(one_line(name), room)
    return f"{_RULE * 2} {shown} {_RULE * max(1, room - cells(shown))} {told}"


def _sections(found: Findings) -> Iterator[tuple[str, list[str]]]:
    tracebacks = list(enumerate(found.tracebacks))
    root = found.root_cause
    chained = _chained_to(found.tracebacks, root)
    reports = [t for i, t in tracebacks if i != root and t.wrapper]
    others = [t for i, t in tracebacks if i != root and not t.wrapper and i not in chained]
    yield "ROOT CAUSE", list(_root_cause(found))
    yield "WHICH LED TO", _listed(_one(t) for i, t in tracebacks if i in chained and not t.wrapper)
    yield "OTHER ERRORS", _listed(_one(t, with_patch=True) for t in others)
    yield "ONLY REPORTS OF A FAILURE", _listed(_one(t) for t in reports)
    deaths = [d for i, d in enumerate(found.fatal) if root is not None or i != found.root_cause_fatal]
    yield "DEATHS AND WARNINGS", _listed((line for death in deaths for line in _death(death)), LISTED * 3)
    yield "STALLS", _listed((line for stall in found.stalls for line in _stall(stall)), LISTED * 3)
    yield "LAST PROGRESS", _listed([_bar(bar) for bar in sorted(found.progress, key=_worker)])
    yield "FIGURES", _listed(_figures(found.milestones))


def _root_cause(found: Findings) -> Iterator[str]:
    if found.root_cause is not None:
        yield from _whole(found.tracebacks[found.root_cause], found.reason)
        if found.remedy:
            yield ""
            yield from _wrapped(one_line(f"→ {found.remedy}"), "  ", "    ")
    elif found.root_cause_fatal is not None:
        yield from _death(found.fatal[found.root_cause_fatal])
    elif found.reason:
        yield from _prose(found.reason)


def _whole(traceback: Traceback, reason: str) -> Iterator[str]:
    headline, *more = [one_line(line) for line in (traceback.headline, *traceback.message.split("\n")[1:])]
    yield from _wrapped(headline, "  ", "    ")
    for line in more[:MESSAGE_LINES]:
        yield from _wrapped(line, "    ", "    ")
    if len(more) > MESSAGE_LINES:
        yield f"    … {many(len(more) - MESSAGE_LINES, 'line')} more of the message"
    where = [f"line {traceback.line}"]
    if traceback.workers or traceback.worker:
        where.insert(0, ", ".join(traceback.workers) or str(traceback.worker))
    if traceback.printed > 1:
        where.append(f"printed {traceback.printed} times")
    if traceback.truncated:
        where.append("cut off in the log")
    yield from _prose(" · ".join(where))
    yield from _prose(reason)
    if traceback.frames:
        yield ""
        yield from _frames(traceback)
    mended = patches(traceback)
    if mended or _is_ours(traceback):
        yield ""
    for patch, why in mended:
        yield from _prose(f"Mended by the patch {patch}: {why}. `eyas patches show {patch}` tells more.")
    if not mended and _is_ours(traceback):
        yield from _prose(
            "No patch of the catalogue is known to mend this. `eyas check --drift --site SITE-PACKAGES` tells what of "
            "speculators does not fit the vLLM that is installed there."
        )


def _is_ours(traceback: Traceback) -> bool:
    """Whether it went through code that the catalogue is about."""
    return any(f"/{package}/" in frame.file for package in ("speculators", "vllm") for frame in traceback.frames)


def _frames(traceback: Traceback) -> Iterator[str]:
    frames = traceback.frames
    left_out = len(frames) - OUTER_FRAMES - INNER_FRAMES
    for place, frame in enumerate(frames):
        if left_out > 1 and OUTER_FRAMES <= place < OUTER_FRAMES + left_out:
            if place == OUTER_FRAMES:
                yield f"  … {many(left_out, 'frame')} between (--json has all)"
            continue
        function = f" in {_head(one_line(frame.function), 40)}"
        place_text = f":{frame.line}"
        file = one_line(frame.file.rpartition("/site-packages/")[2])
        yield f"  {_tail(file, WIDTH - 2 - cells(place_text + function))}{place_text}{function}"
        if frame.source:
            yield f"      {_head(one_line(frame.source.strip()), WIDTH - 6)}"


def _one(traceback: Traceback, with_patch: bool = False) -> str:
    who = _workers(traceback)
    before = f"  line {traceback.line}  "
    after = f"  ({who})" if who else ""
    mended = patches(traceback) if with_patch else ()
    after += f"  patch {mended[0][0]}" if mended else ""
    return f"{before}{_head(one_line(traceback.headline), WIDTH - cells(before + after))}{after}"


def _workers(traceback: Traceback) -> str:
    if len(traceback.workers) > 1:
        return many(len(traceback.workers), "worker")
    return _head(one_line(traceback.worker or ""), 24)


def _death(death: Fatal) -> Iterator[str]:
    facts = [death.kind.replace("_", " ")]
    if death.worker or death.pid is not None:
        facts.append(" ".join(part for part in (death.worker or "", f"pid {death.pid}" if death.pid else "") if part))
    if death.exit_code is not None:
        facts.append(f"exit code {death.exit_code}")
    elif death.signal is not None:
        facts.append(f"signal {death.signal}")
    if death.ranks:
        facts.append(f"rank{'s' * (len(death.ranks) > 1)} {_head(', '.join(map(str, death.ranks)), 24)}")
    if death.root_rank is not None:
        facts.append(f"rank {death.root_rank} first")
    if death.count > 1:
        facts.append(f"{death.count} times")
    yield from _wrapped(one_line(f"{' · '.join(facts)} · line {death.line}"), "  ", "    ")
    yield f"    {_head(one_line(death.text), WIDTH - 4)}"
    if death.remedy:
        yield from _wrapped(one_line(f"→ {death.remedy}"), "    ", "      ")


def _stall(stall: Stall) -> Iterator[str]:
    who = f"{stall.worker}: " if stall.worker else ""
    over = " It went on later." if stall.ended else ""
    yield from _wrapped(one_line(f"{who}{stall.text}{over} · line {stall.line}"), "  ", "    ")
    if stall.remedy:
        yield from _wrapped(one_line(f"→ {stall.remedy}"), "    ", "      ")


def _worker(bar: Progress) -> str:
    return bar.worker or ""


def _bar(bar: Progress) -> str:
    parts = []
    if bar.done is not None:
        parts.append(f"{bar.done:,}" + (f"/{bar.total:,}" if bar.total is not None else ""))
    if bar.percent is not None:
        parts.append(f"{bar.percent} %")
    if bar.rate:
        parts.append(f"{amount(bar.rate)}/s")
    left = bar.eta_s if bar.eta_median_s is None else bar.eta_median_s
    if left:
        parts.append(f"{duration(left)} left")
    if bar.phase:
        parts.append(one_line(bar.phase))
    named = bar.label.strip(" :|") if bar.kind == "generic_tqdm" and bar.label.strip(" :|") else bar.kind
    who = f"{_head(one_line(bar.worker), 20)}  " if bar.worker else ""
    told = _head("  ".join(parts), 44)
    return f"  {who}{_head(one_line(named.replace('_', ' ')), WIDTH - 4 - cells(who + told))}  {told}"


def _figures(milestones: Sequence[Milestone]) -> list[str]:
    """A line for each kind and unit; workers that agree share it."""
    by_kind: dict[tuple[str, str], list[float]] = {}
    for figure in milestones:
        by_kind.setdefault((figure.kind, figure.unit), []).append(figure.value)
    lines = []
    for (kind, unit), values in by_kind.items():
        low, high = min(values), max(values)
        span = f"{low:,g}" if low == high else f"{low:,g} to {high:,g}"
        lines.append(f"  {kind.replace('_', ' ')}  {span} {unit}".rstrip())
    return lines


def _chained_to(tracebacks: Sequence[Traceback], root: int | None) -> set[int]:
    """Everything that was chained to the root cause, directly or through another."""
    reached = set() if root is None else {root}
    for place, traceback in enumerate(tracebacks):
        if traceback.chained_from in reached:
            reached.add(place)
    return reached - {root} if root is not None else reached


def _listed(lines: Iterable[str], limit: int = LISTED) -> list[str]:
    every = list(lines)
    if len(every) <= limit:
        return every
    return [*every[: limit - 1], f"  … and {len(every) - limit + 1} more (--json has all)"]


def _prose(text: str) -> Iterator[str]:
    return _wrapped(one_line(text), "  ", "  ")


def _wrapped(text: str, first: str, later: str) -> Iterator[str]:
    """Lines of at most WIDTH cells; a word that is longer than a line is cut into several."""
    if all(cells(character) == 1 for character in text):
        yield from textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=later) or [first.rstrip()]
        return
    indent = first
    while text:
        piece = _fitting(text, WIDTH - len(indent))
        yield f"{indent}{piece}".rstrip()
        text, indent = text[len(piece) :].lstrip(), later


def _head(text: str, room: int) -> str:
    """The start of `text`, marked where it was cut."""
    return text if cells(text) <= room else _fitting(text, room - 1) + "…"


def _tail(text: str, room: int) -> str:
    """The end of `text`, marked where it was cut: the telling part of a path."""
    if cells(text) <= room:
        return text
    return "…" + _fitting(text[::-1], max(0, room - 1))[::-1]


def _fitting(text: str, room: int) -> str:
    used = 0
    for place, character in enumerate(text):
        used += cells(character)
        if used > room:
            return text[: max(place, 1)]
    return text


def cells(text: str) -> int:
    """Columns that a terminal gives to `text`."""
    if text.isascii():
        return len(text)
    return sum(_cell(character) for character in text)


def _cell(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Cf", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
