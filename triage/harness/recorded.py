"""What launches write, put aside by one run of a script, and compared with in another run that has other tiles.

`settings["recorded"]` is `{}` for the first run, which tells of each launch in a `recorded` event, and `{"says": name, "launches": [what that told, …]}` for
the other, which tells of each what any comparison does, under that name, or why it has nothing to compare it with.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Sequence
from typing import Any

from . import comparisons, outputs, references, target

#: launches that are put aside, and bytes of what they write
LAUNCHES, MOST_BYTES = 16, 64 << 20
#: results of two orders of summation are further apart than those of a kernel and its reference, and what a schedule should not change is off by more
APART = {"float32": 100.0, "float64": 100.0}
APART_OF_NARROW = 8.0


class Recorded:
    """Watches the launches of one process."""

    def __init__(self, context: Any) -> None:
        asked = context.settings["recorded"]
        self.context = context
        self.says: str = asked.get("says", "")
        self.known: Sequence[dict[str, Any]] | None = asked.get("launches")
        self.tolerances: dict[str, list[float]] = asked["tolerances"]
        self._number = 0
        self._bytes = 0
        #: what is put aside, so that no other tensor comes to lie in its memory
        self._kept: list[Any] = []
        self._kernels: dict[str, references.Kernel] = {}

    def watch_launches(self, kernel_class: type) -> None:
        original = kernel_class.__call__

        @functools.wraps(original)
        def __call__(kernel: Any, *args: Any, **options: Any) -> Any:
            result = original(kernel, *args, **options)
            with self.context.guarded("put aside what a launch wrote"):
                self._after(kernel, args, result)
            return result

        kernel_class.__call__ = __call__  # type: ignore[method-assign]

    def _after(self, launched: Any, args: tuple[Any, ...], result: Any) -> None:
        id = launched.__dict__.get("_triage_id")
        virtual = self.context.mode == "virtual" and bool(target.is_cuda(launched.target))
        if id is None or (virtual and (self.context.twin is None or self.context.computed is None)):
            return  # its values were made up
        if id not in self._kernels:
            self._kernels[id] = references.described(launched.__dict__)
        kernel = self._kernels[id]
        written = dict(zip(kernel.returned, outputs.returned(result), strict=False))
        if len(args) == len(kernel.inputs):
            given = dict(zip(kernel.inputs, args, strict=True))
            written |= {name: given[name] for name in kernel.written if given.get(name) is not None}
        tensors = {name: comparisons.tensor_of(value) for name, value in written.items()}
        self._number += 1
        if self.known is None:
            values = (comparisons.tensor_of(value) for value in args if isinstance(value, sys.modules["torch"].Tensor))
            self._put_aside(kernel, tensors, [_memory(value) for value in values])
        else:
            self._compare(kernel, tensors)

    def _put_aside(self, kernel: references.Kernel, tensors: dict[str, Any], given: list[int]) -> None:
        told = []
        for name, tensor in tensors.items():
            about = {"name": name, "shape": list(tensor.shape), "dtype": str(tensor.dtype).removeprefix("torch.")}
            about["memory"] = _memory(tensor)
            self._bytes += tensor.nbytes
            if self._number <= LAUNCHES and self._bytes <= MOST_BYTES:
                about["blob"] = self.context.blob(_bytes(tensor))
                self._kept.append(tensor)
            told.append(about)
        self.context.emit("recorded", name=kernel.name, outputs=told, given=given)

    def _compare(self, kernel: references.Kernel, tensors: dict[str, Any]) -> None:
        known = self.known[self._number - 1] if self.known and self._number <= len(self.known) else None
        if known is None or known["name"] != kernel.name:
            self._not_compared(kernel, "the script launches other kernels then")
            return
        pairs = []
        for one in known["outputs"]:
            actual = tensors.get(one["name"])
            if actual is None or [*actual.shape] != one["shape"] or not str(actual.dtype).endswith(f".{one['dtype']}"):
                self._not_compared(kernel, f"{one['name']} has another shape or type then")
            elif "blob" in one:
                expected = _tensor(os.path.join(self.context.log.blobs, one["blob"]), one)
                bounds = references.tolerance(kernel, self.tolerances, actual, expected)
                wide = min(APART.get(name, APART_OF_NARROW) for name in (one["dtype"], *kernel.types))
                rtol, atol = (bound * wide for bound in bounds)
                pairs.append((actual, expected, rtol, atol))
        if pairs:
            at = self.context.user_frame() or kernel.defined_at
            self.context.comparisons.tell_reference(self.says, pairs, at, kernel.id)

    def _not_compared(self, kernel: references.Kernel, why: str) -> None:
        self.context.emit("recorded", name=kernel.name, why=why)


def _memory(tensor: Any) -> int:
    """Where the memory of a plain tensor begins."""
    return int(tensor.untyped_storage().data_ptr())


def _bytes(tensor: Any) -> bytes:
    torch = sys.modules["torch"]
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return bytes(flat.view(torch.uint8).numpy().tobytes()) if flat.numel() else b""


def _tensor(path: str, about: dict[str, Any]) -> Any:
    torch = sys.modules["torch"]
    with open(path, "rb") as file:
        data = bytearray(file.read())
    dtype = getattr(torch, about["dtype"])
    return (
        torch.frombuffer(data, dtype=dtype).reshape(about["shape"])
        if data
        else torch.empty(about["shape"], dtype=dtype)
    )
