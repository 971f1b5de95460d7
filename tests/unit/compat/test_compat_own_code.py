"""A patch's own code, as it is shown and recorded."""

from __future__ import annotations

import ast
import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from compat import own_code
from compat.catalogue import PATCHES, get
from compat.patch import Patch


@pytest.mark.parametrize("patch", [p for p in PATCHES if p.apply], ids=lambda patch: patch.id)
def test_what_a_patch_does_is_its_apply_with_all_that_it_uses_of_its_file(patch: Patch) -> None:
    shown = ast.parse(own_code.text(patch))
    defined = {n.name for n in shown.body if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
    assert "apply" in defined
    assert not {"probe", "PATCH"} & defined


def test_helpers_are_shown_and_the_rest_of_the_file_is_not() -> None:
    patch = get("two-phase-execution")
    assert patch
    text = own_code.text(patch)
    assert "def _members(base: Any)" in text
    assert "def probe" not in text
    assert "Patch(" not in text
    assert text.index("def apply") < text.index("def _members")


def test_advice_has_no_code() -> None:
    assert own_code.text(replace(PATCHES[0], apply=None)) == ""


def test_the_digest_is_that_of_the_patch_s_file() -> None:
    import compat.patches.prefix_caching as module

    patch = get("prefix-caching")
    assert patch
    assert own_code.digest(patch) == hashlib.sha256(Path(module.__file__).read_bytes()).hexdigest()
