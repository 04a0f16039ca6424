"""A CUDA device for scripts on a machine without one.

`boot.py` calls `install_torch` and `install_tilelang` after the script's own import of the package has finished,
`around_script` around the script, and the capture `wrap_kernel` for every compiled kernel. Everything that is answered
with made-up values is recorded: `virtual` events once per kind, launches and comparisons with `virtual: true`,
timings with the caliber `virtual`. In twin mode the CPU computes the launches that it can (`computed.py`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any


def install_torch(torch: Any, context: Any) -> None:
    """Give PyTorch the device `cuda:0`. Call after the import of torch, before anything asks for a device."""
    from . import cuda_api, late_imports, mode, session, tensors, torch_device

    session.open_(context)
    if context.twin is not None:
        tensors.compute_values()
    cuda_api.install(context.arch)
    torch_device.install()
    if context.twin is not None:
        mode.OperatorMode().__enter__()
        torch_device.tell_of_arrays()
    late_imports.adapt_loaded()


def install_tilelang(tilelang: Any, context: Any) -> None:
    """Let tilelang benchmark, tune and compare on the virtual device."""
    from . import autotune, bench, carver, compare

    bench.install_tilelang(context.arch)
    compare.install_tilelang()
    autotune.install()
    carver.install(context.arch)


@contextlib.contextmanager
def around_script(context: Any) -> Iterator[None]:
    """While the script runs: packages that only a machine with a GPU has are stood in for."""
    from . import late_imports

    with late_imports.watching(context):
        yield


def wrap_kernel(real: Any, func: Any, out_idx: Any, context: Any, kernel_id: str) -> Any:
    """The kernel handed to the script: it checks and records its launches; only a run in twin mode computes them."""
    from . import launch

    return launch.wrap_kernel(real, func, out_idx, context, kernel_id)
