"""The bundle: everything the host needs, as one canonical string of bytes (the roll) named by its sha256.

Roll: for each path in byte order, `path NUL length LF content`. Same sources, same roll, on any workstation.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_SHARED = ("__init__.py", "wire.py", "protocol.py", "views.py")
"""Modules directly in `remote` that both ends have; the others stay on the workstation."""


@dataclass(frozen=True)
class Bundle:
    roll: bytes
    digest: str
    """sha256 of the roll, hex: the name of its folder on the host."""
    packed: bytes
    """The roll as it travels: zlib."""


@functools.cache
def bundle() -> Bundle:
    """The bundle of the running console's own sources, made once per process."""
    roll = make_roll(sources())
    return Bundle(roll, hashlib.sha256(roll).hexdigest(), zlib.compress(roll, 9))


def make_roll(files: dict[str, bytes]) -> bytes:
    """Canonical bytes of path -> content."""
    by_path = sorted((path.encode(), content) for path, content in files.items())
    return b"".join(b"%s\0%d\n" % (path, len(content)) + content for path, content in by_path)


def sources() -> dict[str, bytes]:
    """Path in the bundle -> content of every file that travels."""
    found = dict(_remote_files())
    for package in ("compat", "pipeline"):
        found.update(_below(package, _folder(package)))
    nvml = importlib.util.find_spec("pynvml")
    if nvml and nvml.origin:  # a workstation without it sends none: the agent then says why there are no figures
        found["pynvml.py"] = Path(nvml.origin).read_bytes()
    return found


def _remote_files() -> Iterator[tuple[str, bytes]]:
    folder = _folder("remote")
    for name in _SHARED:
        yield f"remote/{name}", (folder / name).read_bytes()
    for part in ("agent", "logs"):
        yield from _below(f"remote/{part}", folder / part)


def _below(prefix: str, folder: Path) -> Iterator[tuple[str, bytes]]:
    for file in folder.rglob("*"):
        inner = file.relative_to(folder)
        if file.is_file() and _travels(inner):
            yield f"{prefix}/{inner.as_posix()}", file.read_bytes()


def _travels(inner: Path) -> bool:
    """Sources, pinned lists, baselines of the drift probe, and the metadata by which vLLM finds the patches."""
    if "__pycache__" in inner.parts:
        return False
    data = (inner.suffix, inner.parent.name) in ((".txt", "environments"), (".json", "baselines"))
    return inner.suffix == ".py" or data or any(part.endswith(".dist-info") for part in inner.parts)


def _folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"package {package} is not installed beside remote")
    return Path(next(iter(spec.submodule_search_locations)))
