"""Memory of a kernel: values, which of them were written, and copies for every lane where threads have their own.

Lanes are the axes of threads and of parallel loops. Axis 0, the one entered first, is the last dimension of an array, and
every axis entered later is one more dimension on the left; so values of different depth broadcast as numpy does it.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from .dtypes import poisoned


class Storage:
    """What one pointer points at. `values` has the shape of the lanes followed by the shape of the buffer.

    `private` memory (registers) starts without lanes and gets one copy per lane when lanes write different values.
    `written` is None once everything was written.
    """

    __slots__ = ("lanes", "name", "private", "scope", "shape", "spilled", "values", "written")

    def __init__(self, name: str, scope: str, values: np.ndarray, written: np.ndarray | None, private: bool) -> None:
        self.name, self.scope, self.private = name, scope, private
        self.values, self.written = values, written
        self.shape = values.shape
        self.lanes: tuple[int, ...] = ()
        #: what was written beside a fragment, by the indices of the program
        self.spilled: dict[tuple[int, ...], Any] = {}

    @classmethod
    def fresh(cls, name: str, scope: str, shape: tuple[int, ...], dtype: np.dtype, private: bool) -> Storage:
        return cls(name, scope, poisoned(shape, dtype), np.zeros(shape, np.bool_), private)

    def view(self, shape: tuple[int, ...], dtype: np.dtype) -> tuple[np.ndarray, np.ndarray | None]:
        """Values and written-mask as a buffer of another shape or type sees them."""
        if self.shape == shape and self.values.dtype == dtype:
            return self.values, self.written
        if self.values.dtype.itemsize != dtype.itemsize:
            self.written = None  # one mask cannot be seen through two sizes of elements
        values = self.values.reshape(*self.lanes, -1)
        values = values.view(dtype) if values.dtype != dtype else values
        count = math.prod(shape)
        values = values[..., :count].reshape(*self.lanes, *shape)
        written = self.written
        if written is not None:
            written = written.reshape(*self.lanes, -1)[..., :count].reshape(*self.lanes, *shape)
        return values, written

    def expand(self, lanes: tuple[int, ...]) -> None:
        """One copy for each lane; `lanes` broadcasts against those there are."""
        now = np.broadcast_shapes(self.lanes, lanes)
        if now != self.lanes:
            missing = (1,) * (len(now) - len(self.lanes))
            self.values = np.broadcast_to(self.values.reshape(missing + self.values.shape), now + self.shape).copy()
            if self.written is not None:
                self.written = np.broadcast_to(
                    self.written.reshape(missing + self.written.shape), now + self.shape
                ).copy()
            self.lanes = now

    def collapse(self, depth: int) -> None:
        """Forget the lanes of axes that were left: what the last of them wrote stays."""
        while len(self.lanes) > depth:
            self.values = np.ascontiguousarray(self.values[-1])
            self.written = None if self.written is None else np.ascontiguousarray(self.written[-1])
            self.lanes = self.lanes[1:]


@functools.lru_cache(maxsize=4096)
def lane(axis: int, extent: int) -> np.ndarray:
    """The numbers of the lanes of an axis, as int32."""
    numbers = np.arange(extent, dtype=np.int32).reshape((extent,) + (1,) * axis)
    numbers.flags.writeable = False
    return numbers


@functools.lru_cache(maxsize=4096)
def arrangement(axes: tuple[int, ...]) -> tuple[tuple[int, ...] | None, tuple[Any, ...] | None]:
    """How dimensions that belong to `axes` become dimensions of lanes: a permutation and a key that adds missing ones."""
    order = tuple(sorted(range(len(axes)), key=lambda dimension: -axes[dimension]))
    present = [axes[dimension] for dimension in order]
    depth = present[0] + 1 if present else 0
    key = tuple(slice(None) if axis in present else None for axis in reversed(range(depth)))
    permutation = None if order == tuple(range(len(axes))) else order
    return permutation, key if None in key else None


def arranged(array: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    permutation, key = arrangement(axes)
    if permutation is not None:
        array = array.transpose(permutation)
    return array[key] if key is not None else array


def fits(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    """Whether an array of `shape` broadcasts to `target` without making it larger."""
    if len(shape) > len(target):
        return False
    return all(a == 1 or a == b for a, b in zip(reversed(shape), reversed(target), strict=False))
