"""Settings and projects: layers, errors that name the key and the nearest known one, switches that keep comments."""

from __future__ import annotations

from pathlib import Path

import pytest

from compat.patch import Switches
from console import settings
from console.errors import UserError
from console.project import open_project, workstation_state

HOST = '[host.box]\nssh = "gpu-box"\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "project"
    place.mkdir()
    return place


def write(folder: Path, text: str) -> Path:
    file = folder / "eyas.toml"
    file.write_text(text, encoding="utf-8")
    return file


def refusal(folder: Path, text: str) -> UserError:
    with pytest.raises(UserError) as caught:
        settings.load(write(folder, text))
    return caught.value


def test_variables_win_over_the_project_over_the_user_over_defaults(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = settings.user_config()
    user.parent.mkdir(parents=True)
    user.write_text("[run]\nmax_length = 100\nsamples = 10\nbatch_size = 3\n", encoding="utf-8")
    file = write(folder, HOST + "[run]\nmax_length = 200\nsamples = 20\n")
    monkeypatch.setenv("EYAS_RUN__SAMPLES", "30")
    loaded = settings.load(file).run
    assert (loaded.samples, loaded.max_length, loaded.batch_size, loaded.tensor_parallel) == (30, 200, 3, 1)


@pytest.mark.parametrize(
    ("text", "key", "hint"),
    [
        ('[run]\ntargt = "/m"\n', "run.targt", "`target`"),
        ('[host.box]\nsshh = "x"\n', "host.box.sshh", "`ssh`"),
        ('[host.box.environment.seed]\npyhton = "x"\n', "host.box.environment.seed.pyhton", "`python`"),
        ("[patchs]\noff = []\n", "patchs", "`patches`"),
        ("[stage.extarct]\nenv = {}\n", "stage.extarct", "`extract`"),
    ],
)
def test_an_unknown_key_is_named_with_its_file_and_the_nearest_known_one(
    folder: Path, text: str, key: str, hint: str
) -> None:
    error = refusal(folder, text)
    assert f"`{key}`" in error.message
    assert str(folder / "eyas.toml") in error.message
    assert hint in error.remedy


def test_a_wrong_variable_is_not_blamed_on_the_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EYAS_RUN__SAMPLEZ", "3")
    error = refusal(folder, HOST)
    assert "EYAS_ variable" in error.message and "`samples`" in error.remedy


def test_a_wrong_value_is_named_with_what_it_is(folder: Path) -> None:
    error = refusal(folder, "[run]\ntensor_parallel = 0\n")
    assert "`run.tensor_parallel`" in error.message and "0" in error.remedy


def test_broken_toml_is_named_with_its_line(folder: Path) -> None:
    assert "line 1" in refusal(folder, "[run\n").message


def test_a_project_is_found_from_a_folder_below_and_remembered(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(folder, HOST)
    below = folder / "a" / "b"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    assert open_project().folder == folder
    monkeypatch.chdir("/")
    assert open_project().folder == folder


def test_no_project_anywhere_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    with pytest.raises(UserError, match=r"There is no eyas\.toml") as caught:
        open_project()
    assert "eyas demo" in caught.value.remedy


def test_one_of_several_hosts_must_be_named(folder: Path) -> None:
    write(folder, HOST + '[host.other]\nssh = "b"\n')
    with pytest.raises(UserError, match="several hosts") as caught:
        open_project(folder)
    assert "box, other" in caught.value.remedy
    assert open_project(folder, host="other").host.ssh == "b"
    with pytest.raises(UserError, match="no host `boxx`") as caught:
        open_project(folder, host="boxx")
    assert "`box`" in caught.value.remedy


def test_a_host_without_an_address_is_refused(folder: Path) -> None:
    write(folder, '[host.box]\npython = "python3"\n')
    with pytest.raises(UserError, match="has no `ssh`"):
        open_project(folder)


def test_switches_are_written_into_the_file_and_keep_its_comments(folder: Path) -> None:
    file = write(folder, HOST + '\n# mine\n[patches]\noff = ["reply-rank"] # why\n')
    project = open_project(folder)
    project.set_switch("prefix-caching", "off")
    assert project.switches() == Switches("auto", (), ("reply-rank", "prefix-caching"))
    project.set_switch("prefix-caching", "on")
    assert project.switches() == Switches("auto", ("prefix-caching",), ("reply-rank",))
    project.set_switch("prefix-caching", "auto")
    project.set_switch("reply-rank", "auto")
    assert project.switches() == Switches()
    assert "# mine" in file.read_text(encoding="utf-8")


def test_a_switch_can_be_written_where_there_was_no_table(folder: Path) -> None:
    write(folder, HOST)
    project = open_project(folder)
    project.set_switch("reply-rank", "off")
    assert open_project(folder).switches().off == ("reply-rank",)


def test_secrets_go_by_name_and_only_those_that_exist(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(folder, '[host.box]\nssh = "x"\npass_env = ["HF_TOKEN", "NOT_SET_HERE"]\n')
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    monkeypatch.delenv("NOT_SET_HERE", raising=False)
    params = open_project(folder).start_params()
    assert params["secrets"] == {"HF_TOKEN": "hf_secret"}
    assert "hf_secret" not in str(params["settings"])


def test_what_eyas_remembers_is_private() -> None:
    assert workstation_state().stat().st_mode & 0o077 == 0
