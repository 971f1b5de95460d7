"""Known-hosts files are read as OpenSSH reads them, and one bad line costs only itself."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import stat
import subprocess
from pathlib import Path

import pytest

from remote.link.asker import Question
from remote.link.errors import HostKeyRefused
from remote.link.host_key import verify
from remote.link.hosts import HostAddress
from remote.link.known_hosts import KnownHosts, Verdict, fingerprint, known_name, same_fingerprint


def key(seed: str, kind: str = "ssh-ed25519") -> bytes:
    """A key as it stands in known-hosts files: its type's name and 32 bytes, each with its length before it."""
    body = hashlib.sha256(seed.encode()).digest()
    return len(kind).to_bytes(4, "big") + kind.encode() + len(body).to_bytes(4, "big") + body


def text(blob: bytes) -> str:
    return base64.b64encode(blob).decode()


def hashed(name: str) -> str:
    salt = b"0123456789abcdefghij"
    return f"|1|{text(salt)}|{text(hmac.new(salt, name.encode(), hashlib.sha1).digest())}"


OURS, OTHER = key("ours"), key("other")
MINE = f"ssh-ed25519 {text(OURS)}"
THEIRS = f"ssh-ed25519 {text(OTHER)}"

TABLE = {
    "plain": ("gpu1 " + MINE, "gpu1", Verdict.KNOWN),
    "another host": ("gpu2 " + MINE, "gpu1", Verdict.UNKNOWN),
    "list of names": ("gpu2,gpu1,10.0.0.1 " + MINE, "gpu1", Verdict.KNOWN),
    "upper case": ("GPU1 " + MINE, "gpu1", Verdict.KNOWN),
    "asked for in upper case": ("gpu1 " + MINE, "GPU1", Verdict.KNOWN),
    "port": ("[gpu1]:2222 " + MINE, "[gpu1]:2222", Verdict.KNOWN),
    "port is part of the name": ("gpu1 " + MINE, "[gpu1]:2222", Verdict.UNKNOWN),
    "wildcard": ("*.corp " + MINE, "gpu1.corp", Verdict.KNOWN),
    "wildcard with port": ("[10.0.0.*]:2222 " + MINE, "[10.0.0.7]:2222", Verdict.KNOWN),
    "one character": ("gpu? " + MINE, "gpu1", Verdict.KNOWN),
    "one character is one": ("gpu? " + MINE, "gpu11", Verdict.UNKNOWN),
    "brackets are no class": ("gpu[12] " + MINE, "gpu1", Verdict.UNKNOWN),
    "negated first": ("!gpu1.corp,*.corp " + MINE, "gpu1.corp", Verdict.UNKNOWN),
    "negated last": ("*.corp,!gpu1.corp " + MINE, "gpu1.corp", Verdict.UNKNOWN),
    "negated another": ("!gpu2.corp,*.corp " + MINE, "gpu1.corp", Verdict.KNOWN),
    "hashed": (f"{hashed('gpu1')} {MINE}", "gpu1", Verdict.KNOWN),
    "hashed another": (f"{hashed('gpu2')} {MINE}", "gpu1", Verdict.UNKNOWN),
    "hashed with port": (f"{hashed('[gpu1]:2222')} {MINE}", "[gpu1]:2222", Verdict.KNOWN),
    "mangled hash": (f"|1|zz {MINE}\ngpu1 {MINE}", "gpu1", Verdict.KNOWN),
    "changed": ("gpu1 " + THEIRS, "gpu1", Verdict.CHANGED),
    "changed, another type": ("gpu1 ssh-rsa " + text(key("x", "ssh-rsa")), "gpu1", Verdict.CHANGED),
    "one of two": (f"gpu1 {THEIRS}\ngpu1 {MINE}", "gpu1", Verdict.KNOWN),
    "revoked": (f"@revoked * {MINE}\ngpu1 {MINE}", "gpu1", Verdict.REVOKED),
    "revoked below": (f"gpu1 {MINE}\n@revoked gpu1 {MINE}", "gpu1", Verdict.REVOKED),
    "revoked elsewhere": (f"@revoked gpu2 {MINE}\ngpu1 {MINE}", "gpu1", Verdict.KNOWN),
    "another one revoked": (f"@revoked * {THEIRS}\ngpu1 {MINE}", "gpu1", Verdict.KNOWN),
    "authority": (f"@cert-authority *.corp {MINE}", "gpu1.corp", Verdict.UNKNOWN),
    "unknown marker": (f"@what gpu1 {THEIRS}\ngpu1 {MINE}", "gpu1", Verdict.KNOWN),
    "two spaces": ("gpu1  " + MINE.replace(" ", "  "), "gpu1", Verdict.KNOWN),
    "tab": ("gpu1\t" + MINE, "gpu1", Verdict.KNOWN),
    "trailing comment": (f"gpu1 {MINE} of the lab", "gpu1", Verdict.KNOWN),
    "windows line ends": (f"gpu2 {THEIRS}\r\ngpu1 {MINE}\r\n", "gpu1", Verdict.KNOWN),
    "bad base64": (f"gpu1 ssh-ed25519 AAAA!\ngpu1 {MINE}", "gpu1", Verdict.KNOWN),
    "cut base64": (f"gpu1 ssh-ed25519 AAAAC3NzaC1\ngpu1 {MINE}", "gpu1", Verdict.KNOWN),
    "type and key differ": (f"gpu1 ssh-rsa {text(OTHER)}", "gpu1", Verdict.UNKNOWN),
    "too few fields": (f"gpu1\ngpu1 ssh-ed25519\ngpu1 {MINE}", "gpu1", Verdict.KNOWN),
    "bytes that are no text": (f"# h\udcf4te\ngpu1 {MINE}", "gpu1", Verdict.KNOWN),
    "hardware key beside it": (f"gpu1 sk-ssh-ed25519@openssh.com AAAAGnNr\ngpu1 {MINE}", "gpu1", Verdict.KNOWN),
    "commented out": (f"# gpu1 {MINE}", "gpu1", Verdict.UNKNOWN),
    "empty": ("", "gpu1", Verdict.UNKNOWN),
}


def write(file: Path, content: str) -> Path:
    file.write_bytes(content.encode("utf-8", "surrogateescape"))
    return file


@pytest.mark.parametrize(("content", "name", "verdict"), TABLE.values(), ids=TABLE)
def test_a_line_means_what_openssh_means_by_it(tmp_path: Path, content: str, name: str, verdict: Verdict) -> None:
    users = write(tmp_path / "users", content)
    assert KnownHosts(tmp_path / "own", [users]).judge(name, OURS).verdict is verdict


# ssh-keygen -F only looks names up: it judges neither markers nor key types.
NAMES_ONLY = {about: row for about, row in TABLE.items() if about not in ("unknown marker", "type and key differ")}


@pytest.mark.parametrize(("content", "name", "verdict"), NAMES_ONLY.values(), ids=NAMES_ONLY)
def test_ssh_keygen_finds_a_key_exactly_where_we_do(tmp_path: Path, content: str, name: str, verdict: Verdict) -> None:
    users = write(tmp_path / "users", content)
    printed = subprocess.run(["ssh-keygen", "-F", name, "-f", str(users)], capture_output=True, text=True).stdout
    assert (text(OURS) in printed) == (verdict in (Verdict.KNOWN, Verdict.REVOKED) or "@cert-authority" in content), (
        printed
    )


def test_key_types_on_record_come_in_the_order_of_the_files(tmp_path: Path) -> None:
    own = write(tmp_path / "own", f"gpu1 ecdsa-sha2-nistp256 {text(key('a', 'ecdsa-sha2-nistp256'))}")
    users = write(tmp_path / "users", f"gpu1 {MINE}\n@revoked gpu1 ssh-rsa {text(key('b', 'ssh-rsa'))}")
    assert KnownHosts(own, [users]).key_types("gpu1") == ["ecdsa-sha2-nistp256", "ssh-ed25519"]


def test_a_remembered_key_is_known_at_once_and_to_the_next_reader(tmp_path: Path) -> None:
    own = tmp_path / "new" / "known_hosts"
    known = KnownHosts(own)
    known.remember("[gpu1]:2222", "ssh-ed25519", OURS)
    assert known.judge("[gpu1]:2222", OURS).verdict is Verdict.KNOWN
    assert KnownHosts(own).judge("[gpu1]:2222", OURS).verdict is Verdict.KNOWN
    assert stat.S_IMODE(own.stat().st_mode) == 0o600


def test_remembering_keeps_every_line_that_was_there(tmp_path: Path) -> None:
    before = "# mine\n@revoked * " + THEIRS + "\nnonsense"  # no newline at its end
    own = write(tmp_path / "own", before)
    KnownHosts(own).remember("gpu1", "ssh-ed25519", OURS)
    assert own.read_text() == f"{before}\ngpu1 {MINE}\n"


def test_fingerprints_are_openssh_s(tmp_path: Path) -> None:
    file = write(tmp_path / "key.pub", MINE + " me")
    printed = subprocess.run(["ssh-keygen", "-l", "-f", str(file)], capture_output=True, text=True, check=True).stdout
    assert fingerprint(OURS) in printed.split()
    assert same_fingerprint(fingerprint(OURS), OURS)
    assert same_fingerprint(fingerprint(OURS).removeprefix("SHA256:") + "=", OURS)
    assert not same_fingerprint(fingerprint(OURS), OTHER)


class Operator:
    """Answers every question alike and keeps them."""

    def __init__(self, answer: str | None) -> None:
        self.answer = answer
        self.questions: list[Question] = []

    def ask(self, question: Question) -> str | None:
        self.questions.append(question)
        return self.answer


HOST = HostAddress("10.0.0.1", 2222, "ops")
NAME = known_name("10.0.0.1", 2222)


def judged(tmp_path: Path, content: str, answer: str | None, expected: str | None = None) -> Operator:
    users = write(tmp_path / "users", content)
    operator = Operator(answer)
    verify(HOST, "ssh-ed25519", OURS, KnownHosts(tmp_path / "own", [users]), operator, expected)
    return operator


def test_an_unknown_key_is_asked_about_with_its_fingerprint_and_remembered_in_our_file_only(tmp_path: Path) -> None:
    operator = judged(tmp_path, "", "yes")
    (question,) = operator.questions
    assert question.kind == "host_key"
    assert fingerprint(OURS) in question.text
    assert question.details["fingerprint"] == fingerprint(OURS)
    assert (tmp_path / "own").read_text() == f"{NAME} {MINE}\n"
    assert (tmp_path / "users").read_text() == ""


def test_the_fingerprint_itself_is_a_yes(tmp_path: Path) -> None:
    judged(tmp_path, "", fingerprint(OURS))


@pytest.mark.parametrize("answer", [None, "", "no", "y", fingerprint(OTHER)])
def test_anything_but_yes_or_the_fingerprint_refuses_and_leaves_no_trace(tmp_path: Path, answer: str | None) -> None:
    with pytest.raises(HostKeyRefused, match="not on record"):
        judged(tmp_path, "", answer)
    assert not (tmp_path / "own").exists()


def test_a_changed_key_is_refused_unasked_and_the_way_out_is_named(tmp_path: Path) -> None:
    operator = Operator("yes")
    users = write(tmp_path / "users", f"{NAME} {THEIRS}\n")
    known = KnownHosts(tmp_path / "own", [users])
    for expected in (None, fingerprint(OURS)):
        with pytest.raises(HostKeyRefused, match="has changed") as refused:
            verify(HOST, "ssh-ed25519", OURS, known, operator, expected)
    assert operator.questions == []
    assert f"ssh-keygen -R '{NAME}' -f '{users}'" in refused.value.remedy
    assert f"{users} line 1" in refused.value.message
    subprocess.run(["sh", "-c", refused.value.remedy.split(": ", 1)[1]], check=True, capture_output=True)
    assert KnownHosts(tmp_path / "own", [users]).judge(NAME, OURS).verdict is Verdict.UNKNOWN


def test_a_revoked_key_is_refused_even_when_expected(tmp_path: Path) -> None:
    with pytest.raises(HostKeyRefused, match="revoked"):
        judged(tmp_path, f"@revoked * {MINE}", "yes", fingerprint(OURS))


def test_the_expected_fingerprint_is_taken_unasked_and_any_other_refused(tmp_path: Path) -> None:
    assert judged(tmp_path, "", None, fingerprint(OURS)).questions == []
    with pytest.raises(HostKeyRefused, match="expects"):
        judged(tmp_path, f"{NAME} {MINE}", "yes", fingerprint(OTHER))


def test_a_certificate_authority_is_said_to_be_of_no_use(tmp_path: Path) -> None:
    operator = judged(tmp_path, f"@cert-authority * {THEIRS}", "yes")
    assert "certificate authority" in operator.questions[0].text


def test_an_unreadable_file_knows_no_host(tmp_path: Path) -> None:
    folder = tmp_path / "users"
    folder.mkdir()
    assert KnownHosts(tmp_path / "own", [folder, Path(os.devnull)]).judge("gpu1", OURS).verdict is Verdict.UNKNOWN
