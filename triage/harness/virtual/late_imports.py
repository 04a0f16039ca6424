"""Packages that the script imports while it runs: some are adapted, some that need a GPU are stood in for."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from . import optional_imports, session

#: package -> module here and function in it; the modules need torch, which only the script may import first
ADAPTED = {
    "numpy": ("compare", "install_numpy"),
    "numpy.testing": ("compare", "install_numpy_testing"),
    "torch.testing": ("compare", "install_torch"),
    "torch.utils.benchmark": ("bench", "install_timer"),
    "triton.runtime.jit": ("triton_runtime", "install"),
    "triton.runtime.autotuner": ("triton_runtime", "install"),
    "triton.testing": ("triton_runtime", "install"),
    "einops.einops": ("optional_imports", "install_einops"),
}


@contextlib.contextmanager
def watching(context: Any) -> Iterator[None]:
    """Watch imports until the script is over."""
    from ..hooks import AfterImport

    def adapt(module: ModuleType, seconds: float) -> None:
        if not session.is_open():
            return  # torch is not there yet; `adapt_loaded` comes back to it
        with context.guarded(f"adapt {module.__name__} to the virtual device", needed=True):
            _adapt(module)

    AfterImport(list(ADAPTED), before=lambda name: None, after=adapt, done=lambda: None).install()
    finder = optional_imports.StandIns(context)
    sys.meta_path.append(finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


def adapt_loaded() -> None:
    """Adapt what was imported before the device was installed."""
    for name in ADAPTED:
        if name in sys.modules:
            _adapt(sys.modules[name])


def _adapt(module: ModuleType) -> None:
    name, function = ADAPTED[module.__name__]
    getattr(importlib.import_module(f".{name}", __package__), function)(module)
