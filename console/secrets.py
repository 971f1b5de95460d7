"""Finding what must not leave in an archive: values of the variables handed on to stages, and what looks like a token.

A value is looked for as it is, as JSON writes it and as a URL quotes it; one below SHORTEST characters is not, for it
would be found everywhere.
"""

from __future__ import annotations

import json
import re
import urllib.parse
from collections.abc import Iterator, Mapping

SHORTEST = 6
NAMED_SO = "the value of a variable named like a secret"
_NAME = (
    rb"(?:[A-Z0-9]+_)*(?:TOKEN|SECRET|PASSWORD|PASSWD|APIKEY|API_KEY|ACCESS_KEY|SECRET_KEY|CREDENTIALS?)(?:_[A-Z0-9]+)*"
)
_KINDS: tuple[tuple[str, re.Pattern[bytes]], ...] = (
    ("a Hugging Face token", re.compile(rb"hf_[A-Za-z0-9]{20,}")),
    ("a GitHub token", re.compile(rb"gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,}")),
    ("a GitLab token", re.compile(rb"glpat-[A-Za-z0-9_-]{20,}")),
    ("an API key", re.compile(rb"\bsk-[A-Za-z0-9_-]{20,}|\bAIza[A-Za-z0-9_-]{35}|\bnvapi-[A-Za-z0-9_-]{20,}")),
    ("an AWS key", re.compile(rb"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b")),
    ("a Slack token", re.compile(rb"\bxox[abeprs]-[A-Za-z0-9-]{10,}")),
    ("a web token", re.compile(rb"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{5,}")),
    ("a private key", re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*KEY-----|\Z)", re.S)),
    ("a password in an address", re.compile(rb"(?<=://)[^/\s:@\"'\\]+:[^/\s@\"'\\]+(?=@)")),
    ("an authorisation header", re.compile(rb"(?i)(?:bearer|authorization: *basic) +[A-Za-z0-9._~+/=-]{16,}")),
    (NAMED_SO, re.compile(rb"(?<=\")" + _NAME + rb"\": *\"(?:[^\"\\]|\\.){6,}(?=\")")),
    (NAMED_SO, re.compile(rb"\b" + _NAME + rb"=(?![\"'\s$\[])[^\s\"'\\]{6,}")),
)
_KEPT = re.compile(rb"\A" + _NAME + rb"(?:\": *\"|=)")


def redact(data: bytes, values: Mapping[str, str]) -> tuple[bytes, tuple[str, ...]]:
    """`data` without secrets, and what each was that was taken out. `values`: variable -> its value."""
    found: list[str] = []
    for name, form in _forms(values):
        if form in data:
            found.append(f"the value of {name}")
            data = data.replace(form, f"[redacted: {name}]".encode())
    for what, pattern in _KINDS:

        def taken(match: re.Match[bytes], what: str = what) -> bytes:
            if b"[redacted: " in match[0]:
                return match[0]
            found.append(what)
            name = _KEPT.match(match[0])
            return (name[0] if name else b"") + f"[redacted: {what}]".encode()

        data = pattern.sub(taken, data)
    return data, tuple(dict.fromkeys(found))


def _forms(values: Mapping[str, str]) -> Iterator[tuple[str, bytes]]:
    """The longest first, so that a value that holds another one goes whole."""
    for name, value in sorted(values.items(), key=lambda item: -len(item[1])):
        if len(value) >= SHORTEST:
            for form in dict.fromkeys((value, json.dumps(value)[1:-1], urllib.parse.quote(value, safe=""))):
                yield name, form.encode()
