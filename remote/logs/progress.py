"""Progress bars: shard loading per worker, graph capture, data set maps, epochs; and what else tells how far it is."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace

from remote.logs.clock import Clock
from remote.logs.findings import Milestone, Phase, Progress, Stall
from remote.logs.milestones import Figure, figures_of, number
from remote.logs.pace import Pace, Steps
from remote.logs.phases import PhaseReader, phase_of_line
from remote.logs.records import clean
from remote.logs.stall import ended_stalls, running_stall

MAX_BARS = 256
TOKENS = (b"%|", b"% Completed", b"it [", b" examples [", "━".encode(), b" it/s ]", b"% ")

_KINDS = (
    (re.compile(r"Loading safetensors using Fastsafetensor"), "fastsafetensors_shards"),
    (re.compile(r"Loading safetensors using Runai"), "runai_streamer"),
    (re.compile(r"Loading safetensors using InstantTensor"), "instanttensor_shards"),
    (re.compile(r"Multi-thread loading (?:pt checkpoint )?shards"), "multithread_shards"),
    (re.compile(r"Loading safetensors checkpoint shards"), "safetensors_shards"),
    (re.compile(r"Loading pt checkpoint shards"), "pt_shards"),
    (re.compile(r"Loading np_cache checkpoint shards"), "np_cache_shards"),
    (re.compile(r"Loading checkpoint shards"), "hf_checkpoint_shards"),
    (re.compile(r"Capturing (?:CUDA graph|batches|num tokens)"), "cudagraph_capture"),
    (
        re.compile(r"(?:Map|Filter|Tokenizing|Running tokenizer|Generating \w+ split|Casting|Flattening)\b"),
        "dataset_map",
    ),
    (re.compile(r"Extracting hidden states"), "hidden_state_extraction"),
    (re.compile(r"(?:Training )?Epoch\b"), "training_epoch"),
)
_LEADS = re.compile(r"[\]|:>] ")
_LABEL_NOISE = re.compile(r"avail_mem=\S+ GB|bs=\d+|num_tokens=\d+")
"""What sglang changes in a bar's label from step to step."""
_ONE_AT_A_TIME = frozenset({"training_epoch", "dataset_map"})
"""Kinds whose label changes as the work goes on: the latest bar replaces the one before."""

_FAILURE = 0
"""The clock's number of the first failure; bars count from 1."""

_BAR_END = re.compile(rb"%(?: Completed \||\|[^|]{0,1200}\|)[^\[\]]{0,60}\[\d[^\]]{0,400}\](?=.)")
_COUNT = r"[\d,]+(?:\.\d+)?[kMGTP]?"
_CLOCK = r"(?:\d+ days?, )?\d+(?::\d\d){1,2}"
_BAR = re.compile(
    rf"(?P<percent>\d{{1,3}})%(?: Completed \||\|[^|]{{0,400}}\|)\s*(?P<done>{_COUNT})/(?P<total>{_COUNT})"
    rf" \[(?P<elapsed>{_CLOCK})<(?P<eta>{_CLOCK}|\?)(?:, +(?P<rate>[^\],]{{1,40}}))?[^\]]{{0,400}}\]"
)
_ENDLESS = re.compile(rf"(?P<done>\d+)(?:it| examples) \[(?P<elapsed>{_CLOCK}), +(?P<rate>[^\],]{{1,40}})\]")
_HEAVY = re.compile(
    rf"[━╸╺] *(?P<done>\d+)/(?P<total>\d+) +(?P<elapsed>{_CLOCK}) • (?P<eta>{_CLOCK}|-:--:--)"
    r"(?: +(?P<rate>\S+))?"
)
_RICH = re.compile(
    rf"(?P<percent>\d{{1,3}})% +(?P<done>\d+)/(?P<total>\d+) +\[ *(?P<elapsed>{_CLOCK}) < (?P<eta>{_CLOCK}|-:--:--) ?,"
    r" +(?P<rate>[^\],]{1,40})\]"
)
_RATE = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<unit> ?[A-Za-z]+/s|s/ ?[A-Za-z]+)")
_SCALE = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}


def end_of_bar(data: bytes) -> int:
    """Where a bar ends that another process's words stand right behind; 0 without such words.

    A bar that is redrawn in place leaves the cursor on its line, and whoever writes next writes there.
    """
    end = data.find(b"]") + 1
    found = _BAR_END.search(data) if 0 < end < len(data) and not data.startswith(b"{") else None
    return found.end() if found and clean(data[found.end() :]).strip() else 0


def read_bar(text: str, worker: str | None = None) -> Progress | None:
    """The last bar that `text` shows."""
    if "%|" in text or "% Completed" in text:
        pattern = _BAR
    elif "━" in text:
        pattern = _HEAVY
    else:
        pattern = _ENDLESS if "it [" in text or " examples [" in text else _RICH
    last, label, start = None, "", 0
    for match in pattern.finditer(text):
        last, label = match, text[start : match.start()]
        start = match.end()
    if last is None:
        return None
    groups = last.groupdict()
    label = label.split("━", 1)[0].strip().rstrip(":").strip()
    done, total = _count(groups["done"]), _count(groups.get("total"))
    percent = int(groups["percent"]) if groups.get("percent") else _percent(done, total)
    return Progress(
        kind=_kind(label),
        done=done,
        total=total,
        percent=percent,
        rate=_rate(groups.get("rate"), scaled=bool(groups.get("total")) and groups["total"][-1] in _SCALE),
        eta_s=_seconds(groups.get("eta")),
        seconds=_seconds(groups["elapsed"]),
        label=label[-120:],
        worker=worker,
    )


def _kind(label: str) -> str:
    """By the label's first words, or by those behind what a logger or a shipper put there."""
    for start in (0, *(lead.end() for lead in _LEADS.finditer(label))):
        for pattern, kind in _KINDS:
            if pattern.match(label, start):
                return kind
    return "generic_tqdm"


def _count(text: str | None) -> int | None:
    if text is None:
        return None
    scale = _SCALE.get(text[-1])
    number = text.rstrip("kMGTP").replace(",", "")
    return round(float(number) * scale) if scale else int(float(number))


def _percent(done: int | None, total: int | None) -> int | None:
    return done * 100 // total if done is not None and total else None


def _seconds(clock: str | None) -> float | None:
    if not clock or not clock[0].isdigit():
        return None
    days, _, hours = clock.rpartition(", ")
    seconds = 0
    for part in hours.split(":"):
        seconds = seconds * 60 + int(part)
    return float(seconds + (int(days.split()[0]) * 86_400 if days else 0))


def _rate(text: str | None, scaled: bool) -> float | None:
    """Steps per second. `scaled`: the bar counts in thousands, so `112MB/s` are 112 million."""
    match = _RATE.search(text) if text else None
    if not match:
        return None
    number, unit = float(match["number"]), match["unit"]
    if unit.startswith("s/"):
        return 1 / number if number else None
    return number * _SCALE.get(unit[0], 1) if scaled else number


class ProgressReader:
    """Keeps the last state of every bar and every figure, per worker, how fast each bar moves and what it leads to."""

    def __init__(self) -> None:
        self._bars: dict[tuple[str | None, str, str], Progress] = {}
        self._paces: dict[tuple[str | None, str, str], Pace] = {}
        self._latest: dict[str | None, tuple[str | None, str, str]] = {}
        """The bar that each worker moved last: an older one that never ended was left, not stalled."""
        self._milestones: dict[tuple[str | None, str, str], float] = {}
        self._phases = PhaseReader()
        self._clock = Clock()
        self._numbered = 0
        self._now: float | None = None
        self._failed: int | None = None
        """Line of the first failure of this attempt."""
        self._since = 0
        """Line that began this attempt."""
        self._version = 0

    @property
    def version(self) -> int:
        """Another number whenever what is found changed, the stalls aside."""
        return self._version + self._phases.version

    @property
    def bars(self) -> tuple[Progress, ...]:
        return tuple(self._with_pace(key, bar) for key, bar in self._bars.items())

    @property
    def crowded(self) -> bool:
        """So many bars that another one can push one out."""
        return len(self._bars) > MAX_BARS // 2

    @property
    def milestones(self) -> tuple[Milestone, ...]:
        found = self._milestones.items()
        return tuple(Milestone(kind, value, unit, worker) for (worker, kind, unit), value in found)

    @property
    def phases(self) -> tuple[Phase, ...]:
        return self._phases.found

    @property
    def stalls(self) -> tuple[Stall, ...]:
        found: list[Stall] = []
        for key, pace in self._paces.items():
            bar = self._bars[key]
            found += ended_stalls(bar, pace)
            if self._latest.get(bar.worker) == key and (stall := self._running(bar, pace)):
                found.append(stall)
        return tuple(found)

    def feed(self, data: bytes) -> None:
        """The bytes whose lines were read last, for their times."""
        self._clock.feed(data)

    def ends_with(self, data: bytes) -> bool:
        return self._clock.ends_with(data)

    def arrives(self, at: float | None) -> None:
        """What is read next arrived then."""
        self._now = self._now if at is None else at

    def with_bar(self, worker: str | None, text: str) -> tuple[Progress, ...]:
        """The bars as they are if `text`, which has not ended yet, is taken as it stands."""
        bar = read_bar(text, worker)
        if bar is None:
            return self.bars
        key = _key(bar)
        bars = {other: self._with_pace(other, each) for other, each in self._bars.items() if other != key}
        return tuple({**bars, key: bar}.values())

    def read_bar(
        self,
        worker: str | None,
        text: str,
        line: int = 0,
        offset: int = 0,
        before: Steps | None = None,
    ) -> bool:
        """`before`: what the same bar showed earlier, not at its end; its phase was told by `works` already."""
        bar = read_bar(text, worker)
        if bar is None:
            return False
        key = _key(bar)
        self._bars[key] = bar
        if line >= self._since:
            self._latest[worker] = key
        if bar.done is not None and bar.seconds is not None:
            pace = self._paces.get(key)
            if pace is None:
                self._numbered += 1
                pace = self._paces[key] = Pace(self._numbered)
            moved = pace.run(before, self._now) if before else -1
            if pace.read(bar.done, bar.total, bar.seconds, line, self._now):
                moved = offset
            if moved >= 0:
                self._clock.wait_for(pace.number, moved)
        if before is None or (bar.total and bar.done == bar.total):
            self._phases.bar(bar, line)
        if len(self._bars) > MAX_BARS:
            self._give_up(next(iter(self._bars)))
        self._version += 1
        return True

    @property
    def works(self) -> Callable[[str | None, str, int], None]:
        """To be told that a worker's bar, which leads through that phase, moved on at that line."""
        return self._phases.enter

    def read_milestone(self, worker: str | None, text: str, line: int = 0) -> None:
        self.figures(worker, phase_of_line(text), figures_of(text), text, line)

    def figures(self, worker: str | None, phase: str, figures: Iterable[Figure], text: str, line: int) -> None:
        """A line that begins a phase ('' for none) or tells figures, which stand in `text`."""
        if phase:
            self._phases.enter(worker, phase, line)
        kind = ""
        for kind, unit, start, end in figures:
            if kind == "load_weights_done" and self._phases.is_loading_draft(worker):
                kind = "load_draft_weights_done"  # vLLM prints nonsense here when the draft model has no file
            if len(self._milestones) < MAX_BARS:
                self._milestones[worker, kind, unit] = number(text[start:end])
                self._version += 1
        if kind:
            self._phases.figure(worker, kind, line)

    def failed(self, line: int, offset: int) -> None:
        """A failure is printed at `line`: what stood still before it is measured up to there."""
        if self._failed is None:
            self._failed = line
            self._clock.wait_for(_FAILURE, offset)

    def restart(self, line: int) -> None:
        """A new attempt begins at `line` of the same log: what did not end before never will."""
        self._latest.clear()
        self._since = line
        self._failed = None
        self._clock.forget(_FAILURE)
        self._phases.restart()
        self._version += 1

    def _with_pace(self, key: tuple[str | None, str, str], bar: Progress) -> Progress:
        pace = self._paces.get(key)
        if pace is None:
            return bar
        phase = self._phases.after(bar) if self._latest.get(bar.worker) == key else ""
        return replace(bar, step_s=pace.step_s, eta_median_s=pace.eta_s, phase=phase)

    def _running(self, bar: Progress, pace: Pace) -> Stall | None:
        if not self._phases.is_of(bar):
            return None
        proven = heard = 0.0
        failed = self._failed is not None and self._failed > pace.line
        first = self._clock.after(pace.number)
        if first is not None:
            last = self._clock.after(_FAILURE) if failed else None
            if last is None or last.form != first.form:
                last = self._clock.last(first.form)
            proven = last.seconds - first.seconds if last else 0.0
        if self._now is not None and pace.at is not None and not failed:
            heard = self._now - pace.at
        return running_stall(bar, pace, max(proven, heard, pace.waited), self._phases.after(bar))

    def _give_up(self, key: tuple[str | None, str, str]) -> None:
        bar = self._bars.pop(key)
        if self._latest.get(bar.worker) == key:
            del self._latest[bar.worker]
        pace = self._paces.pop(key, None)
        if pace is not None:
            self._clock.forget(pace.number)


def _key(bar: Progress) -> tuple[str | None, str, str]:
    return bar.worker, bar.kind, "" if bar.kind in _ONE_AT_A_TIME else _LABEL_NOISE.sub("", bar.label)
