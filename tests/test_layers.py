"""Who may import whom, as far as import-linter cannot see it: the harness runs in the user's interpreter, alone."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

TRIAGE = Path(__file__).resolve().parent.parent / "triage"
HARNESS = TRIAGE / "harness"
HEAVY = {"torch", "tilelang", "tvm", "tvm_ffi"}


def imported(path: Path) -> Iterator[str]:
    """Every absolute module name that a file imports, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module or ""


def test_the_parent_imports_neither_the_harness_nor_what_the_subject_uses() -> None:
    wrong = [
        (str(path.relative_to(TRIAGE)), name)
        for path in TRIAGE.rglob("*.py")
        if HARNESS not in path.parents
        for name in imported(path)
        if name.startswith("triage.harness") or name.split(".")[0] in HEAVY
    ]
    assert wrong == []


def test_the_harness_imports_only_the_standard_library_and_what_the_subject_uses() -> None:
    allowed = set(sys.stdlib_module_names) | HEAVY | {"numpy", "ml_dtypes", "_triage_harness"}  # tilelang needs both
    wrong = [
        (str(path.relative_to(HARNESS)), name)
        for path in HARNESS.rglob("*.py")
        for name in imported(path)
        if name.split(".")[0] not in allowed
    ]
    assert wrong == []
