"""Settings of the stage extract: what makes no sense is refused with the place and the remedy."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline import settings, stages
from pipeline.plan import plan
from pipeline.problem import Problem


def parsed(**extract: Any) -> settings.Settings:
    return settings.parse({"stage": {"extract": extract}})


def test_all_settings_are_read() -> None:
    found = parsed(engines=2, world_size=4, rank=3, folder="/shared/states", states="fp8").extract
    assert (found.engines, found.world_size, found.rank, found.folder, found.states) == (
        2,
        4,
        3,
        "/shared/states",
        "fp8",
    )
    assert parsed(endpoint="http://gpu-7:8000/v1/").extract.endpoint == "http://gpu-7:8000/v1"


@pytest.mark.parametrize(
    "given, told",
    [
        ({"world_size": 2, "rank": 2, "folder": "/s"}, "rank is 2, and stage.extract.world_size is 2"),
        ({"world_size": 2}, "no stage.extract.folder is named"),
        ({"folder": "states"}, "folder is 'states'"),
        ({"endpoint": "gpu-7:8000"}, "endpoint is 'gpu-7:8000'"),
        ({"endpoint": "http://gpu-7:8000"}, "endpoint is"),
        ({"endpoint": "http://gpu-7:99999/v1"}, "endpoint is"),
        ({"endpoint": "http://a:1/v1", "engines": 2}, "asks for another backend or several engines"),
        ({"endpoint": "http://a:1/v1", "backend": "generator"}, "asks for another backend"),
        ({"states": "fp4"}, "states is 'fp4'"),
    ],
)
def test_what_makes_no_sense_is_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(Problem, match=told) as error:
        parsed(**given)
    assert error.value.remedy


def test_more_engines_than_the_host_has_places_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "has_gpu", lambda: True)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2,3")
    given = {"run": {"tensor_parallel": 2}, "stage": {"extract": {"engines": 3}}}
    with pytest.raises(Problem, match="engines is 3, of 2 each, and the host has 4 GPUs") as error:
        plan({"settings": given})
    assert error.value.remedy == "Lower it to 2 at most."


def test_engines_share_the_cores_of_a_host_without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "has_gpu", lambda: False)
    monkeypatch.setattr(stages, "cpus", lambda: 9)
    (stage,) = (stage for stage in stages.STAGES if stage.name == "extract")
    for engines, threads in ((1, "8"), (4, "2")):
        env = stages.environment(stage, parsed(engines=engines), stages.Path("/bundle"))
        assert env["OMP_NUM_THREADS"] == threads
