"""PyTorch operators on virtual tensors: run on the payloads, keep track of what is made up."""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch

from ..errors import SUSPECT
from . import light_compiler, session, shapes
from .tensors import CPU, DEVICE, META, Memory, VirtualTensor, host, is_cuda, poisoned, taint, values, without_values

aten = torch.ops.aten

#: where the product of the inputs' sizes is larger, the size of the result is looked at before it is computed
PRODUCT_LIMIT = 1 << 24
#: operators that overwrite their first argument, whatever the others are
FILLING = {"copy", "zero", "fill", "normal", "uniform", "random", "bernoulli", "exponential"}
#: results grow past the inputs' sizes by what their other arguments say
GROWING = {"repeat", "repeat_interleave", "constant_pad_nd", "one_hot", "cat", "stack", "im2col", "unfold"}
#: results that hold what was in memory before
EMPTY = ("empty_like", "new_empty", "new_empty_strided")
#: the truth that the result of an operator speaks for
SENSES = dict.fromkeys(("eq", "isclose", "le", "lt", "isfinite"), True)
SENSES |= dict.fromkeys(("ne", "gt", "ge", "isnan", "isinf"), False)
KEEP_SENSE = {"all", "any", "logical_and", "logical_or", "bitwise_and", "bitwise_or", "view", "reshape", "detach"}
FLIP_SENSE = {"logical_not", "bitwise_not"}


class Operator:
    """What the schema of an operator says about it."""

    def __init__(self, func: Any) -> None:
        schema = func._schema
        self.name = schema.name.removeprefix("aten::")
        self.writes = tuple(
            (i, a.name, a.kwarg_only)
            for i, a in enumerate(schema.arguments)
            if a.alias_info is not None and a.alias_info.is_write
        )
        self.view = any(r.alias_info is not None and not r.alias_info.is_write for r in schema.returns)
        self.fresh = self.name.startswith("new_") or self.name.endswith("_like")
        names = [a.name for a in schema.arguments]
        self.has_device = "device" in names
        self.has_generator = "generator" in names
        self.reshapes = torch.Tag.inplace_view in func.tags
        base = self.name.rstrip("_")
        self.in_place = len(self.writes) == 1 and (torch.Tag.pointwise in func.tags or base in FILLING)
        self.grows = base in GROWING
        self.sense = SENSES.get(base)
        self.keeps = base in KEEP_SENSE
        self.flips = base in FLIP_SENSE

    def written(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        found = []
        for index, name, keyword in self.writes:
            value = kwargs.get(name) if keyword or index >= len(args) else args[index]
            found += value if isinstance(value, (list, tuple)) else [value]
        return [value for value in found if isinstance(value, torch.Tensor)]


describe = functools.cache(Operator)


def dispatch(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run one operator on the payloads and put the results on the virtual device."""
    special = SPECIAL.get(func)
    if special is not None:
        return special(*args, **kwargs)
    operator = describe(func)
    inputs = list(tensors_in(args, kwargs))
    virtual = [t for t in inputs if isinstance(t, VirtualTensor)]
    tainted = any(t.tainted for t in virtual) and not operator.fresh  # which has a shape and values of its own
    written = operator.written(args, kwargs)
    place = _place(operator, virtual, kwargs)
    if written and not operator.reshapes and _skips(operator, written, inputs):
        _mark(written)
        return written[0] if len(written) == 1 else tuple(written)
    result = _run(func, operator, inputs, args, kwargs)
    if tainted:
        _mark(written)
    _follow(func, operator, written, args, kwargs)
    memory = virtual[0].memory if operator.view and virtual else None
    wrapped = _wrap(result, {id(payload(t)): t for t in written}, memory, tainted, place)
    without = any(t.payload.is_meta for t in virtual)
    for tensor in wrapped if isinstance(wrapped, (list, tuple)) else (wrapped,):
        if isinstance(tensor, VirtualTensor) and not written:
            # values out of none: they were computed from zeros, and so was the shape
            tensor.guessed = (without and not tensor.payload.is_meta) or any(t.guessed for t in virtual)
    if isinstance(wrapped, VirtualTensor) and wrapped.dtype == torch.bool and not written:
        wrapped.sense = _sense(operator, virtual)
    return wrapped


def _follow(
    func: Any, operator: Operator, written: list[torch.Tensor], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    """Give a tensor the shape that an operator has just given to its payload."""
    with torch._C._DisableTorchDispatch():
        if operator.reshapes:
            func(*args, **kwargs)
            return
        for tensor in written:
            if isinstance(tensor, VirtualTensor) and tensor.payload.shape != tensor.shape:
                aten.resize_.default(tensor, tensor.payload.shape)  # an `out=` that was empty


def tensors_in(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[torch.Tensor]:
    for value in (*args, *kwargs.values()):
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from (item for item in value if isinstance(item, torch.Tensor))


def payload(value: Any) -> Any:
    """An argument of an operator as it is given for the payloads: tensors and devices of the host."""
    if isinstance(value, VirtualTensor):
        return value.payload
    if isinstance(value, torch.device):
        return CPU if value.type in ("cuda", "meta") else value
    if isinstance(value, (list, tuple)):
        return type(value)(payload(item) for item in value)
    return value


def _shape_only(value: Any) -> Any:
    value = payload(value)
    if isinstance(value, torch.Tensor):
        return value if value.is_meta else value.to(META)
    if isinstance(value, torch.device):
        return META
    if isinstance(value, (list, tuple)):
        return type(value)(_shape_only(item) for item in value)
    return value


def _some_values(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return values(value)
    if isinstance(value, (list, tuple)):
        return type(value)(_some_values(item) for item in value)
    return payload(value)


def _place(operator: Operator, virtual: list[VirtualTensor], kwargs: dict[str, Any]) -> torch.device:
    """Where the result lies for the script: an explicit device, else where the inputs lie."""
    device = kwargs.get("device") if operator.has_device else None
    if device is not None and device.type not in ("cuda", "meta"):
        return CPU
    if device is None and virtual and all(t.place == CPU for t in virtual):
        return CPU
    return DEVICE


def _skips(operator: Operator, written: list[torch.Tensor], inputs: list[torch.Tensor]) -> bool:
    """Whether values would be written that do not exist: shapes are known already, nothing is left to do."""
    if all(payload(t).is_meta for t in written):
        return operator.in_place and all(_fits(t.shape, written[0].shape) for t in inputs)
    return any(payload(t).is_meta for t in inputs)


def _fits(shape: torch.Size, target: torch.Size) -> bool:
    """Whether a tensor can be broadcast to a shape."""
    sizes = zip(reversed(shape), reversed(target), strict=False)
    return len(shape) <= len(target) and all(size in (1, wanted) for size, wanted in sizes)


def _mark(written: list[torch.Tensor]) -> None:
    for tensor in written:
        taint(tensor)


def _run(
    func: Any, operator: Operator, inputs: list[torch.Tensor], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    if kwargs.get("pin_memory"):
        kwargs = {**kwargs, "pin_memory": False}
    if any(payload(t).is_meta for t in inputs) or _too_large(func, operator, inputs, args, kwargs):
        return _on_shapes(func, operator, args, kwargs)
    try:
        result = func(*(payload(a) for a in args), **{k: payload(v) for k, v in kwargs.items()})
        return poisoned(result) if operator.name in EMPTY else result
    except (NotImplementedError, RuntimeError) as error:
        if "not implemented" not in str(error) and "not supported" not in str(error):
            raise
        if operator.writes:
            return _only_mark(operator, args, kwargs)
        return _on_shapes(func, operator, args, kwargs)  # the CPU cannot, CUDA may


def _only_mark(operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Instead of an operator that writes: its result is one of its arguments, with contents nobody computed."""
    written = operator.written(args, kwargs)
    _mark(written)
    return payload(written[0]) if len(written) == 1 else tuple(payload(t) for t in written)


def _too_large(
    func: Any, operator: Operator, inputs: list[torch.Tensor], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> bool:
    """Whether the result of an operator on real values would be kept without values anyway."""
    if operator.view or operator.writes:
        return False
    if operator.fresh and operator.name.startswith("new_") and len(args) > 1 and isinstance(args[1], (list, tuple)):
        return without_values(args[1], kwargs.get("dtype") or inputs[0].dtype)
    if not operator.grows and math.prod(t.numel() for t in inputs) <= PRODUCT_LIMIT:
        return False
    try:
        result = _on_meta(func, operator, args, kwargs)
    except (NotImplementedError, RuntimeError):  # the real run says it better
        return False
    results = result if isinstance(result, (list, tuple)) else [result]
    return any(isinstance(r, torch.Tensor) and without_values(r.shape, r.dtype, slack=4) for r in results)


def _on_meta(func: Any, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    named = {k: _shape_only(v) for k, v in kwargs.items()}
    if operator.has_generator:
        named["generator"] = None
    if operator.has_device and named.get("device") is not None:
        named["device"] = META
    plain = tuple(_shape_only(a) for a in args)
    if not operator.writes and not operator.view:
        result = shapes.quick(func, plain, named)
        if result is not NotImplemented:
            return result
    with light_compiler.standing_in():
        return func(*plain, **named)


def _on_shapes(func: Any, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Compute the shapes of the results; where they depend on values, compute them from zeros."""
    try:
        return _on_meta(func, operator, args, kwargs)
    except (NotImplementedError, RuntimeError) as error:
        if not isinstance(error, NotImplementedError) and not _needs_values(error):
            raise
    try:
        return func(*(_some_values(a) for a in args), **{k: _some_values(v) for k, v in kwargs.items()})
    except (NotImplementedError, RuntimeError) as error:
        limit = f"limit of the virtual device: {operator.name}: {str(error).splitlines()[0]}"
        session.virtual(limit)
        setattr(error, SUSPECT, limit)
        raise


def _needs_values(error: Exception) -> bool:
    text = str(error)
    return any(words in text for words in ("meta", "data-dependent", "data dependent", "dynamic"))


def _wrap(
    result: Any, written: dict[int, torch.Tensor], memory: Memory | None, tainted: bool, place: torch.device
) -> Any:
    if isinstance(result, (list, tuple)):
        return type(result)(_wrap(item, written, memory, tainted, place) for item in result)
    if not isinstance(result, torch.Tensor) or isinstance(result, VirtualTensor):
        return result
    if id(result) in written:
        return written[id(result)]
    if memory is None and not result.is_meta and without_values(result.shape, result.dtype, slack=4):
        result = result.to(META)
    if place == CPU and not tainted and not result.is_meta:
        return result
    return VirtualTensor(result, memory or Memory(tainted), place)


def _sense(operator: Operator, virtual: list[VirtualTensor]) -> bool | None:
    if operator.sense is not None:
        return operator.sense
    senses = {t.sense for t in virtual if t.sense is not None}
    if len(senses) != 1:
        return None
    if operator.keeps:
        return senses.pop()
    return not senses.pop() if operator.flips else None


# --------------------------------------------------------------------------------------------------------
# Operators that answer Python values


def _local_scalar_dense(tensor: VirtualTensor) -> Any:
    """A plain number for PyTorch's own use: 1 where there is no value."""
    return 1 if tensor.payload.is_meta else tensor.payload.item()


def _agreement(func: Any) -> Callable[..., bool]:
    def compare(left: torch.Tensor, right: torch.Tensor, *args: Any, **kwargs: Any) -> bool:
        from . import compare as comparisons

        pair = [t for t in (left, right) if isinstance(t, VirtualTensor)]
        if any(t.tainted for t in pair):
            comparisons.made_up(f"torch.{func._schema.name.removeprefix('aten::')}", left, right)
            return left.shape == right.shape or func is not aten.equal.default
        return func(payload(left), payload(right), *args, **kwargs)

    return compare


def _is_same_size(left: torch.Tensor, right: torch.Tensor) -> bool:
    return left.shape == right.shape


def _fresh(kind: str) -> Callable[..., VirtualTensor]:
    """`torch.empty` and its kin with `device="cuda"`."""

    def make(*args: Any, dtype: Any = None, layout: Any = None, device: Any = None, **kwargs: Any) -> VirtualTensor:
        kwargs.pop("pin_memory", None)
        target = META if without_values(args[0], dtype) else CPU
        made = getattr(torch, kind)(*args, dtype=dtype, device=target, **kwargs)
        return VirtualTensor(poisoned(made), Memory(False))

    return make


SPECIAL: dict[Any, Callable[..., Any]] = {
    aten._local_scalar_dense.default: _local_scalar_dense,
    aten.allclose.default: _agreement(aten.allclose.default),
    aten.equal.default: _agreement(aten.equal.default),
    aten.is_same_size.default: _is_same_size,
}


def register_factories() -> torch.library.Library:
    """Answer PyTorch's own allocations on the `cuda` backend. Keep the library: they end with it."""
    library = torch.library.Library("aten", "IMPL", "CUDA")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a build with CUDA has kernels for these; they are replaced on purpose
        library.impl("empty.memory_format", _fresh("empty"))
        library.impl("empty_strided", _fresh("empty_strided"))
    return library


__all__ = ["describe", "dispatch", "host", "is_cuda", "register_factories", "tensors_in"]
