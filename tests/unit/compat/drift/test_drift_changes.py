"""What only a comparison tells: defaults, results and steps of the callee's driver."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from drift_pair import CACHE, ENGINE, EXECUTOR, GENERATOR, SCHEDULER, Pair

from compat.drift import probe

Told = list[tuple[str, str, str, str]]
PREFIX = ("fails", "changed-default", "CacheConfig", "enable_prefix_caching")
OFF, ON = "enable_prefix_caching: bool | None = None", "enable_prefix_caching: bool = True"
TWO_PHASES = """        model_output = future.result()
        if model_output is None:
            model_output = self.model_executor.sample_tokens(self.scheduler.get_grammar(scheduler_output))
"""


def test_what_a_default_turns_on_and_the_driver_prepares_for_fails(
    pair: Pair, told: Callable[..., Told], keep_facts: Callable[[], None]
) -> None:
    keep_facts()
    pair.change(CACHE, OFF, ON)
    assert told() == [PREFIX]
    (finding,) = probe(pair.site).findings
    assert "at its default True (in vLLM 0.16.0 None); vllm's own driver then calls get_hasher" in finding.message


def test_it_is_seen_without_a_baseline_too(pair: Pair, told: Callable[..., Told]) -> None:
    pair.change(CACHE, OFF, ON)
    assert told() == [PREFIX]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("CacheConfig(block_size=size)", "CacheConfig(block_size=size, enable_prefix_caching=False)"),
        ("CacheConfig(block_size=size)", "CacheConfig(size, False)"),
        ("CacheConfig(block_size=size)", "CacheConfig(**given)"),
        (
            "        self.executor =",
            "        from vllm.hashing import get_hasher\n\n        get_hasher(16)\n        self.executor =",
        ),
    ],
)
def test_a_caller_that_sets_it_or_prepares_for_it_fits(
    pair: Pair, told: Callable[..., Told], old: str, new: str
) -> None:
    pair.change(CACHE, OFF, ON)
    pair.change(GENERATOR, old, new)
    assert told() == []


def test_a_default_that_was_on_already_is_no_drift(
    pair: Pair, told: Callable[..., Told], keep_facts: Callable[[], None]
) -> None:
    pair.change(CACHE, OFF, ON)
    keep_facts()
    assert told() == []


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("swap: float = 4", "swap: float = 8", True),
        ("swap: float = 4", "swap: float = field(default=4)", False),
        ("swap: float = 4", "swap: float = Field(default=4, ge=0)", False),
        ("swap: float = 4096", "swap: float = 4_096", False),
        ("swap: Swap | None = None", "swap: Swap = field(default_factory=Swap)", False),
    ],
)
def test_other_changed_defaults_are_silent(
    pair: Pair, told: Callable[..., Told], keep_facts: Callable[[], None], before: str, after: str, expected: bool
) -> None:
    pair.change(CACHE, "swap: float = 4", before)
    keep_facts()
    pair.change(CACHE, before, after)
    assert told() == ([("silent", "changed-default", "CacheConfig", "swap")] if expected else [])


def test_a_changed_default_that_decides_nothing_is_left_out(
    pair: Pair, told: Callable[..., Told], keep_facts: Callable[[], None]
) -> None:
    pair.change(SCHEDULER, "if vllm_config.swap:", "if True:")
    keep_facts()
    pair.change(CACHE, "swap: float = 4", "swap: float = 8")
    assert told() == []


def test_a_result_that_an_argument_now_decides(
    pair: Pair, told: Callable[..., Told], keep_facts: Callable[[], None]
) -> None:
    pair.change(
        GENERATOR, "        replies =", '        first = self.executor.collective_rpc("_bind")[0]\n        replies ='
    )
    keep_facts()
    pair.change(EXECUTOR, "-> list[Any]", "-> Any")
    pair.change(
        EXECUTOR,
        "        return [worker(method) for worker in self.workers]",
        "        rank = unique_reply_rank\n        out = []\n        return out[0] if rank is not None else out",
    )
    assert told() == [("fails", "changed-return", "MultiprocExecutor.collective_rpc", "")]
    (finding,) = probe(pair.site).findings
    assert (finding.place.line, finding.others) == (pair.line(GENERATOR, "replies = "), ())


@pytest.mark.parametrize(
    ("use", "returns", "expected"),
    [
        ("self.executor.execute_model(output)", "Output | None", None),
        ("kept = self.executor.execute_model(output)", "Output | None", "may fail"),
        ("kept = self.executor.execute_model(output)", "Optional[Output]", "may fail"),
        ("kept = self.executor.execute_model(output)", "Other", None),
        ("self.executor.execute_model(output)[0]", "Other", "may fail"),
        ("self.executor.execute_model(output)[0]", "Union[Output]", None),
    ],
)
def test_results_of_another_type(
    pair: Pair,
    told: Callable[..., Told],
    keep_facts: Callable[[], None],
    use: str,
    returns: str,
    expected: str | None,
) -> None:
    method = "vllm/v1/executor/abstract.py", "def execute_model(self, scheduler_output)"
    pair.change(GENERATOR, "self.executor.execute_model(output)", use)
    pair.change(*method, f"{method[1]} -> Output")
    keep_facts()
    pair.change(method[0], "-> Output", f"-> {returns}")
    assert told() == ([(expected, "changed-return", "MultiprocExecutor.execute_model", "")] if expected else [])


def test_a_step_that_answers_none_fails_with_and_without_a_baseline(
    pair: Pair, told: Callable[..., Told], keep_facts: Callable[[], None]
) -> None:
    before = (pair.site / ENGINE).read_text()
    pair.change(ENGINE, "        model_output = future.result()\n", TWO_PHASES)
    expected = [("fails", "needed-step", "MultiprocExecutor", "sample_tokens")]
    assert told() == expected
    pair.put(ENGINE, before)
    keep_facts()
    pair.change(ENGINE, "        model_output = future.result()\n", TWO_PHASES)
    assert told() == expected


def test_a_caller_that_takes_the_step_fits(pair: Pair, told: Callable[..., Told]) -> None:
    pair.change(ENGINE, "        model_output = future.result()\n", TWO_PHASES)
    pair.change(
        EXECUTOR, "    def collective_rpc", "    def sample_tokens(self, grammar): ...\n\n    def collective_rpc"
    )
    pair.change(
        GENERATOR,
        "            self.executor.execute",
        "            self.executor.sample_tokens(None)\n            self.executor.execute",
    )
    assert told() == []


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ("self.model_executor.warm_up()", ("MultiprocExecutor", "warm_up")),
        ('self.collective_rpc("set_layout")', ("MultiprocExecutor", "set_layout")),
        ("if not envs.VLLM_NEW_RUNNER:\n            self.model_executor.warm_up()", ("MultiprocExecutor", "warm_up")),
        ("if self.connector:\n            self.model_executor.warm_up()", None),
        ("self.model_executor.nothing()", None),
        ("prepare(vllm_config)", ("EngineCore", "prepare")),
        ("shared(vllm_config)", None),
        ("optional(vllm_config)", None),
        ("kept = prepare(vllm_config)\n        self.model_executor.warm_up(kept)", ("MultiprocExecutor", "warm_up")),
    ],
)
def test_steps_that_the_driver_newly_takes(
    pair: Pair,
    told: Callable[..., Told],
    keep_facts: Callable[[], None],
    step: str,
    expected: tuple[str, str] | None,
) -> None:
    pair.change(
        EXECUTOR, "    def collective_rpc", '    def nothing(self):\n        """No."""\n\n    def collective_rpc'
    )
    guard = "    ec = vllm_config.ec\n    if ec is None or not ec.on:\n        return\n    ec.go()\n"
    pair.put(
        "vllm/v1/prepare.py",
        f"def prepare(c): ...\n\n\ndef shared(c): ...\n\n\ndef optional(vllm_config):\n{guard}",
    )
    pair.put("vllm/v1/lazily.py", "def later(config):\n    return shared(config)\n")
    pair.change(
        ENGINE,
        "from vllm.hashing",
        "from vllm import envs\nfrom vllm.v1.prepare import optional, prepare, shared\nfrom vllm.hashing",
    )
    keep_facts()
    pair.change(ENGINE, "        if vllm_config.cache", f"        {step}\n        if vllm_config.cache")
    assert told() == ([("may fail", "needed-step", *expected)] if expected else [])


THEIRS = """
def extract(cache, slots):
    \"\"\"Rows of the cache.\"\"\"
    size = cache.shape[1]
    return cache[slots // size, slots % size]
"""


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('    """Rows of the cache."""\n', "", False),
        ("(cache, slots)", "(cache: Tensor, slots: Tensor) -> Tensor", False),
        ("cache.shape[1]", "cache.shape[2]", True),
        ("(cache, slots)", "(cache, slots, count)", False),
        ("    size = cache.shape[1]\n    return cache[slots // size, slots % size]", "    x = 1\n    return x", False),
    ],
)
def test_a_copy_of_the_callees_code(pair: Pair, told: Callable[..., Told], old: str, new: str, expected: bool) -> None:
    pair.put("vllm/v1/core/reader.py", THEIRS)
    pair.put("speculators/reader.py", f"from vllm.v1.core.output import SchedulerOutput\n{THEIRS.replace(old, new)}")
    assert told() == ([("silent", "stale-copy", "extract", "")] if expected else [])


def test_what_did_not_fit_before_is_told_last_of_its_kind(pair: Pair, keep_facts: Callable[[], None]) -> None:
    pair.change(GENERATOR, "self.executor.execute_model(output)", "self.executor.run(output)")
    keep_facts()
    pair.change(CACHE, "    block_size: int = field(default=16)\n", "")
    told = [(f.kind, f.known) for f in probe(pair.site).findings]
    assert told == [("unknown-argument", False), ("missing-method", True)]
