"""Parameters of a request, checked one by one: each raises RemoteError (bad_request) with its name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from remote.protocol import RemoteError

Request = Mapping[str, Any]


def text(request: Request, key: str) -> str:
    value = request.get(key)
    if not isinstance(value, str) or not value:
        raise RemoteError("bad_request", f"`{key}` must be a text")
    return value


def number(request: Request, key: str, default: int) -> int:
    value = request.get(key, default)
    if type(value) is not int or value < 0:
        raise RemoteError("bad_request", f"`{key}` must be a whole number from 0 on")
    return value


def mapping(request: Request, key: str, default: dict[str, Any] | None = None) -> dict[str, Any]:
    value = request.get(key, default)
    if not isinstance(value, dict):
        raise RemoteError("bad_request", f"`{key}` must be an object")
    return value


def secrets_of(request: Request) -> dict[str, str]:
    given = mapping(request, "secrets", {})
    if not all(isinstance(value, str) and "\0" not in value and "=" not in key for key, value in given.items()):
        raise RemoteError("bad_request", "`secrets` must map names to texts")
    return given
