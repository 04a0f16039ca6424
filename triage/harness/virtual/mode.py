"""The operators that PyTorch runs in the script, seen from the outside: what the script compares, and what it computes of results, is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from . import session
from .operators import describe, payload, tensors_in
from .tensors import CPU, Memory, VirtualTensor, is_tainted, poisoned, without_values


class OperatorMode(TorchDispatchMode):
    """Tells of operators, and gives values to tensors that PyTorch's own functions make beside one of the virtual device.

    To C++ that device is `meta` (see `VirtualTensor`), so a mask that `scaled_dot_product_attention` makes "on the same
    device" would have none.
    """

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """To ask `torch._dynamo` for nothing: the first call would import it, which takes most of a second."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = kwargs or {}
        session.sees(func, args)
        has_run = _followed(func, args, named)
        result = _run(func, args, named)
        if has_run is not None:
            has_run(result)
        return result


def _run(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    device = kwargs.get("device")
    beside = device is not None and torch.device(device).type == "meta"
    fresh = beside and next(iter(tensors_in(args, kwargs)), None) is None
    if not fresh or without_values(_sizes(args), kwargs.get("dtype")):
        return func(*args, **kwargs)
    made = func(*args, **{**kwargs, "device": CPU})
    return VirtualTensor(poisoned(made) if describe(func).name.startswith("empty") else made, Memory(False))


def _followed(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[[Any], None] | None:
    """An operator is about to be run; the answer takes its result, None if nobody wants to run it again (`harness/trail.py`)."""
    screening = session.screening()
    operator = describe(func)
    if screening is None or operator.fresh or (operator.view and not operator.writes):
        return None
    tensors = list(tensors_in(args, kwargs))
    if screening.is_supposing:
        if any(map(is_tainted, tensors)):
            screening.supposes_run(func, _plain(args), _plain(kwargs))
        return None
    plain = list(map(payload, tensors))
    if not plain or any(tensor.is_meta or tensor.layout != torch.strided for tensor in plain):
        return None
    written = [payload(tensor) for tensor in operator.written(args, kwargs)]
    step = screening.running(func, _plain(args), _plain(kwargs), plain, written)
    return None if step is None else lambda result: screening.ran(step, _plain(result))


def _plain(value: Any) -> Any:
    """Arguments or a result for the payloads, None in the place of a tensor that is made up."""
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(_plain, value))
    return None if is_tainted(value) else payload(value)


def _sizes(args: tuple[Any, ...]) -> tuple[int, ...]:
    return tuple(args[0]) if args and isinstance(args[0], (list, tuple)) else ()
