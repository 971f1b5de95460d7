"""Whether the key that a server shows is the host's: by the record, by the profile, or by the operator's word."""

from __future__ import annotations

from remote.link.asker import Asker, Question
from remote.link.errors import HostKeyRefused, LinkError
from remote.link.hosts import HostAddress
from remote.link.known_hosts import (
    Judgement,
    KnownHosts,
    Verdict,
    fingerprint,
    removal_lines,
    same_fingerprint,
)


def verify(
    address: HostAddress, key_type: str, key: bytes, known: KnownHosts, asker: Asker, expected: str | None
) -> None:
    """Return when the key is good, and put it on record when the operator said so. Raises HostKeyRefused.

    There is no way past a changed or revoked key here: the record itself has to be mended first.
    """
    name = address.key_name
    shown = fingerprint(key)
    found = known.judge(name, key)
    if found.verdict is Verdict.REVOKED:
        entry = found.entries[0]
        raise HostKeyRefused(
            f"the host key of {name} ({shown}) is revoked by {entry.file} line {entry.line}",
            "do not connect; ask whoever runs the host for its new key",
        )
    if found.verdict is Verdict.CHANGED:
        raise _changed(name, key_type, shown, found)
    if expected is not None:
        if same_fingerprint(expected, key):
            return
        raise HostKeyRefused(
            f"the host key of {name} is {shown}, and the profile expects {expected}",
            "find out from whoever runs the host which one is right, then correct expected_fingerprint",
        )
    if found.verdict is Verdict.UNKNOWN:
        _ask(address, key_type, key, found, asker)
        try:
            known.remember(name, key_type, key)
        except OSError as error:
            raise LinkError(
                f"the host key of {name} cannot be put on record in {known.own}: {error.strerror}",
                "make that file writable for you",
            ) from None


def _ask(address: HostAddress, key_type: str, key: bytes, found: Judgement, asker: Asker) -> None:
    shown = fingerprint(key)
    note = ""
    if found.authority:
        note = (
            f"{found.authority.file} line {found.authority.line} trusts a certificate authority for this host; "
            "host certificates are not checked by this link, so compare the fingerprint yourself."
        )
    text = f"{address.key_name} shows an {key_type} key that is not on record:\n{shown}"
    answer = asker.ask(
        Question(
            "host_key",
            "Unknown host key",
            f"{text}\n{note}".rstrip(),
            False,
            {
                "host": address.hostname,
                "port": str(address.port),
                "key_type": key_type,
                "fingerprint": shown,
                "note": note,
            },
        )
    )
    given = (answer or "").strip()
    if given.lower() == "yes" or (given and same_fingerprint(given, key)):
        return
    raise HostKeyRefused(
        f"the host key of {address.key_name} ({key_type} {shown}) is not on record and was not accepted",
        "connect with a screen and answer yes, or set expected_fingerprint in the host's profile",
    )


def _changed(name: str, key_type: str, shown: str, found: Judgement) -> HostKeyRefused:
    lines = ", ".join(f"{entry.file} line {entry.line}" for entry in found.entries)
    return HostKeyRefused(
        f"the host key of {name} has changed: it shows {key_type} {shown}, on record is another ({lines})",
        "someone may be listening in; if the host was really set up anew, take the old key off the record: "
        + removal_lines(name, found.entries),
    )
