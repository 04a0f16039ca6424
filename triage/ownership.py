"""Whose file it is, told by where it lies: for texts, and for places that an error text names."""

from __future__ import annotations

import re

#: where files lie that are not the user's: packages, the standard library, the build trees of the wheels
INSTALLED = re.compile(
    r"/(site|dist)-packages/|/lib/python\d[\d.]*/|^/project/|^python/tvm_ffi/|(^|/)(tilelang|tvm|tvm_ffi|torch)/.*\.(py|pyx|pxi)$"
)


def owner_by_path(file: str) -> bool | None:
    """True for a Python file that no package or library holds, False for theirs, None where the path says nothing."""
    if file.startswith("<") or not file:
        return None
    if INSTALLED.search(file.replace("\\", "/")):
        return False
    return True if file.endswith(".py") else None
