"""The user's modules that a script imports from its own folder: a reference, or the call of a kernel, may stand in one of them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

#: so many are looked at
MOST = 20


def beside(source: str, script: Path) -> dict[str, str]:
    """The texts of the modules by their paths: those that the script imports, those that these do, and so on. One that cannot be read is left
    out."""
    found: dict[str, str] = {}
    waiting = [(source, script.parent)]
    while waiting and len(found) < MOST:
        text, package = waiting.pop(0)
        for path in _imported(text, package, script.parent):
            if str(path) not in found and path != script:
                try:
                    found[str(path)] = path.read_text(encoding="utf-8-sig")
                except (OSError, ValueError):
                    continue
                waiting.append((found[str(path)], path.parent))
    return found


def _imported(text: str, package: Path, folder: Path) -> Iterator[Path]:
    """The files of a folder that a text imports, or of its own package."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _files(folder, alias.name.split("."))
        elif isinstance(node, ast.ImportFrom):
            above = [folder, package, *package.parents][: node.level + 1]
            if len(above) <= node.level:
                continue  # more dots than folders
            start = above[node.level]
            parts = node.module.split(".") if node.module else []
            yield from _files(start, parts)
            for alias in node.names:
                yield from _files(start, [*parts, alias.name])


def _files(folder: Path, parts: list[str]) -> Iterator[Path]:
    for count in range(1, len(parts) + 1):
        path = folder.joinpath(*parts[:count])
        yield from (file for file in (path.with_name(f"{path.name}.py"), path / "__init__.py") if file.is_file())
