"""The shadows of a process, by the memory that they belong to."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from .measure import History
from .values import Unknown, covers, elements, fingerprint, is_float, memory_of, plain, significand, wide

#: bytes of all shadows that are alive, on a CPU; on a GPU they may have a part of what is free there
LIMIT = 1 << 30
PART_OF_GPU = 4
#: shadows of memory that is gone are looked for when as many bytes came anew
SWEEP = 64 << 20


@dataclass
class Memory:
    """The shadow of one allocation: as many elements as it holds in `dtype`, or None where they are unknown (`why`).

    `digits`: significant bits of the narrowest type that its values come from. `fingerprint` is of the bytes that belong to it,
    `maker` the number of the operator that wrote them last.
    """

    weak: StorageWeakRef
    address: int
    dtype: torch.dtype
    flat: torch.Tensor | None
    digits: float
    fingerprint: int | None
    why: str = ""
    maker: int | None = None
    history: History = field(default_factory=History)

    @property
    def bytes(self) -> int:
        return self.flat.numel() * self.flat.element_size() if self.flat is not None else 0

    def part(self, value: torch.Tensor) -> torch.Tensor:
        """The shadow of a tensor that lies in this memory. Raises `Unknown`."""
        if self.flat is None:
            raise Unknown(self.why)
        flat = self.flat
        if self.dtype != value.dtype:
            if _real(self.dtype) != _real(value.dtype):
                raise Unknown(f"memory of {self.dtype} is read as {value.dtype}")
            flat = flat.view(wide(value.dtype))
        if flat.numel() != elements(value):
            raise Unknown("the memory was resized")
        part = flat.as_strided(value.shape, value.stride(), value.storage_offset())
        part = part.conj() if value.is_conj() else part
        return part._neg_view() if value.is_neg() else part

    def wrote(self, value: torch.Tensor, maker: int | None) -> None:
        """The script and its shadow have written a tensor in this memory."""
        self.fingerprint = fingerprint(value)
        self.maker = maker


def _real(dtype: torch.dtype) -> tuple[bool, int]:
    """What a real type and the complex type made of two of it share."""
    return dtype in (torch.float32, torch.float64, torch.complex64, torch.complex128), (
        dtype.itemsize // 2 if dtype.is_complex else dtype.itemsize
    )


class Memories:
    """All memory that is no leaf. `limit` in bytes; None for what the device allows."""

    def __init__(self, limit: int | None, virtual: bool) -> None:
        self._limit = limit
        self._virtual = virtual
        self._known: dict[int, Memory] = {}
        self._bytes = 0
        self._sweep_at = SWEEP

    def of(self, tensor: torch.Tensor) -> Memory | None:
        """What is known of a tensor's memory, None for a leaf. What somebody wrote unseen is one from now on."""
        try:
            memory = self._known.get(memory_of(tensor))
        except Unknown:
            return None
        if memory is not None and memory.fingerprint not in (None, fingerprint(plain(tensor))):
            self.drop(tensor)
            return None
        return memory

    def of_array(self, tensor: torch.Tensor) -> Memory | None:
        """The memory that a NumPy array looks at, which is a tensor of its own here."""
        address = tensor.untyped_storage().data_ptr()
        for memory in self._known.values():
            if memory.address == address and address and not memory.weak.expired() and memory.dtype == tensor.dtype:
                return memory if memory.fingerprint == fingerprint(tensor) else None
        return None

    def shadow(self, tensor: torch.Tensor) -> torch.Tensor:
        """The shadow of a tensor, and of ints and bools themselves. Raises `Unknown`."""
        value = plain(tensor)
        if not is_float(value):
            return value
        memory = self.of(value)
        return value.to(wide(value.dtype)) if memory is None else memory.part(value)

    def digits(self, tensor: torch.Tensor) -> float:
        memory = self._known.get(memory_of(tensor))
        return significand(tensor.dtype) if memory is None else memory.digits

    # -------------------------------------------------------------------------------------------------- changing

    def begin(self, tensor: torch.Tensor) -> None:
        """Give a leaf that is about to be changed a shadow of what it holds now. Raises `Unknown`."""
        value = plain(tensor)
        if self.of(value) is not None:
            return
        count = elements(value)
        self.make_room(count * wide(value.dtype).itemsize)
        whole = value.as_strided((count,), (1,), 0)
        self._put(value, whole.to(wide(value.dtype), copy=True), significand(value.dtype))

    def add(self, tensor: torch.Tensor, shadow: torch.Tensor, digits: float, others: frozenset[int]) -> Memory:
        """Keep the shadow of a new tensor; `others` is memory that is not to be shared with it."""
        value = plain(tensor)
        count = elements(value)
        shadow = shadow.to(wide(value.dtype)).resolve_conj().resolve_neg()
        storage = shadow.untyped_storage()
        alone = storage.nbytes() == count * shadow.element_size() and storage._cdata not in others
        if alone and shadow.storage_offset() == value.storage_offset() == 0 and shadow.stride() == value.stride():
            flat = shadow.as_strided((count,), (1,), 0)
        else:
            flat = torch.empty(count, dtype=shadow.dtype, device=shadow.device)
            flat.as_strided(value.shape, value.stride(), value.storage_offset()).copy_(shadow)
        return self._put(value, flat, digits)

    def refresh(self, tensor: torch.Tensor) -> None:
        """What was written here is what it is: the shadow holds the values themselves."""
        value = plain(tensor)
        memory = self._known.get(memory_of(value))
        if memory is not None and memory.flat is not None and is_float(value):
            memory.part(value).copy_(value)
            memory.wrote(value, None)
        elif memory is not None and covers(value):
            self.drop(value)

    def written(self, tensor: torch.Tensor) -> Memory | None:
        """The memory of a tensor that an operator has just written; None where no shadow was written, too."""
        memory = self._known.get(memory_of(tensor))
        if not is_float(tensor):
            self.drop(tensor)
            return None
        return None if memory is None or memory.flat is None else memory

    def lose(self, tensor: torch.Tensor, why: str) -> None:
        """From now on nothing is known of a tensor's memory."""
        with contextlib.suppress(Unknown):
            value = plain(tensor)
            self.drop(value)
            if is_float(value):
                self._put(value, None, 0.0, why)

    def drop(self, tensor: torch.Tensor) -> None:
        """From now on a tensor's memory is a leaf."""
        with contextlib.suppress(Unknown):
            self._forget(memory_of(tensor))

    def _put(self, value: torch.Tensor, flat: torch.Tensor | None, digits: float, why: str = "") -> Memory:
        storage: Any = value.untyped_storage()
        self._forget(storage._cdata)
        mark = fingerprint(value) if flat is not None else None
        memory = Memory(StorageWeakRef(storage), storage.data_ptr(), value.dtype, flat, digits, mark, why)
        self._known[storage._cdata] = memory
        self._bytes += memory.bytes
        return memory

    def _forget(self, key: int) -> None:
        memory = self._known.pop(key, None)
        self._bytes -= memory.bytes if memory is not None else 0

    # --------------------------------------------------------------------------------------------------- limiting

    def make_room(self, more: int) -> None:
        """Raises `Unknown` where so many bytes more are above the limit."""
        if self._bytes + more > min(self._sweep_at, self._limit or LIMIT):
            for key in [key for key, memory in self._known.items() if memory.weak.expired()]:
                self._forget(key)
            self._sweep_at = self._bytes + SWEEP
        if self._bytes + more > (self._limit or LIMIT) and self._bytes + more > self._room():
            raise Unknown(f"shadows of more than {self._room() >> 20} MiB")

    def _room(self) -> int:
        """Bytes that all shadows may have."""
        if self._limit or self._virtual or not torch.cuda.is_initialized():
            return self._limit or LIMIT
        return (self._bytes + int(torch.cuda.mem_get_info()[0])) // PART_OF_GPU
