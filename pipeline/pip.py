"""Runs pip in an environment that is being made, and tells how far it is."""

from __future__ import annotations

import os
import re
import selectors
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from pipeline.report import StageError, progress


def install(python: Path, site: Path, scratch: Path, arguments: Sequence[str], total: int) -> None:
    """`pip install`, its output passed on line by line. `total` packages are counted. Raises StageError.

    `scratch` holds the wheels meanwhile: gigabytes, more than many a /tmp has.
    """
    command = [
        *(str(python), "-m", "pip", "install", "--no-input", "--disable-pip-version-check"),
        *("--progress-bar", "off", *arguments),
    ]
    environment = {**os.environ, "TMPDIR": str(scratch)}
    before = _installed(site)
    fetched = 0
    last: list[str] = []
    installing = False
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment) as process:
        try:
            for line in _lines(process):
                if line is None:  # a second without output: pip is silent while it downloads and unpacks
                    if installing:
                        progress("installing packages", min(_installed(site) - before, total), total, "packages")
                    continue
                print(line, flush=True)
                last = [*last[-20:], line]
                if re.match(r"(Collecting|Processing|Requirement already satisfied)\b", line):
                    fetched += 1
                    progress("downloading packages", min(fetched, total), total, "packages")
                elif line.startswith("Installing collected packages"):
                    installing = True
                    progress("installing packages", 0, total, "packages")
        except BaseException:
            process.terminate()
            raise
    if process.returncode:
        errors = [line for line in last if line.startswith("ERROR")] or last[-1:]
        raise StageError(f"pip ended with status {process.returncode}: {' '.join(errors)}")
    progress("installing packages", total, total, "packages")


def offers(python: Path, arguments: Sequence[str]) -> bool:
    """Whether pip finds these requirements in its indexes, without installing them."""
    command = [str(python), "-m", "pip", "install", "--no-input", "--disable-pip-version-check", "--quiet"]
    command += ["--dry-run", "--no-deps", *arguments]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _installed(site: Path) -> int:
    return sum(1 for _ in site.glob("*.dist-info"))


def _lines(process: subprocess.Popen[bytes]) -> Iterator[str | None]:
    """Lines of the output; None for each second in which there was none."""
    assert process.stdout
    pending = b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while True:
            if not selector.select(timeout=1.0):
                yield None
                continue
            data = process.stdout.read1(1 << 16)  # type: ignore[attr-defined]
            if not data:
                break
            *whole, pending = (pending + data).split(b"\n")
            yield from (line.decode(errors="replace").rstrip("\r") for line in whole)
    if pending:
        yield pending.decode(errors="replace")
    sys.stdout.flush()
