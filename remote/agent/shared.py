"""The data of one run for another: products up to `verify`, by hard links, under the digest that verify gave them."""

from __future__ import annotations

import os
import shutil
from typing import Any

from remote.agent import files
from remote.agent.layout import Run
from remote.protocol import RemoteError

FOLDERS = ("target", "dataset", "hidden_states")
VERDICT = "verify.json"
THROUGH = "verify"
"""The last stage whose products are shared."""
COPIED = frozenset({".json", ".jsonl", ".md", ".txt", ".jinja"})
"""Written again in place, or small: a link would tie two runs together."""


def data_of(run: Run) -> str:
    """The digest of a run's verified data. Raises RemoteError when there is none."""
    try:
        verdict = files.read_json(os.path.join(run.folder, "products", VERDICT)) or {}
    except files.Unreadable as error:
        raise RemoteError("bad_request", f"run {run.id}: {error}", "run verify again") from None
    if verdict.get("passed") is not True or not isinstance(verdict.get("data"), str):
        what = "has not passed verify" if not verdict else "was refused by verify"
        why = f"run {run.id} {what}, so its data cannot be trained on"
        raise RemoteError("bad_request", why, "run it to its end first: `eyas run`")
    return str(verdict["data"])


def share(base: Run, products: str) -> None:
    """Put the data of `base` into an empty `products` folder. Raises OSError."""
    source = os.path.join(base.folder, "products")
    for name in FOLDERS:
        folder = os.path.join(source, name)
        if os.path.isdir(folder):  # the states' may be a link, to where stage.extract.folder says
            shutil.copytree(folder, os.path.join(products, name), copy_function=_take, symlinks=True)
    shutil.copyfile(os.path.join(source, VERDICT), os.path.join(products, VERDICT))


def _take(source: str, target: str) -> Any:
    if os.path.splitext(source)[1] not in COPIED:
        try:
            os.link(source, target)
        except OSError:  # a file system without hard links: then the base must stay
            os.symlink(os.path.abspath(source), target)
        return target
    return shutil.copyfile(source, target)
