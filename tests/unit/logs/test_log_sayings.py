"""What was said before with other numbers means the same again: the findings are those of reading each line anew."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from log_tools import PLAIN, logged
from test_log_skim import assert_same, bars

from remote.logs import milestones, phases, reader, sayings, signs
from remote.logs.findings import Milestone
from remote.logs.prefixes import Line, read_line
from remote.logs.reader import LogReader
from remote.logs.records import clean

WHO = ("Worker_TP0 pid=7", "Worker_TP1 pid=8", "EngineCore_DP0 pid=3", "RayWorker pid=9, ip=10.0.0.1")
SENTENCES = (
    "Starting to load model /m/K2...",
    "Loading drafter model...",
    "Warming up model for compilation...",
    "Loading weights took {n}.{n} seconds",
    "Model loading took {n},{n}.5 GiB memory and {n} seconds",
    "GPU KV cache size: {n},000 tokens",
    "init engine (profile, create kv cache) took {n}.25 seconds",
    "torch.compile takes {n}.2 s in total",
    "torch.compile takes  s in total {n}",
    "request {n} took long",
    "No available shared memory broadcast block found in {n} seconds.",
    "No available shared memory broadcast block found in {n} seconds. req_0_{n} req_0_1 req_0_2",
    "Initializing a V{n} LLM engine",
    "attempt {n} ====",
    "worker {n} died, exit code: -{n}",
    "nothing of interest in step {n} [repeated {n}x across cluster]",
    "ValueError: {n} [repeated {n}x across cluster]",
    "nothing of interest in step {n}",
    "50% of {n} took {n} s",
    'took {"a": 5}',
    "Loading weights took {n} seconds – about",
    "  Loading weights took {n} seconds",
    "\x1b[1mLoading weights\x1b[0m took {n} seconds",
)
FORMS = (
    "({who}) INFO 11-29 15:30:2{n} [x.py:{n}] {text}",
    "({who}) INFO 11-29 15:30:2{n} [x.py:1] {text}",
    "({who}) INFO 11-29 15:30:26.5 [x.py:1] {text}",
    "\x1b[0;36m({who})\x1b[0;0m INFO 11-29 15:30:26 [x.py:{n}] {text}",
    "\x1b[0;36m({who})\x1b[0;0m \x1b[32mINFO\x1b[0m 11-29 15:30:26 [x.py:{n}] {text}",
    "({who}) ERROR 11-29 15:30:26 [multiproc_executor.py:{n}] {text}",
    "({who}) {text}",
    "({who}) [rank{n}]: {text}",
    "({who}) (Worker_TP1 pid=8) {text}",
    "({who}) \r({who}) {text}",
    "INFO 11-29 15:30:26 [x.py:{n}] {text}",
    "web{n} | INFO 11-29 15:30:26 [x.py:{n}] {text}",
    "{text}",
    "({who}) {text}\r",
)
TRACEBACKS = (
    PLAIN,
    PLAIN.rsplit("\n", 2)[0] + "\n",
    *(logged(who, "hit an exception.\n" + PLAIN) for who in WHO[:2]),
    *("".join(f"({who}) {line}\n" for line in PLAIN.splitlines()) for who in WHO[:2]),
    "The above exception was the direct cause of the following exception:\n",
    "terminate called after throwing an instance of 'c10::Error'\n",
    "shipper 11: " + PLAIN.replace("\n", "\nshipper 11: ")[:-12],
)


@st.composite
def lines(draw: st.DrawFn) -> str:
    form, text = draw(st.sampled_from(FORMS)), draw(st.sampled_from(SENTENCES))
    text = text.replace("{n}", draw(st.sampled_from(["1", "2", "5", "12", "137"])))
    return (
        form.replace("{who}", draw(st.sampled_from(WHO)))
        .replace("{n}", str(draw(st.integers(1, 3))))
        .replace("{text}", text)
        + "\n"
    )


@st.composite
def bar_lines(draw: st.DrawFn) -> str:
    start = draw(st.integers(0, 3))
    worker, form = draw(st.sampled_from(["Worker_TP0", "Worker_TP1"])), draw(st.sampled_from(["each", "once"]))
    label = draw(st.sampled_from(["Loading safetensors checkpoint shards", "Capturing CUDA graphs", "Work"]))
    return bars(worker, [(start + step, start + step) for step in range(draw(st.integers(1, 3)))], 5, form, label)


@settings(max_examples=600, deadline=None)
@given(
    pieces=st.lists(lines() | lines() | bar_lines() | st.sampled_from(TRACEBACKS), max_size=40),
    times=st.sampled_from([1, 1, 1, 3]),
    choice=st.data(),
)
def test_lines_said_again_read_as_if_one_by_one(pieces: list[str], times: int, choice: st.DataObject) -> None:
    data = ("".join(pieces) * times).encode()
    assert_same(data, choice.draw(st.lists(st.integers(0, len(data)), max_size=3)))


def woven(who: str, text: str) -> str:
    return "".join(f"({who}) {line}".rstrip() + "\n" for line in text.splitlines())


INFO = "INFO 11-29 15:30:26 [abc.py:1] "
CAUSE = "The above exception was the direct cause of the following exception:"
LOADED = "Loading weights took 5 seconds"
HANG = "No available shared memory broadcast block found in 60 seconds."
FAILED = PLAIN.rstrip() + ": no blocks\n"
LOGS = {
    "said by the stream itself": woven(WHO[0], f"{FAILED}{CAUSE}\n{LOADED}\n{FAILED}"),
    "ends a message of its process": woven(WHO[0], f"{FAILED}{INFO}words\nmore of it\n"),
    "is said during a message": woven(WHO[0], FAILED) + woven(WHO[1], INFO + "words") + woven(WHO[0], "more of it"),
    "ends a bare message": FAILED + woven(WHO[0], f"{INFO}words\n{INFO}words") + "more of it\n",
    "does not end a bare message yet": FAILED + woven(WHO[0], f"{INFO}words") + "more of it\n",
    "comes too late for a message": woven(WHO[0], FAILED) + woven(WHO[1], INFO + "words") * 300 + woven(WHO[0], "more"),
    "outlasts a traceback cut short": woven(WHO[0], PLAIN[:80]) + woven(WHO[1], INFO + "words") * 4200,
    "is said for other processes too": woven(WHO[0], PLAIN)
    + woven(WHO[1], PLAIN.rsplit("\n", 2)[0])
    + woven(WHO[2], PLAIN.splitlines()[-1] + " [repeated 3x across cluster]"),
    "says more than before": woven(WHO[0], f"{HANG}\n{HANG}\n{HANG} req_0_1 req_0_10 req_0_2"),
    "stands behind what was learnt": woven(WHO[0], "job 7: " + FAILED.replace("\n", "\njob 7: ")[:-7])
    + woven(WHO[0], "job 7: Starting to load model /m") * 2,
    "begins anew": bars("Worker_TP0", [(step, step) for step in range(7)], 99, "each")
    + woven(WHO[0], INFO + "words").replace("(", "words (")
    + "INFO 11-29 15:30:27 [abc.py:1] words\n=== attempt 2 ===\nINFO 11-29 15:59:27 [abc.py:1] words\n",
}


@pytest.mark.parametrize("log", LOGS)
def test_a_line_that_matters_by_where_it_stands_is_read_there(log: str) -> None:
    assert_same(LOGS[log].encode(), [])


def test_a_line_said_again_is_not_read_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[bytes] = []
    really = LogReader._read
    monkeypatch.setattr(LogReader, "_read", lambda self, line, kind=0: (read.append(line), really(self, line, kind)))
    text = "".join(
        f"(Worker_TP{step % 2} pid={step % 2}) INFO 11-29 15:30:26 [x.py:1] Loading weights took 2.{step} seconds\n"
        f"(Worker_TP{step % 2} pid={step % 2}) INFO 11-29 15:30:26 [x.py:1] No available shared memory broadcast block"
        f" found in {step} seconds.\n"
        for step in range(10)
    )
    log = LogReader()
    log.feed(text.encode())
    found = log.findings()
    assert len(read) == 2  # the first warning of each worker
    assert found.milestones == (
        Milestone("load_weights_done", 2.8, "s", "Worker_TP0"),
        Milestone("load_weights_done", 2.9, "s", "Worker_TP1"),
    )
    assert [(item.worker, item.count, item.line) for item in found.fatal] == [
        ("Worker_TP0", 5, 2),
        ("Worker_TP1", 5, 4),
    ]


@pytest.mark.parametrize("module", [milestones, phases])
def test_no_pattern_of_a_saying_tells_one_digit_from_another(module: object) -> None:
    rows = milestones._MILESTONES if module is milestones else phases._LINES
    for pattern in (part for row in rows for part in row if isinstance(part, re.Pattern)):
        words = re.sub(r"\{[\d,]+\}", "", pattern.pattern)
        assert not re.search(r"\d", words), words


@pytest.mark.parametrize("token", [token for tokens in signs.TOKENS.values() for token in tokens])
def test_a_saying_has_all_its_signs_in_its_text(token: bytes) -> None:
    """The head of a line bears none, so what the text bears the line bears."""
    head = b"(Worker_TP0 pid=7) ERROR 11-29 15:30:26 [multiproc_executor.py:824] "
    assert token not in head


@pytest.mark.parametrize("form", FORMS)
def test_a_line_in_the_plain_form_has_the_parts_that_reading_it_gives(form: str) -> None:
    for who in WHO:
        text = form.replace("{who}", who).replace("{n}", "3").replace("{text}", "Loading weights took 5 seconds")
        line = text.encode()
        found = sayings.said(line)
        if found is None:
            continue
        whole: Line = read_line(clean(line))
        assert found.origin == whole.origins[0]
        assert found.source == (f"{whole.level} {whole.source}" if whole.source else "")
        assert found.text.decode().rstrip() == whole.text
        assert len(whole.origins) == 1
        assert not whole.transport


def test_most_of_what_an_engine_says_is_in_the_plain_form() -> None:
    assert sayings.said(b"(Worker_TP0 pid=7) INFO 11-29 15:30:26 [x.py:1] words") is not None
    assert sayings.said(b"(Worker_TP0 pid=7) words") is not None
    assert sayings.said(b"words") is None
    assert reader.PLAIN == 0
