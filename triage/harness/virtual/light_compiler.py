"""PyTorch's shape functions without its compiler.

The Python implementations of the meta device ask `torch._dynamo.disable` for a wrapper on their first call, and that
imports the compiler: four seconds for something that nothing here compiles. While a shape is computed, a module with
this one function stands in its place, unless the script has imported the real one.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import torch

NAME = "torch._dynamo"

_lock = threading.RLock()


def _unchanged(function: Any = None, *args: Any, **kwargs: Any) -> Any:
    return function


_module = ModuleType(NAME)
_module.disable = _unchanged  # type: ignore[attr-defined]


@contextlib.contextmanager
def standing_in() -> Iterator[None]:
    """While this is active, `torch._dynamo.disable` returns its argument."""
    if sys.modules.get(NAME, _module) is not _module:
        yield
        return
    with _lock:
        outer = NAME in sys.modules
        sys.modules[NAME] = _module
        torch._dynamo = _module  # type: ignore[assignment]
        try:
            yield
        finally:
            if not outer:
                del sys.modules[NAME]
                del torch._dynamo
