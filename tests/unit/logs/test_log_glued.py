"""A bar that is redrawn in place leaves the cursor on its line, and whoever writes next writes there."""

from __future__ import annotations

import json

import pytest
from log_tools import PLAIN, logged, only, read

CAPTURE = "Capturing CUDA graphs (decode, FULL)"


def bar(done: int) -> str:
    return f"\r{CAPTURE}:  {done}0%|███       | {done}/10 [00:0{done}<00:07,  1.00it/s]"


@pytest.mark.parametrize(
    ("text", "worker"),
    [
        (logged("Worker_TP1 pid=2", "WorkerProc hit an exception.\n" + PLAIN), "Worker_TP1"),
        ("".join(f"(Worker_TP1 pid=2) {line}\n" for line in PLAIN.splitlines()), "Worker_TP1"),
        ("".join(f"[rank1]: {line}\n" for line in PLAIN.splitlines()), "rank1"),
        (PLAIN, None),
    ],
    ids=["records", "prefixed", "ranks", "bare"],
)
@pytest.mark.parametrize("each", [1, 2, 3])
def test_bars_before_a_tracebacks_lines_do_not_hide_them(text: str, worker: str | None, each: int) -> None:
    lines = text.splitlines(keepends=True)
    found = read("".join(f"{bar(number) if number % each == 0 else ''}{line}" for number, line in enumerate(lines)))
    assert only(found).frames == only(read(PLAIN)).frames
    assert (only(found).worker, only(found).exception_type) == (worker, "AssertionError")
    assert [(item.kind, item.done) for item in found.progress] == [
        ("cudagraph_capture", (len(lines) - 1) // each * each)
    ]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Killed", "oom_kill"),
        ("Fatal Python error: Segmentation fault", "segfault"),
        (
            "(EngineCore pid=2) ERROR 04-02 11:40:02 [m.py:231] Worker proc VllmWorker-0 died unexpectedly",
            "worker_died",
        ),
        ("[rank0]:[E321 02:07:08.4 P.cpp:607] [Rank 0] Watchdog caught collective operation timeout", "nccl_timeout"),
    ],
)
def test_a_death_behind_a_bar_is_seen(text: str, kind: str) -> None:
    found = read(f"{bar(3)}{text}\n")
    assert ([item.kind for item in found.fatal], found.progress[0].done) == ([kind], 3)


def test_a_bar_or_a_figure_behind_another_workers_bar_is_its_own() -> None:
    shards = "Loading safetensors checkpoint shards:  50% Completed | 32/64 [09:02<09:02, 16.94s/it]"
    found = read(
        f"{bar(3)}(Worker_TP1 pid=2) {shards}\n{bar(4)}INFO 11-29 15:30:26 [d.py:9] Loading weights took 9 seconds\n"
    )
    assert [(item.kind, item.done, item.worker) for item in found.progress] == [
        ("cudagraph_capture", 4, None),
        ("safetensors_shards", 32, "Worker_TP1"),
    ]
    assert [item.kind for item in found.milestones] == ["load_weights_done"]


def test_what_a_trainer_prints_behind_its_bar_changes_nothing() -> None:
    found = read("  5%|▌         | 10/200 [00:10<03:10,  1.0it/s]{'loss': 1.23, 'epoch': 0.1}\n")
    assert ([(item.kind, item.done) for item in found.progress], found.tracebacks) == ([("generic_tqdm", 10)], ())


@pytest.mark.parametrize("head", ["2025-10-02T10:11:12.123456789Z stderr F ", "vllm-1  | ", "gpu01: "])
def test_a_shippers_words_stand_before_the_bar_and_hold_for_what_is_behind_it(head: str) -> None:
    lines = [f"(Worker_TP1 pid=2) {line}\n" for line in PLAIN.splitlines()]
    text = "".join(f"{head}{bar(number) if number % 2 else ''}{line}" for number, line in enumerate(lines))
    assert only(read(text)).frames == only(read(PLAIN)).frames


def test_a_bar_inside_one_json_object_a_line_is_no_part_of_what_is_behind_it() -> None:
    lines = [f"(Worker_TP1 pid=2) {line}\n" for line in PLAIN.splitlines()]
    found = read("".join(json.dumps({"log": bar(n) + line}) + "\n" for n, line in enumerate(lines)))
    assert only(found).frames == only(read(PLAIN)).frames
    assert [(item.kind, item.done) for item in found.progress] == [("cudagraph_capture", len(lines) - 1)]
