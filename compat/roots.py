"""Where an environment's packages lie: in site-packages itself, or where its `.pth` files lead (editable installs)."""

from __future__ import annotations

import ast
import re
from pathlib import Path

_FINDER = re.compile(r"import (__editable__\w*_finder)\b")


def of(site: Path, package: str) -> list[Path]:
    """Folders that hold the package, in the order in which Python would look; [] when none does."""
    for place in sites(site):
        if _holds(place, package):
            return [place]
    return [root for root in elsewhere(site, package) if _holds(root, package)]


def sites(site: Path) -> list[Path]:
    """The folder, and its twin where a system keeps packages with binaries in `lib64` and the others in `lib`."""
    parts = list(site.parts)
    for one, other in (("lib", "lib64"), ("lib64", "lib")):
        if one in parts[1:]:
            place = len(parts) - 1 - parts[::-1].index(one)
            twin = Path(*parts[:place], other, *parts[place + 1 :])
            if twin.is_dir() and not twin.samefile(site):
                return [site, twin]
    return [site]


def elsewhere(site: Path, package: str) -> list[Path]:
    """Folders outside site-packages that its `.pth` files add to the path, or name for this package."""
    found: list[Path] = []
    try:
        files = sorted(path for path in site.iterdir() if path.suffix == ".pth")
    except OSError:
        return found
    for file in files:
        for line in _lines(file):
            finder = _FINDER.match(line)
            if finder:
                place = _mapping(site / f"{finder.group(1)}.py").get(package)
                found += [Path(place).parent] if place else []
            elif not line.startswith(("#", "import ", "import\t")):
                found.append(site / line)
    return [root for root in dict.fromkeys(found) if root not in sites(site)]


def _holds(root: Path, package: str) -> bool:
    folder = root / package
    try:
        return folder.is_dir() or folder.with_suffix(".py").is_file()
    except OSError:  # it is there and may not be looked at: whoever reads it says so
        return True


def _lines(file: Path) -> list[str]:
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return [line.strip() for line in text.splitlines() if line.strip()]


def _mapping(finder: Path) -> dict[str, str]:
    """Package → folder, as setuptools writes it into the finder of an editable install."""
    try:
        tree = ast.parse(finder.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return {}
    for node in tree.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == "MAPPING":
            return _texts(node.value)
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "MAPPING":
            return _texts(node.value)
    return {}


def _texts(node: ast.expr | None) -> dict[str, str]:
    try:
        value = ast.literal_eval(node) if node else {}
    except ValueError:
        return {}
    return {str(k): str(v) for k, v in value.items()} if isinstance(value, dict) else {}
