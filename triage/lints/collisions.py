"""Iterations of T.Parallel, and threads outside of it, that write the same element.

They run in different threads at the same time, in no order. Whether two of them meet in one thread, where they do run
one after the other, follows from how 0.1.15 spreads a loop without fragments: its iterations are counted row by row,
and groups of a vector's length go to the threads in turn. Confirmed on an H200 for a hundred sums over rows, columns and
blocks of tiles, with more and with fewer iterations than threads.
"""

from __future__ import annotations

import ast
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from triage.lints import arithmetic
from triage.lints.arithmetic import Linear
from triage.lints.devices import Device
from triage.lints.hazard import Certainty, Hazard, label
from triage.lints.program import BOUND, Program, Visit, shown
from triage.lints.vectors import BITS, vector_bits
from triage.model import BufferInfo, Loop, Place, Statement

#: at most so many iterations are compared with each other: a corner of the loops where they have more
WINDOW = 1024
#: of so many iterations that write one element in one thread, another need not be compared with more
FEW = 8
#: lengths of the vectors that a loop may be cut into
VECTORS = (1, 2, 4, 8, 16)
#: Values for names that are the same in all iterations: iterations that collide for each of them collide always.
SAMPLES = (0, 1, 7, 1000)
#: memory that threads share; of a fragment each has its part, laid out by the very loops that use it
SHARED_BY_THREADS = frozenset({"global", "shared", "shared.dyn"})

Iteration = tuple[int, ...]


@dataclass(frozen=True)
class Write:
    """A store in parallel loops that nothing guards; names that the loops bind are replaced by their values."""

    visit: Visit
    buffer: BufferInfo
    loops: tuple[Loop, ...]
    target: ast.Subscript
    value: ast.expr

    @property
    def variables(self) -> tuple[str, ...]:
        return tuple(loop.var for loop in self.loops)

    @property
    def extents(self) -> tuple[int, ...]:
        return tuple(loop.extent for loop in self.loops if isinstance(loop.extent, int))

    @property
    def index(self) -> list[ast.expr]:
        return self.target.slice.elts if isinstance(self.target.slice, ast.Tuple) else [self.target.slice]


def writes(program: Program, device: Device, source: str | None) -> Iterator[Hazard]:
    """Two iterations in different threads that update one element, or that store in it what need not be equal."""
    threads = program.threads
    if threads is None:
        return
    for write in _writes(program):
        if _tells_apart(write):
            continue
        pair = _collision(write, program, threads, device.arch)
        if pair is None:
            continue
        apart = {name for name, a, b in zip(write.variables, *pair, strict=True) if a != b}
        differs = bool(apart & arithmetic.names(write.value))
        terms = arithmetic.terms(write.value)
        adds = len(terms) > 1 and any(arithmetic.same(term, write.target) for term in terms)
        updates = any(arithmetic.same(n, write.target) for n in ast.walk(write.value) if isinstance(n, ast.Subscript))
        if not (differs or adds):
            continue  # all of them store the same
        first, second = (", ".join(f"{n} = {v}" for n, v in zip(write.variables, one, strict=True)) for one in pair)
        fields = {
            "buffer": shown(write.buffer),
            "index": ", ".join(map(ast.unparse, write.index)),
            "loops": ", ".join(write.variables),
            "first": first,
            "second": second,
        }
        where = label(write.buffer.at, f"{shown(write.buffer)} is declared here")
        kind = "parallel-update-collides" if updates else "parallel-writes-collide"
        certainty: Certainty = "certain" if updates else "likely"
        yield Hazard(kind, shown(write.buffer), write.visit.at, where, fields, certainty)


def reads_of_others(program: Program, device: Device, source: str | None) -> Iterator[Hazard]:
    """`s[i + 1] = s[i] + …` in T.Parallel: an iteration reads what another one writes, in another warp.

    Within one warp all threads read before one writes; between warps nothing orders the two.
    """
    threads = program.threads
    if threads is None or device.warp is None or threads <= device.warp:
        return
    for write in _writes(program):
        for read in (n for n in ast.walk(write.value) if isinstance(n, ast.Subscript)):
            if ast.unparse(read.value) != write.buffer.name or arithmetic.same(read, write.target):
                continue
            pair = _crossing(write, read, program, threads, device)
            if pair is not None:
                writer, reader = (
                    ", ".join(f"{n} = {v}" for n, v in zip(write.variables, one, strict=True)) for one in pair
                )
                fields = {
                    "buffer": shown(write.buffer),
                    "written": ast.unparse(write.target),
                    "read": ast.unparse(read),
                    "writer": writer,
                    "reader": reader,
                }
                where = label(write.buffer.at, f"{shown(write.buffer)} is declared here")
                yield Hazard("parallel-reads-others", shown(write.buffer), write.visit.at, where, fields, "likely")
                break


def order_decides(program: Program) -> tuple[Place, str] | None:
    """A store of what another iteration of T.Parallel, or another block, reads, and the buffer: nothing orders the two, and each device
    has an order of its own. Wider than `reads_of_others`, which names pairs: here it is enough that the indices are not the same."""
    for visit in program.visits:
        around = next((p for p in visit.parents if p.loop is not None and p.loop.kind == "parallel"), None)
        for written in visit.statement.accesses:
            buffer = program.buffers.get(written.buffer)
            between_blocks = buffer is not None and buffer.scope == "global"
            if written.mode == "read" or not (around or between_blocks):
                continue
            read = (a for v in program.visits if between_blocks or around in v.parents for a in v.statement.accesses)
            apart = (a.buffer == written.buffer and a.mode != "write" and a.index != written.index for a in read)
            if visit.at is not None and any(apart):
                return visit.at, written.buffer
    return None


def _crossing(
    write: Write, read: ast.Subscript, program: Program, threads: int, device: Device
) -> tuple[Iteration, Iteration] | None:
    """An iteration that writes the element which another one reads, in another warp however the loops are cut."""
    warp = device.warp or threads
    lengths = _vector_lengths(write, program, device.arch)
    read_index = read.slice.elts if isinstance(read.slice, ast.Tuple) else [read.slice]
    others = set().union(*map(arithmetic.names, (*write.index, *read_index))) - set(write.variables)
    iterations = list(itertools.product(*map(range, _window(write.extents))))
    try:
        writers = {_element(write.index, write.variables, one, others): one for one in iterations}
        for one in iterations:
            writer = writers.get(_element(read_index, write.variables, one, others), one)
            numbers = [_row_by_row(iteration, write.extents) for iteration in (writer, one)]
            if all(numbers[0] // n % threads // warp != numbers[1] // n % threads // warp for n in lengths):
                return writer, one
    except arithmetic.Unknown:
        return None  # the elements depend on what is known only at run time
    return None


def _element(
    index: Sequence[ast.expr], variables: Sequence[str], iteration: Iteration, others: set[str]
) -> tuple[int, ...]:
    """What tells an element apart: its indices for each of the values that other names may have."""
    values = dict(zip(variables, iteration, strict=True))
    return tuple(
        int(arithmetic.value(expr, values | dict.fromkeys(others, sample)))
        for sample in (SAMPLES if others else SAMPLES[:1])
        for expr in index
    )


def _writes(program: Program) -> Iterator[Write]:
    for visit in program.visits:
        statement = visit.statement
        written = [access for access in statement.accesses if access.mode != "read"]
        nest = _nest(visit)
        if statement.kind != "store" or visit.conditional or len(written) != 1 or written[0].guarded or not nest:
            continue
        buffer = program.buffers.get(written[0].buffer)
        bound = _bound_in(nest[0])
        if buffer is None or buffer.scope not in SHARED_BY_THREADS or bound is None:
            continue
        if _uses_fragments(nest[0], program):
            continue
        target, value = (arithmetic.parse(side) for side in statement.text.partition(" = ")[::2])
        if value is None or not isinstance(target, ast.Subscript):
            continue
        target, value = (arithmetic.replaced(expr, bound) for expr in (target, value))
        own = (arithmetic.names(target) | arithmetic.names(value)) & program.values_of_threads
        if isinstance(target, ast.Subscript) and not own:
            yield Write(visit, buffer, tuple(p.loop for p in nest if p.loop is not None), target, value)


def _tells_apart(write: Write) -> bool:
    """Whether each loop variable alone decides one dimension of the element: the plain case, and no two collide."""
    alone: set[str] = set()
    for index in write.index:
        form = arithmetic.linear(index)
        variables = [name for name in write.variables if form is not None and name in form]
        alone |= set(variables) if len(variables) == 1 else set()
    return alone == set(write.variables)


def _nest(visit: Visit) -> list[Statement]:
    """The parallel loops around a statement, each directly in the one before; none if their spread is not plain."""
    loops = [parent for parent in visit.parents if parent.loop is not None and parent.loop.kind == "parallel"]
    plain = all(
        p.loop is not None and isinstance(p.loop.extent, int) and p.loop.min == 0 and not p.loop.annotations
        for p in loops
    )
    nested = all(len(outer.body) == 1 and outer.body[0] is inner for outer, inner in itertools.pairwise(loops))
    different = len({p.loop.var for p in loops if p.loop is not None}) == len(loops)
    return loops if plain and nested and different else []


def _uses_fragments(statement: Statement, program: Program) -> bool:
    buffers = (program.buffers.get(access.buffer) for access in statement.accesses)
    return any(b is not None and b.scope in ("local.fragment", "local.reducer") for b in buffers) or any(
        _uses_fragments(child, program) for child in (*statement.body, *statement.orelse)
    )


def _bound_in(statement: Statement) -> dict[str, ast.expr] | None:
    """The values of the names that are bound in a statement, in terms of the others; None if that is not plain."""
    bound: dict[str, ast.expr] = {}
    for child in (*statement.body, *statement.orelse):
        inner = _bound_in(child)
        if inner is None or bound.keys() & inner.keys():
            return None
        bound |= inner
        found = BOUND.match(child.text) if child.kind == "bind" else None
        if found is None:
            continue
        value = arithmetic.parse(child.text[found.end() :])
        if value is None or found["name"] in bound or found["name"] in arithmetic.names(value):
            return None
        bound[found["name"]] = arithmetic.replaced(value, bound)
    return bound


def _collision(write: Write, program: Program, threads: int, arch: str) -> tuple[Iteration, Iteration] | None:
    """Two iterations that write the same element, in different threads however the loops are cut into vectors."""
    others = set().union(*map(arithmetic.names, write.index)) - set(write.variables)
    lengths = _vector_lengths(write, program, arch)
    writers: dict[tuple[int, ...], list[Iteration]] = {}
    try:
        for iteration in itertools.product(*map(range, _window(write.extents))):
            element = _element(write.index, write.variables, iteration, others)
            before = writers.setdefault(element, [])
            number = _row_by_row(iteration, write.extents)
            for other in before:
                numbers = _row_by_row(other, write.extents), number
                if all(numbers[0] // length % threads != numbers[1] // length % threads for length in lengths):
                    return other, iteration
            if len(before) < FEW:
                before.append(iteration)
    except arithmetic.Unknown:
        return None  # the element depends on what is known only at run time
    return None


def _window(extents: Sequence[int]) -> list[int]:
    """Extents of a corner of the loops that has at most `WINDOW` iterations, cut where they are longest."""
    sizes = list(extents)
    while math.prod(sizes) > WINDOW:
        longest = max(range(len(sizes)), key=sizes.__getitem__)
        sizes[longest] = (sizes[longest] + 1) // 2
    return sizes


def _vector_lengths(write: Write, program: Program, arch: str) -> list[int]:
    """The lengths of the vectors that the loops may be cut into.

    It is 1 if the element does not depend on the innermost loop, or an access is not contiguous in it, and the widest
    that fits if all are contiguous and aligned; where an index is not linear, or is not aligned, it may be any.
    """
    inner, extent = write.variables[-1], write.extents[-1]
    uses = [use for root in (write.target, write.value) for use in ast.walk(root) if isinstance(use, ast.Subscript)]
    buffers = [program.buffers.get(use.value.id) if isinstance(use.value, ast.Name) else None for use in uses]
    if inner not in arithmetic.names(write.target.slice):
        return [1]
    strides = [_strides(use, buffer) for use, buffer in zip(uses, buffers, strict=True)]
    if any(form is not None and form.get(inner, 0) not in (0, 1) for form in strides):
        return [1]
    bits = max((buffer.bits for buffer in buffers if buffer is not None), default=0)
    widest = [max(1, width // bits) for width in {BITS, vector_bits(arch)}] if bits > 0 else []
    aligned = [
        form is not None and form.get(inner) == 1 and all(n % max(widest) == 0 for k, n in form.items() if k != inner)
        for form in strides
    ]
    if widest and all(aligned) and extent % max(widest) == 0:
        return widest
    return [length for length in VECTORS if extent % length == 0]


def _strides(use: ast.Subscript, buffer: BufferInfo | None) -> Linear | None:
    """The number of an element in its buffer, as a sum of loop variables times constants."""
    indices = use.slice.elts if isinstance(use.slice, ast.Tuple) else [use.slice]
    if buffer is None or len(indices) != len(buffer.shape):
        return None
    total: Linear = {}
    for index, size in zip(indices, buffer.shape, strict=True):
        form = arithmetic.linear(index)
        if form is None or not isinstance(size, int):
            return None
        total = {name: total.get(name, 0) * size + form.get(name, 0) for name in total.keys() | form.keys()}
    return total


def _row_by_row(iteration: Iteration, extents: Sequence[int]) -> int:
    number = 0
    for position, extent in zip(iteration, extents, strict=True):
        number = number * extent + position
    return number


def by_all_threads(program: Program, device: Device, source: str | None) -> Iterator[Hazard]:
    """A store outside of T.Parallel, which every thread carries out, to an element that is the same for all.

    Threads that add to it what is their own lose each other's updates. What is the same for all of them does no harm:
    measured, sums of 4096 terms in shared memory that every thread of 256 computed were right.
    """
    threads = program.threads
    if threads is None or threads == 1:
        return
    for visit in program.visits:
        written = [access for access in visit.statement.accesses if access.mode != "read"]
        apart = any(p.loop is not None and p.loop.kind in ("parallel", "vectorized", "thread") for p in visit.parents)
        if visit.statement.kind != "store" or visit.conditional or len(written) != 1 or written[0].guarded or apart:
            continue
        buffer = program.buffers.get(written[0].buffer)
        target, value = (arithmetic.parse(side) for side in visit.statement.text.partition(" = ")[::2])
        if buffer is None or buffer.scope not in SHARED_BY_THREADS or target is None or value is None:
            continue
        if arithmetic.names(target) & program.values_of_threads or any(
            isinstance(n, ast.Subscript) and n is not target for n in ast.walk(target)
        ):
            continue
        if not arithmetic.names(value) & program.values_of_threads:
            continue
        updates = any(arithmetic.same(n, target) for n in ast.walk(value) if isinstance(n, ast.Subscript))
        fields = {"element": ast.unparse(target), "buffer": shown(buffer), "threads": threads}
        where = label(buffer.at, f"{shown(buffer)} is declared here")
        kind = "threads-update-one-element" if updates else "threads-store-one-element"
        certainty: Certainty = "certain" if updates else "likely"
        yield Hazard(kind, shown(buffer), visit.at, where, fields, certainty)
