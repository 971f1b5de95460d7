"""The JSON shapes and the plain-text forms of what headless commands answer. No I/O here."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from compat.matcher import match
from compat.patch import PatchStatus
from console.explain import Column, Paragraph, columns, paragraphs
from console.patching import Told, as_ran, in_order
from console.sanitise import sanitise
from console.sidebyside import side_by_side
from console.stranger import UNKNOWN
from console.words import STAGE_GLYPHS, duration
from remote.logs.findings import Findings, Traceback
from remote.views import AttemptView, RunView, StageView
from remote.wire import to_wire


def run_json(view: RunView) -> dict[str, Any]:
    """The run with its state, findings left out: `eyas tracebacks` has those."""
    body: dict[str, Any] = to_wire(view)
    for stage in body["stages"]:
        stage.pop("findings", None)
    failed = view.failed_stage
    return {"state": view.state, "failed_stage": failed.name if failed else None, **body}


def run_line(view: RunView) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in view.versions.items())
    return sanitise(f"run {view.run} of {view.project}: {view.state} ({view.pair}: {versions})")


def run_text(view: RunView) -> str:
    lines = [run_line(view)]
    for stage in view.stages:
        lines += [_stage_line(stage), *_patches_line(stage)]
    if view.error:
        lines.append(f"! {view.error}")
    return sanitise_lines(lines)


def _stage_line(stage: StageView) -> str:
    attempt = stage.latest
    parts = [f"  {STAGE_GLYPHS[stage.state][0]} {stage.name:<10} {stage.state:<9}"]
    if attempt:
        parts.append(f"attempt {attempt.number}")
        if attempt.elapsed is not None:
            parts.append(duration(attempt.elapsed))
        if ending := attempt_ending(attempt):
            parts.append(ending)
    if stage.state == "running" and stage.progress:
        progress = stage.progress
        total = f"/{progress.total:g}" if progress.total else ""
        parts.append(f"{progress.label} {progress.done:g}{total} {progress.unit}".rstrip())
    cause = root_cause(stage.findings)
    if stage.state in ("failed", "lost") and cause:
        parts.append(cause.headline)
    return "  ".join(parts)


def _patches_line(stage: StageView) -> list[str]:
    """`patches: 9 active in the driver; 5 active in workers; off: prefix-caching`, of the latest attempt."""
    active = {process: _ids(stage, process, "active") for process in ("driver", "worker")}
    parts = [
        f"{len(ids)} active in {words}"
        for ids, words in ((active["driver"], "the driver"), (active["worker"], "workers"))
        if ids
    ]
    states = stage.patch_states
    for state in ("off", "refused"):
        named = [patch for patch, told in states.items() if told == state]
        parts += [f"{state}: {', '.join(named)}"] if named else []
    return [f"      patches: {'; '.join(parts)}"] if parts else []


def _ids(stage: StageView, process: str, state: str) -> set[str]:
    return {report.id for report in stage.patches if (report.process, report.state) == (process, state)}


def attempt_ending(attempt: AttemptView) -> str:
    """How the attempt ended, in words; '' while it goes on or when it went well."""
    if attempt.error:
        return attempt.error
    if attempt.signal is not None:
        return f"signal {attempt.signal}"
    if attempt.rc:
        return f"exit status {attempt.rc}"
    return ""


def root_cause(findings: Findings) -> Traceback | None:
    return findings.tracebacks[findings.root_cause] if findings.root_cause is not None else None


def tracebacks_json(
    view: RunView, stage: StageView, attempt: int | None = None, patches: Iterable[PatchStatus] = ()
) -> dict[str, Any]:
    """Every traceback of the stage's log with the patches that mend it, and which one is the root cause.

    `patches` are those of the environment, as the host tells them. `drift` is for what the drift probe finds about a
    root cause that none of them explains.
    """
    findings = stage.findings
    ran = as_ran(patches, stage, attempt)
    entries = []
    for traceback in findings.tracebacks:
        told_below = traceback.wrapper and traceback.caused_by is not None
        matches = () if told_below else match(traceback.exception_type, traceback.message, traceback.frames, ran)
        entry = to_wire(traceback)
        entry["headline"] = traceback.headline
        entry["innermost"] = to_wire(traceback.innermost)
        entry["patches"] = to_wire(matches)
        entry["patch"] = matches[0].patch if matches else None
        entries.append(entry)
    return {
        "run": view.run,
        "stage": stage.name,
        "attempt": attempt or (stage.latest.number if stage.latest else None),
        "state": stage.state,
        "root_cause": findings.root_cause,
        "reason": findings.reason,
        "tracebacks": entries,
        "fatal": to_wire(findings.fatal),
        "root_cause_fatal": findings.root_cause_fatal,
        "drift": [],
    }


def is_strange(report: Mapping[str, Any]) -> bool:
    """Whether the root cause is a traceback that no patch explains."""
    root = report["root_cause"]
    return root is not None and not report["tracebacks"][root]["patches"]


def tracebacks_text(report: Mapping[str, Any], drift: Iterable[str] = ()) -> str:
    """The root cause first, whole; then a line for each of the others. `drift`: what the drift probe says, in lines."""
    where = f"run {report['run']}, {report['stage']}, attempt {report['attempt']}"
    entries, root = report["tracebacks"], report["root_cause"]
    if not entries and not report["fatal"]:
        return f"{where}: no traceback."
    lines = [f"{where}: {len(entries)} traceback{'s' if len(entries) != 1 else ''}"]
    order = sorted(range(len(entries)), key=lambda i: i != root)
    for index in order:
        entry = entries[index]
        mark = "root cause" if index == root else "wrapper" if entry["wrapper"] else "also"
        workers = f"  ({', '.join(entry['workers'])})" if entry["workers"] else ""
        lines += ["", f"[{mark}] {entry['headline']}{workers}"]
        if index == root:
            lines += _frames(entry["frames"])
            lines += [f"  {line}" for line in entry["message"].splitlines()[1:]]
            lines.append(report["reason"])
            if not entry["patches"]:
                lines += ["", UNKNOWN, *drift]
        lines += [f"  patch {m['patch']}: {m['why']}" for m in entry["patches"]]
    lines += [f"[fatal] {f['text']}  {f['remedy']}".rstrip() for f in report["fatal"]]
    return sanitise_lines(lines)


def _frames(frames: Iterable[Mapping[str, Any]]) -> list[str]:
    lines = []
    for frame in frames:
        lines.append(f"  {frame['file']}:{frame['line']} in {frame['function']}")
        if frame["source"]:
            lines.append(f"      {frame['source'].strip()}")
    return lines


def patches_text(told: Told) -> str:
    """What is there, then a line for each patch; a refused one says why, unless the environment says it for all."""
    ids = max((len(p.id) for p in told.patches), default=0)
    lines = list(told.environment)
    for p in in_order(told.patches):
        switch = "advice" if p.advice else p.switch
        lines.append(f"{p.state:<15} {p.id:<{ids}} {p.drift:<4} {switch:<6} {p.title}")
        if p.state == "refused" and p.reason not in told.troubles:
            lines.append(f"    {p.reason}")
    return sanitise_lines(lines)


PROSE = 100
"""Columns that a sentence is wrapped into at most."""
SIDE_BY_SIDE = 120
"""Columns of a terminal from which on the two pieces of code stand beside each other."""


def patch_json(patch: PatchStatus, run: RunView | None) -> dict[str, Any]:
    """The patch, with what the processes of the run's stages reported of it."""
    reports = [
        {"run": run.run, "stage": stage.name, "attempt": stage.latest.number, **to_wire(report)}
        for stage in (run.stages if run else ())
        for report in stage.patches
        if run and stage.latest and report.id == patch.id
    ]
    return {**to_wire(patch), "reports": reports}


def patch_text(patch: PatchStatus, run: RunView | None, width: int) -> str:
    switch = "advice" if patch.advice else f"switch: {patch.switch}"
    lines = [f"{patch.id}  {patch.drift}  {patch.state} ({switch})", patch.title]
    for paragraph in (Paragraph("because", patch.reason), *paragraphs(patch, run)):
        lines += ["", paragraph.name]
        for line in sanitise(paragraph.text, newlines=True).splitlines():
            lines += textwrap.wrap(line, min(width, PROSE), initial_indent="  ", subsequent_indent="  ")
    does, replaced = (_code(column) for column in columns(patch))
    lines += ["", *(side_by_side(does, replaced, width) if width >= SIDE_BY_SIDE else [*does, "", *replaced])]
    return sanitise_lines(lines)


def _code(column: Column) -> list[str]:
    code = sanitise(column.code or column.absent, newlines=True)
    return [sanitise(f"{column.name}  {column.of}"), sanitise(column.place), *code.splitlines()]


class Changes:
    """What changed from one view of a run to the next, a line each: for following without a screen."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[str, int]] = {}
        self._notes: set[tuple[str, str]] = set()

    def lines(self, view: RunView) -> list[str]:
        news = []
        for stage in view.stages:
            now = (stage.state, stage.latest.number if stage.latest else 0)
            if stage.attempts and self._seen.get(stage.name) != now:
                self._seen[stage.name] = now
                news.append(_stage_line(stage))
            for note in stage.notes:
                if (stage.name, note) not in self._notes:
                    self._notes.add((stage.name, note))
                    news.append(f"      {note}")
        return [sanitise(line) for line in news]


def log_output(chunks: Iterable[bytes], raw: bool, as_json: bool) -> Iterator[bytes]:
    """A log as the command prints it: sanitised lines, JSON lines `{offset, text}`, or the bytes themselves."""
    if raw:
        yield from chunks
        return
    offset, rest = 0, b""
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield _log_line(line, offset, as_json)
            offset += len(line) + 1
    if rest:
        yield _log_line(rest, offset, as_json)


def log_rows(rows: Iterable[Mapping[str, Any]], as_json: bool) -> Iterator[str]:
    """Rows or hits of a log, each with its line number, or `@OFFSET` while the host has not counted so far."""
    for row in rows:
        if as_json:
            yield json.dumps({key: row[key] for key in ("line", "offset", "text")})
        else:
            place = f"@{row['offset']}" if row["line"] is None else str(row["line"])
            yield f"{place:>8}  {sanitise(row['text'])}"


def log_errors(hits: Iterable[Mapping[str, Any]], as_json: bool) -> Iterator[str]:
    """The errors of a log: line, offset, what it is; the root cause is marked."""
    for hit in hits:
        if as_json:
            yield json.dumps({key: hit[key] for key in ("line", "offset", "text", "root")})
        else:
            mark = "root cause: " if hit["root"] else ""
            yield f"{hit['line']:>8}  @{hit['offset']:<12} {mark}{sanitise(hit['text'])}"


def _log_line(line: bytes, offset: int, as_json: bool) -> bytes:
    text = line.rstrip(b"\r").decode("utf-8", "replace")
    shown = json.dumps({"offset": offset, "text": text}) if as_json else sanitise(text)
    return shown.encode() + b"\n"


def sanitise_lines(lines: Iterable[str]) -> str:
    return "\n".join(sanitise(line) for line in lines)
