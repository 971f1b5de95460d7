"""Files that the console hands in: kept by their digest, so that one that is there is not sent again."""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import re
from typing import Any

from remote.agent import files
from remote.agent.attempts import no_space
from remote.agent.layout import State
from remote.protocol import RemoteError

SIZE_MAX = 64 << 20
_DIGEST = re.compile(r"[0-9a-f]{64}")
_SUFFIX = re.compile(r"\.[a-z0-9]{1,8}|")


def take(state: State, digest: str, suffix: str, size: int, offset: int, data: str) -> dict[str, Any]:
    """Takes a piece at `offset`; `data` "" asks how much is there. Returns `{"path" (once whole), "have": bytes}`.

    A piece that does not begin at the end of what is there changes nothing. Raises RemoteError.
    """
    if not _DIGEST.fullmatch(digest) or not _SUFFIX.fullmatch(suffix):
        raise RemoteError("bad_request", "`digest` must be a sha256 and `suffix` a file's ending")
    folder = os.path.join(state.folder, "uploads")
    whole = os.path.join(folder, digest + suffix)
    if os.path.isfile(whole):
        return {"path": whole, "have": os.path.getsize(whole)}
    try:
        piece = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise RemoteError("bad_request", "`data` must be base64") from None
    part = f"{whole}.part"
    try:
        os.makedirs(folder, 0o700, exist_ok=True)
        fd = os.open(part, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            have = os.fstat(fd).st_size
            if not piece or offset != have:
                return {"path": None, "have": have}
            if size > SIZE_MAX or have + len(piece) > size:
                raise RemoteError("bad_request", f"a file handed in may have {SIZE_MAX >> 20} MiB at most")
            os.lseek(fd, offset, os.SEEK_SET)
            files.write_all(fd, piece)
            os.fsync(fd)
        finally:
            os.close(fd)
        have += len(piece)
        return {"path": _finish(part, whole, digest) if have == size else None, "have": have}
    except OSError as error:
        raise no_space(folder, error) from None


def _finish(part: str, whole: str, digest: str) -> str:
    """The file under its name, if its bytes are those of the digest; else it goes, and is to be sent again."""
    with open(files.open_read(part), "rb") as file:
        found = hashlib.sha256(file.read()).hexdigest()
    if found != digest:
        os.unlink(part)
        raise RemoteError("bad_request", f"what came is not the file with the digest {digest[:12]}", "send it again")
    os.rename(part, whole)
    files.sync_folder(os.path.dirname(whole))
    return whole
