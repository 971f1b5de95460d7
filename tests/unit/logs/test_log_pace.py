"""What moves, how fast by its latest steps, and what goes on once a bar is full."""

from __future__ import annotations

import random

import pytest
from log_tools import read, real

from remote.logs.findings import Milestone, Progress
from remote.logs.pace import Pace, Steps
from remote.logs.progress import read_bar

STEADY = "Loading safetensors checkpoint shards: {p:3d}% Completed | {n}/{t} [{m:02d}:{s:02d}<{eta}, {rate}]\n"


def shard(done: int, elapsed: int, total: int = 85, eta: str = "10:00", rate: str = "30.00s/it") -> str:
    percent = done * 100 // total
    return STEADY.format(p=percent, n=done, t=total, m=elapsed // 60, s=elapsed % 60, eta=eta, rate=rate)


def bar_of(text: str, **only: object) -> Progress:
    (bar,) = [bar for bar in read(text).progress if all(getattr(bar, key) == value for key, value in only.items())]
    return bar


def test_one_slow_step_does_not_move_the_median_eta() -> None:
    times = [0, 30, 60, 90, 120, 150, 450, 480]
    text = "".join(shard(done, at, eta="2:10:00") for done, at in enumerate(times))
    bar = bar_of(text)
    assert bar.eta_s == 7800
    assert bar.step_s == pytest.approx(30)
    assert bar.eta_median_s == pytest.approx((85 - 7) * 30)


def test_whole_seconds_of_the_bar_do_not_round_the_pace() -> None:
    text = "".join(shard(done, int(done * 1.4)) for done in range(40))
    assert bar_of(text).step_s == pytest.approx(1.4, abs=0.05)


def test_steps_within_one_second_are_counted_together() -> None:
    text = "".join(
        f"\rMap:  10%|█ | {n}/100000 [00:{n // 200:02d}<01:00, 200.0 examples/s]" for n in range(0, 3000, 50)
    )
    assert bar_of(text).step_s == pytest.approx(1 / 200, rel=0.02)


def test_a_pace_not_known_gives_no_median_eta() -> None:
    assert bar_of(shard(0, 0) + shard(1, 0)).eta_median_s is None


def test_a_bar_that_starts_again_starts_a_new_pace() -> None:
    text = "".join(shard(done, done * 30) for done in range(6)) + "".join(shard(done, done * 2) for done in range(4))
    assert bar_of(text).step_s == pytest.approx(2)


def test_each_worker_has_its_own_pace() -> None:
    text = "".join(
        f"(Worker_TP{rank} pid={rank + 1}) \r{shard(done, done * (rank + 2))}" for done in range(9) for rank in range(2)
    )
    assert bar_of(text, worker="Worker_TP0").step_s == pytest.approx(2)
    assert bar_of(text, worker="Worker_TP1").step_s == pytest.approx(3)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Multi-thread loading pt checkpoint shards:   0% Completed | 0/8 [00:00<?, ?it/s]", "multithread_shards"),
        ("Loading np_cache checkpoint shards:  12% Completed | 1/8 [00:01<00:07,  1.00s/it]", "np_cache_shards"),
        ("Loading safetensors using Runai Model Streamer:   5% Completed | 52/1042 [00:01<00:19, 51.20it/s]",
         "runai_streamer"),
        ("Loading safetensors using InstantTensor loader:  50% Completed | 4/8 [00:01<00:01,  4.00it/s]",
         "instanttensor_shards"),
        ("Capturing batches (bs=160 avail_mem=10.23 GB):   0%|          | 0/23 [00:00<?, ?it/s]", "cudagraph_capture"),
        ("Running tokenizer on dataset (num_proc=8):  10%|█ | 1000/9000 [00:04<00:30, 250 examples/s]", "dataset_map"),
        ("Epoch 3:  25%|██▌       | 250/1000 [02:05<06:15,  2.00it/s]", "training_epoch"),
    ],
)  # fmt: skip
def test_kinds_of_bars(text: str, kind: str) -> None:
    bar = read_bar(text)
    assert bar is not None
    assert bar.kind == kind


def test_a_capture_whose_label_changes_from_step_to_step_is_one_bar() -> None:
    text = "".join(
        f"\rCapturing batches (bs={160 - n} avail_mem=10.{n} GB):  10%|█ | {n}/23 [00:0{n}<00:20,  1.00it/s]"
        for n in range(5)
    )
    assert bar_of(text).done == 4


def test_the_rate_of_a_bar_that_counts_bytes_is_in_bytes() -> None:
    bar = read_bar("model-00001-of-00008.safetensors:  45%|████▌     | 2.10G/4.66G [00:19<00:23, 112MB/s]")
    assert bar is not None
    assert (bar.done, bar.rate) == (2_100_000_000, 112e6)


@pytest.mark.parametrize(
    ("text", "figures"),
    [
        ("Deserialized 13.2 GB in 5.34s, 2.5 GB/s", [("tensorizer_deserialized", 13.2, "GB"),
                                                      ("tensorizer_deserialized", 5.34, "s")]),
        ("init engine (profile, create kv cache, warmup model) took 17.06 s (compilation: 3.10 s)",
         [("engine_ready", 17.06, "s")]),
        ("torch.compile took 12.5 s in total", [("torch_compile", 12.5, "s")]),
        ("Dynamo bytecode transform time: 44.05 s", [("dynamo_transform", 44.05, "s")]),
        ("Maximum concurrency for 1,024 tokens per request: 2704.70x", [("max_concurrency", 2704.7, "x")]),
        ("# GPU blocks: 27,100, # CPU blocks: 2048", [("kv_cache", 27100.0, "blocks")]),
        ("[2025-06-18 15:20:51 TP4] KV Cache is allocated. #tokens: 69931, KV size: 4.58 GB",
         [("kv_cache", 69931.0, "tokens")]),
        ("[2025-06-18 15:21:51 TP0] Capture cuda graph end. Time elapsed: 12.30 s. mem usage=1.20 GB.",
         [("cudagraphs_captured", 12.3, "s"), ("cudagraphs_captured", 1.2, "GB")]),
    ],
)  # fmt: skip
def test_figures(text: str, figures: list[tuple[str, float, str]]) -> None:
    found = read(text + "\n").milestones
    assert [(item.kind, item.value, item.unit) for item in found] == figures


def test_the_draft_models_load_time_does_not_replace_the_targets() -> None:
    found = read(real("tp2_hs.log")).milestones
    assert Milestone("load_weights_done", 14.15, "s", "Worker_TP0") in found
    assert Milestone("load_draft_weights_done", 159.09, "s", "Worker_TP0") in found


FULL = "(Worker_TP0 pid=1) " + shard(85, 900)
HEAD = "INFO 11-05 12:00:00 [x.py:1] "


@pytest.mark.parametrize(
    ("text", "phase"),
    [
        ("(Worker_TP0 pid=1) " + shard(3, 90), "loading weights"),
        (FULL, "processing the loaded weights"),
        (FULL + f"(Worker_TP0 pid=1) {HEAD}Loading drafter model...\n", "loading the draft model"),
        (FULL + f"(Worker_TP0 pid=1) {HEAD}Model loading took 71.3 GiB and 92.5 seconds\n", "profiling memory"),
        (FULL + f"(Worker_TP0 pid=1) {HEAD}Available KV cache memory: 13.69 GiB\n", "allocating the KV cache"),
        (FULL + f"(EngineCore pid=9) {HEAD}GPU KV cache size: 149,520 tokens\n", "warming up"),
        (FULL + f"(EngineCore pid=9) {HEAD}init engine (profile) took 148.92 seconds\n", "ready"),
    ],
)
def test_the_phase_of_a_worker(text: str, phase: str) -> None:
    assert {item.worker: item.name for item in read(text).phases}["Worker_TP0"] == phase


def test_a_full_bar_names_what_goes_on_until_it_is_over() -> None:
    assert bar_of(FULL).phase == "processing the loaded weights"
    assert bar_of("(Worker_TP0 pid=1) " + shard(84, 900)).phase == ""
    assert bar_of(FULL + f"(Worker_TP0 pid=1) {HEAD}Model loading took 71.3 GiB and 92.5 seconds\n").phase == ""


def test_the_phase_begins_at_its_line() -> None:
    (phase,) = read("nothing\n" + FULL + FULL).phases
    assert phase.line == 2


Step = tuple[int, int, float, int, int]


def steps_of(rows: list[Step]) -> Steps:
    done, total, elapsed, lines, offsets = zip(*rows, strict=True) if rows else ((),) * 5
    return Steps(done, total, elapsed, list(zip(lines, offsets, strict=True)))


def walk(chance: random.Random, length: int) -> list[Step]:
    """A bar that moves on, mostly evenly: redraws without a step, several steps a second or slow ones, rarely a gap."""
    steps: list[Step] = []
    done, elapsed, even = 0, 0.0, chance.random() < 0.7
    ticks = chance.choice(((0, 0, 1, 1, 2, 4), (0, 0, 1, 1, 2, 4), (12, 17), (9, 81)))
    for line in range(1, length + 1):
        done += chance.choice((0, 1, 1, 1, 3))
        elapsed += chance.choice(ticks) if even or chance.random() < 0.97 else 40
        steps.append((done, 10_000, elapsed, line, 100 * line))
    return steps


@pytest.mark.parametrize("seed", range(60))
def test_many_steps_at_once_leave_what_one_by_one_would(seed: int) -> None:
    chance = random.Random(seed)
    steps = walk(chance, chance.randrange(40, 400))
    at_once, each = Pace(1), Pace(1)
    cuts = sorted(chance.sample(range(len(steps)), 2))
    for part in (steps[: cuts[0]], steps[cuts[0] : cuts[1]], steps[cuts[1] :]):
        at_once.run(steps_of(part), None)
    for done, total, elapsed, line, _ in steps:
        each.read(done, total, elapsed, line, None)
    assert vars(at_once) == vars(each)


def test_steps_that_later_ones_push_out_are_not_read() -> None:
    pace = Pace(1)
    pace.read(0, 10_000, 0.0, 1, None)
    assert pace._skip(steps_of([(done, 10_000, float(done), done, done) for done in range(1, 1000)])) > 900
