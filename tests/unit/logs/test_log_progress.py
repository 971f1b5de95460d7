"""Bars, figures, and deaths without a traceback."""

from __future__ import annotations

import pytest
from log_tools import PLAIN, only, read, real

from remote.logs.findings import Fatal, Milestone, Progress
from remote.logs.progress import read_bar
from remote.logs.reader import LogReader

SHARDS = "Loading safetensors checkpoint shards:  25% Completed | 16/64 [04:31<13:34, 16.97s/it]"


@pytest.mark.parametrize(
    ("text", "kind", "done", "total", "percent", "eta", "seconds"),
    [
        (SHARDS, "safetensors_shards", 16, 64, 25, 814, 271),
        ("Loading pt checkpoint shards: 100% Completed | 2/2 [00:01<00:00, 1.9it/s]", "pt_shards", 2, 2, 100, 0, 1),
        ("Multi-thread loading shards:   1% Completed | 1/163 [01:22<3:42:45, 82.50s/it]",
         "multithread_shards", 1, 163, 1, 13365, 82),
        ("Loading checkpoint shards:  62%|██████▎   | 5/8 [00:40<00:24,   8.10s/it]",
         "hf_checkpoint_shards", 5, 8, 62, 24, 40),
        ("Extracting:   0%|          | 0/10 [00:00<?, ?it/s]", "generic_tqdm", 0, 10, 0, None, 0),
        ("Map (num_proc=32):   1%|▏   | 1000/68000 [00:04<04:48, 232.4 examples/s]",
         "dataset_map", 1000, 68000, 1, 288, 4),
        (f"[pod/vllm-0/server] {SHARDS}", "safetensors_shards", 16, 64, 25, 814, 271),
        (f"2025-10-02 10:11:00 | INFO | {SHARDS}", "safetensors_shards", 16, 64, 25, 814, 271),
        ("Generating train split: 12000 examples [00:01, 9011.22 examples/s]",
         "dataset_map", 12000, None, None, None, 1),
        ("Epoch 1/10:   1%| | 12/1200 [1:35:01<2 days, 1:00:22,  11.02s/it]",
         "training_epoch", 12, 1200, 1, 176422, 5701),
        ("Epoch 34/49 ━━━━╸━━━ 491/1351 0:01:21 • 0:02:21 6.13it/s v_num: a", "training_epoch", 491, 1351, 36, 141, 81),
        ("Epoch 0   0%      0/29  [ 0:00:33 < -:--:-- , ? it/s ]", "training_epoch", 0, 29, 0, None, 33),
        ("Reading: 37it [00:05, 7.1it/s]", "generic_tqdm", 37, None, None, None, 5),
        ("Reading:  50%|█| 1.5k/3.0k [00:05<00:05, 300it/s]", "generic_tqdm", 1500, 3000, 50, 5, 5),
    ],
)  # fmt: skip
def test_bars(
    text: str, kind: str, done: int, total: int | None, percent: int | None, eta: float | None, seconds: float
) -> None:
    bar = read_bar(text)
    assert bar is not None
    assert (bar.kind, bar.done, bar.total, bar.percent, bar.eta_s, bar.seconds) == (
        kind,
        done,
        total,
        percent,
        eta,
        seconds,
    )


def test_a_rate_is_in_steps_per_second_either_way_round() -> None:
    slow, fast = read_bar(SHARDS), read_bar(SHARDS.replace("16.97s/it", "4.20it/s"))
    assert slow is not None and fast is not None
    assert slow.rate == pytest.approx(1 / 16.97)
    assert fast.rate == pytest.approx(4.2)


def test_a_label_is_the_bars_own_words() -> None:
    heavy = read_bar("Epoch 34/49 ━━━━╸━━━ 491/1351 0:01:21 • 0:02:21 6.13it/s")
    shards = read_bar(SHARDS)
    assert heavy is not None and shards is not None
    assert (heavy.label, shards.label) == ("Epoch 34/49", "Loading safetensors checkpoint shards")


@pytest.mark.parametrize("between", [" \r", " \n", "   \r"])
def test_the_prefix_before_the_carriage_return_names_the_bars_worker(between: str) -> None:
    found = read(f"(Worker_TP3 pid=7){between}{SHARDS}\n")
    assert [(bar.worker, bar.done) for bar in found.progress] == [("Worker_TP3", 16)]


def test_each_worker_keeps_its_own_bar_and_only_the_last_state() -> None:
    later = SHARDS.replace("16/64", "17/64")
    found = read(f"(W_0 pid=1) \r{SHARDS}\n(W_1 pid=2) \r{SHARDS}\n(W_0 pid=1) \r{later}\n(W_0 pid=1) \n")
    assert {bar.worker: bar.done for bar in found.progress} == {"W_0": 17, "W_1": 16}


def test_a_bar_redrawn_in_place_is_seen_before_its_line_ends() -> None:
    reader = LogReader()
    reader.feed("\rMap:  10%|█ | 10/100 [00:01<00:09, 10.0it/s]\rMap:  50%|█ | 50/100 [00:05<00:05, 10.0it/s]".encode())
    assert [bar.done for bar in reader.findings().progress] == [50]


def test_shards_of_a_real_load_end_complete() -> None:
    (bar,) = read(real("66_ladder_llama_tp2_blockhash_failure.log")).progress
    assert bar == Progress(
        "safetensors_shards", 12, 12, "Worker_TP0", 100, 1017.87, 0.0, 0.0, "Loading safetensors checkpoint shards"
    )


def test_figures_of_a_real_load() -> None:
    found = read(real("tp2_hs.log"))
    assert Milestone("model_loaded", 12.41, "GiB", "Worker_TP0") in found.milestones
    assert Milestone("model_loaded", 14.4714, "s", "Worker_TP0") in found.milestones
    assert Milestone("kv_cache", 2769616.0, "tokens", "EngineCore") in found.milestones
    assert Milestone("kv_cache_memory", 110.94, "GiB", "Worker_TP0") in found.milestones
    start = read(real("02_offline_llama_tp1_defaultenv.log")).milestones
    assert {(item.kind, item.value) for item in start} >= {("load_weights_done", 0.02), ("engine_ready", 2.69)}


@pytest.mark.parametrize(
    ("text", "kind", "signal", "code"),
    [
        ("/run.sh: line 14:  1388 Killed                  vllm serve /models/m", "oom_kill", 9, 137),
        ("Loading checkpoint shards:  62%|███ | 5/8 [00:40<00:24,   8.10s/it]Killed", "oom_kill", 9, 137),
        ("Killed", "oom_kill", 9, 137),
        ("[74889.5] Out of memory: Killed process 4411 (python) total-vm:1kB", "oom_kill", 9, 137),
        ("Segmentation fault (core dumped)", "segfault", 11, 139),
        ("Fatal Python error: Segmentation fault", "segfault", 11, None),
        ("Bus error (core dumped)", "bus_error", 7, 135),
        ("terminate called after throwing an instance of 'c10::Error'", "cpp_terminate", None, None),
        (
            "(E pid=1) ERROR 04-02 11:40:02 [m.py:231] Worker proc VllmWorker-0 died unexpectedly, x",
            "worker_died",
            None,
            None,
        ),
        ("[1.5] NVRM: Xid (PCI:0000:02:00): 94, pid=4411, name=python", "xid", None, None),
    ],
)
def test_deaths_without_a_traceback(text: str, kind: str, signal: int | None, code: int | None) -> None:
    found = read(text + "\n")
    assert [(item.kind, item.signal, item.exit_code) for item in found.fatal] == [(kind, signal, code)]
    assert found.tracebacks == ()


def test_words_that_only_mention_a_death_are_none() -> None:
    quiet = "INFO: a Killed process is restarted\nno segfault here, no Bus errors\nThe FAILED state is final\n"
    assert read(quiet).fatal == ()


def test_a_fault_dump_names_its_innermost_frame() -> None:
    dump = (
        "(W pid=4) Fatal Python error: Segmentation fault\n(W pid=4)\n(W pid=4) Stack (most recent call first):\n"
        '(W pid=4)   File "/env/pynccl.py", line 257 in ncclAllReduce\n(W pid=4)   File "/env/a.py", line 1 in f\n'
    )
    (death,) = read(dump).fatal
    assert death.text.endswith("in ncclAllReduce (/env/pynccl.py:257)")
    assert (death.worker, death.pid) == ("W", 4)


def test_torchruns_table_gives_ranks_root_and_exit_code() -> None:
    table = """torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
=====================
train.py FAILED
---------------------
Failures:
[1]:
  rank      : 4 (local_rank: 4)
  exitcode  : 1 (pid: 904)
---------------------
Root Cause (first observed failure):
[0]:
  rank      : 7 (local_rank: 7)
  exitcode  : -9 (pid: 3309)
  traceback : Signal 9 (SIGKILL) received by PID 3309
=====================
"""
    found = read(PLAIN.replace("AssertionError\n", table))
    kill, whole = found.fatal
    assert (kill.kind, kill.signal, kill.exit_code, kill.worker, kill.pid) == ("oom_kill", 9, -9, "rank7", 3309)
    assert (whole.kind, whole.ranks, whole.root_rank, whole.exit_code) == ("elastic_failure_table", (4, 7), 7, -9)
    assert only(found).wrapper
    assert (found.root_cause, found.root_cause_fatal) == (None, 0)


def test_a_death_told_twice_is_one_finding() -> None:
    (found,) = read("Fatal Python error: Bus error\n\nBus error (core dumped)\n").fatal
    assert (found.signal, found.exit_code, found.count) == (7, 135, 2)


def test_far_fewer_samples_than_planned_is_a_finding() -> None:
    bar = "Extracting hidden states:   0%|          | 32/7043 [00:41<2:29:42,   1.28s/it]\n"
    assert [item.kind for item in read(bar + "[INFO] Done in 00:44\n").fatal] == ["silent_data_loss"]
    whole = bar.replace("  0%", "100%").replace("32/", "7043/")
    assert read(whole + "[INFO] Done in 00:44\n").fatal == ()


def test_request_ids_sorted_as_text_are_a_finding() -> None:
    assert [item.kind for item in read("order: req_0_0, req_0_1, req_0_10, req_0_2\n").fatal] == ["lexicographic_order"]
    assert read("order: req_0_0, req_0_1, req_0_2, req_0_10\n").fatal == ()
    assert read("order: req_0_0, req_0_1, req_0_2\n").fatal == ()


def test_a_death_carries_its_remedy() -> None:
    assert isinstance(read("Killed\n").fatal[0], Fatal)
    assert "memory" in read("Killed\n").fatal[0].remedy


def test_an_older_engine_tells_no_memory_with_its_captured_graphs() -> None:
    (figure,) = read("INFO 08-27 01:19:33 model_runner.py:1401] Graph capturing finished in 24 secs.\n").milestones
    assert figure == Milestone("cudagraphs_captured", 24.0, "s")
