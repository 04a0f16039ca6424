"""Data types that do not fit: operands of a T.gemm, its accumulator, and a host tensor against the kernel's parameter."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from triage.fixes import tree
from triage.fixes.buffers import Declared, declared
from triage.fixes.host import creation, declared_parameters, passed_for
from triage.fixes.proposal import Proposal, Question
from triage.fixes.shapes import Gemm, gemms
from triage.fixes.tree import Edit

#: what accumulators of floating point and of integer products are by convention
ACCUMULATORS = ("float32", "int32")
OF_TYPES = frozenset({"dtype"})


def operand_dtype(q: Question) -> Iterator[Proposal]:
    """One operand of a T.gemm given the data type that the other has."""
    for gemm in gemms(q):
        tiles = [_tile(q, gemm, operand) for operand in (0, 1)]
        for number in (0, 1):
            mine, theirs = tiles[number], tiles[1 - number]
            if mine is None or theirs is None or mine.dtype is None or theirs.dtype is None:
                continue
            text = theirs.source.code(theirs.dtype.value)
            if mine.source.code(mine.dtype.value) != text:
                edit = Edit(mine.source.path, mine.dtype.value, theirs.dtype.value)
                yield Proposal(
                    f"Allocate {gemm.names[number]} as {text}, like {gemm.names[1 - number]}", (edit,), OF_TYPES
                )


def accumulator_dtype(q: Question) -> Iterator[Proposal]:
    """The accumulator of a T.gemm given the type that tensor cores accumulate in."""
    for gemm in gemms(q):
        tile = _tile(q, gemm, 2)
        if tile is None or tile.dtype is None:
            continue
        for text in ACCUMULATORS:
            edit = Edit(tile.source.path, tile.dtype.value, tree.same_quotes(tile.dtype.value, text))
            yield Proposal(f"Accumulate in {text}", (edit,), OF_TYPES, distance=1)


def _tile(q: Question, gemm: Gemm, operand: int) -> Declared | None:
    arg = tree.argument(gemm.call, operand, "ABC"[operand])
    return declared(q.sources, gemm.source, arg.value) if arg else None


def host_dtype(q: Question) -> Iterator[Proposal]:
    """A tensor made by the script given the data type of the kernel's parameter."""
    wanted = str(q.captures.get("expected") or "").removeprefix("torch.")
    for source, node in passed_for(q):
        made = creation(q.sources, source, node)
        if made is None or not wanted.isidentifier():
            continue
        where, call = made
        torch = tree.dotted(call.func).rpartition(".")[0] or "torch"
        dtype = tree.argument(call, None, "dtype")
        if dtype is not None:
            for origin, value in q.sources.origins(where, dtype.value):
                edit = Edit(origin.path, value, tree.expression(f"{torch}.{wanted}"))
                yield Proposal(f"Make the tensor {source.code(node)} with dtype={torch}.{wanted}", (edit,), host=True)
        else:
            new = tree.with_keyword(call, "dtype", f"{torch}.{wanted}")
            edit = Edit(where.path, call, new)
            yield Proposal(f"Make the tensor {source.code(node)} with dtype={torch}.{wanted}", (edit,), host=True)
    for source, line in q.places():
        for call in source.at(cst.Call, line):
            method = tree.name_of(call)
            if method in ("to", "half", "float", "double", "bfloat16", "type") and isinstance(call.func, cst.Attribute):
                converted = tree.expression(f"x.to(torch.{wanted})")
                assert isinstance(converted, cst.Call)
                func = call.func.with_changes(attr=cst.Name("to"))
                edit = Edit(source.path, call, call.with_changes(func=func, args=converted.args))
                yield Proposal(f"Convert with .to(torch.{wanted})", (edit,), host=True)


def parameter_dtype(q: Question) -> Iterator[Proposal]:
    """The kernel's parameter declared as its neighbours are, or with the type of the tensor that is passed."""
    name = str(q.captures.get("parameter") or "")
    passed = _passed_dtype(q)
    for source, calls in declared_parameters(q, name):
        own = tree.argument(calls[name], 1, "dtype")
        if own is None:
            continue
        others = [tree.argument(call, 1, "dtype") for other, call in calls.items() if other != name]
        for text in dict.fromkeys(source.code(arg.value) for arg in others if arg is not None):
            if source.code(own.value) != text:
                edit = Edit(source.path, own.value, tree.expression(text))
                yield Proposal(f"Declare {name} as {text}, like the other parameters", (edit,), OF_TYPES)
        for where, value in q.sources.origins(source, own.value):
            if passed and isinstance(value, cst.SimpleString) and value.evaluated_value != passed:
                edit = Edit(where.path, value, tree.same_quotes(value, passed))
                yield Proposal(f"Declare {name} as {passed}, as it is passed", (edit,), OF_TYPES)


def _passed_dtype(q: Question) -> str:
    """The type that the script gives the tensor which it passes, where that is written."""
    for source, node in passed_for(q):
        made = creation(q.sources, source, node)
        dtype = tree.argument(made[1], None, "dtype") if made else None
        if made and dtype is not None:
            found = [tree.name_of(value) for _, value in q.sources.origins(made[0], dtype.value)]
            return {"half": "float16", "float": "float32"}.get(found[0], found[0]) if len(found) == 1 else ""
    return ""
