"""`eyas parse`, as a process: what it answers about files and pipes, and with which exit status."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time
import unicodedata
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from console import parse, parse_report
from console.errors import UserError
from remote.logs.findings import Fatal, Findings, Frame, Progress, Stall, Traceback
from remote.logs.reader import LogReader

LOGS = Path(__file__).parents[1] / "data" / "logs"
CRASH = LOGS / "66_ladder_llama_tp2_blockhash_failure.log"
CLEAN = "INFO 11-29 15:30:26 [loader.py:1] all is well\n"


def eyas_parse(*words: str | Path, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    argv = [sys.executable, "-m", "console.cli", "parse", *map(str, words)]
    return subprocess.run(argv, input=given, capture_output=True, timeout=120, check=False)


def answered(done: subprocess.CompletedProcess[bytes]) -> Any:
    return json.loads(done.stdout)


def test_a_failure_is_reported_root_cause_first_with_frames_source_and_patch() -> None:
    done = eyas_parse(CRASH)
    page = done.stdout.decode()
    assert done.returncode == 1
    assert page.index("ROOT CAUSE") < page.index("AssertionError at `assert len(request.block_hashes)")
    assert "vllm/v1/core/block_pool.py:238 in cache_full_blocks\n      assert len(request.block_hashes)" in page
    assert "Mended by the patch prefix-caching" in page
    assert page.index("Mended by") < page.index("LAST PROGRESS")
    assert "Worker_TP0  safetensors shards  12/12" in page


def test_json_has_the_facts_of_one_log() -> None:
    body = answered(eyas_parse("--json", CRASH))
    root = body["tracebacks"][body["root_cause"]]
    assert (root["exception_type"], root["message_first_line"], root["truncated"]) == ("AssertionError", "", False)
    assert len(root["frames"]) == 7
    assert (root["innermost"]["line"], root["innermost"]["function"]) == (238, "cache_full_blocks")
    assert root["innermost"]["file"].endswith("vllm/v1/core/block_pool.py")
    assert (root["repeated_by"], root["worker"], root["chained_from"]) == (1, None, None)
    assert root["patches"][0]["patch"] == "prefix-caching"
    assert {"kind", "done", "total", "percent", "eta_s"} <= set(body["progress"][0])
    assert [bar for bar in body["progress"] if bar["kind"] == "load_weights_done" and bar["done"] is None]
    assert (body["fatal"], body["root_cause_fatal"]) == ([], None)


@pytest.mark.parametrize(("file", "said"), [("/env/vllm/v1/engine/core.py", True), ("/home/me/train.py", False)])
def test_a_failure_in_vllm_that_no_patch_explains_is_told_as_such(tmp_path: Path, file: str, said: bool) -> None:
    log = tmp_path / "odd.log"
    log.write_text(
        f'Traceback (most recent call last):\n  File "{file}", line 3, in run\n    odd()\nOddError: never seen\n'
    )
    page = " ".join(eyas_parse(log).stdout.decode().split())
    assert ("No patch of the catalogue is known to mend this. `eyas check --drift" in page) is said


def test_a_clean_log_ends_with_0(tmp_path: Path) -> None:
    log = tmp_path / "good.log"
    log.write_text(CLEAN)
    done = eyas_parse(log)
    assert (done.returncode, done.stderr) == (0, b"")
    assert "No failure in this log." in done.stdout.decode()


def test_several_files_give_a_list_and_one_unreadable_file_does_not_hide_the_others(tmp_path: Path) -> None:
    done = eyas_parse("--json", tmp_path / "none.log", CRASH, tmp_path)
    missing, crash, folder = answered(done)
    assert done.returncode == 2
    assert missing == {
        "file": str(tmp_path / "none.log"),
        "error": f"{tmp_path}/none.log cannot be read: No such file or directory.",
    }
    assert (crash["file"], len(crash["tracebacks"])) == (str(CRASH), 1)
    assert folder["error"].endswith("Is a directory.")
    assert missing["error"] in done.stderr.decode()


def test_standard_input_and_gzip_read_like_the_file() -> None:
    by_name = answered(eyas_parse("--json", CRASH))
    piped = answered(eyas_parse("--json", "-", given=CRASH.read_bytes()))
    packed = answered(eyas_parse("--json", "-", given=gzip.compress(CRASH.read_bytes())))
    assert piped == packed == {**by_name, "file": "standard input"}


def test_a_damaged_gzip_file_is_unreadable(tmp_path: Path) -> None:
    damaged = tmp_path / "cut.log.gz"
    damaged.write_bytes(gzip.compress(CRASH.read_bytes())[:-20])
    done = eyas_parse(damaged)
    assert done.returncode == 2
    assert done.stderr.startswith(f"eyas: {damaged} cannot be read: ".encode())


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_a_log_in_utf16_is_read(tmp_path: Path, encoding: str, packed: bool) -> None:
    plain = json.loads(eyas_parse(CRASH, "--json").stdout)
    data = ("\ufeff" + CRASH.read_bytes().decode()).encode(encoding)
    wide = tmp_path / "wide.log"
    wide.write_bytes(gzip.compress(data) if packed else data)
    found = json.loads(eyas_parse(wide, "--json").stdout)
    assert (found["bytes_read"], [item["offset"] for item in found["tracebacks"]]) == (len(data), [-1])
    plain["tracebacks"][0]["offset"] = -1
    assert found == {**plain, "file": str(wide), "bytes_read": len(data)}


def test_standard_input_is_read_once() -> None:
    done = eyas_parse("-", "-", given=CLEAN.encode())
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"only once" in done.stderr


def test_an_interrupt_ends_a_pipe_and_what_came_is_reported() -> None:
    argv = [sys.executable, "-m", "console.cli", "parse", "--json", "-"]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(CRASH.read_bytes())
    process.stdin.flush()
    _until_it_waits_for_more(process.pid)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (1, b"")
    assert len(json.loads(out)["tracebacks"]) == 1


def _until_it_waits_for_more(pid: int) -> None:
    """The process has read all that its standard input holds: it sleeps in a read of descriptor 0."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        # system call number, then its first argument
        call = Path(f"/proc/{pid}/syscall").read_text().split()
        if call[:2] == ["0", "0x0"] or (call[:1] == ["63"] and call[1:2] == ["0x0"]):
            return
        time.sleep(0.02)
    raise AssertionError("the process never waited for its standard input")


def test_nothing_for_hosts_or_screens_is_imported() -> None:
    check = (
        "import sys\nfrom console import cli\nsys.argv = ['eyas', 'parse', sys.argv[1]]\n"
        "try: cli.main()\nexcept SystemExit as end: assert end.code == 1, end.code\n"
        "heavy = {'textual', 'paramiko', 'typer', 'pydantic', 'tomlkit', 'cryptography'} & set(sys.modules)\n"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", check, str(CRASH)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_log_is_read_in_pieces_of_bounded_size(tmp_path: Path) -> None:
    """64 MiB of log in a process that may not take more than 40 MiB beyond what it starts with."""
    big = tmp_path / "big.log"
    line = b"(Worker_TP0 pid=7) INFO 11-29 15:30:26 [loader.py:1] " + b"x" * 960 + b"\n"
    with big.open("wb") as out:
        for _ in range(64):
            out.write(line * (2**20 // len(line)))
    check = (
        "import re, sys\nfrom pathlib import Path\nfrom console import parse\n"
        "peak = lambda: int(re.search(r'VmHWM:\\s+(\\d+)', Path('/proc/self/status').read_text())[1])\n"
        "idle = peak()\nfound = parse.read_log(sys.argv[1])\nprint(peak() - idle, found.bytes_read)"
    )
    done = subprocess.run([sys.executable, "-c", check, str(big)], capture_output=True, text=True, check=True)
    grown, read = map(int, done.stdout.split())
    assert read == big.stat().st_size
    assert grown < 40 * 1024, f"{grown} KiB"


def test_the_command_is_listed_with_the_others_and_runs_from_there_too() -> None:
    listed = subprocess.run([sys.executable, "-m", "console.cli", "--help"], capture_output=True, text=True, check=True)
    assert "Say what broke in any log on this machine" in listed.stdout
    argv = [sys.executable, "-c", "from console import commands; commands.app(['parse', '--json', 'none'])"]
    assert subprocess.run(argv, capture_output=True, check=False).returncode == 2


def test_a_reader_that_leaves_early_is_no_error() -> None:
    shell = f"{sys.executable} -m console.cli parse --json {CRASH} {CRASH} {CRASH} | head -c 1"
    done = subprocess.run(["sh", "-c", shell], capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"[", b"")


HOSTILE = "\x1b]0;owned\x07\x1b[2J\u202e"


@pytest.mark.parametrize("name", ["a.log", "/" + "long/" * 60 + "name.log", f"{HOSTILE}.log"])
def test_every_line_is_safe_and_fits_80_columns(name: str) -> None:
    frames = tuple(
        Frame(f"/env/{HOSTILE}/" + "深い/" * 60 + "x.py", 10**7, "f" * 200 + HOSTILE, "批" * 90 + HOSTILE)
        for _ in range(30)
    )
    error = Traceback(
        f"x{HOSTILE}Error", "批处理失败" * 40 + HOSTILE + "\nmore" * 60, frames, "W" * 90, ("W" * 90, HOSTILE)
    )
    found = Findings(
        tracebacks=(
            error,
            Traceback("E", "m" * 300, frames, chained_from=0),
            Traceback("F", HOSTILE, (), wrapper=True),
        ),
        progress=(Progress("generic_tqdm", 10**12, 10**13, HOSTILE, 10, 1e9, 1e6, label="批" * 100),) * 40,
        fatal=(Fatal("oom_kill", HOSTILE * 50, 9, 137, "do " * 100, 3, worker="W" * 120),),
        root_cause=0,
        reason="because " * 50 + HOSTILE,
    )
    page = parse_report.report(name, found)
    assert not [c for c in page if c != "\n" and unicodedata.category(c) in ("Cc", "Cf", "Cs")]
    for line in page.split("\n"):
        width = sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line)
        assert width <= 80, line


def test_wide_and_zero_width_characters_that_even_out_do_not_widen_a_line() -> None:
    message = "the cause" + " \u6f22" * 60 + "e\u0301" * 60
    text = f'Traceback (most recent call last):\n  File "/a.py", line 1, in f\n    f()\nRuntimeError: {message}\n'
    reader = LogReader()
    reader.feed(text.encode())
    page = parse_report.report("a.log", reader.finish())
    assert "\u6f22" in page
    assert max(parse_report.cells(line) for line in page.split("\n")) <= parse_report.WIDTH


def test_a_death_is_told_with_its_remedy_and_wrappers_take_a_line_each() -> None:
    found = Findings(
        tracebacks=(Traceback("RuntimeError", "Engine core initialization failed.", (), "APIServer", wrapper=True),),
        fatal=(Fatal("oom_kill", "Killed", 9, 137, "More memory.", 7),),
        root_cause_fatal=0,
    )
    _, _, *lines = parse_report.report("x", found).split("\n")
    assert lines == [
        "ROOT CAUSE",
        "  oom kill · exit code 137 · line 7",
        "    Killed",
        "    → More memory.",
        "",
        "ONLY REPORTS OF A FAILURE",
        "  line 0  RuntimeError: Engine core initialization failed.  (APIServer)",
    ]


def test_what_a_failure_is() -> None:
    assert parse.exit_status(Findings()) == parse.CLEAN
    assert parse.exit_status(Findings(fatal=(Fatal("hang_warning", "No available block"),))) == parse.CLEAN
    assert parse.exit_status(Findings(fatal=(Fatal("oom_kill", "Killed"),))) == parse.FAILED
    assert parse.exit_status(Findings(tracebacks=(Traceback("E", "", ()),))) == parse.FAILED
    stall = Stall("no step for 9m", "generic_tqdm", 3, 9, 540.0, 2.0)
    assert parse.exit_status(Findings(stalls=(stall,))) == parse.FAILED
    assert parse.exit_status(Findings(stalls=(replace(stall, ended=True),))) == parse.CLEAN


def test_the_root_cause_comes_with_its_remedy() -> None:
    found = Findings(tracebacks=(Traceback("E", "x", ()),), root_cause=0, reason="Only one.", remedy="More memory.")
    assert "  Only one.\n\n  → More memory." in parse_report.report("x", found)


def test_a_stall_is_told_with_its_worker_and_remedy() -> None:
    stall = Stall("No step for 9m.", "generic_tqdm", 3, 9, 540.0, 2.0, worker="W_1", line=7, remedy="Look at the disk.")
    page = parse_report.report("x", Findings(stalls=(stall,)))
    assert "STALLS\n  W_1: No step for 9m. · line 7\n    → Look at the disk." in page


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is unreadable to root")
def test_a_file_without_permission_is_unreadable(tmp_path: Path) -> None:
    secret = tmp_path / "secret.log"
    secret.write_text(CLEAN)
    secret.chmod(0)
    with pytest.raises(UserError, match="Permission denied"):
        parse.read_log(str(secret))
