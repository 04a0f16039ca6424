"""A kernel record as the detectors want to read it: statements in program order, each with what encloses it."""

from __future__ import annotations

import ast
import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from triage.lints import arithmetic
from triage.model import Access, BufferInfo, KernelRecord, Launch, Place, Statement

#: calls after which the rest of a body may not run, as the printed statement shows them
LEAVES_EARLY = re.compile(r"\b(?:thread_return|loop_break|break_loop|continue_loop|ret)\(")

#: `name = value`, as the record prints a value that is bound to a name
BOUND = re.compile(r"(?P<name>[A-Za-z_]\w*) = ")
WORD = re.compile(r"[A-Za-z_]\w*")
THREAD_INDEX = re.compile(r"(?P<name>[A-Za-z_]\w*) = launch_thread_idx\((?P<axis>[012])\)")


@dataclass(frozen=True)
class Visit:
    """One statement in program order. `parents` runs from the outermost to the nearest enclosing statement."""

    order: int
    statement: Statement
    parents: tuple[Statement, ...]
    #: something decides at run time whether this statement runs: an `if`, a `while`, an earlier return or break
    conditional: bool

    @property
    def at(self) -> Place | None:
        """The statement's own place, or that of the nearest enclosing statement which has one."""
        for statement in (self.statement, *reversed(self.parents)):
            if statement.at is not None:
                return statement.at
        return None


class Program:
    """One kernel, indexed. Everything is derived from the record; nothing is looked up elsewhere."""

    def __init__(self, kernel: KernelRecord) -> None:
        self.kernel = kernel
        self.buffers: dict[str, BufferInfo] = {buffer.name: buffer for buffer in kernel.buffers}

    @cached_property
    def visits(self) -> tuple[Visit, ...]:
        return tuple(_walk(self.kernel.statements))

    def accesses(self) -> Iterator[tuple[Visit, Access, BufferInfo]]:
        """Every access whose buffer the record knows."""
        for visit in self.visits:
            for access in visit.statement.accesses:
                buffer = self.buffers.get(access.buffer)
                if buffer is not None:
                    yield visit, access, buffer

    @property
    def launches(self) -> tuple[Launch, ...]:
        """Every kernel the function launches, in program order."""
        return self.kernel.launches or (self.kernel.launch,)

    @property
    def blocks(self) -> tuple[tuple[int, ...], ...]:
        """The dimensions of the blocks launched, where they are constant."""
        return tuple(dims for launch in self.launches if (dims := constant(launch.threads)))

    @property
    def threads(self) -> int | None:
        """Threads of a block; None if not constant, or if the function launches blocks of several sizes."""
        sizes = {math.prod(dims) if (dims := constant(launch.threads)) else None for launch in self.launches}
        return sizes.pop() if len(sizes) == 1 else None

    @cached_property
    def thread_indices(self) -> dict[str, int]:
        """The names of thread indices, with their axes: those that mean nothing else anywhere in the kernel."""
        times = Counter(found["name"] for v in self.visits if (found := _bound(v.statement)) is not None)
        times.update(v.statement.loop.var for v in self.visits if v.statement.loop is not None)
        threads = (THREAD_INDEX.fullmatch(v.statement.text) for v in self.visits if v.statement.kind == "bind")
        return {found["name"]: int(found["axis"]) for found in threads if found and times[found["name"]] == 1}

    @cached_property
    def values_of_threads(self) -> frozenset[str]:
        """Names of thread indices, of values computed from them, and of memory of one thread that holds such a value."""
        own: set[str] = set()
        for visit in self.visits:
            name, _, value = visit.statement.text.partition(" = ")
            kind, buffer = visit.statement.kind, name.partition("[")[0]
            of_thread = own.intersection(WORD.findall(value))
            if kind == "bind" and ("launch_thread_idx(" in value or of_thread):
                own.add(name)
            elif kind == "store" and of_thread and self._is_of_one_thread(buffer):
                own.add(buffer)
        return frozenset(own)

    def _is_of_one_thread(self, name: str) -> bool:
        buffer = self.buffers.get(name)
        return buffer is not None and buffer.scope in ("local", "local.var")

    @cached_property
    def definitions(self) -> dict[str, ast.expr]:
        """What names stand for that are bound once in the kernel, in terms of loop variables, block and thread indices, and loads."""
        binds = [(found["name"], v) for v in self.visits if (found := _bound(v.statement)) is not None]
        times = Counter(name for name, _ in binds)
        times.update(v.statement.loop.var for v in self.visits if v.statement.loop is not None)
        known: dict[str, ast.expr] = {}
        for name, visit in binds:
            value = arithmetic.parse(visit.statement.text.partition(" = ")[2])
            if times[name] == 1 and value is not None and not THREAD_INDEX.fullmatch(visit.statement.text):
                known[name] = arithmetic.replaced(value, known)
        return known

    def owner(self, buffer: BufferInfo) -> BufferInfo:
        """The buffer that was allocated, for one that only looks at its memory in another shape."""
        return self.buffers.get(buffer.alias_of, buffer) if buffer.alias_of is not None else buffer

    def allocated(self) -> tuple[BufferInfo, ...]:
        """The buffers that have memory of their own which the kernel allocates."""
        return tuple(b for b in self.buffers.values() if b.alias_of is None and not b.param)

    def target_kind(self) -> str:
        return str(self.kernel.target.get("kind", ""))


def _bound(statement: Statement) -> re.Match[str] | None:
    return BOUND.match(statement.text) if statement.kind == "bind" else None


def constant(dims: tuple[int | str, ...]) -> tuple[int, ...]:
    """Dimensions that are all known; empty if one of them is symbolic."""
    known = tuple(n for n in dims if isinstance(n, int))
    return known if len(known) == len(dims) else ()


def ranked(access: Access, buffer: BufferInfo) -> bool:
    """Whether the access says something about every dimension of its buffer."""
    return {len(access.index), len(access.low), len(access.high), len(access.extent)} == {len(buffer.shape)}


def shown(buffer: BufferInfo) -> str:
    """The name the author gave the buffer."""
    return buffer.source_name or buffer.name


def on_chip(buffer: BufferInfo) -> bool:
    """Shared memory or registers, where TileLang adds no bounds predicate of its own to element accesses."""
    return buffer.scope in ("shared", "shared.dyn", "local", "local.fragment")


def shared(buffer: BufferInfo) -> bool:
    return buffer.scope in ("shared", "shared.dyn")


def _walk(statements: tuple[Statement, ...]) -> Iterator[Visit]:
    order = 0
    left_early = False

    def body(children: tuple[Statement, ...], parents: tuple[Statement, ...], conditional: bool) -> Iterator[Visit]:
        nonlocal order, left_early
        for child in children:
            yield Visit(order, child, parents, conditional or left_early)
            order += 1
            inner = conditional or child.kind in ("if", "while") or _cut_short(child)
            yield from body(child.body, (*parents, child), inner)
            yield from body(child.orelse, (*parents, child), inner)
            left_early = left_early or _leaves(child)

    yield from body(statements, (), False)


def _cut_short(statement: Statement) -> bool:
    """Whether a loop need not run all its iterations: it has none, or something inside leaves it."""
    if statement.loop is None:
        return False
    extent = statement.loop.extent
    return (isinstance(extent, int) and extent <= 0) or any(_leaves_inside(child) for child in statement.body)


def _leaves_inside(statement: Statement) -> bool:
    return _leaves(statement) or any(_leaves_inside(child) for child in (*statement.body, *statement.orelse))


def _leaves(statement: Statement) -> bool:
    return statement.kind == "return" or (
        statement.kind in ("call", "op") and LEAVES_EARLY.search(statement.text) is not None
    )
