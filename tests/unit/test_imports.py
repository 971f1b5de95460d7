"""The import rule of the house: who may import what. Proved from the sources and, for start-up, in a subprocess."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("console", "remote", "compat", "pipeline")
OPTIONAL = {"pynvml", "psutil"}
HOST_PIPELINE = ("__main__", "plan", "drift", "stages", "environments", "provision", "report", "show")


def modules() -> list[tuple[str, ast.Module]]:
    found = []
    for package in PACKAGES:
        for file in sorted((ROOT / package).rglob("*.py")):
            name = ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            found.append((name, ast.parse(file.read_text(encoding="utf-8"))))
    return found


MODULES = modules()


def imports(name: str, tree: ast.Module, inside_functions: bool = True) -> set[str]:
    """Full names that a module imports, relative ones resolved."""
    found: set[str] = set()
    for node in ast.walk(tree) if inside_functions else _outside_functions(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = name.rsplit(".", node.level)[0] + "." if node.level else ""
            module = base + (node.module or "")
            found |= {f"{module}.{alias.name}" for alias in node.names}
    return found


def _outside_functions(tree: ast.AST) -> list[ast.AST]:
    found: list[ast.AST] = []
    for child in ast.iter_child_nodes(tree):
        if not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            found += [child, *_outside_functions(child)]
    return found


def top(names: set[str]) -> set[str]:
    return {name.split(".")[0] for name in names}


def within(name: str, *packages: str) -> bool:
    return any(name == package or name.startswith(package + ".") for package in packages)


@pytest.mark.parametrize(("name", "tree"), MODULES, ids=[name for name, _ in MODULES])
def test_the_import_rule(name: str, tree: ast.Module) -> None:
    used = imports(name, tree)
    outside = top(used)
    if not within(name, "console"):
        assert "textual" not in outside, "only console imports textual"
        assert "console" not in outside, "nothing imports console"
    if not within(name, "remote.link"):
        assert not outside & {"paramiko", "cryptography"}, "only remote.link imports paramiko"
    if within(name, "console"):
        assert "pipeline" not in outside, "the console reaches the pipeline only through the host"
        assert not any(within(u, "remote.agent") for u in used), "the console knows the agent only by its protocol"
    if within(name, "pipeline"):
        assert not any(within(u, "remote") for u in used), "pipeline imports compat, nothing above or beside it"
    if within(name, "compat"):
        assert not outside & {"remote", "pipeline"}, "compat is at the bottom"


@pytest.mark.parametrize(
    ("name", "tree"),
    [
        m
        for m in MODULES
        if within(m[0], "remote.agent", "remote.logs", "compat", "remote.wire", "remote.protocol", "remote.views")
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_runs_on_the_host_needs_only_the_standard_library(name: str, tree: ast.Module) -> None:
    body = imports(name, tree)
    if within(name, "compat"):
        body = imports(name, tree, inside_functions=False)
    assert top(body) <= set(sys.stdlib_module_names) | OPTIONAL | {"remote", "compat"}
    if within(name, "remote.agent"):
        shared = ("remote.agent", "remote.logs", "remote.protocol", "remote.wire", "remote.views")
        assert all(within(u, *shared) for u in body if within(u, "remote"))
        assert "compat" not in top(body)
    if within(name, "remote.logs"):
        assert all(within(u, "remote.logs") for u in body if within(u, "remote"))


@pytest.mark.parametrize("part", HOST_PIPELINE)
def test_the_plan_and_provision_run_in_the_hosts_plain_python(part: str) -> None:
    tree = dict(MODULES)[f"pipeline.{part}"]
    used = top(imports(f"pipeline.{part}", tree, inside_functions=False))
    assert used <= set(sys.stdlib_module_names) | {"pipeline", "compat"}


@pytest.mark.parametrize("module", ["console.cli", "console.commands", "console.headless"])
def test_headless_commands_start_without_textual(module: str) -> None:
    check = f"import sys, {module}; sys.exit('textual' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], cwd=ROOT, check=False).returncode == 0


def test_the_console_paints_before_paramiko_is_imported() -> None:
    check = "import sys, console.app; sys.exit('paramiko' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], cwd=ROOT, check=False).returncode == 0


@pytest.mark.parametrize(("name", "tree"), MODULES, ids=[name for name, _ in MODULES])
def test_no_file_has_outgrown_its_subject(name: str, tree: ast.Module) -> None:
    length = max((getattr(node, "end_lineno", 0) or 0 for node in tree.body), default=0)
    assert length <= 400, f"{name} has {length} lines: split it by subject"
