"""What a kernel computes, as far as its record shows it: whether two patched kernels are the same program, and what in one
of them speaks against a patch. Pure.

A patch that lets a script build may still compute something else. Nothing here proves a patch right; a `Doubt` is a place
where the patched program does what a healthy one hardly ever does, such as a tile that is larger than the step by which it moves.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from triage.model import Access, BufferInfo, KernelRecord, Loop, Statement

#: loops that only say how the iterations are run
SCHEDULES = ("num_stages", "order", "stage", "group", "sync")
#: operators that move a tile as it is
MOVES = ("copy", "async_copy", "tma_copy", "im2col", "c2d_im2col")
#: how the number of a thread appears in an expression
THREAD_INDEX = ("launch_thread_idx", "threadIdx")
#: stands for an expression of which nothing is known; no expression itself
UNKNOWN = "?"
#: letters of an expression; longer ones are not followed
LONGEST = 1000


@dataclass(frozen=True)
class Doubt:
    """Something unusual about buffers, which are named as the author named them.

    `kind`: unused, output, tiles (how a tensor is cut into them), elements (which a loop touches), part (of a tensor, which
    a loop reads), dtype, or interface.
    One about `everything` counts whatever was edited.
    """

    kind: str
    what: str
    buffers: frozenset[str]
    everything: bool = False


def program(record: KernelRecord) -> tuple[object, ...]:
    """Equal for kernels that compute the same: interface, buffers, grid and statements, without threads and schedules."""
    return (
        *interface(record),
        tuple((b.name, b.dtype, b.shape) for b in record.buffers),
        tuple(launch.grid for launch in record.launches),
        output_positions(record.out_idx, len(record.params)),
        tuple(_outline(record.statements)),
    )


def interface(record: KernelRecord) -> tuple[object, ...]:
    """What the caller of a kernel sees: its parameters with their types and shapes."""
    return (record.name, *((str(p.get("name")), str(p.get("dtype")), str(p.get("shape"))) for p in record.params))


def changed_interface(before: Sequence[KernelRecord], after: Sequence[KernelRecord]) -> list[Doubt]:
    """Kernels that have other parameters than they had before the patch."""
    there = {interface(record) for record in after}
    names = dict.fromkeys(record.name for record in before if interface(record) not in there)
    return [Doubt("interface", f"the parameters of {name} are others", frozenset(), everything=True) for name in names]


def output_positions(out_idx: object, count: int) -> tuple[int, ...]:
    """Which of `count` parameters `out_idx` calls outputs, counted from 0."""
    indices = out_idx if isinstance(out_idx, (list, tuple)) else (out_idx,)
    return tuple(i % count for i in indices if isinstance(i, int) and count)


def _outline(statements: tuple[Statement, ...]) -> Iterator[object]:
    for statement in statements:
        loop = statement.loop
        head = (loop.var, str(loop.min), str(loop.extent)) if loop else statement.text
        yield (statement.kind, head, tuple(_outline(statement.body)), tuple(_outline(statement.orelse)))


def uses_thread_index(record: KernelRecord) -> bool:
    """Whether the program itself computes with the number of a thread, so that another number of threads changes it."""

    def mentions(text: str | None) -> bool:
        return text is not None and any(name in text for name in THREAD_INDEX)

    return any(
        mentions(s.condition) or any(mentions(index) for access in s.accesses for index in access.index)
        for s, _ in walk(resolved(record.statements))
    )


def resolved(statements: tuple[Statement, ...], known: Mapping[str, str] | None = None) -> tuple[Statement, ...]:
    """The statements with what their variables are bound to written into indices and conditions, so that these speak of
    loop and block variables only. What cannot be written in becomes `UNKNOWN`."""
    bound = dict(known or {})
    out = []
    for statement in statements:
        inner = {k: v for k, v in bound.items() if statement.loop is None or k != statement.loop.var}
        accesses = tuple(replace(a, index=tuple(_written_in(i, bound) for i in a.index)) for a in statement.accesses)
        condition = None if statement.condition is None else _written_in(statement.condition, bound)
        body, orelse = resolved(statement.body, inner), resolved(statement.orelse, inner)
        out.append(replace(statement, accesses=accesses, condition=condition, body=body, orelse=orelse))
        if statement.kind == "bind":
            name, _, value = statement.text.partition(" = ")
            bound[name] = _written_in(value, bound)
    return tuple(out)


def _written_in(text: str, bound: Mapping[str, str]) -> str:
    """An expression with the values of its variables in their place; `UNKNOWN` where that is too long or no expression."""
    try:
        tree = ast.parse(text, mode="eval")
        names = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)} & set(bound)
        values = {name: ast.parse(bound[name], mode="eval").body for name in names}
        written = ast.unparse(_Values(values).visit(tree)) if names else text
    except (SyntaxError, ValueError, RecursionError):
        return UNKNOWN
    return written if len(written) <= LONGEST else UNKNOWN


class _Values(ast.NodeTransformer):
    def __init__(self, values: Mapping[str, ast.expr]) -> None:
        self.values = values

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.values.get(node.id, node)


def walk(
    statements: tuple[Statement, ...], loops: tuple[Loop, ...] = ()
) -> Iterator[tuple[Statement, tuple[Loop, ...]]]:
    """Every statement with the loops around it."""
    for statement in statements:
        yield statement, loops
        inner = (*loops, statement.loop) if statement.loop else loops
        yield from walk(statement.body, inner)
        yield from walk(statement.orelse, inner)


# ------------------------------------------------------------------------------------------------------------ doubts


def doubts(record: KernelRecord) -> list[Doubt]:
    """Everything unusual in one kernel."""
    buffers = {b.name: b for b in record.buffers}
    found = [*_unused(record, buffers), *_outputs(record)]
    for statement, loops in walk(resolved(record.statements)):
        if statement.op is not None and statement.op.name in MOVES:
            found += _move(statement, buffers)
        else:
            found += _elements(statement, loops, buffers)
    return found


def _named(*buffers: BufferInfo) -> frozenset[str]:
    return frozenset(name for b in buffers for name in (b.name, b.source_name) if name)


def _unused(record: KernelRecord, buffers: Mapping[str, BufferInfo]) -> Iterator[Doubt]:
    """Tensors that nothing touches, and tiles that are filled for nobody."""
    read, written = set(), set()
    for statement, _ in walk(record.statements):
        for access in statement.accesses:
            if access.mode in ("read", "readwrite"):
                read.add(access.buffer)
            if access.mode in ("write", "readwrite"):
                written.add(access.buffer)
    aliased = {b.alias_of for b in record.buffers if b.alias_of}
    for buffer in buffers.values():
        if buffer.name in aliased or buffer.alias_of or "barrier" in buffer.scope:
            continue
        if buffer.param and buffer.name not in read | written:
            yield Doubt("unused", f"nothing uses the tensor {buffer.name}", _named(buffer), everything=True)
        if not buffer.param and buffer.name in written and buffer.name not in read:
            yield Doubt("unused", f"nothing reads {buffer.name}", _named(buffer))


def _outputs(record: KernelRecord) -> Iterator[Doubt]:
    """What `out_idx` calls an output must be written, and not read before."""
    written = {a.buffer for s, _ in walk(record.statements) for a in s.accesses if a.mode != "read"}
    tensors = [str(p.get("name")) for p in record.params]
    outputs = {tensors[i] for i in output_positions(record.out_idx, len(tensors)) if i < len(tensors)}
    for name in sorted(outputs - written):
        yield Doubt("output", f"the output {name} is never written", frozenset({name}))
    if outputs and written:
        for name in sorted((written & set(tensors)) - outputs):
            yield Doubt("output", f"{name} is written and no output", frozenset({name}))


def _move(statement: Statement, buffers: Mapping[str, BufferInfo]) -> Iterator[Doubt]:
    """A tile moved between a tensor and on-chip memory: it steps by its own size, covers the tensor, keeps the type."""
    moved = [(a, buffers[a.buffer]) for a in statement.accesses if a.buffer in buffers]
    both = _named(*(b for _, b in moved))
    for access, buffer in moved:
        if not buffer.param:
            yield from (Doubt("tiles", d, both) for d in _part_of_tile(access, buffer))
            continue
        for dim, extent in enumerate(access.extent):
            step = _step(access.index[dim]) if dim < len(access.index) else None
            size = buffer.shape[dim] if dim < len(buffer.shape) else None
            if extent is None:
                continue
            if step is not None and step != extent:
                yield Doubt(
                    "tiles", f"tiles of {extent} elements of {buffer.name} are {step} apart (dimension {dim})", both
                )
            low, high = access.low[dim], access.high[dim]
            if isinstance(size, int) and low == 0 and high is not None and access.exact and not access.guarded:
                rest = size - (high + extent)
                if rest > 0 or rest <= -extent:
                    yield Doubt(
                        "tiles",
                        f"{high + extent} of {size} elements of {buffer.name} are moved (dimension {dim})",
                        both,
                    )
    if len(moved) == 2 and moved[0][1].param and moved[0][0].mode == "read" and moved[0][1].dtype != moved[1][1].dtype:
        source, tile = moved[0][1], moved[1][1]
        yield Doubt("dtype", f"{source.name} is {source.dtype} and its tile {tile.name} is {tile.dtype}", both)


def _part_of_tile(access: Access, buffer: BufferInfo) -> Iterator[str]:
    for dim, (extent, size) in enumerate(zip(access.extent, buffer.shape, strict=False)):
        constant = access.low[dim] == access.high[dim] == 0
        if constant and isinstance(size, int) and extent is not None and extent not in (1, size):
            yield f"{extent} of {size} elements of {buffer.name} take part (dimension {dim})"


def _elements(statement: Statement, loops: tuple[Loop, ...], buffers: Mapping[str, BufferInfo]) -> Iterator[Doubt]:
    """Loops over elements: each covers the tile it indexes, and each iteration of a parallel loop writes its own element."""
    parallel = [loop.var for loop in loops if loop.kind == "parallel" and loop.extent != 1]
    variables = {loop.var for loop in loops}
    for access in statement.accesses:
        buffer = buffers.get(access.buffer)
        if buffer is None or statement.op is not None:
            continue
        used = [_names(index) for index in access.index]
        missing = [] if None in used else [var for var in parallel if not any(names and var in names for names in used)]
        if access.mode == "write" and missing and buffer.scope != "local.var":
            yield Doubt("elements", f"{buffer.name} is written without {', '.join(missing)}", _named(buffer))
        if access.guarded or not access.exact:
            continue
        for dim, index in enumerate(access.index):
            size, high = buffer.shape[dim], access.high[dim]
            moves = buffer.param or bool((_names(index) or set()) & variables)
            if moves and access.low[dim] == 0 and isinstance(size, int) and high is not None and high + 1 != size:
                yield Doubt(
                    "part" if buffer.param and access.mode == "read" else "elements",
                    f"{high + 1} of {size} elements of {buffer.name} are used (dimension {dim})",
                    _named(buffer),
                )


def _names(index: str) -> set[str] | None:
    """The variables of an index; None if they are not known."""
    try:
        return {n.id for n in ast.walk(ast.parse(index, mode="eval")) if isinstance(n, ast.Name)}
    except (SyntaxError, ValueError, RecursionError):
        return None


def _step(index: str) -> int | None:
    """The smallest factor of a variable in a sum of variables with constant factors; None for any other index."""
    try:
        factors = list(_factors(ast.parse(index, mode="eval").body))
    except (SyntaxError, ValueError, RecursionError):
        return None
    return min(factors) if factors and all(factor > 0 for factor in factors) else None


def _factors(node: ast.expr, times: int = 1) -> Iterator[int]:
    """The factors of the variables of `times * node`; a variable divided by a constant, and the rest of that division,
    count as variables. Raises `ValueError` for what is no such sum."""
    if isinstance(node, ast.Name):
        yield times
    elif isinstance(node, ast.BinOp):
        constant = node.right.value if isinstance(node.right, ast.Constant) else None
        if isinstance(node.op, ast.Add):
            yield from _factors(node.left, times)
            yield from _factors(node.right, times)
        elif isinstance(node.op, ast.Mult) and isinstance(constant, int):
            yield from _factors(node.left, times * constant)
        elif isinstance(node.op, ast.Mult) and isinstance(node.left, ast.Constant) and isinstance(node.left.value, int):
            yield from _factors(node.right, times * node.left.value)
        elif isinstance(node.op, ast.FloorDiv | ast.Mod) and isinstance(node.left, ast.Name) and constant is not None:
            yield times
        else:
            raise ValueError
    elif not isinstance(node, ast.Constant):
        raise ValueError
