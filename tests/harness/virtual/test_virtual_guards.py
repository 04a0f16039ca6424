"""Which imports a script can do without, from its source."""

from __future__ import annotations

import textwrap

import pytest

HANDLED = {
    "a flag": """
        try:
            import triton
            HAS = True
        except ImportError:
            HAS = False
        if HAS:
            triton.jit(print)
        """,
    "the name as None": """
        try:
            import triton
        except ImportError:
            triton = None
        if triton is not None:
            triton.jit(print)
        """,
    "another package": """
        try:
            from triton import cdiv
        except Exception:
            from math import ceil as cdiv
        cdiv(3)
        """,
    "never used": """
        try:
            import triton
        except (ImportError, OSError):
            pass
        """,
}
UNHANDLED = {
    "raises again": """
        try:
            import triton
        except ImportError:
            raise RuntimeError("install triton")
        """,
    "prints and goes on to use it": """
        try:
            import triton
            from triton.ops import matmul
        except ImportError:
            print("no triton")
            triton = None
        matmul(1)
        """,
    "catches something else": """
        try:
            import triton
        except ValueError:
            triton = None
        triton.jit(print)
        """,
    "no guard": "import triton\n",
}


@pytest.mark.parametrize("name", [*HANDLED, *UNHANDLED])
def test_a_guard_counts_if_the_script_gets_on_without(harness, tmp_path, name):
    text = textwrap.dedent({**HANDLED, **UNHANDLED}[name])
    path = tmp_path / "script.py"
    path.write_text(text)
    line = next(i for i, t in enumerate(text.splitlines(), 1) if "import triton" in t or "from triton" in t)
    guards = harness("virtual.optional_imports")._guards(str(path))
    assert any(helps and first <= line <= last for first, last, helps in guards) is (name in HANDLED)
