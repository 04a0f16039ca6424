"""Replacing functions of packages the script has imported."""

from __future__ import annotations

import sys
from typing import Any


def replace(owner: Any, name: str, new: Any) -> bool:
    """Set an attribute that exists; says whether it did."""
    if not hasattr(owner, name):
        return False
    setattr(owner, name, new)
    return True


def replace_everywhere(package: str, name: str, old: Any, new: Any) -> None:
    """Rebind `name` in every loaded module of a package where it is `old` (`from x import name` copies)."""
    for key, module in list(sys.modules.items()):
        if key.split(".")[0] == package and getattr(module, "__dict__", {}).get(name) is old:
            setattr(module, name, new)
