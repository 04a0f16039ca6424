"""`device="cuda"` for PyTorch's own functions: allocation, moves, generators, the default device."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.utils._device

from . import light_compiler, operators, session
from .tensors import CPU, DEVICE, VirtualTensor, adopt, is_cuda, take_device

_kept: list[Any] = []

#: functions that take a device as a number too; PyTorch resolves that before anything is dispatched
NUMBERED = (
    *("empty", "empty_like", "empty_strided", "zeros", "zeros_like", "ones", "ones_like", "full", "full_like"),
    *("rand", "rand_like", "randn", "randn_like", "randint", "randint_like", "randperm", "normal", "arange"),
    *("linspace", "logspace", "eye", "tril_indices", "triu_indices", "scalar_tensor"),
)


def install() -> None:
    torch.utils._device._device_constructors()  # remembers PyTorch's own functions, which are wrapped below
    _kept.append(operators.register_factories())
    light_compiler.answer_for_distributed(lambda: adopt(torch.ones(1)) + 1)
    torch.Tensor.to = _moving(torch.Tensor.to)  # type: ignore[method-assign, assignment]
    torch.Tensor.cuda = _to_cuda  # type: ignore[method-assign, assignment]
    torch.Tensor.pin_memory = _pin_memory  # type: ignore[method-assign, assignment]
    for name in ("tensor", "as_tensor", "asarray", "sparse_coo_tensor", "sparse_csr_tensor"):
        setattr(torch, name, _placing(getattr(torch, name)))
    for name in NUMBERED:
        setattr(torch, name, _numbering(getattr(torch, name)))
    torch.autograd.profiler.profile.__init__ = _profiling(torch.autograd.profiler.profile.__init__)  # type: ignore[method-assign]
    torch.Generator = Generator  # type: ignore[misc]
    torch.compile = _compile  # type: ignore[assignment]
    torch.load = _loading(torch.load)
    torch.version.cuda = torch.version.cuda or "12.8"
    _default_device()


def tell_of_arrays() -> None:
    """Have the script's own arithmetic on arrays told, as far as they come of tensors."""
    original = torch.Tensor.numpy

    @functools.wraps(original)
    def numpy(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        from . import arrays

        array = original(self, *args, **kwargs)
        return arrays.telling(array) if session.is_asked_by_user() else array

    torch.Tensor.numpy = numpy  # type: ignore[method-assign]


def indexed(device: Any) -> Any:
    """`cuda` with its index: PyTorch asks a device guard for a missing one, and a CPU build has none."""
    return DEVICE if is_cuda(device) else device


def _moving(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def to(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        if args and isinstance(args[0], VirtualTensor):
            kwargs = {"dtype": args[0].dtype, **kwargs}
            args = (args[0].device, *args[1:])
        if args and args[0] is None:
            return original(self, *args, **kwargs)
        device, rest, named = take_device(args, kwargs)
        if device is None or not is_cuda(device):
            return original(self, *args, **kwargs)
        if not self.is_floating_point() and rest and isinstance(rest[0], bool):
            named = {"non_blocking": rest[0], **named}
            rest = rest[1:]
        return original(self, DEVICE, *rest, **named)

    return to


def _to_cuda(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    return self.to(DEVICE)


def _pin_memory(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    return self


def _placing(original: Callable[..., Any]) -> Callable[..., Any]:
    """`torch.tensor` and its kin: made on the CPU and moved, because PyTorch's own move inside them is not dispatched."""
    copies = original is torch.tensor

    @functools.wraps(original)
    def make(data: Any, *args: Any, **kwargs: Any) -> Any:
        device = kwargs.pop("device", None)
        if device is None and not isinstance(data, torch.Tensor):
            device = torch.empty(0).device  # `torch.get_default_device` calls this function
        kwargs.pop("pin_memory", None)
        if isinstance(data, VirtualTensor):  # no copy through numbers: there may be none
            moved = data.to(device or data.device, dtype=kwargs.get("dtype", data.dtype))
            return moved.detach().clone() if copies else moved
        if not is_cuda(device):
            return original(data, *args, **kwargs, **({} if device is None else {"device": device}))
        gradient = kwargs.pop("requires_grad", False)
        made = original(data, *args, **kwargs, device=CPU).to(DEVICE)
        return made.requires_grad_() if gradient else made

    return make


def _numbering(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def make(*args: Any, **kwargs: Any) -> Any:
        if type(kwargs.get("device")) is int:
            kwargs["device"] = DEVICE
        return original(*args, **kwargs)

    return make


class Generator(torch._C.Generator):
    """A generator of the CPU that goes by the name of any device."""

    def __new__(cls, device: Any = "cpu") -> Generator:
        return super().__new__(cls, CPU if is_cuda(device) else device)


def _compile(model: Any = None, *args: Any, **kwargs: Any) -> Any:
    """`torch.compile`: eager, because a compiled function would bypass the virtual device."""
    session.virtual("torch.compile")
    if model is None:
        return lambda function: function
    return model


def _profiling(original: Callable[..., Any]) -> Callable[..., Any]:
    """`torch.profiler`: there is no device to profile."""

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        session.virtual("torch.profiler")
        original(self, *args, **{**kwargs, "use_cuda": False, "use_device": None, "use_cpu": True})

    return init


def _loading(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def load(file: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        if map_location is None or is_cuda(map_location):
            map_location = CPU
        return original(file, map_location, *args, **kwargs)

    return load


def _default_device() -> None:
    """`set_default_device("cuda")` and `with torch.device("cuda")` name the device with its index."""
    context = torch.utils._device.DeviceContext
    original = context.__init__

    @functools.wraps(original)
    def init(self: Any, device: Any) -> None:
        original(self, indexed(torch.device(device)))

    context.__init__ = init  # type: ignore[method-assign]
