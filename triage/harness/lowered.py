"""What a lowered kernel asks of the device: threads and shared memory."""

from __future__ import annotations

import math
import sys
from typing import Any

from .expressions import kind


def describe(device_mod: Any) -> dict[str, Any]:
    """What the lowered device functions ask for, in bytes and threads.

    `shared_bytes` is the dynamic shared memory of the largest, `static_shared_bytes` what is declared beside it.
    """
    kernels = []
    for variable, func in device_mod.functions.items():
        attrs = func.attrs
        if attrs and "thread_extent" in attrs:
            extents = {str(k): _integer(v) for k, v in attrs["thread_extent"].items()}
            kernels.append(
                {
                    "name": str(variable.name_hint),
                    "threads": extents,
                    "shared_bytes": _integer(attrs.get("dyn_shared_memory_buf", 0)),
                    "static_shared_bytes": _static_shared_bytes(func),
                }
            )
    return {
        "kernels": kernels,
        "shared_bytes": _largest([k["shared_bytes"] for k in kernels]),
        "static_shared_bytes": _largest([k["static_shared_bytes"] for k in kernels]),
    }


def _integer(value: Any) -> int | None:
    return int(value) if isinstance(value, int) or kind(value) == "IntImm" else None


def _largest(sizes: list[int | None]) -> int | None:
    known = [size for size in sizes if size is not None]
    return max(known) if known and len(known) == len(sizes) else None


def _static_shared_bytes(func: Any) -> int | None:
    tvm = sys.modules["tvm"]
    sizes: list[int | None] = []

    def visit(node: Any) -> None:
        if kind(node) == "AllocBuffer" and str(node.buffer.scope()) in ("shared", "shared.barrier"):
            shape = [_integer(s) for s in node.buffer.shape]
            bits = int(tvm.DataType(str(node.buffer.dtype)).bits)
            sizes.append(None if None in shape else math.prod(shape) * bits // 8)  # type: ignore[arg-type]

    tvm.tirx.stmt_functor.post_order_visit(func.body, visit)
    return None if None in sizes else sum(size for size in sizes if size is not None)
