"""A host's name is resolved as ssh itself would, or refused in one sentence."""

from __future__ import annotations

import shutil
import socket
from pathlib import Path

import pytest

from remote.link.errors import BadHost, UnknownName, Unreachable
from remote.link.hosts import HostProfile, Target, parse_target, resolve
from remote.link.transport import dial

CONFIG = """
Include {included}
Host gpu
  HostName 10.0.0.9
  User ops
  Port 2200
  IdentityFile "{folder}/my keys/id_%r"
  UserKnownHostsFile {folder}/one {folder}/two
  GlobalKnownHostsFile none
  HostKeyAlias gpu-alias
  IdentitiesOnly yes
  IdentityAgent {folder}/agent
Host inner
  HostName 10.1.0.1
  ProxyJump jump@outer:2201,middle
Host middle
  HostName 10.2.0.1
  ProxyJump nowhere
Host outer
  HostName 198.51.100.7
  ProxyJump first
Host first
  HostName 198.51.100.1
Host direct
  HostName 10.3.0.1
  ProxyJump none
Host piped
  ProxyCommand nc %h %p
Host loop
  ProxyJump pool
Host pool
  ProxyJump loop
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    included = tmp_path / "included"
    included.write_text("Host included\n  HostName 10.9.9.9\n  User inc\n")
    file = tmp_path / "config"
    file.write_text(CONFIG.format(included=included, folder=tmp_path))
    return file


@pytest.fixture(params=["ssh", None], ids=["ssh -G", "paramiko"])
def binary(request: pytest.FixtureRequest) -> str | None:
    if request.param and not shutil.which(request.param):
        pytest.fail("no ssh program here: install openssh-client")
    return request.param  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("gpu", Target("gpu")),
        ("ops@gpu-1.lab", Target("gpu-1.lab", "ops")),
        ("ops@gpu:2222", Target("gpu", "ops", 2222)),
        ("10.0.0.1:22", Target("10.0.0.1", None, 22)),
        ("ops@[fe80::1]:2222", Target("fe80::1", "ops", 2222)),
        ("my_host", Target("my_host")),
    ],
)
def test_a_target_is_taken_apart(text: str, target: Target) -> None:
    assert parse_target(text) == target


@pytest.mark.parametrize(
    "text",
    ["", "-oProxyCommand=touch x", "ops@-gpu", "gpu;rm", "gpu gpu", "$(id)", "gpu:0", "gpu:65536", "gpu:x", "a@b@c",
     "ops@", "gpu\n", "-l@gpu", "gpü"],
)  # fmt: skip
def test_what_is_no_name_is_refused_in_one_sentence(text: str) -> None:
    with pytest.raises(BadHost, match="no name of a host") as refused:
        resolve(text)
    assert repr(text) in refused.value.message
    assert refused.value.remedy


def test_the_configuration_is_followed(config: Path, binary: str | None) -> None:
    address = resolve("gpu", config, binary)
    assert (address.hostname, address.port, address.user) == ("10.0.0.9", 2200, "ops")
    assert address.user_known_hosts == (config.parent / "one", config.parent / "two")
    assert address.key_name == "gpu-alias"
    assert address.identities_only
    assert address.identity_agent == str(config.parent / "agent")
    assert str(address) == "ops@[10.0.0.9]:2200"


def test_tokens_and_spaces_in_identity_files_are_understood(config: Path) -> None:
    assert resolve("gpu", config).identity_files == (config.parent / "my keys" / "id_ops",)


def test_what_the_profile_names_goes_before_the_configuration(config: Path, binary: str | None) -> None:
    address = resolve("me@gpu:22", config, binary)
    assert (address.hostname, address.port, address.user) == ("10.0.0.9", 22, "me")


def test_jumps_are_followed_nearest_first_and_only_the_first_has_its_own(config: Path, binary: str | None) -> None:
    address = resolve("inner", config, binary)
    assert [hop.hostname for hop in address.proxy_jump] == ["198.51.100.1", "198.51.100.7", "10.2.0.1"]
    assert (address.proxy_jump[1].user, address.proxy_jump[1].port) == ("jump", 2201)
    assert all(hop.proxy_jump == () for hop in address.proxy_jump)
    assert resolve("direct", config, binary).proxy_jump == ()


def test_a_jump_to_itself_is_found(config: Path, binary: str | None) -> None:
    with pytest.raises(BadHost, match="more than 8 jump hosts"):
        resolve("loop", config, binary)


def test_a_proxy_command_is_refused_and_the_way_out_named(config: Path, binary: str | None) -> None:
    with pytest.raises(BadHost, match="ProxyCommand") as refused:
        resolve("piped", config, binary)
    assert "ProxyJump" in refused.value.remedy


def test_includes_are_followed_by_ssh_and_warned_about_without_it(config: Path) -> None:
    assert resolve("included", config).hostname == "10.9.9.9"
    assert resolve("included", config).warnings == ()
    (warning,) = resolve("included", config, None).warnings
    assert "Include" in warning
    assert str(config) in warning


def test_a_configuration_that_ssh_refuses_is_named(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("Host gpu\n  NoSuchOption yes\n")
    with pytest.raises(BadHost, match="nosuchoption"):
        resolve("gpu", config)


def test_a_name_without_address_is_said_in_one_sentence() -> None:
    with pytest.raises(UnknownName, match=r"no-such-host\.invalid") as unknown:
        dial("no-such-host.invalid", 22)
    assert "HostName" in unknown.value.remedy
    assert not unknown.value.retry


def test_a_closed_port_is_worth_another_try() -> None:
    with socket.socket() as idle:
        idle.bind(("127.0.0.1", 0))  # bound, not listening: connections are refused
        with pytest.raises(Unreachable, match="cannot be reached") as refused:
            dial("127.0.0.1", idle.getsockname()[1])
    assert refused.value.retry


@pytest.mark.parametrize("python", ["-c", "python3 -c x", "$HOME/python", "python;id", "", "pyth\non", "my python!"])
def test_a_python_that_a_shell_would_read_otherwise_is_refused(python: str) -> None:
    with pytest.raises(BadHost, match="python"):
        HostProfile("b200", "gpu", python=python).check()


def test_a_profile_names_one_host() -> None:
    HostProfile("b200", "gpu", python="/opt/ml-env/bin/python3.11").check()
    HostProfile("demo", embedded=True).check()
    for profile in (HostProfile("none"), HostProfile("both", "gpu", embedded=True)):
        with pytest.raises(BadHost, match="embedded"):
            profile.check()


def test_only_named_and_set_variables_are_handed_on() -> None:
    profile = HostProfile("b200", "gpu", pass_env=("HF_TOKEN", "ABSENT"))
    assert profile.secrets({"HF_TOKEN": "t", "OTHER": "o"}) == {"HF_TOKEN": "t"}
