"""What a kernel adds up to make the values of an output, as its record shows it. Pure.

Only sums that the record shows whole are told: products of a `T.gemm`, elements of a `T.reduce_sum`, or what statements `x = x + a` and
`x = x + a * b` add one after the other, if one buffer takes it up from zero and is then copied out as it is. Anything between (a scale, a softmax, a trip count that differs between blocks) makes
it `NotASum`: a model of the wrong arithmetic would accept wrong kernels.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from triage.lints import arithmetic
from triage.lints.operands import GEMMS
from triage.lints.program import Program, Visit, constant, shown
from triage.model import Access, BufferInfo, KernelRecord, Loop, Place
from triage.numerics.formats import UnknownFormat, format_of

#: loops of which one thread runs all iterations, one after the other
ITERATED = frozenset({"serial", "pipelined", "unrolled"})
#: what adds a whole tile to global memory
ATOMICS = frozenset({"atomicadd", "atomic_add"})
#: copies from an accumulator to the output are not followed farther than this
MOST_COPIES = 4


class NotASum(Exception):
    """Why nothing can be computed of an output: a short phrase."""


@dataclass(frozen=True)
class Sum:
    """One element of an output is a sum of `terms` products of matrices (`gemm`), other products (`products`) or elements (`elements`).

    `inputs` are the types of the operands, `operands` the parameters that they are copied from, and `rounds_inputs` tells whether the copy
    rounds them; `kept` is the type of the output. `parts`: how many partial sums atomics add up, 0 for
    no atomics. `at` is where the accumulator (`buffer`) is allocated.
    """

    kind: str
    terms: int
    inputs: tuple[str, ...]
    operands: tuple[str, ...]
    accumulator: str
    kept: str
    buffer: str
    at: Place | None = None
    parts: int = 0
    rounds_inputs: bool = False


def sum_of(record: KernelRecord, argument: str) -> Sum:
    """The sum behind the values of a parameter. Raises `NotASum`."""
    program = Program(record)
    output = program.buffers.get(argument)
    if output is None or not output.param:
        raise NotASum(f"{argument} is no buffer that the kernel's record knows")
    accumulator, types, parts = _copied_from(program, output)
    narrow = max(types, key=_unit)
    if _unit(narrow) > _unit(output.dtype):
        raise NotASum(f"the sum is rounded to {narrow} on its way to {shown(output)}, which could hold more")
    kind, terms, operands = _terms(program, accumulator)
    parameters = [_parameter(program, operand) for operand in operands]
    return Sum(
        kind=kind,
        terms=terms * max(parts, 1),
        inputs=tuple(operand.dtype for operand in operands),
        operands=tuple(parameter.name for parameter in parameters),
        accumulator=accumulator.dtype,
        kept=output.dtype,
        buffer=shown(accumulator),
        at=accumulator.at,
        parts=parts,
        rounds_inputs=any(_unit(p.dtype) < _unit(o.dtype) for p, o in zip(parameters, operands, strict=True)),
    )


def computes_reals(record: KernelRecord) -> bool:
    """Whether any value in the kernel is a real number: integers alone round nothing."""
    return any("float" in buffer.dtype for buffer in record.buffers)


def _unit(dtype: str) -> float:
    try:
        return format_of(dtype).u
    except UnknownFormat:
        raise NotASum(f"the precision of {dtype} is not known") from None


# ---------------------------------------------------------------------------------------------------- back from the output


def _copied_from(program: Program, output: BufferInfo) -> tuple[BufferInfo, list[str], int]:
    """The buffer whose values an output has, the types that they went through, and how many parts atomics added."""
    writers = _writers(program, output)
    atomic = [visit for visit, _ in writers if visit.statement.op is not None and visit.statement.op.name in ATOMICS]
    types, parts = [output.dtype], 0
    if atomic:
        if len(writers) != 1:
            raise NotASum(f"{shown(output)} is written by atomics and by others")
        parts = _parts(program, *writers[0], output)
    buffer = output
    for _ in range(MOST_COPIES):
        sources = [_source(program, visit, buffer) for visit, _ in _writers(program, buffer)]
        known = {source.name: source for source in sources if source is not None}
        if not sources or None in sources or len(known) != 1:
            raise NotASum(f"{shown(buffer)} is no copy of one sum")
        buffer = next(iter(known.values()))
        if buffer.param:
            raise NotASum(f"{shown(output)} is a copy of {shown(buffer)}")
        types.append(buffer.dtype)
        if any(_is_addition(visit, buffer) for visit, _ in _writers(program, buffer)):
            return buffer, types[:-1], parts
    raise NotASum(f"{shown(output)} is copied too often to follow")


def _writers(program: Program, buffer: BufferInfo) -> list[tuple[Visit, Access]]:
    if buffer.alias_of is not None or any(other.alias_of == buffer.name for other in program.buffers.values()):
        raise NotASum(f"{shown(buffer)} has two shapes")
    return [(v, a) for v, a, known in program.accesses() if known is buffer and a.mode != "read"]


def _source(program: Program, visit: Visit, buffer: BufferInfo) -> BufferInfo | None:
    """The buffer whose values a statement puts, converted at most, into a buffer; None if it does anything else."""
    statement = visit.statement
    read = [access.buffer for access in statement.accesses if access.mode == "read"]
    if len(set(read)) != 1 or not _only_moves(visit):
        return None
    return program.buffers.get(read[0])


def _only_moves(visit: Visit) -> bool:
    op, statement = visit.statement.op, visit.statement
    if op is not None:
        return op.name == "copy" or op.name in ATOMICS
    if statement.kind != "store":
        return False
    value = arithmetic.parse(statement.text.partition(" = ")[2])
    while isinstance(value, ast.Call) and value.args:
        inner = _converted(value) or _or_zero(value)
        if inner is None:
            return False
        value = inner
    return isinstance(value, ast.Subscript)


def _converted(call: ast.Call) -> ast.expr | None:
    return call.args[0] if len(call.args) == 1 and _is_type(call.func) else None


def _or_zero(call: ast.Call) -> ast.expr | None:
    """The value of a guarded load that gives zero where the guard does not hold: zeros add nothing, exactly."""
    if not (isinstance(call.func, ast.Name) and call.func.id == "if_then_else" and len(call.args) == 3):
        return None
    load, other = call.args[1:]
    other = (_converted(other) if isinstance(other, ast.Call) else None) or other
    return load if isinstance(other, ast.Constant) and other.value == 0 else None


def _is_type(name: ast.expr) -> bool:
    try:
        return isinstance(name, ast.Name) and format_of(name.id) is not None
    except UnknownFormat:
        return False


def _parts(program: Program, visit: Visit, access: Access, output: BufferInfo) -> int:
    """How many blocks and iterations add to one element of an output, all tiles being alike."""
    grid, shape = constant(program.kernel.launch.grid), constant(output.shape)
    tile = [extent for extent in access.extent if extent is not None]
    loops = [parent.loop for parent in visit.parents if parent.loop is not None]
    if not grid or not shape or len(tile) != len(access.extent) or visit.conditional:
        raise NotASum("how many partial sums are added is not known")
    return max(1, round(math.prod(grid) * _trips(loops) * math.prod(tile) / math.prod(shape)))


# --------------------------------------------------------------------------------------------------------- the additions


def _is_addition(visit: Visit, buffer: BufferInfo) -> bool:
    return _is_gemm(visit, buffer) or _is_reduction(visit) or _added(visit) is not None


def _added(visit: Visit) -> tuple[str, ...] | None:
    """The buffers whose element, or product of two, a statement `x[i] = x[i] + …` adds; None for another statement."""
    if visit.statement.kind != "store":
        return None
    target, value = (arithmetic.parse(side) for side in visit.statement.text.partition(" = ")[::2])
    terms = arithmetic.terms(value) if value is not None else []
    others = [term for term in terms if target is None or not arithmetic.same(term, target)]
    if target is None or len(terms) != 2 or len(others) != 1:
        return None
    factors = _factors(others[0])
    return tuple(ast.unparse(one.value) for one in factors) if factors else None


def _factors(term: ast.expr) -> tuple[ast.Subscript, ...]:
    """An element, or the two of a product; nothing where anything else is computed."""
    while isinstance(term, ast.Call):
        inner = _converted(term)
        if inner is None:
            return ()
        term = inner
    if isinstance(term, ast.Subscript):
        return (term,)
    if isinstance(term, ast.BinOp) and isinstance(term.op, ast.Mult):
        sides = (*_factors(term.left), *_factors(term.right))
        return sides if len(sides) == 2 else ()
    return ()


def _kind(visit: Visit, buffer: BufferInfo) -> str:
    if _is_gemm(visit, buffer):
        return "gemm"
    return "products" if len(_added(visit) or ()) == 2 else "elements"


def _is_gemm(visit: Visit, buffer: BufferInfo) -> bool:
    op = visit.statement.op
    return op is not None and op.name in GEMMS and len(op.args) > 2 and op.args[2].partition("[")[0] == buffer.name


def _is_reduction(visit: Visit) -> bool:
    op = visit.statement.op
    return op is not None and op.name == "reduce" and op.params.get("type") == "sum"


def _terms(program: Program, accumulator: BufferInfo) -> tuple[str, int, Sequence[BufferInfo]]:
    """What a buffer takes up from zero: the kind of sum, the number of its terms, and the operands, of one kind for all additions."""
    additions, clears = [], []
    for visit, _ in _writers(program, accumulator):
        if _is_addition(visit, accumulator):
            additions.append(visit)
            if _starts_anew(visit):
                clears.append(visit)
        elif _is_zero(visit):
            clears.append(visit)
        else:
            raise NotASum(f"{shown(accumulator)} holds more than a sum")
    kinds = {_kind(visit, accumulator) for visit in additions}
    operands = [_operands(program, visit) for visit in additions]
    if len(kinds) != 1 or len({tuple(o.dtype for o in some) for some in operands}) != 1:
        raise NotASum(f"{shown(accumulator)} is a sum of several kinds")
    kind = kinds.pop()
    terms = sum(_length(visit, kind, some) * _trips(_loops(visit, clears)) for visit, some in zip(additions, operands, strict=True))  # fmt: skip
    return kind, terms, operands[0]


def _starts_anew(visit: Visit) -> bool:
    op = visit.statement.op
    return op is not None and (op.params.get("clear_accum") is True or op.params.get("clear") is True)


def _is_zero(visit: Visit) -> bool:
    op = visit.statement.op
    if op is not None and op.name == "fill":
        value = op.params.get("value")
        return isinstance(value, int | float) and value == 0
    if visit.statement.kind != "store":
        return False
    stored = arithmetic.parse(visit.statement.text.partition(" = ")[2])
    stored = (_converted(stored) if isinstance(stored, ast.Call) else None) or stored
    return isinstance(stored, ast.Constant) and stored.value == 0


def _operands(program: Program, visit: Visit) -> tuple[BufferInfo, ...]:
    op = visit.statement.op
    count = len(_added(visit) or ()) or (1 if _is_reduction(visit) else 2)
    names = _added(visit) or [arg.partition("[")[0] for arg in (op.args[:count] if op is not None else ())]
    found = [program.buffers.get(name) for name in names]
    known = tuple(buffer for buffer in found if buffer is not None)
    if len(known) != count:
        raise NotASum("an operand of the sum is not known")
    return known


def _length(visit: Visit, kind: str, operands: Sequence[BufferInfo]) -> int:
    """How many terms one addition has for each element."""
    if visit.statement.kind == "store":
        return 1
    op = visit.statement.op
    params = op.params if op is not None else {}
    if kind == "gemm":
        length = params.get("K")
    else:
        axis, access = params.get("dim"), next(a for a in visit.statement.accesses if a.buffer == operands[0].name)
        length = access.extent[axis] if isinstance(axis, int) and axis < len(access.extent) else None
    if not isinstance(length, int):
        raise NotASum("the length of the sum is not a number")
    return length


def _loops(visit: Visit, clears: Sequence[Visit]) -> Iterator[Loop]:
    """The loops around an addition whose iterations add to the same element, up to one that begins anew from zero."""
    for parent in reversed(visit.parents):
        if parent.kind == "while":
            raise NotASum("the sum is made in a while loop")
        if any(parent in clear.parents for clear in clears) or visit in clears:
            return
        if parent.loop is not None and parent.loop.var not in _axes(visit):
            yield parent.loop


def _axes(visit: Visit) -> set[str]:
    """The names that say which element a store goes to: loops over them add to other elements."""
    if visit.statement.kind != "store":
        return set()
    target = arithmetic.parse(visit.statement.text.partition(" = ")[0])
    return arithmetic.names(target) if target is not None else set()


def _trips(loops: Iterator[Loop] | Sequence[Loop]) -> int:
    trips = 1
    for loop in loops:
        if loop.kind not in ITERATED or not isinstance(loop.extent, int):
            raise NotASum(f"how often the loop over {loop.var} adds is not a number")
        trips *= loop.extent
    return trips


def _parameter(program: Program, operand: BufferInfo) -> BufferInfo:
    """The parameter that an operand is copied from: what is computed first has errors of its own."""
    if operand.param:
        return operand
    sources = {_source(program, visit, operand) for visit, _ in _writers(program, operand)}
    found = sources.pop() if len(sources) == 1 else None
    if found is None or not found.param:
        raise NotASum(f"{shown(operand)}, which is summed, is computed before")
    return found
