"""Expressions of TIR as closures of a frame."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from . import arithmetic
from .access import Access, Base, BufferView
from .arithmetic import Closure, Value
from .dtypes import cast, constant, is_float, numpy_dtype, plain
from .frame import Frame
from .outcome import Place, Unsupported

BINARY = ("Add", "Sub", "Mul", "Div", "Mod", "FloorDiv", "FloorMod", "Min", "Max", "EQ", "NE", "LT", "LE", "GT", "GE")
#: operators that only tell the compiler something about their argument
TRANSPARENT = ("likely", "assume_value")


def kind(node: Any) -> str:
    return type(node).__name__


def op_name(call: Any) -> str:
    """The full name of a called operator, as `tl.tileop.copy`."""
    return str(getattr(call.op, "name", None) or getattr(call.op, "name_hint", None) or call.op)


class UnknownVariable(Unsupported):
    """A variable that nothing has bound (yet)."""


class Expressions:
    """Compiles expressions; knows variables, buffers and which variables are lanes."""

    def __init__(self) -> None:
        self.slots: dict[Any, int] = {}
        #: lane variables and their axes
        self.lanes: dict[Any, int] = {}
        self.depth = 0
        self.thread_axes = 0
        #: extents of the thread axes, and the position of each in the linear thread index
        self.thread_extents: tuple[int, ...] = ()
        self.views: dict[Any, BufferView] = {}
        self.memories: dict[Any, int] = {}
        self.place: Place | None = None
        #: bindings written before what they need; they are computed where they are used
        self.deferred: dict[Any, Any] = {}
        #: what reads beside a buffer give, by memory, where the program says so
        self.safe_values: dict[int, Closure] = {}
        self._analyzer: Any = None

    # ------------------------------------------------------------------------------------- declarations

    def slot(self, variable: Any) -> int:
        return self.slots.setdefault(variable, len(self.slots))

    def view(self, buffer: Any) -> BufferView:
        known = self.views.get(buffer)
        if known is None:
            known = self.views[buffer] = self._view(buffer)
        return known

    def memory(self, pointer: Any) -> int:
        return self.memories.setdefault(pointer, len(self.memories))

    def _view(self, buffer: Any) -> BufferView:
        if kind(buffer.elem_offset) == "IntImm" and int(buffer.elem_offset.value) != 0:
            raise Unsupported("buffer with an offset", self.place)
        dtype = numpy_dtype(str(buffer.dtype))
        return BufferView(
            str(buffer.name), self.memory(buffer.data), self.shape(buffer.shape), dtype, str(buffer.scope())
        )

    def shape(self, extents: Any) -> tuple[int, ...] | Callable[[Frame], tuple[int, ...]]:
        if all(kind(extent) == "IntImm" for extent in extents):
            return tuple(int(extent.value) for extent in extents)
        sizes = [self.number(extent) for extent in extents]
        return lambda frame: tuple(size if type(size) is int else int(size(frame)) for size in sizes)  # type: ignore[operator]

    # ---------------------------------------------------------------------------------------- indices

    def number(self, node: Any) -> Base:
        """An integer expression: a number where it is constant, else a closure."""
        if isinstance(node, int):
            return node
        if kind(node) == "IntImm":
            return int(node.value)
        return self.value(node)

    def access(self, buffer: Any, indices: Any) -> Access:
        bases, axes, coefficients = [], [], []
        for dimension, index in enumerate(indices):
            index = self.from_the_end(index, buffer.shape[dimension])
            base, axis, coefficient = self.index(index)
            if axis is not None and axis in axes:  # a diagonal is no slice
                base, axis, coefficient = self.value(index), None, 1
            bases.append(base)
            axes.append(axis)
            coefficients.append(coefficient)
        view = self.view(buffer)
        return Access(view, bases, axes, coefficients, self.thread_axes, self.safe_values.get(view.memory))

    def from_the_end(self, index: Any, extent: Any) -> Any:
        """An index that is negative for certain counts from the end, as the compiler has it; any other stays as it is."""
        if isinstance(index, int) or not _may_be_negative(index):
            return index
        return index + extent if self.analyzer().can_prove(index < 0) else index

    def analyzer(self) -> Any:
        """What is known of the ranges of loop variables."""
        if self._analyzer is None:
            self._analyzer = sys.modules["tvm"].arith.Analyzer()
        return self._analyzer

    def bind_range(self, variable: Any, smallest: Any, extent: Any) -> None:
        between = sys.modules["tvm"].ir.Range.from_min_extent(smallest, extent)
        self.analyzer().bind(variable, between, allow_override=True)

    def index(self, node: Any) -> tuple[Base, int | None, int]:
        """An index as base, lane axis and coefficient."""
        form = self._linear(node)
        if form is None or len(form[0]) > 1:
            return self.value(node), None, 1
        terms, base = form
        for axis, coefficient in terms.items():
            if coefficient > 0:
                return base, axis, coefficient
            return self.value(node), None, 1
        return base, None, 1

    def _linear(self, node: Any) -> tuple[dict[int, int], Base] | None:
        """Coefficients of lane axes, and the rest; None where lanes enter in another way."""
        name = kind(node)
        if node in self.lanes if name == "Var" else False:
            return {self.lanes[node]: 1}, 0
        if not self._has_lanes(node):
            return {}, self.number(node)
        if name in ("Add", "Sub"):
            a, b = self._linear(node.a), self._linear(node.b)
            if a is None or b is None:
                return None
            sign = 1 if name == "Add" else -1
            terms = dict(a[0])
            for axis, coefficient in b[0].items():
                terms[axis] = terms.get(axis, 0) + sign * coefficient
            return {axis: c for axis, c in terms.items() if c}, _sum(a[1], b[1], sign)
        if name == "Mul":
            for factor, other in ((node.a, node.b), (node.b, node.a)):
                inner = self._linear(other) if kind(factor) == "IntImm" else None
                if inner is not None:
                    scale = int(factor.value)
                    return {axis: c * scale for axis, c in inner[0].items() if c * scale}, _scaled(inner[1], scale)
        if name == "Cast" and str(node.dtype) in ("int32", "int64") and str(node.value.dtype) in ("int32", "int64"):
            return self._linear(node.value)
        return None

    def _has_lanes(self, node: Any) -> bool:
        name = kind(node)
        if name == "Var":
            return node in self.lanes
        return any(self._has_lanes(child) for child in children(node))

    # ----------------------------------------------------------------------------------------- values

    def value(self, node: Any) -> Closure:
        name = kind(node)
        if name in ("IntImm", "FloatImm"):
            number = constant(node.value, numpy_dtype(str(node.dtype)))
            return lambda frame: number
        if name in ("Var", "SizeVar"):
            return self._variable(node)
        if name == "BufferLoad":
            return self.access(node.buffer, node.indices).load
        if name in BINARY:
            dtype = numpy_dtype(str(node.a.dtype))
            return arithmetic.binary(name, self.value(node.a), self.value(node.b), dtype)
        if name == "Cast":
            return self._cast(node)
        if name in ("And", "Or"):
            return self._logical(node.a, node.b, name == "And")
        if name == "Not":
            inner = self.value(node.a)
            return lambda frame: arithmetic.negate(inner(frame))
        if name == "Select":
            return self.choice(node.condition, node.true_value, node.false_value)
        if name == "Let":
            return self._let(node)
        if name == "Call":
            return self.call(node)
        raise Unsupported(f"expression {name}", self.place)

    def call(self, node: Any) -> Closure:
        raise NotImplementedError

    def _variable(self, node: Any) -> Closure:
        if node in self.deferred:
            return self.value(self.deferred[node])
        if node not in self.slots:
            raise UnknownVariable("variable without a value", self.place)
        slot = self.slots[node]
        return lambda frame: frame.variables[slot]

    def _cast(self, node: Any) -> Closure:
        if kind(node.value) in ("IntImm", "FloatImm"):
            source = numpy_dtype(str(node.value.dtype))
            number = cast(constant(node.value.value, source), source, numpy_dtype(str(node.dtype)))
            return lambda frame: number
        source, target = numpy_dtype(str(node.value.dtype)), numpy_dtype(str(node.dtype))
        inner = self.value(node.value)
        if source == target:
            return inner
        return lambda frame: cast(inner(frame), source, target)

    def _let(self, node: Any) -> Closure:
        slot = self.slot(node.var)
        value, body = self.value(node.value), self.value(node.body)

        def run(frame: Frame) -> Value:
            frame.variables[slot] = value(frame)
            return body(frame)

        return run

    def _logical(self, left: Any, right: Any, is_and: bool) -> Closure:
        a, b = self.value(left), self.value(right)
        guarded = reads_memory(right)

        def run(frame: Frame) -> Value:
            x = a(frame)
            if not isinstance(x, np.ndarray):
                return b(frame) if bool(x) is is_and else not is_and
            y = under(frame, x if is_and else ~x, b) if guarded else b(frame)
            return (x & y) if is_and else (x | y)

        return run

    def choice(self, condition: Any, yes: Any, no: Any) -> Closure:
        """`if_then_else`: of each side only the lanes that take it read memory."""
        test, a, b = self.value(condition), self.value(yes), self.value(no)
        guard_a, guard_b = reads_memory(yes), reads_memory(no)

        def run(frame: Frame) -> Value:
            which = test(frame)
            if not isinstance(which, np.ndarray):
                return a(frame) if which else b(frame)
            x = under(frame, which, a) if guard_a else a(frame)
            y = under(frame, ~which, b) if guard_b else b(frame)
            return select(which, x, y)

        return self._typed(run, yes)

    def _typed(self, run: Closure, node: Any) -> Closure:
        """Keeps the type where both sides of a choice may be integers of Python, which have none."""
        dtype = numpy_dtype(str(node.dtype))
        if is_float(dtype) or dtype == np.bool_:
            return run

        def typed(frame: Frame) -> Value:
            value = run(frame)
            return value.astype(dtype, copy=False) if isinstance(value, np.ndarray) else value

        return typed


def _may_be_negative(index: Any) -> bool:
    """Whether it is worth asking: something is subtracted, or a constant is below zero."""
    name = kind(index)
    if name == "IntImm":
        return int(index.value) < 0
    return name == "Sub" or any(_may_be_negative(child) for child in children(index))


def select(which: np.ndarray, yes: Value, no: Value) -> Value:
    return np.where(which, yes, no)


def under(frame: Frame, mask: np.ndarray, closure: Closure) -> Value:
    """The value of a closure when only the lanes of `mask` are active."""
    before = frame.mask
    frame.mask = mask if before is None else mask & before
    try:
        return closure(frame)
    finally:
        frame.mask = before


def _sum(a: Base, b: Base, sign: int) -> Base:
    if type(a) is int and type(b) is int:
        return a + sign * b
    if type(b) is int and b == 0:
        return a
    if type(a) is int and a == 0 and sign == 1:
        return b
    x, y = as_closure(a), as_closure(b)
    return (lambda frame: x(frame) + y(frame)) if sign == 1 else (lambda frame: x(frame) - y(frame))


def _scaled(a: Base, scale: int) -> Base:
    if type(a) is int:
        return a * scale
    x = as_closure(a)
    return lambda frame: x(frame) * scale


def as_closure(base: Base) -> Closure:
    return (lambda frame: base) if type(base) is int else base  # type: ignore[return-value]


def children(node: Any) -> list[Any]:
    """The direct subexpressions."""
    name = kind(node)
    if name in BINARY or name in ("And", "Or"):
        return [node.a, node.b]
    if name == "Not":
        return [node.a]
    if name in ("Cast", "Broadcast"):
        return [node.value]
    if name == "BufferLoad":
        return list(node.indices)
    if name == "Call":
        return list(node.args)
    if name == "Select":
        return [node.condition, node.true_value, node.false_value]
    if name == "Let":
        return [node.value, node.body]
    if name == "Ramp":
        return [node.base, node.stride]
    return []


def reads_memory(node: Any) -> bool:
    """Whether lanes that are not meant must be kept from evaluating this: it reads memory, divides, or calls."""
    if kind(node) in ("BufferLoad", "FloorDiv", "FloorMod", "Div", "Mod"):
        return True
    return any(reads_memory(child) for child in children(node))


def as_scalar(value: Value) -> Value:
    """A value of which all lanes are the same as a scalar; others as they are."""
    if isinstance(value, np.ndarray) and value.size:
        first = value.flat[0]
        if value.size == 1 or (value == first).all():
            return plain(np.asarray(first))
    return value
