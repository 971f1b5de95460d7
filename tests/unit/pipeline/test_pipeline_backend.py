"""Which backend an environment offers, told from its files alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.engine.backend import choose, offered
from pipeline.report import StageError

GENERATOR = ("vllm/__init__.py", "speculators/data_generation/vllm_hidden_states_generator.py")
NATIVE = ("vllm/__init__.py", "vllm/distributed/kv_transfer/kv_connector/v1/example_hidden_states_connector.py")
TRANSFORMERS = ("transformers/__init__.py",)


def site(folder: Path, *files: str) -> list[str]:
    for file in files:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).touch()
    return ["", str(folder)]


@pytest.mark.parametrize(
    "files, expected",
    [
        ((*GENERATOR, *TRANSFORMERS), ["generator", "transformers"]),
        ((*NATIVE, *TRANSFORMERS), ["native", "transformers"]),
        ((*NATIVE, *GENERATOR), ["native", "generator"]),
        (TRANSFORMERS, ["transformers"]),
        (GENERATOR[:1], []),
        ((), []),
    ],
)
def test_what_an_environment_offers(tmp_path: Path, files: tuple[str, ...], expected: list[str]) -> None:
    path = site(tmp_path, *files)
    assert offered(path) == expected
    if expected:
        assert choose("auto", path) == expected[0]
        assert [choose(name, path) for name in expected] == expected


def test_a_backend_that_is_not_there_is_refused_with_what_is(tmp_path: Path) -> None:
    path = site(tmp_path, *GENERATOR, *TRANSFORMERS)
    with pytest.raises(
        StageError, match=r"backend native, which stage.extract.backend asks for: it has generator, tran"
    ):
        choose("native", path)
    with pytest.raises(StageError, match="does not offer hidden states: it has neither"):
        choose("auto", [str(tmp_path / "none")])
