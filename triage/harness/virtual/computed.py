"""Launches that the CPU twin computes, so that what the script compares afterwards is real.

In *twin mode* (`spec["twin"]`) a launch on the virtual device is handed to the interpreter (`..twin`). What that cannot
run, or not in time, is answered with made-up values as always, and the `twin` event says why.
"""

from __future__ import annotations

import dataclasses
import time
import traceback
from collections.abc import Sequence
from typing import Any

import numpy
import torch

from .numbers import VirtualFloat, VirtualInt
from .signature import Parameter, Signature
from .tensors import VirtualTensor, is_guessed, is_tainted, taint

#: seconds that the launches of one run may be computed for; the interpreter bounds the work of a single one
SECONDS = 120.0
#: of more elements than this, magnitudes are taken of some
SAMPLE = 1 << 20
BITS = {1: torch.uint8, 2: torch.int16}


class NotComputed(Exception):
    """Why a launch is answered with made-up values."""


def of(context: Any) -> Computing:
    """The computing of a run in twin mode."""
    global _computing
    if _computing is None:
        _computing = Computing(context)
    return _computing


_computing: Computing | None = None


class Computing:
    """The interpreter for the launches of one process."""

    def __init__(self, context: Any) -> None:
        self.context = context
        self._spent = 0.0
        #: parameters that held NaN after the last launch: memory that nobody wrote is poisoned with it
        self._nan: list[str] = []
        #: how large the inputs of the last launch were: mean and root mean square of their magnitudes
        self._magnitudes: dict[str, tuple[float, float]] = {}

    def launch(
        self,
        kernel_id: str,
        func: Any,
        signature: Signature,
        launch_id: str | None,
        args: Sequence[Any],
        results: Sequence[Any],
    ) -> bool:
        """Compute a launch in place; False where its values are to be made up. Of a launch without id nothing is told."""
        screening = self.context.screening
        if screening is not None:
            screening.begins()
            if screening.is_supposing:
                self._suppose(func, signature, args, results)
                return True
        began = time.monotonic()
        told: dict[str, Any] = {"launch": launch_id, "kernel": kernel_id, "computed": False}
        try:
            outcome = self._run(func, signature, args, results)
            told |= {
                "computed": True,
                "work": outcome.work,
                "happenings": [dataclasses.asdict(h) for h in outcome.happenings],
                "nan": self._nan,
                "magnitudes": self._magnitudes,
            }
        except NotComputed as why:
            told["why"] = str(why)
            if screening is not None:
                screening.lost()
        told["seconds"] = round(time.monotonic() - began, 4)
        self._spent += time.monotonic() - began
        if launch_id is not None:
            self.context.emit("twin", **told)
            self.context.computed = launch_id if told["computed"] else None
        return bool(told["computed"])

    def _run(self, func: Any, signature: Signature, args: Sequence[Any], results: Sequence[Any]) -> Any:
        from .. import twin

        if self._spent > SECONDS:
            raise NotComputed(f"launches before this one took {self._spent:.0f} s")
        if any(is_guessed(result) for result in results):
            raise NotComputed("the size of an output is not known")
        try:
            arrays = as_arrays(signature, args, results)
            inputs = [(signature.parameters[index].name, arrays[index]) for index in signature.inputs]
            self._magnitudes = {name: _magnitude(array) for name, array in inputs if _is_real(array)}
            screening = self.context.screening
            if screening is not None:
                names = [parameter.name for parameter in signature.parameters]
                func = screening.launching(func, names, arrays, signature.outputs)
            outcome = on_twin(func, signature, arrays)
            if screening is not None:
                screening.launched(outcome.cost)
        except twin.Unsupported as error:
            raise NotComputed(str(error)) from error
        except NotComputed:
            raise
        except Exception as error:
            where = "".join(traceback.format_exception(error)[-3:])
            self.context.emit("warning", origin="triage", text=f"capture-failed: the twin failed: {where}", kernel=None)
            raise NotComputed(f"the twin failed: {type(error).__name__}: {error}") from error
        self._nan = [p.name for p, array in zip(signature.parameters, arrays, strict=True) if _has_nan(array)]
        return outcome

    def _suppose(self, func: Any, signature: Signature, args: Sequence[Any], results: Sequence[Any]) -> None:
        """Instead of a launch: what it would write counts as made up from here on."""
        given = in_order(signature, args, results)
        known = [_unless_made_up(p, v) for p, v in zip(signature.parameters, given, strict=True)]
        names = [parameter.name for parameter in signature.parameters]
        for position in self.context.screening.supposes(func, names, known, signature.outputs):
            taint(given[position])


def _unless_made_up(parameter: Parameter, value: Any) -> Any:
    """An argument as the interpreter takes it; None of what is made up."""
    if isinstance(value, (VirtualInt, VirtualFloat)):
        return None
    try:
        return as_array(parameter, value)
    except NotComputed:
        return None


def in_order(signature: Signature, args: Sequence[Any], results: Sequence[Any]) -> list[Any]:
    """The arguments and results of a call in the order of the kernel's parameters; None for what was not passed."""
    values: list[Any] = [None] * len(signature.parameters)
    for index, value in (*zip(signature.inputs, args, strict=False), *zip(signature.outputs, results, strict=True)):
        values[index] = value
    return values


def as_arrays(signature: Signature, args: Sequence[Any], results: Sequence[Any]) -> list[Any]:
    """The arguments and results of a call as the interpreter takes them, in the order of the parameters. Raises `NotComputed`."""
    values = in_order(signature, args, results)
    return [as_array(p, v) for p, v in zip(signature.parameters, values, strict=True)]


def on_twin(func: Any, signature: Signature, arrays: list[Any]) -> Any:
    """The `twin.Outcome` of a launch whose outputs nobody has written yet. Raises `twin.Unsupported`."""
    from .. import twin

    for index in signature.outputs:
        twin.poison(arrays[index])
    return twin.run(func, arrays, fresh=frozenset(signature.outputs))


def copied(args: Sequence[Any]) -> list[Any]:
    """The arguments of a launch with memory of their own on the host. Those that share memory, such as the tensor that a kernel
    reads and writes, share it still."""
    memories = [_memory(value) for value in args]
    shared = {memory for memory in memories if memory is not None and memories.count(memory) > 1}
    storages: dict[int, Any] = {}
    made = []
    for value, memory in zip(args, memories, strict=True):
        if memory in shared:
            storage = storages.setdefault(memory, value.untyped_storage().cpu().clone())
            copy = torch.empty(0, dtype=value.dtype)
            made.append(copy.set_(storage, value.storage_offset(), value.shape, value.stride()))
        else:
            made.append(value.detach().cpu().clone() if isinstance(value, torch.Tensor) else value)
    return made


def _memory(value: Any) -> int | None:
    """Where the memory of a tensor begins; None for one of the virtual device, which holds others."""
    plain = isinstance(value, torch.Tensor) and not isinstance(value, VirtualTensor) and value.numel() > 0
    return int(value.untyped_storage().data_ptr()) if plain else None


def _has_nan(array: Any) -> bool:
    return isinstance(array, numpy.ndarray) and array.dtype.kind in "fV" and bool((array != array).any())


def _is_real(array: Any) -> bool:
    return isinstance(array, numpy.ndarray) and array.dtype.kind in "fiV" and array.size > 0


def _magnitude(array: Any) -> tuple[float, float]:
    """Mean and root mean square of the magnitudes of an array, or of some of its elements if they are many."""
    step = array.size // SAMPLE * 2 + 1  # odd: the same column of every row would not stand for all
    some = numpy.abs(array.reshape(-1)[::step].astype(numpy.float64))
    return float(some.mean()), float(numpy.sqrt(numpy.mean(some * some)))


def as_array(parameter: Parameter, value: Any) -> Any:
    """An argument as the interpreter takes it: a NumPy array over the memory of a tensor, or a number."""
    if not isinstance(value, torch.Tensor):
        return value
    if is_tainted(value):
        raise NotComputed(f"the values of {parameter.name} are made up")
    from ..twin import dtypes

    payload = (value.payload if isinstance(value, VirtualTensor) else value).detach()
    if payload.device.type != "cpu":
        raise NotComputed(f"{parameter.name} has no values")
    name = str(payload.dtype).removeprefix("torch.")
    if name not in dtypes.NARROW:
        return (payload.view(torch.uint8) if name.startswith("float4") else payload).numpy()
    return payload.view(BITS[payload.element_size()]).numpy().view(dtypes.numpy_dtype(name))
