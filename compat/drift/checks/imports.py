"""Names that the caller imports and the callee does not have."""

from __future__ import annotations

from collections.abc import Iterator

from compat.drift.context import Context
from compat.drift.finding import Finding


def check(context: Context) -> Iterator[Finding]:
    library = context.library
    for use in context.caller.imports:
        if library.module(use.module) is None:
            message = f"imports {use.module}, a module that the installed {library.name} does not have"
            yield Finding("fails", "missing-import", use.module, "", message, use.place)
        elif use.name not in ("", "*") and library.resolve(use.module, use.name) is None:
            message = f"imports {use.name} from {use.module}, which has no such name"
            yield Finding("fails", "missing-import", use.module, use.name, message, use.place)
