"""Imports, calls and attributes: what the caller names must be there and take what it is given."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from drift_pair import CACHE, EXECUTOR, EXTENSION, GENERATOR, SCHEDULER, Pair

from compat.drift import probe

Told = list[tuple[str, str, str, str]]
IMPORT = "from vllm.v1.core.scheduler import Scheduler\n"


def test_a_pair_that_fits_has_no_findings(pair: Pair, told: Callable[..., Told]) -> None:
    report = probe(pair.site)
    assert (report.callers, report.callee) == (("speculators 0.3.0",), "vLLM 0.16.0")
    assert (report.findings, report.unread) == ((), ())
    assert told("LlamaForCausalLM") == []


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("from vllm.config import CacheConfig2", ("vllm.config", "CacheConfig2")),
        ("from vllm.gone import x, y", ("vllm.gone", "")),
        ("import vllm.gone.deeper", ("vllm.gone.deeper", "")),
        ("from vllm import v1, gone", ("vllm", "gone")),
        ("try:\n    from vllm.gone import x\nexcept ImportError:\n    x = None", None),
        ("if TYPE_CHECKING:\n    from vllm.gone import x", None),
        ("from vllm.lazy import anything", None),
        ("from vllm.compiled import anything", None),
        ("from vllm.config import config", None),
    ],
)
def test_names_that_the_callee_does_not_have(
    pair: Pair, told: Callable[..., Told], line: str, expected: tuple[str, str] | None
) -> None:
    pair.put("vllm/lazy.py", "def __getattr__(name): ...\n")
    pair.put("vllm/compiled.abi3.so", "")
    pair.change(GENERATOR, IMPORT, f"{IMPORT}{line}\n")
    assert told() == ([("fails", "missing-import", *expected)] if expected else [])


CLASSES = """
from dataclasses import KW_ONLY, InitVar, dataclass, field
from typing import ClassVar

import msgspec
from elsewhere import Unseen
from pydantic import Field


@dataclass
class Base:
    first: int


@dataclass
class Derived(Base):
    seen: ClassVar[int]
    made: list = field(init=False)
    second: int = Field(default=2, gt=0)
    flag: InitVar[bool] = False


@dataclass
class Required(Base):
    must: InitVar[int]
    may: int = Field(..., gt=0)


@dataclass
class Keywords:
    a: int
    _: KW_ONLY
    b: int = 0


class Struct(msgspec.Struct):
    n: int = 1


class Plain:
    def __init__(self, a, /, b, *, c=1): ...


class Inherits(Plain): ...


class State(enum.IntEnum):
    DONE = 1


class Table(dict): ...


class Foreign(Unseen):
    x: int


def make(size) -> Plain: ...


def anything(*args, **kwargs): ...


@wrapped
def decorated(): ...
"""


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("Base(1)", []),
        ("Base()", [("missing-argument", "Base", "first")]),
        ("Derived(first=1, second=2, flag=True)", []),
        ("Derived(1, made=[])", [("unknown-argument", "Derived", "made")]),
        ("Derived(1, seen=2)", [("unknown-argument", "Derived", "seen")]),
        ("Required(1)", [("missing-argument", "Required", "may"), ("missing-argument", "Required", "must")]),
        ("Keywords(1, b=2)", []),
        ("Keywords(1, 2)", [("too-many-arguments", "Keywords", "2")]),
        ("Struct(n=1)", []),
        ("Struct(m=1)", [("unknown-argument", "Struct", "m")]),
        ("Plain(1, b=2, c=3)", []),
        ("Plain(a=1, b=2)", [("missing-argument", "Plain.__init__", "a"), ("unknown-argument", "Plain.__init__", "a")]),
        ("Plain(1, 2, 3)", [("too-many-arguments", "Plain.__init__", "3")]),
        ("Inherits(1)", [("missing-argument", "Inherits.__init__", "b")]),
        ("Foreign(y=1)", []),
        ("make(size=1)", []),
        ("make(1, 2)", [("too-many-arguments", "make", "2")]),
        ("make(1).gone", [("missing-attribute", "Plain", "gone")]),
        ("State.DONE", []),
        ("State.GONE", [("missing-attribute", "State", "GONE")]),
        ("Table().items()", []),
        ("Table().gone()", [("missing-method", "Table", "gone")]),
        ("Foreign(x=1).gone", []),
        ("anything(1, 2, x=3)", []),
        ("decorated(1)", []),
        ("Required(*given)", []),
        ("Required(**given)", []),
    ],
)
def test_calls_against_signatures(
    pair: Pair, told: Callable[..., Told], call: str, expected: list[tuple[str, str, str]]
) -> None:
    pair.put("vllm/classes.py", CLASSES)
    pair.put("speculators/use.py", f"from vllm.classes import {re.split(r'[(.]', call)[0]}\n{call}\n")
    severity = "may fail" if call == "make(1).gone" else "fails"  # an annotation may stand for a subclass
    assert sorted(told()) == [(severity, *one) for one in sorted(expected)]


def test_a_call_in_a_try_that_expects_the_drift_may_fail(pair: Pair, told: Callable[..., Told]) -> None:
    guarded = "        try:\n            CacheConfig(gone=1)\n        except TypeError:\n            pass\n"
    pair.change(GENERATOR, "        self.config =", f"{guarded}        self.config =")
    assert told() == [("may fail", "unknown-argument", "CacheConfig", "gone")]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("self.scheduler.schedule()", "self.scheduler.plan()", ("missing-method", "Scheduler", "plan")),
        (").total > 0", ").count > 0", ("missing-attribute", "SchedulerOutput", "count")),
        ("return replies[0]", "return Scheduler.DONE", ("missing-attribute", "Scheduler", "DONE")),
        ("self.executor.execute_model(output)", "self.executor.execute_model()", None),
    ],
)
def test_methods_and_attributes_of_assigned_types(
    pair: Pair, told: Callable[..., Told], old: str, new: str, expected: tuple[str, str, str] | None
) -> None:
    pair.change(GENERATOR, old, new)
    missing = ("missing-argument", "MultiprocExecutor.execute_model", "scheduler_output")
    severity = "may fail" if "count" in new else "fails"  # an annotation may stand for a subclass
    assert told() == [(severity, *(expected or missing))]


def test_an_attribute_that_the_caller_asks_for_first_is_no_finding(pair: Pair, told: Callable[..., Told]) -> None:
    pair.change(GENERATOR, "return replies[0]", 'if hasattr(self.executor, "new"):\n            self.executor.new()')
    assert told() == [("may fail", "missing-method", "MultiprocExecutor", "new")]


def test_an_attribute_that_the_caller_sets_need_not_be_there(pair: Pair, told: Callable[..., Told]) -> None:
    pair.change(GENERATOR, "return replies[0]", "self.executor.mine = replies")
    assert told() == []


def test_the_callee_changed_under_the_caller(pair: Pair, told: Callable[..., Told]) -> None:
    pair.change(SCHEDULER, "vllm_config, log_stats", "vllm_config, block_size, log_stats")
    pair.change(CACHE, "block_size: int = field(default=16)", "page_size: int = 16")
    assert told() == [
        ("fails", "missing-argument", "Scheduler.__init__", "block_size"),
        ("fails", "unknown-argument", "CacheConfig", "block_size"),
    ]


def test_a_class_with_getattr_or_an_unseen_base_has_no_missing_attributes(
    pair: Pair, told: Callable[..., Told]
) -> None:
    pair.change(GENERATOR, "self.scheduler.schedule()", "self.scheduler.plan()")
    pair.change(SCHEDULER, "    def schedule", "    def __getattr__(self, name): ...\n\n    def schedule")
    pair.change(GENERATOR, "self.executor.execute_model(output)", "self.executor.run(output)")
    pair.change(EXECUTOR, "class MultiprocExecutor(Executor)", "class MultiprocExecutor(Executor, Outside)")
    assert told() == []


def test_the_same_finding_at_several_lines_is_told_once(pair: Pair) -> None:
    pair.put("speculators/use.py", "from vllm.config import CacheConfig\nCacheConfig(gone=1)\nCacheConfig(gone=2)\n")
    (finding,) = probe(pair.site).findings
    assert (str(finding.place), finding.others) == ("speculators/use.py:2", ("speculators/use.py:3",))


def test_a_finding_says_where_in_both(pair: Pair) -> None:
    pair.change(SCHEDULER, "vllm_config, log_stats", "vllm_config, block_size, log_stats")
    (finding,) = probe(pair.site).findings
    assert finding.message == "calls Scheduler.__init__ without 'block_size', which it requires"
    assert (finding.place.function, finding.place.line) == ("Generator.__init__", pair.line(GENERATOR, "= Scheduler("))
    assert finding.at == f"{SCHEDULER}:{pair.line(SCHEDULER, 'class Scheduler')}"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('collective_rpc("_get_states"', 'collective_rpc("_get_state"', ("unknown-rpc", "Worker", "_get_state")),
        ('collective_rpc("_get_states"', "collective_rpc(name", None),
    ],
)
def test_workers_methods_called_by_name(
    pair: Pair, told: Callable[..., Told], old: str, new: str, expected: tuple[str, str, str] | None
) -> None:
    pair.change(GENERATOR, old, new)
    assert told() == ([("fails", *expected)] if expected else [])


def test_an_extension_whose_name_the_worker_has_itself(pair: Pair, told: Callable[..., Told]) -> None:
    pair.change(
        "vllm/v1/worker/gpu_worker.py", "    def __init__", "    def _get_states(self): ...\n\n    def __init__"
    )
    assert told() == [("fails", "extension-clash", "Worker", "_get_states")]


def test_a_runner_that_only_a_variable_chooses_does_not_count(pair: Pair, told: Callable[..., Told]) -> None:
    assert told() == []  # the new runner has no input_batch, and is off by default
    pair.change("vllm/envs.py", "= False", "= True")
    assert told() == [("may fail", "missing-attribute", "GPUModelRunner", "input_batch")]


def test_what_no_runner_has_fails(pair: Pair, told: Callable[..., Told]) -> None:
    pair.change(EXTENSION, "self.model_runner.input_batch", "self.model_runner.batch")
    assert told() == [("fails", "missing-attribute", "GPUModelRunner", "batch")]
