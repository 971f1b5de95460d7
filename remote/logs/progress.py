"""Progress bars and one-off figures: shard loading per worker, graph capture, data set maps, epochs."""

from __future__ import annotations

import re

from remote.logs.findings import Milestone, Progress

MAX_BARS = 256
TOKENS = (b"%|", b"% Completed", b"it [", "━".encode(), b" it/s ]", b"% ")

_KINDS = (
    (re.compile(r"Loading safetensors using Fastsafetensor"), "fastsafetensors_shards"),
    (re.compile(r"Loading safetensors using Runai"), "runai_streamer"),
    (re.compile(r"Multi-thread loading shards"), "multithread_shards"),
    (re.compile(r"Loading safetensors checkpoint shards"), "safetensors_shards"),
    (re.compile(r"Loading pt checkpoint shards"), "pt_shards"),
    (re.compile(r"Loading checkpoint shards"), "hf_checkpoint_shards"),
    (re.compile(r"Capturing CUDA graph"), "cudagraph_capture"),
    (re.compile(r"(?:Map|Filter|Tokenizing|Generating \w+ split)\b"), "dataset_map"),
    (re.compile(r"Extracting hidden states"), "hidden_state_extraction"),
    (re.compile(r"(?:Training )?Epoch\b"), "training_epoch"),
)
_ONE_AT_A_TIME = frozenset({"training_epoch", "dataset_map"})
"""Kinds whose label changes as the work goes on: the latest bar replaces the one before."""

_COUNT = r"[\d,]+(?:\.\d+)?[kMGTP]?"
_CLOCK = r"\d+(?::\d\d){1,2}"
_BAR = re.compile(
    rf"(?P<percent>\d{{1,3}})%(?: Completed \||\|[^|]{{0,400}}\|)\s*(?P<done>{_COUNT})/(?P<total>{_COUNT})"
    rf" \[(?P<elapsed>{_CLOCK})<(?P<eta>{_CLOCK}|\?)(?:, +(?P<rate>[^\],]{{1,40}}))?[^\]]{{0,400}}\]"
)
_ENDLESS = re.compile(rf"(?P<done>\d+)it \[(?P<elapsed>{_CLOCK}), +(?P<rate>[^\],]{{1,40}})\]")
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

MILESTONE_TOKENS = (b" took ", b" takes ", b"KV cache", b"mem usage=", b"KV Cache is allocated")
_NUMBER = r"\d[\d,]*(?:\.\d+)?"
_MILESTONES = (
    (re.compile(rf"Loading weights took ({_NUMBER}) seconds"), (("load_weights_done", "s"),)),
    (
        re.compile(rf"Model loading took ({_NUMBER}) (?:GiB|GB)(?: memory)? and ({_NUMBER}) seconds"),
        (("model_loaded", "GiB"), ("model_loaded", "s")),
    ),
    (re.compile(rf"torch\.compile takes ({_NUMBER}) s in total"), (("torch_compile", "s"),)),
    (re.compile(rf"Available KV cache memory: ({_NUMBER}) GiB"), (("kv_cache_memory", "GiB"),)),
    (re.compile(rf"KV cache size: ({_NUMBER}) tokens"), (("kv_cache", "tokens"),)),
    (re.compile(rf"init engine .{{0,120}}took ({_NUMBER}) seconds"), (("engine_ready", "s"),)),
    (
        re.compile(rf"Graph capturing finished in ({_NUMBER}) secs, took ({_NUMBER}) GiB"),
        (("cudagraphs_captured", "s"), ("cudagraphs_captured", "GiB")),
    ),
    (re.compile(rf"Load weight end\..{{0,400}}mem usage=({_NUMBER}) GB"), (("sglang_load_weight", "GB"),)),
)


def read_bar(text: str, worker: str | None = None) -> Progress | None:
    """The last bar that `text` shows."""
    if "%|" in text or "% Completed" in text:
        pattern = _BAR
    elif "━" in text:
        pattern = _HEAVY
    else:
        pattern = _ENDLESS if "it [" in text else _RICH
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
        kind=next((kind for pattern, kind in _KINDS if pattern.match(label)), "generic_tqdm"),
        done=done,
        total=total,
        percent=percent,
        rate=_rate(groups.get("rate")),
        eta_s=_seconds(groups.get("eta")),
        seconds=_seconds(groups["elapsed"]),
        label=label[-120:],
        worker=worker,
    )


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
    seconds = 0
    for part in clock.split(":"):
        seconds = seconds * 60 + int(part)
    return float(seconds)


def _rate(text: str | None) -> float | None:
    match = _RATE.search(text) if text else None
    if not match:
        return None
    number = float(match["number"])
    if match["unit"].startswith("s/"):
        return 1 / number if number else None
    return number


class ProgressReader:
    """Keeps the last state of every bar and every figure, per worker."""

    def __init__(self) -> None:
        self._bars: dict[tuple[str | None, str, str], Progress] = {}
        self._milestones: dict[tuple[str | None, str, str], Milestone] = {}
        self.version = 0

    @property
    def bars(self) -> tuple[Progress, ...]:
        return tuple(self._bars.values())

    @property
    def milestones(self) -> tuple[Milestone, ...]:
        return tuple(self._milestones.values())

    def with_bar(self, worker: str | None, text: str) -> tuple[Progress, ...]:
        """The bars as they are if `text`, which has not ended yet, is taken as it stands."""
        bar = read_bar(text, worker)
        return tuple({**self._bars, _key(bar): bar}.values()) if bar else self.bars

    def read_bar(self, worker: str | None, text: str) -> bool:
        bar = read_bar(text, worker)
        if bar is None:
            return False
        self._bars[_key(bar)] = bar
        if len(self._bars) > MAX_BARS:
            del self._bars[next(iter(self._bars))]
        self.version += 1
        return True

    def read_milestone(self, worker: str | None, text: str) -> None:
        for pattern, names in _MILESTONES:
            match = pattern.search(text)
            if match:
                for (kind, unit), value in zip(names, match.groups(), strict=True):
                    if len(self._milestones) < MAX_BARS:
                        figure = Milestone(kind, float(value.replace(",", "")), unit, worker)
                        self._milestones[worker, kind, unit] = figure
                        self.version += 1
                return


def _key(bar: Progress) -> tuple[str | None, str, str]:
    return bar.worker, bar.kind, "" if bar.kind in _ONE_AT_A_TIME else bar.label
