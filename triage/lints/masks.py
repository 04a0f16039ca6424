"""Masks computed from another index than that of the access they guard."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from triage.lints import arithmetic
from triage.lints.arithmetic import Linear
from triage.lints.devices import Device
from triage.lints.hazard import Hazard, label
from triage.lints.program import Program, Visit, ranked, shown
from triage.model import BufferInfo, Place, Statement


@dataclass(frozen=True)
class Mask:
    """A condition `index < size`."""

    text: str
    index: Linear
    size: str


@dataclass(frozen=True)
class Use:
    """One dimension of an access to a tensor in global memory, of which `index` is the first element."""

    buffer: BufferInfo
    text: str
    index: Linear
    size: str
    at: Place | None


def of_other_tiles(program: Program, device: Device, source: str | None) -> Iterator[Hazard]:
    """`bx * 64 + i < n` where the kernel goes through a dimension of n elements in tiles of `bx * 128`.

    The two differ in the factor of one name, which counts tiles. The larger factor leaves elements out; the smaller
    one lets more through than it should, which TileLang's own bounds may still stop. Nothing is said if any access has
    the index that the mask tests.
    """
    everywhere = [use for statement in program.kernel.statements for use in _uses(program, statement)]
    for visit in program.visits:
        for masks, uses in _guarded(program, visit):
            for mask in masks:
                guarded = [use for use in uses if use.size == mask.size]
                found = _other_tile(mask, guarded if guarded else [use for use in everywhere if use.size == mask.size])
                if found is None:
                    continue
                name, use = found
                fields = {
                    "condition": mask.text,
                    "buffer": shown(use.buffer),
                    "index": use.text,
                    "name": name,
                    "mask_tile": mask.index[name],
                    "tile": use.index[name],
                    "skips": mask.index[name] > use.index[name],
                }
                where = label(use.at, f"{shown(use.buffer)} is accessed at {use.text}")
                yield Hazard("mask-of-other-tile", shown(use.buffer), visit.at, where, fields, "likely")


def _guarded(program: Program, visit: Visit) -> Iterator[tuple[list[Mask], list[Use]]]:
    """The masks of a branch, or of the choices in a statement's expression, each with what they guard."""
    statement = visit.statement
    if statement.kind == "if":
        condition = arithmetic.parse(statement.condition or "")
        if condition is not None and not statement.orelse:
            yield _masks(program, condition), [use for child in statement.body for use in _uses(program, child)]
    elif statement.kind in ("store", "bind"):
        value = arithmetic.parse(statement.text.partition(" = ")[2])
        for node in ast.walk(value) if value is not None else ():
            match node:
                case ast.Call(func=ast.Name(id="if_then_else" | "select"), args=[condition, chosen, _]):
                    loads = [n for n in ast.walk(chosen) if isinstance(n, ast.Subscript)]
                    yield (
                        _masks(program, condition),
                        [use for load in loads for use in _elements(program, load, visit.at)],
                    )


def _masks(program: Program, condition: ast.expr) -> list[Mask]:
    masks = []
    for term in arithmetic.conjuncts(condition):
        match term:
            case ast.Compare(left=index, ops=[ast.Lt()], comparators=[size]):
                pass
            case ast.Compare(left=size, ops=[ast.Gt()], comparators=[index]):
                pass
            case _:
                continue
        form = arithmetic.linear(arithmetic.replaced(index, program.definitions))
        if form is not None:
            masks.append(Mask(ast.unparse(term), form, ast.unparse(size)))
    return masks


def _uses(program: Program, statement: Statement) -> Iterator[Use]:
    for access in statement.accesses:
        buffer = program.buffers.get(access.buffer)
        if buffer is not None and ranked(access, buffer):
            indices = [arithmetic.parse(index) for index in access.index]
            yield from _of(program, buffer, [i for i in indices if i is not None], statement.at)
    for child in (*statement.body, *statement.orelse):
        yield from _uses(program, child)


def _elements(program: Program, load: ast.Subscript, at: Place | None) -> Iterator[Use]:
    buffer = program.buffers.get(load.value.id) if isinstance(load.value, ast.Name) else None
    if buffer is not None:
        yield from _of(program, buffer, load.slice.elts if isinstance(load.slice, ast.Tuple) else [load.slice], at)


def _of(program: Program, buffer: BufferInfo, indices: Sequence[ast.expr], at: Place | None) -> Iterator[Use]:
    if buffer.scope != "global" or len(indices) != len(buffer.shape):
        return
    for index, extent in zip(indices, buffer.shape, strict=True):
        form = arithmetic.linear(arithmetic.replaced(index, program.definitions))
        size = arithmetic.parse(str(extent))
        if form is not None and size is not None:
            yield Use(buffer, ast.unparse(index), form, ast.unparse(size), at)


def _other_tile(mask: Mask, uses: Sequence[Use]) -> tuple[str, Use] | None:
    """A name that counts tiles in the mask and in all the accesses, with another factor in each, and such an access."""
    for name, factor in mask.index.items():
        counted = [use for use in uses if name and name in use.index]
        factors = {use.index[name] for use in counted}
        within = [other for other in mask.index if other not in ("", name)]
        if factor > 1 and within and factors and min(factors) > 1 and factor not in factors:
            return name, counted[0]
    return None
