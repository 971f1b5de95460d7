"""What is passed over or put off changes nothing: the findings are those of a reader that reads every line at once."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pytest
from bench.logs.generate import Log
from hypothesis import given, settings
from hypothesis import strategies as st
from log_tools import PLAIN, REAL_LOGS, logged, real

from remote.logs import outline
from remote.logs.findings import Findings
from remote.logs.reader import LogReader

CASES = sorted((Path(__file__).parents[2] / "data" / "logs" / "cases").glob("*.log"))


class EveryLine(LogReader):
    """Reads each line by itself, as it comes."""

    def _block(self, data: bytes, end: int) -> None:
        for line in self._splitter.complete(data[:end]).split(b"\n")[:-1]:
            self._read(line)


def found(reader: LogReader, data: bytes, cuts: list[int]) -> list[Findings]:
    """Findings after each chunk and at the end."""
    seen = []
    for start, end in itertools.pairwise([0, *sorted(cuts), len(data)]):
        reader.feed(data[start:end])
        seen.append(reader.findings())
    return [*seen, reader.finish()]


def assert_same(data: bytes, cuts: list[int]) -> None:
    assert found(LogReader(), data, cuts) == found(EveryLine(), data, cuts)


def bars(worker: str, steps: list[tuple[int, int]], total: int, form: str, label: str = "Loading shards") -> str:
    """One line with a redrawn bar; `steps` are (done, seconds)."""
    prefix = f"({worker} pid=7) "
    texts = [
        f"{label}: {done * 100 // total:3d}%|{'█' * (done * 5 // total)}|"
        f" {done}/{total} [{seconds // 60:02d}:{seconds % 60:02d}<00:09,  1.00it/s]"
        for done, seconds in steps
    ]
    if form == "each":
        return "".join(f"\r{prefix}{text}" for text in texts) + "\n"
    return (prefix if form == "once" else "") + "".join("\r" + text for text in texts) + "\n"


@st.composite
def bar_lines(draw: st.DrawFn) -> str:
    total = draw(st.sampled_from([4, 9, 100]))
    start = draw(st.integers(0, total))
    seconds = draw(st.integers(0, 60))
    steps = []
    for _ in range(draw(st.integers(1, 6))):
        steps.append((start, seconds))
        start = (start + draw(st.integers(0, 2))) % (total + 1)
        seconds = seconds + draw(st.sampled_from([0, 1, 1, 2, 30])) if start else 0
    worker = draw(st.sampled_from(["Worker_TP0", "Worker_TP1"]))
    label = draw(st.sampled_from(["Loading shards", "Loading safetensors checkpoint shards", "Epoch 1", "Map"]))
    text = bars(worker, steps, total, draw(st.sampled_from(["each", "once", "bare"])), label)
    return draw(st.sampled_from([text, text, text, text[:-9] + "\n", text.replace("it/s", "%/s", 1), text[1:]]))


OTHERS = st.sampled_from(
    [
        *PLAIN.splitlines(keepends=True),
        PLAIN,
        logged("Worker_TP0 pid=7", "hit an exception.\n" + PLAIN),
        "(Worker_TP0 pid=7) INFO 11-29 15:30:26 [x.py:1] nothing of interest, step 12 of 900\n",
        "(Worker_TP1 pid=8) INFO 11-29 15:31:26 [x.py:1] nothing of interest, step 13 of 900\n",
        "(Worker_TP0 pid=7) INFO 11-29 15:30:27 [default_loader.py:293] Loading weights took 0.09 seconds\n",
        "(Worker_TP1 pid=8) (Worker_TP0 pid=7) INFO 11-29 15:30:26 [x.py:1] woven\n",
        "Starting to load model /m\n",
        "=== attempt 2 ===\n",
        "(Worker_TP0 pid=7) \n",
        "(Worker_TP0 pid=7) \r",
        "\r\n",
        "/run.sh: line 3:  99 Killed   python x\n",
        "Extracting hidden states:  50%|██   | 5/10 [00:05<00:05,  1.00it/s]Killed\n",
        "[extract] Done in 3 s\n",
        "used 50% of memory\n",
        "x" * 70_000 + "Killed\n",
        "x" * (60 * 1024 - 3) + "Kil" + "y" * 9000 + "z" * 4093 + "led\n",
    ]
)


@settings(max_examples=400, deadline=None)
@given(pieces=st.lists(bar_lines() | OTHERS, max_size=30), choice=st.data())
def test_bars_among_other_lines_read_as_if_one_by_one(pieces: list[str], choice: st.DataObject) -> None:
    data = "".join(pieces).encode()
    assert_same(data, choice.draw(st.lists(st.integers(0, len(data)), max_size=4)))


@pytest.mark.parametrize("name", sorted(path.name for path in REAL_LOGS.glob("*.log")))
def test_real_logs_read_as_if_line_by_line(name: str) -> None:
    data = real(name)
    chance = random.Random(name)
    for _ in range(3):
        assert_same(data, [chance.randrange(len(data)) for _ in range(3)])


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_cases_read_as_if_line_by_line(path: Path) -> None:
    data = path.read_bytes()
    chance = random.Random(path.stem)
    for _ in range(3):
        assert_same(data, [chance.randrange(len(data) + 1) for _ in range(3)])


@pytest.mark.parametrize("telling", [0.0, 0.4])
@pytest.mark.parametrize("piece", [4096, 1 << 17])
def test_a_generated_log_reads_as_if_line_by_line(monkeypatch: pytest.MonkeyPatch, piece: int, telling: float) -> None:
    monkeypatch.setattr(outline, "PIECE_BYTES", piece)
    data = b"".join(Log(3 << 20, seed=piece, telling=telling).pieces())
    assert_same(data, list(range(0, len(data), 700_001)))


def test_an_update_without_its_percentage_is_no_step() -> None:
    steps = [(done, done) for done in range(6)] + [(6, 11), (7, 17)]
    whole = bars("Worker_TP0", steps, 100, "each")
    torn = whole.replace("  6%|", "   %|")
    assert torn != whole
    found = {text: LogReader() for text in (whole, torn)}
    for text, reader in found.items():
        reader.feed(text.encode())
        assert_same(text.encode(), [])
    assert [len(reader.findings().stalls) for reader in found.values()] == [0, 1]


def test_a_bar_that_starts_again_many_times_is_read_once_more_at_most() -> None:
    """The reading that a restart makes needless is not done."""
    lines = "".join(bars("Worker_TP0", [(step, step) for step in range(9)], 9, "each") for _ in range(500))
    reader, every = LogReader(), EveryLine()
    counts = []
    for one in (reader, every):
        read, calls = one._progress.read_bar, []
        one._progress.read_bar = lambda *given, read=read, calls=calls: calls.append(0) or read(*given)  # type: ignore
        one.feed(lines.encode())
        counts.append(len(calls))
    assert counts[0] < 5
    assert counts[1] == 4500
    assert reader.findings() == every.findings()


def test_a_text_that_never_comes_does_not_hold_the_reader_up() -> None:
    reader = LogReader()
    reader.feed(b"(Worker_TP1 pid=8) (Worker_TP0 pid=7) INFO 11-29 15:30:26 [x.py:1] woven\n")
    assert reader._busy
    reader.feed(b"(Worker_TP0 pid=7) INFO 11-29 15:30:26 [x.py:1] on it goes\n" * 2000)
    assert not reader._busy
