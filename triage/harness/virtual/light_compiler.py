"""PyTorch without the parts that it imports on first use and that nothing here needs.

The Python implementations of the meta device ask `torch._dynamo.disable` for a wrapper on their first call, and that
imports the compiler: four seconds for something that nothing here compiles. While a shape is computed, a module with
this one function stands in its place. The first operator on a tensor subclass imports `torch.distributed.tensor` to
see whether the tensor is a `DTensor`: most of a second. So does `assert_close`. None is replaced where the script has imported
the real one.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
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


DISTRIBUTED = "torch.distributed.tensor"


def answer_for_distributed(first: Callable[[], object]) -> None:
    """Let PyTorch look for `DTensor` now, while `first` runs an operator, and find a class that no tensor is of."""
    if DISTRIBUTED in sys.modules:
        return
    module = ModuleType(DISTRIBUTED)
    module.DTensor = type("DTensor", (torch.Tensor,), {})  # type: ignore[attr-defined]
    sys.modules[DISTRIBUTED] = module
    try:
        first()
    finally:
        if sys.modules.get(DISTRIBUTED) is module:
            del sys.modules[DISTRIBUTED]


def compare_without_distributed() -> None:
    """Let `assert_close` look for a `DTensor` only where there can be one."""
    comparison = sys.modules.get("torch.testing._comparison")
    original = getattr(comparison, "_unwrap_dtensor_for_comparison", None)
    if original is None:  # older releases do not look
        return

    def unwrap(actual: Any, expected: Any) -> Any:
        return original(actual, expected) if DISTRIBUTED in sys.modules else (actual, expected)

    comparison._unwrap_dtensor_for_comparison = unwrap  # type: ignore[union-attr]
