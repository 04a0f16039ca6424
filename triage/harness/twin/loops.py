"""Loops: one iteration after another with lanes that leave at their own time, or all iterations at once as lanes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .expressions import as_scalar, kind
from .frame import Frame, Lanes, Statement
from .memory import lane
from .outcome import Unsupported
from .statements import PRIVATE, Statements

Runner = Callable[[Frame], None]


class Loops(Statements):
    """Compiles loops, and sequences of statements that lanes may leave."""

    def __init__(self) -> None:
        super().__init__()
        #: whether the innermost loop has a `break` or `continue`
        self.can_leave = False

    def sequence(self, runners: list[Runner]) -> Runner:
        if len(runners) == 1:
            return runners[0]
        steps = tuple(runners)
        if not self.can_leave:

            def all_steps(frame: Frame) -> None:
                for step in steps:
                    step(frame)

            return all_steps

        def while_lanes_are_left(frame: Frame) -> None:
            before = frame.mask
            for step in steps:
                step(frame)
                if frame.gone is True:
                    break
                if frame.gone is not False:
                    frame.mask = without(before, frame.gone)
                    if not frame.mask.any():
                        break
            frame.mask = before

        return while_lanes_are_left

    def bound_loop(self, node: Any, path: str) -> Runner:
        raise NotImplementedError

    def _for(self, node: Any, path: str) -> Runner:
        from tvm import tirx

        kinds = tirx.ForKind
        if node.kind == kinds.THREAD_BINDING:
            return self.bound_loop(node, path)
        if node.kind == kinds.PARALLEL:
            run = self._lanes_of(node, path)
            return (
                run if self.in_role or not self.role_conditions or self.depth > self.thread_axes else self.together(run)
            )
        if node.kind == kinds.VECTORIZED and not self._private_sums(node):
            return self._lanes_of(node, path)
        return self._serial(node, path)

    def _private_sums(self, loop: Any) -> bool:
        """Whether iterations of a vectorized loop meet in a register, so that they must follow one another."""
        from tvm import tirx

        found = []

        def visit(node: Any) -> None:
            if isinstance(node, tirx.BufferStore) and str(node.buffer.scope()) in PRIVATE:
                found.append(not any(_mentions(index, loop.loop_var) for index in node.indices))

        tirx.stmt_functor.post_order_visit(loop.body, visit)
        return any(found)

    def _lanes_of(self, node: Any, path: str) -> Runner:
        """A nest of parallel loops: each is an axis, the outermost of the nest the first dimension."""
        nest = [node]
        while (
            kind(nest[-1].body) == "For" and nest[-1].body.kind == node.kind and not self._depends(nest, nest[-1].body)
        ):
            nest.append(nest[-1].body)
        base = self.depth
        loops = []
        for rank, loop in enumerate(nest):
            axis = base + len(nest) - 1 - rank
            start, extent, slot = self.number(loop.min), self.number(loop.extent), self.slot(loop.loop_var)
            self.bind_range(loop.loop_var, loop.min, loop.extent)
            loops.append((axis, start, extent, slot))
            if type(start) is int and start == 0:
                self.lanes[loop.loop_var] = axis
        self.axes(len(nest))
        self.depth += len(nest)
        inner = nest[-1].body
        outside, self.can_leave = self.can_leave, False
        body = self.statement(inner, path + ".0" * len(nest))
        if self.can_leave:
            raise Unsupported("break out of a parallel loop", self.place)
        self.can_leave = outside
        self.depth = base
        thread_axes = self.thread_axes

        def run(frame: Frame) -> None:
            for axis, start, extent, slot in loops:
                count = extent if type(extent) is int else as_scalar(extent(frame))  # type: ignore[operator]
                if isinstance(count, np.ndarray):
                    raise Unsupported("parallel loop of a size that differs between threads", frame.at.place)
                if count <= 0:
                    return
                frame.extents[axis] = int(count)
                first = start if type(start) is int else start(frame)  # type: ignore[operator]
                numbers = lane(axis, int(count))
                frame.variables[slot] = numbers if type(first) is int and first == 0 else first + numbers
            body(frame)
            if frame.expanded:
                for storage in frame.expanded:
                    storage.collapse(base)
                frame.expanded = [storage for storage in frame.expanded if len(storage.lanes) > thread_axes]

        return run

    @staticmethod
    def _depends(nest: list[Any], loop: Any) -> bool:
        return any(_mentions(bound, outer.loop_var) for outer in nest for bound in (loop.min, loop.extent))

    def _serial(self, node: Any, path: str) -> Runner:
        start, extent, slot = self.value(node.min), self.value(node.extent), self.slot(node.loop_var)
        self.bind_range(node.loop_var, node.min, node.extent)
        step = int(node.step.value) if getattr(node, "step", None) is not None else 1
        outer, self.iterations = self.iterations, (*self.iterations, slot)
        body = self._body(node.body, f"{path}.0")
        self.iterations = outer
        about = Statement(path, self.place)

        def run(frame: Frame) -> None:
            frame.at = about
            first, count = as_scalar(start(frame)), as_scalar(extent(frame))
            before, outside = frame.mask, (frame.gone, frame.left)
            frame.gone = frame.left = False
            for value in range(0, count if isinstance(count, int) else int(count.max(initial=0)), step):
                if not isinstance(count, int):
                    active = without(value < count if before is None else (value < count) & before, frame.left)
                    if not active.any():
                        break
                    frame.mask = active
                frame.variables[slot] = first + value
                body(frame)
                if frame.gone is not False and not next_iteration(frame, before):
                    break
            frame.mask, (frame.gone, frame.left) = before, outside

        return run

    def _body(self, node: Any, path: str) -> Runner:
        """The body of a loop; where it can be left early, every sequence in it looks for lanes that are gone."""
        outside, self.can_leave = self.can_leave, False
        body = self.statement(node, path)
        if self.can_leave:
            body = self.statement(node, path)
        self.can_leave = outside
        return body

    def _do_loop_break(self, call: Any, path: str) -> Runner:
        self.can_leave = True

        def run(frame: Frame) -> None:
            frame.gone = joined(frame.gone, frame.mask)
            frame.left = joined(frame.left, frame.mask)

        return run

    _do_break_loop = _do_loop_break

    def _do_continue_loop(self, call: Any, path: str) -> Runner:
        self.can_leave = True

        def run(frame: Frame) -> None:
            frame.gone = joined(frame.gone, frame.mask)

        return run

    _do_loop_continue = _do_continue_loop

    def _while(self, node: Any, path: str) -> Runner:
        about = Statement(path, self.place)
        condition = self.value(node.condition)
        body = self._body(node.body, f"{path}.0")

        def run(frame: Frame) -> None:
            before, outside = frame.mask, (frame.gone, frame.left)
            frame.gone = frame.left = False
            while True:
                frame.at = about
                frame.spend(1)
                holds = as_scalar(condition(frame))
                if isinstance(holds, np.ndarray):
                    active = holds if frame.mask is None else holds & frame.mask
                    if not active.any():
                        break
                    frame.mask = active
                elif not holds:
                    break
                body(frame)
                if frame.gone is not False and not next_iteration(frame, frame.mask):
                    break
            frame.mask, (frame.gone, frame.left) = before, outside

        return run


def without(mask: Any, lanes: Lanes) -> Any:
    """A mask (None: all lanes) without some lanes."""
    if lanes is False:
        return mask
    return ~np.asarray(lanes) if mask is None else mask & ~np.asarray(lanes)


def joined(lanes: Lanes, mask: np.ndarray | None) -> Lanes:
    """Some lanes and the active ones."""
    return True if mask is None or lanes is True else mask if lanes is False else lanes | mask


def next_iteration(frame: Frame, before: np.ndarray | None) -> bool:
    """After an iteration that lanes left early: who goes on with the next; False if nobody does."""
    frame.gone = frame.left
    if frame.left is True:
        return False
    frame.mask = without(before, frame.left)
    return frame.mask is None or bool(frame.mask.any())


def _mentions(node: Any, variable: Any) -> bool:
    from tvm import tirx

    found = []

    def visit(inner: Any) -> None:
        if isinstance(inner, tirx.Var) and inner.same_as(variable):
            found.append(True)

    tirx.stmt_functor.post_order_visit(node, visit)
    return bool(found)
