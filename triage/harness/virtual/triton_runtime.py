"""A real triton on a machine without a GPU: its kernels are not launched, what they would write is made up."""

from __future__ import annotations

from typing import Any

import torch

from . import bench, session
from .patching import replace
from .tensors import VirtualTensor


def install(module: Any) -> None:
    """Replace the launch of triton kernels (`kernel[grid](...)`), or `triton.testing.do_bench`."""
    for name in ("JITFunction", "Autotuner", "Heuristics"):
        if hasattr(module, name):
            replace(getattr(module, name), "run", _launch)
    for name in ("do_bench", "do_bench_cudagraph"):
        replace(module, name, bench.do_bench)


def _launch(self: Any, *args: Any, **kwargs: Any) -> None:
    session.virtual("triton launches")
    for value in (*args, *kwargs.values()):
        if isinstance(value, VirtualTensor):
            value.memory.tainted = True
        elif isinstance(value, torch.Tensor):
            raise ValueError("Pointer argument (at 0) cannot be accessed from Triton (cpu tensor?)")
