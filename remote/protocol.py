"""The agent's protocol: one JSON object a line, UTF-8, at most 1 MiB, both ways over one SSH channel.

Requests   {"id": N, "op": NAME, …}          from the console
Replies    {"id": N, "ok": true, "result": …} or {"id": N, "ok": false, "error": {kind, message, remedy}}
Pushes     {"ev": NAME, …}                    from the agent, unasked
Credits    a tail sends log bytes only while its credit lasts; {"op": "credit", "tail": T, "bytes": N} gives more
Heartbeat  both ends send {"ev": "beat"} every HEARTBEAT seconds and give the other up after SILENCE

Unknown keys are ignored; an unknown op is answered with an error of kind `unknown_op`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

VERSION = 1
MIN_VERSION = 1
LINE_CAP = 1 << 20
TAIL_CHUNK = 32 << 10
"""A tail's piece: small, so that a burst of log never delays a stop request."""
HEARTBEAT = 5.0
SILENCE = 15.0

# Requests and their results -------------------------------------------------------------------------------
HELLO = "hello"  # push, first line: version, min_version, python, host, uid, boot_id, now, state, bundle, cpus
START = "start"  # settings, project, request_id, switches, secrets, repeats? (a run elsewhere) -> {"run": id}
RELAUNCH = "relaunch"  # run, stage, request_id, switches, secrets, settings? -> {"run", "stage", "attempt"}
STOP = "stop"  # run -> {"stage", "attempt"} that is being stopped
LIST = "list"  # project (None: all) -> {"runs": [RunView without findings], "more": number left out}, newest first
SHOW = "show"  # run -> {"run": RunView}; with stage and attempt: that stage with the findings of that attempt
WATCH = "watch"  # run -> {}; then pushes RUN whenever the view changed, at most 5 a second
UNWATCH = "unwatch"
TAIL = "tail"  # tail, run, stage, attempt, offset, log_id, credit, follow -> {}; then pushes DATA…
CREDIT = "credit"
UNTAIL = "untail"
PAGE = "page"  # run, stage, attempt, line | time | offset, exact | none: the end, before, rows, numbers -> rows, place
SEARCH = "search"  # run, stage, attempt, pattern | errors, offset, back, ignore_case, limit -> hits, next, size, read
PATCHES = "patches"  # settings, switches -> {"patches": [PatchStatus], "environment": [line], "troubles": [line]}
DRIFT = "drift"  # settings, switches -> {"drift": Judged}: what does not fit in that environment, its patches beside it
ROW = "row"  # run, index -> {"sample": {index, place, tokens, trained, runs: [{trained, tokens, text}]}} of its dataset
METRICS = (
    "metrics"  # run, have: {CurveView.key: [stride, points, reports]} -> {"curves": [CurveView], "more": ask again}
)
# run -> {"files": [{path, size}], "left_out": [{path, size, why}], "found": {env: [distribution]}}
# The operator's own files are called conversations/FILE and prompts/NAME/FILE, their names as `plain_name` has them.
CARRIED = "carried"
FETCH = "fetch"  # run, path of CARRIED, offset -> {"data" (base64, at most 256 KiB), "size", "id"}
UPLOAD = "upload"  # digest (sha256), suffix, size, offset, data (base64) -> {"path": None until whole, "have": bytes}
SWEEP = "sweep"  # base (run), axes, project, request_id, switches, secrets -> {"sweep": id, "runs": [id]}
SWEEPS = "sweeps"  # sweep (None: the newest), project -> {"sweep": SweepView}
SWEEP_STOP = "sweep_stop"  # sweep, stopped (False: go on), secrets -> {"sweep", "runs": those stopped, or begun}
TELEMETRY = "telemetry"  # on, period -> {}; then pushes SAMPLE
PING = "ping"

# Pushes ----------------------------------------------------------------------------------------------------
RUN = "run"  # run: RunView
DATA = "data"  # tail, offset, log_id, data (base64)
END = "end"  # tail, offset: the attempt is over and every byte was sent; with error: why it ends early
TRUNCATED = "truncated"  # tail, size, was
ROTATED = "rotated"  # tail, log_id, was
SAMPLE = "sample"  # sample: TelemetryView
BEAT = "beat"
FAILED = "failed"  # op, run or tail, error: made by the session itself when the host refuses to go on with one


class ProtocolError(Exception):
    """The other end sent something that is no frame of this protocol."""


class RemoteError(Exception):
    """A request that the host refused: one sentence, and what to do about it.

    Kinds: bad_request, unknown_op, no_such_run, no_such_stage, no_such_attempt, busy, not_running, no_space,
    bad_settings, no_target, version, internal.
    """

    def __init__(self, kind: str, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.remedy = remedy

    def to_wire(self) -> dict[str, str]:
        return {"kind": self.kind, "message": self.message, "remedy": self.remedy}

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> RemoteError:
        return cls(str(data.get("kind", "internal")), str(data.get("message", "")), str(data.get("remedy", "")))


def plain_name(name: object) -> str:
    """A name that is one part of a path and nothing more, as files of CARRIED have it."""
    return "".join(c if c.isalnum() or c in "._-" else "-" for c in str(name)).lstrip(".")[:100] or "unnamed"


def encode(frame: Mapping[str, Any]) -> bytes:
    """One frame as bytes, newline included. Raises ProtocolError above LINE_CAP."""
    line = json.dumps(frame, separators=(",", ":"), ensure_ascii=True).encode() + b"\n"
    if len(line) > LINE_CAP:
        raise ProtocolError(f"a frame of {len(line)} bytes is over the cap of {LINE_CAP}")
    return line


class Decoder:
    """Bytes in, frames out; bounded by LINE_CAP even when the newline never comes."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[dict[str, Any]]:
        """Frames completed by `data`. Raises ProtocolError for a line that is no JSON object or too long."""
        self._buffer += data
        *lines, rest = self._buffer.split(b"\n")
        self._buffer = rest
        if len(rest) > LINE_CAP:
            raise ProtocolError(f"a line passed {LINE_CAP} bytes without ending")
        return [self._parse(bytes(line)) for line in lines if line.strip()]

    @staticmethod
    def _parse(line: bytes) -> dict[str, Any]:
        if len(line) > LINE_CAP:
            raise ProtocolError(f"a line of {len(line)} bytes is over the cap of {LINE_CAP}")
        try:
            frame = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ProtocolError(f"not JSON: {line[:80]!r} ({error})") from None
        if not isinstance(frame, dict):
            raise ProtocolError(f"not an object: {line[:80]!r}")
        return frame
