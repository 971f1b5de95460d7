"""Files of this machine that a run needs on its host: sent in pieces and kept there by digest, so never sent twice."""

from __future__ import annotations

import base64
import hashlib
import uuid
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any

from console.errors import UserError
from remote import protocol

PIECE = 256 << 10
PATIENCE = 180.0
SIZE_MAX = 64 << 20
"""What the host takes."""
STDLIB = "stdlib"
Request = Callable[..., dict[str, Any]]


def with_conversations(request: Request, params: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Parameters of START and RELAUNCH, with conversations that lie on this machine put on the host.

    `run.conversations` is a place on the host when it is a full path; else it is one here, from the project's `folder`
    or from `~`. Raises UserError.
    """
    run = params["settings"].get("run", {})
    given = str(run.get("conversations", STDLIB))
    if given == STDLIB or given.startswith("/"):
        return params
    file = Path(given).expanduser() if given.startswith("~") else folder / given
    place = put(request, _read(file, given), file.suffix, given)
    settings = {**params["settings"], "run": {**run, "conversations": place}}
    return {**params, "settings": settings}


def _read(file: Path, given: str) -> bytes:
    remedy = "Correct run.conversations: a file here, the full path of one on the host, or stdlib."
    try:
        size = file.stat().st_size
        if size > SIZE_MAX:
            raise UserError(
                f"{file} has {size >> 20} MB, and files of up to {SIZE_MAX >> 20} MB are sent to the host.",
                "Copy it there and give its full path as run.conversations.",
            )
        data = file.read_bytes()
    except FileNotFoundError:
        raise UserError(
            f"There is no file {file} on this machine, which run.conversations, {given}, names.", remedy
        ) from None
    except OSError as error:
        raise UserError(f"{file} cannot be read: {error.strerror}.", remedy) from None
    if not data.strip():
        raise UserError(f"The file of conversations {file} is empty.", "Point run.conversations at data.")
    return data


def put(request: Request, data: bytes, suffix: str, name: str) -> str:
    """Puts a file on the host and returns its place there. `name` is for messages. Raises UserError."""
    suffix = PurePosixPath(f"x{suffix}").suffix.lower()
    about = {
        "digest": hashlib.sha256(data).hexdigest(),
        "suffix": suffix if len(suffix) <= 9 and suffix[1:].isalnum() and suffix.isascii() else "",
        "size": len(data),
    }
    offset, piece = 0, b""
    while True:
        again = {"request_id": uuid.uuid4().hex, "timeout": PATIENCE}
        encoded = base64.b64encode(piece).decode()
        answer = request(protocol.UPLOAD, **about, offset=offset, data=encoded, **again)
        if answer["path"]:
            return str(answer["path"])
        offset = int(answer["have"])
        piece = data[offset : offset + PIECE]
        if not piece:
            raise UserError(f"The host did not take {name}.", "Try once more.")
