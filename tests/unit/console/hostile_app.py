"""The real app on a host that sends every kind of hostile text everywhere. `--raw` takes the sanitiser out."""

from __future__ import annotations

import sys
from dataclasses import replace

if "--raw" in sys.argv:
    import console.sanitise

    console.sanitise.sanitise = lambda text, *, newlines=False: text  # type: ignore[assignment]
    console.sanitise.sanitise_json = lambda value: value
    console.sanitise.one_line = lambda text, tab=4: text

from console_fakes import PATCHES, FakeProject, FakeSession, failed_run, sample

from console.app import EyasApp
from remote.logs.findings import Findings, Frame, Progress, Traceback
from remote.views import RUNNING, PatchReport, ProcessView, RunView, StageProgress

EVIL = (
    "\x1b]52;c;UFdORUQ=\x07\x1b]0;PWNED\x07\x1b[5;5HPWNED\x9b31m\x1bPq\x1b\\\u202e\x1b[2J[/][bold[type=x, v={'a[0]'}]"
    "\x1b]8;;http://evil\x07\0\x7f\ud800你好\x1b]"
)
LOG = (
    b"".join(
        part + b"\n"
        for part in (
            b"harmless first line",
            EVIL.encode("utf-8", "surrogatepass"),
            b"(Worker_TP0 pid=1) \r" + EVIL.encode("utf-8", "surrogatepass"),
            b"\xff\xfe\x9b31m",
            b"\x9d52;c;UFdORUQ=\x9c",
            b"[/] [bold] [link=x]",
            b"x" * 100_000,
            b"harmless last line",
        )
    )
    + b"\x1b]52;c;unfinished"
)


def hostile_run() -> RunView:
    run = failed_run()
    frame = Frame(f"/a/{EVIL}.py", 3, f"f{EVIL}", f"    raise {EVIL}")
    traceback = Traceback(f"Evil{EVIL}", f"{EVIL}\n{EVIL}", (frame, frame), workers=(EVIL,), line=2, offset=20)
    extract = replace(
        run.stages[3],
        title=EVIL,
        notes=(EVIL,),
        artifacts=(EVIL,),
        metrics={EVIL: 1.0},
        patches=(PatchReport(EVIL, EVIL, "active", EVIL, EVIL, EVIL), PatchReport(PATCHES[0].id, EVIL, EVIL, EVIL)),
        findings=Findings((traceback,), (Progress(EVIL, 1, 2, worker=EVIL),), root_cause=0, reason=EVIL),
    )
    live = replace(run.stages[0], state=RUNNING, progress=StageProgress(EVIL, 1, 2, EVIL), findings=extract.findings)
    return replace(run, stages=(live, *run.stages[1:3], extract), error=EVIL, versions={EVIL: EVIL}, pair=EVIL)


def hostile_session() -> FakeSession:
    bad = tuple(
        replace(
            p,
            title=EVIL,
            reason=EVIL,
            cause=EVIL,
            since=EVIL,
            symptoms=(EVIL, EVIL),
            story=EVIL,
            gate=EVIL,
            digest=EVIL,
            code=f"{EVIL}\n{EVIL}",
            replaced_at=EVIL,
            replaced_code=EVIL,
            architectures=(EVIL,),
            references=(EVIL,),
        )
        for p in PATCHES
    )
    host = FakeSession(hostile_run(), bad, LOG)
    host.host = f"box{EVIL}"
    host.troubles = [EVIL]
    process = ProcessView(1, EVIL, rss=1, read_bytes=5)
    figures = sample(2)
    host.sample = replace(
        figures,
        gpus=tuple(replace(g, name=EVIL, throttle=(EVIL,), missing={EVIL: EVIL}) for g in figures.gpus or ()),
        processes={key.replace("extract", "provision"): (process,) for key in figures.processes},
    )
    return host


if __name__ == "__main__":
    EyasApp(FakeProject(), hostile_session().factory).run()
