"""Reads installed Python sources with `ast`: nothing is imported, so torch and vLLM stay out of the process."""

from __future__ import annotations

import ast
import hashlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

Function = ast.FunctionDef | ast.AsyncFunctionDef


class SourceNotFound(LookupError):
    """The dotted name leads to no module, class or function under this site-packages folder."""


@dataclass(frozen=True)
class Code:
    """One function or class as it is installed."""

    file: str
    """Relative to site-packages."""
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


@lru_cache(maxsize=64)
def _read(path: Path, _stamp: tuple[int, int]) -> tuple[str, ast.Module]:
    text = path.read_text(encoding="utf-8")
    return text, ast.parse(text)


def module(site: Path, dotted: str) -> Code:
    """A whole module. Raises SourceNotFound."""
    stem = site.joinpath(*dotted.split("."))
    for path in (stem.with_suffix(".py"), stem / "__init__.py"):
        try:
            stat = path.stat()
            text, tree = _read(path, (stat.st_mtime_ns, stat.st_size))
        except OSError:
            continue
        except (SyntaxError, ValueError) as error:
            raise SourceNotFound(f"{path} cannot be parsed: {error}") from None
        return Code(path.relative_to(site).as_posix(), 1, text, tree)
    raise SourceNotFound(f"no module {dotted} in {site}")


def find(site: Path, dotted: str) -> Code:
    """The class or function that a dotted name means, `package.module.Class.method`. Raises SourceNotFound."""
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
