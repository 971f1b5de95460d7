"""Version ranges, as far as the catalogue uses PEP 440."""

from __future__ import annotations

import pytest
import wheels
from hypothesis import example, given
from hypothesis import strategies as st
from packaging.version import Version

from compat.catalogue import PATCHES
from compat.patch import Patch
from compat.versions import at_edge, in_words, reading, version, within


@pytest.mark.parametrize(
    ("version", "specifier", "fits"),
    [
        ("0.16.0", ">=0.12.0", True),
        ("0.16.0+cpu", "==0.16.0", True),
        ("0.9.0", ">=0.12.0", False),
        ("0.12", ">=0.12.0", True),
        ("0.26.0", ">=0.12.0,<0.26.0", False),
        ("0.4.0.1", "==0.4.*", True),
        ("0.40.0", "==0.4.*", False),
        ("0.3.0", "!=0.3.0", False),
        ("0.3.0", "!=0.3.*", False),
        ("0.16.1.dev12+gabc", ">=0.16.0,<0.16.1", True),
        ("0.16.1.dev12+gabc", ">=0.16.1", False),
        ("0.16.1.dev12+gabc", "==0.16.*", True),
        ("0.16.0rc2", "<0.16.0", True),
        ("0.16.0rc2", "==0.16.0", False),
        ("0.11.0.post2", "==0.11.0", True),
        ("0.11.0.post2.dev1", "<=0.11.0", True),
        ("v0.16", "==0.16.0", True),
        ("0.16", "==0.16.0.*", True),
        ("1!0.1", ">=0.32.0", True),
        ("0.16.0", "", True),
    ],
)
def test_a_version_fits_its_range(version: str, specifier: str, fits: bool) -> None:
    assert within(version, specifier) is fits


@pytest.mark.parametrize("patch", PATCHES, ids=lambda patch: patch.id)
def test_a_range_of_the_catalogue_can_be_read_and_holds_some_release(patch: Patch) -> None:
    assert any(within(version, patch.speculators) for version in (*wheels.SPECULATORS, "0.5.0"))
    assert any(within(version, patch.vllm) for version in (*wheels.VLLM, *wheels.VLLM_LATER))


NUMBERS = st.lists(st.integers(0, 3), min_size=1, max_size=4).map(lambda parts: ".".join(map(str, parts)))
PRE = st.sampled_from(["", "a1", "b2", "rc1", "rc10", ".dev0", ".dev12", "a1.dev3", "rc1.dev2"])
VERSIONS = st.builds(str.__add__, NUMBERS, PRE)


@given(VERSIONS, VERSIONS)
@example("0.16rc1", "0.16rc10")
@example("0.16.dev2", "0.16.dev12")
@example("0.16a1.dev3", "0.16a1")
def test_versions_are_ordered_as_pep_440_orders_them(one: str, other: str) -> None:
    ours, theirs = (version(one), version(other)), (Version(one), Version(other))
    assert (ours[0].key < ours[1].key) is (theirs[0] < theirs[1])
    assert (ours[0].key == ours[1].key) is (theirs[0] == theirs[1])
    assert ours[0].early is theirs[0].is_prerelease


@pytest.mark.parametrize("text", ["", "main", "0.16.x", "unknown", "0.16.0 (fork)", "0.16.0+"])
def test_what_is_no_version_is_said_to_be_none(text: str) -> None:
    with pytest.raises(ValueError, match="not a version"):
        version(text)


@pytest.mark.parametrize("specifier", ["0.16.0", "~=0.16", ">=0.16.*", "==", ">=main"])
def test_a_specifier_that_the_catalogue_does_not_use_is_refused(specifier: str) -> None:
    with pytest.raises(ValueError, match="not a version"):
        within("0.16.0", specifier)


@pytest.mark.parametrize(
    ("text", "edge"),
    [("0.16.1.dev12", True), ("0.16.1rc1", True), ("0.16.1", False), ("0.16.0.dev1", False), ("0.26.0.dev1", True)],
)
def test_only_what_comes_just_before_a_bound_is_at_the_edge(text: str, edge: bool) -> None:
    assert at_edge(text, ">=0.16.1,<0.26.0") is edge


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("0.16.0", ""),
        ("v0.16.0", ""),
        ("0.16.1.dev12+gabc", "read as 0.16.1 before its release"),
        ("0.16.0+cpu", "read as 0.16.0"),
        ("0.11.0.post2", "read as 0.11.0"),
    ],
)
def test_how_a_version_is_read_is_said_unless_it_is_plain(text: str, read: str) -> None:
    assert reading(text) == read


@pytest.mark.parametrize(
    ("specifier", "words"),
    [
        (">=0.12.0,<0.26.0", "since 0.12.0, before 0.26.0"),
        ("==0.3.0", "0.3.0 only"),
        ("==0.4.*", "every 0.4"),
        ("<=0.16.0,!=0.15.0", "up to 0.16.0, not 0.15.0"),
        ("", "every release"),
    ],
)
def test_a_range_in_words(specifier: str, words: str) -> None:
    assert in_words(specifier) == words
