"""Tensors of the virtual device: values on the CPU, or none at all, and a mark on what a virtual launch made up.

A `VirtualTensor` stands for a tensor on `cuda:0`. Its `payload` is a plain CPU tensor while it is small, or a meta
tensor (shape and dtype, no values) once it is large, so that a PyTorch reference at the script's own size costs
nothing. PyTorch dispatches every operator on it to `operators.dispatch`, in every thread and inside autograd.
CPU tensors of the script stay plain tensors and are never touched.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch

DEVICE = torch.device("cuda", 0)
CPU = torch.device("cpu")
META = torch.device("meta")

#: floating-point tensors above this many elements carry no values
FLOAT_LIMIT = 1 << 16
#: integer and boolean tensors are kept longer: scripts take sizes, offsets and indices from them
INTEGER_LIMIT = 1 << 22
#: … and where launches are computed, any below this
COMPUTED_LIMIT = 1 << 26
#: where no values are left but some are needed, this many zeros are made up at most
ZEROS_LIMIT = 1 << 26

#: on a plain CPU tensor that a made-up value was copied into
MARK = "_triage_made_up"


class Memory:
    """What all views of one allocation share: whether a virtual launch, or what follows from one, wrote to it."""

    __slots__ = ("tainted",)

    def __init__(self, tainted: bool) -> None:
        self.tainted = tainted


class VirtualTensor(torch.Tensor):
    """A tensor of the virtual device.

    `place` is the device the script sees: `cuda:0`, or `cpu` for a host copy whose values are made up.
    `tainted` says that the values are made up, so that no comparison with them says anything.
    """

    payload: torch.Tensor
    memory: Memory
    place: torch.device
    #: the truth a made-up boolean stands for: True for "these agree", False for "these differ", None unknown
    sense: bool | None
    #: the shape itself depends on made-up values, and says nothing
    guessed: bool

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(
        cls: type[VirtualTensor], payload: torch.Tensor, memory: Memory, place: torch.device = DEVICE
    ) -> VirtualTensor:
        # In C++ the device is `meta`: a build of PyTorch without CUDA has no device guard for `cuda`, and autograd
        # asks for one. Seen from Python it is `place`.
        self = torch.Tensor._make_wrapper_subclass(
            cls,
            payload.shape,
            strides=payload.stride(),
            storage_offset=payload.storage_offset(),
            dtype=payload.dtype,
            device=META,
        )
        self.payload = payload
        self.memory = memory
        self.place = place
        self.sense = None
        self.guessed = False
        return self

    @property
    def tainted(self) -> bool:
        return self.memory.tainted or self.payload.is_meta

    @classmethod
    def __torch_dispatch__(
        cls, func: Any, types: Iterable[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        from . import operators

        if not torch.is_inference_mode_enabled():
            return operators.dispatch(func, args, kwargs or {})
        with torch.inference_mode(False):  # views of a wrapper made in inference mode cannot be told what they view
            return operators.dispatch(func, args, kwargs or {})

    # Of a list or an array as index, C++ makes a tensor on the device of the wrapper, `meta`, and its values would be lost.

    def __getitem__(self, key: Any) -> Any:
        return torch.Tensor.__getitem__(self, _with_values(key))

    def __setitem__(self, key: Any, value: Any) -> None:
        torch.Tensor.__setitem__(self, _with_values(key), value)

    # What the script may ask about the device.

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return self.place

    @property
    def is_cuda(self) -> bool:  # type: ignore[override]
        return self.place.type == "cuda"

    @property
    def is_cpu(self) -> bool:  # type: ignore[override]
        return self.place.type == "cpu"

    @property
    def is_meta(self) -> bool:  # type: ignore[override]
        return False

    def get_device(self) -> int:
        return 0 if self.is_cuda else -1

    def is_pinned(self, *args: Any, **kwargs: Any) -> bool:
        return False

    def pin_memory(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        return self

    def record_stream(self, stream: Any) -> None:
        return None

    def is_shared(self) -> bool:
        return self.is_cuda

    def data_ptr(self) -> int:
        """An address that identifies the memory; nothing may read it."""
        if not self.payload.numel():
            return 0
        offset = self.payload.storage_offset() * self.payload.element_size()
        return (id(self.memory) & ~0xFF) + offset

    def to(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        """As `torch.Tensor.to`; a move to where the tensor already is copies nothing."""
        if args and isinstance(args[0], torch.Tensor):
            kwargs.setdefault("dtype", args[0].dtype)
            args = (args[0].device, *args[1:])
        device, args, kwargs = take_device(args, kwargs)
        if device is None or same_place(device, self.place):
            return super().to(*args, **kwargs) if args or kwargs else self
        return super().to(host(device) if not is_cuda(device) else DEVICE, *args, **kwargs)

    def cuda(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        return self.to(DEVICE)

    def cpu(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        return self.to(CPU)

    def __deepcopy__(self, memo: dict[int, Any]) -> torch.Tensor:
        copy = memo[id(self)] = self.detach().clone().requires_grad_(self.requires_grad)
        return copy

    def new_tensor(self, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Any:
        """A new tensor with the values of `data`; PyTorch itself would make it where the wrapper is, without any."""
        place = self.place if device is None else DEVICE if is_cuda(device) else torch.device(device)
        payload = torch.tensor(data, dtype=dtype or self.dtype, device=host(place))
        fresh = adopt(payload, tainted=is_tainted(data), place=place) if is_cuda(place) else payload
        return fresh.requires_grad_(requires_grad)

    def numpy(self, *, force: bool = False) -> Any:
        from . import arrays

        if self.is_cuda and not force:
            raise TypeError(
                "can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first."
            )
        return arrays.from_tensor(self)

    def __array__(self, dtype: Any = None) -> Any:
        return self.numpy() if dtype is None else self.numpy().astype(dtype)

    def item(self) -> Any:
        from . import scalars

        return scalars.of(self)

    def tolist(self) -> Any:
        from . import scalars

        return scalars.nested(self)

    def __bool__(self) -> bool:
        from . import truth

        return truth.of_tensor(self)

    def __int__(self) -> int:
        return int(self.item())

    def __index__(self) -> int:
        return self.item().__index__()

    def __float__(self) -> float:
        return float(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __format__(self, spec: str) -> str:
        if self.dim() == 0 and not self.tainted:
            return format(self.payload.item(), spec)
        return format(self.item(), spec) if self.dim() == 0 and spec else repr(self)

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        if self.payload.is_meta:
            return f"tensor(<virtual>, device='{self.place}', size={tuple(self.shape)}, dtype={self.dtype})"
        text = repr(self.payload)
        made_up = ", <virtual>" if self.tainted else ""
        return f"{text[:-1]}, device='{self.place}'{made_up})"

    def __reduce_ex__(self, protocol: Any) -> Any:
        values = self.payload if not self.payload.is_meta else torch.zeros(1, dtype=self.dtype).expand(self.shape)
        return values.__reduce_ex__(protocol)


def _with_values(key: Any) -> Any:
    """An index in which lists, ranges and arrays of numbers are tensors of the host."""
    if isinstance(key, tuple):
        return tuple(map(_with_values, key))
    numbers = isinstance(key, (list, range)) and key and all(isinstance(one, (int, list)) for one in key)
    if not numbers and not (type(key).__module__ == "numpy" and getattr(key, "ndim", 0)):
        return key
    try:
        return torch.as_tensor(list(key) if isinstance(key, range) else key)
    except (TypeError, ValueError, RuntimeError):  # PyTorch says it itself
        return key


def adopt(payload: torch.Tensor, tainted: bool = False, place: torch.device = DEVICE) -> VirtualTensor:
    """Put a fresh plain tensor on the virtual device."""
    return VirtualTensor(payload, Memory(tainted), place)


def is_tainted(value: Any) -> bool:
    """Whether a tensor's values are made up, or are computed from made-up ones."""
    if isinstance(value, VirtualTensor):
        return value.tainted
    return isinstance(value, torch.Tensor) and getattr(value, MARK, False)


def taint(value: Any) -> None:
    """Have the values of a tensor count as made up from here on; anything else stays as it is."""
    if isinstance(value, VirtualTensor):
        value.memory.tainted = True
    elif isinstance(value, torch.Tensor):
        setattr(value, MARK, True)


def is_guessed(value: Any) -> bool:
    """Whether even the shape of a tensor is made up."""
    return isinstance(value, VirtualTensor) and value.guessed


def is_cuda(device: Any) -> bool:
    """Whether a `device=` argument (a `torch.device`, a string or an index) means the virtual device."""
    if isinstance(device, torch.device):
        return device.type == "cuda"
    if isinstance(device, str):
        return device == "cuda" or device.startswith("cuda:")
    return isinstance(device, int) and not isinstance(device, bool)


def same_place(device: Any, place: torch.device) -> bool:
    return is_cuda(device) if place.type == "cuda" else torch.device(device).type == place.type


def host(device: Any) -> Any:
    """Where the payload lives for a `device=` argument."""
    return CPU if is_cuda(device) else device


def take_device(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Split the device off the arguments of `Tensor.to`."""
    if args and isinstance(args[0], (str, torch.device, int)) and not isinstance(args[0], bool):
        return args[0], args[1:], kwargs
    if args and args[0] is None:
        args = args[1:]
    kwargs = dict(kwargs)
    return kwargs.pop("device", None), args, kwargs


def without_values(shape: Iterable[int], dtype: torch.dtype | None, slack: int = 1) -> bool:
    """Whether a tensor of this size is kept as shape and dtype only."""
    dtype = dtype or torch.get_default_dtype()
    if _computed:
        return math.prod(shape) > COMPUTED_LIMIT
    limit = FLOAT_LIMIT if dtype.is_floating_point or dtype.is_complex else INTEGER_LIMIT
    return math.prod(shape) > slack * limit


_computed = False


def compute_values() -> None:
    """From now on launches are computed: tensors carry values up to a larger size, and what nobody wrote is poison."""
    global _computed
    _computed = True


def poisoned(tensor: torch.Tensor) -> torch.Tensor:
    """Fresh memory: where launches are computed, filled with what no author expects, else as it is."""
    if not _computed or tensor.is_meta:
        return tensor
    if (
        tensor.element_size() == 1 and tensor.dtype != torch.bool
    ):  # 0x7f is NaN in the types of eight bits that TileLang takes
        tensor.view(torch.uint8).fill_(0x7F)
        return tensor
    if tensor.is_floating_point() or tensor.is_complex():
        return tensor.fill_(math.nan)
    return tensor if tensor.dtype == torch.bool else tensor.fill_(torch.iinfo(tensor.dtype).max)


def values(tensor: torch.Tensor) -> torch.Tensor:
    """The payload, or zeros (ones for booleans) in its place; one element stands for all of a very large tensor."""
    payload = tensor.payload if isinstance(tensor, VirtualTensor) else tensor
    if not payload.is_meta:
        return payload
    large = payload.numel() > ZEROS_LIMIT
    made = torch.zeros([1] * payload.dim() if large else payload.shape, dtype=payload.dtype)
    if payload.dtype == torch.bool:
        made.logical_not_()
    return made.expand(payload.shape) if large else made
