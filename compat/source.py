"""Reads installed Python sources with `ast`: nothing is imported, so torch and vLLM stay out of the process."""

from __future__ import annotations

import ast
import hashlib
import io
import sys
import tokenize
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from compat import roots

Function = ast.FunctionDef | ast.AsyncFunctionDef


class SourceError(Exception):
    """Why a dotted name leads to no code."""


class SourceNotFound(SourceError, LookupError):
    """There is no such module, class or function in this environment."""


class SourceUnreadable(SourceError):
    """There is a file, and what it holds is not known: no permission, no text, or no Python to this Python."""


@dataclass(frozen=True)
class Code:
    """One function or class as it is installed."""

    file: str
    """Relative to site-packages; the full path of code that lies elsewhere (an editable install)."""
    line: int
    text: str
    node: ast.AST

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}"

    def at(self, node: ast.AST) -> str:
        """`file:line` of a node inside this code."""
        return f"{self.file}:{getattr(node, 'lineno', self.line)}"


def module(site: Path, dotted: str) -> Code:
    """A whole module. Raises SourceNotFound, SourceUnreadable."""
    parts = dotted.split(".")
    for root in roots.of(site, parts[0]):
        stem = root.joinpath(*parts)
        for path in (stem.with_suffix(".py"), stem / "__init__.py"):
            try:
                stat = path.stat()
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                raise SourceUnreadable(f"{path} cannot be read: {error.strerror}") from None
            parsed = _parsed(path, (stat.st_mtime_ns, stat.st_size))
            if isinstance(parsed, str):
                raise SourceUnreadable(f"{path} {parsed}")
            file = path.relative_to(site) if path.is_relative_to(site) else path
            return Code(file.as_posix(), 1, *parsed)
    raise SourceNotFound(f"no module {dotted} in {site}")


@lru_cache(maxsize=512)
def _parsed(path: Path, _stamp: tuple[int, int]) -> tuple[str, ast.Module] | str:
    """The text and its tree, each file read once; or why there is none, as the rest of a sentence."""
    try:
        data = path.read_bytes()
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        text = io.TextIOWrapper(io.BytesIO(data), encoding).read()
        return text, ast.parse(text)
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    except UnicodeDecodeError as error:
        return f"is no {error.encoding} text (byte {error.start})"
    except SyntaxError as error:
        where = f" (line {error.lineno}: {error.msg})" if error.lineno else f" ({error.msg})"
        return f"is no Python to the host's Python {sys.version_info.major}.{sys.version_info.minor}{where}"
    except (ValueError, RecursionError, MemoryError) as error:
        return f"cannot be parsed: {str(error) or type(error).__name__}"


def find(site: Path, dotted: str) -> Code:
    """The class or function that a dotted name means, `package.module.Class.method`.

    Raises SourceNotFound, SourceUnreadable.
    """
    parts = dotted.split(".")
    for split in range(len(parts) - 1, 0, -1):
        try:
            whole = module(site, ".".join(parts[:split]))
        except SourceNotFound:
            continue
        node: ast.AST = whole.node
        for name in parts[split:]:
            inner = _member(node, name)
            if inner is None:
                raise SourceNotFound(f"{whole.file} has no {'.'.join(parts[split:])}")
            node = inner
        text = ast.get_source_segment(whole.text, node, padded=True) or ""
        return Code(whole.file, getattr(node, "lineno", 1), text, node)
    raise SourceNotFound(f"no module of {dotted} in {site}")


def _member(node: ast.AST, name: str) -> ast.AST | None:
    for child in getattr(node, "body", ()):
        if isinstance(child, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and child.name == name:
            return child
    return None


def calls(code: Code, name: str) -> list[ast.Call]:
    """Calls of `name` (`SchedulerConfig`, `torch.cuda.mem_get_info`) inside the code, in its order."""
    found = [n for n in ast.walk(code.node) if isinstance(n, ast.Call) and ast.unparse(n.func) == name]
    return sorted(found, key=lambda call: call.lineno)


def keywords(call: ast.Call) -> set[str]:
    """Keyword arguments that a call names."""
    return {keyword.arg for keyword in call.keywords if keyword.arg}


def required_parameters(code: Code) -> set[str]:
    """Parameters of a function that have no default, `self` left out."""
    node = code.node
    assert isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    positional = [*node.args.posonlyargs, *node.args.args]
    without = positional[: len(positional) - len(node.args.defaults)]
    keyword_only = [
        a for a, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True) if default is None
    ]
    return {a.arg for a in (*without, *keyword_only)} - {"self", "cls"}


def parameters(code: Code) -> set[str]:
    """Names of all parameters of a function, `self` left out."""
    node = code.node
    assert isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    named = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    return {a.arg for a in named} - {"self", "cls"}


def field(code: Code, name: str) -> ast.AnnAssign | None:
    """A field of a dataclass: `.value` is its default, None when it is required."""
    for child in getattr(code.node, "body", ()):
        if isinstance(child, ast.AnnAssign) and isinstance(child.target, ast.Name) and child.target.id == name:
            return child
    return None
