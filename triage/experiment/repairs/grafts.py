"""Edits that take a part from another place of the kernel: a term of an index that is missing, a mean that was not taken off. Pure.

The right text often stands a few lines above, in the statement that the wrong one was copied from or has to fit.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator

from triage.experiment.repairs.calls import LOG2_E
from triage.experiment.repairs.donors import Donors, Part, rank
from triage.experiment.repairs.draft import Draft
from triage.experiment.repairs.edit import LESS_USUAL, MOVABLE, RARE, USUAL
from triage.experiment.repairs.scope import likeness
from triage.experiment.repairs.syntax import (
    OPERATORS,
    called,
    expressions,
    held,
    indices_of,
    names_in,
    operation,
    terms_of,
    walk,
    with_parents,
)

#: what is called so multiplies a counter
STRIDE = re.compile(r"stride|dil|step", re.IGNORECASE)
#: … and what is called so is taken off a position
SHIFT = re.compile(r"pad|offset|shift|halo|begin|start|first", re.IGNORECASE)
#: so many of the likeliest parts are tried in one place
NEAREST = 4


def edit_by_parts(draft: Draft, statement: ast.stmt, donors: Donors, roots: list[ast.expr]) -> None:
    """All edits of a statement's expressions that take something from elsewhere."""
    for root in roots:
        inside = {id(node): index for node, index in walk(root)}
        for node, parent in with_parents(root):
            if isinstance(node, ast.Subscript):
                _indices(draft, statement, donors, node)
                _other_buffer(draft, statement, node)
            elif isinstance(node, ast.Compare):
                _compared(draft, statement, donors, node)
            if isinstance(node, ast.Call) and called(node) in ("exp", "exp2") and len(node.args) == 1:
                for unit in (unit for unit in donors.units if unit not in names_in(node)):
                    draft.swap(statement, node.args[0], f"({draft.text.of(node.args[0])}) * {unit}", MOVABLE)
                _how_much_grown(draft, statement, donors, node)
            if isinstance(node, ast.BinOp):
                _regrouped(draft, statement, node, inside[id(node)])
            if isinstance(getattr(node, "ctx", None), ast.Load) and not isinstance(node, ast.Tuple):
                _completed(draft, statement, donors, node, parent, inside[id(node)])
            if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)) and not inside[id(node)]:
                _same_unit(draft, statement, node)
    _shifted(draft, statement)
    _values(draft, statement, donors)
    _other_elements(draft, statement)
    if (
        isinstance(statement, ast.Assign)
        and isinstance(statement.targets[0], ast.Name)
        and donors.counts(statement.value)
    ):
        _strided(draft, statement, statement.value)


# ------------------------------------------------------------------------------------------------------------- indices


def _indices(draft: Draft, statement: ast.stmt, donors: Donors, node: ast.Subscript) -> None:
    memory = isinstance(node.value, ast.Name) and node.value.id in draft.scope.memory
    for index in indices_of(node):
        start = index.lower if isinstance(index, ast.Slice) else index
        if isinstance(start, ast.Constant) and start.value == 0 and not isinstance(index, ast.Slice):
            _counter(draft, statement, node, start)
        elif start is not None and memory:
            _longer(draft, statement, donors, start, node)
            _strided(draft, statement, start)
            _as_elsewhere(draft, statement, donors, start)
            for tensor in draft.scope.unread_places:
                draft.swap(statement, start, f"{tensor}[{draft.text.of(start)}]", "index")


def _counter(draft: Draft, statement: ast.stmt, node: ast.AST, zero: ast.expr) -> None:
    """A counter in the place of a zero."""
    draft.family = "counter"
    used = names_in(node)
    around = [name for name in draft.scope.counters_around(statement) if name not in used]
    for name in (*around, *(block for block in draft.scope.blocks if block not in used)):
        draft.swap(statement, zero, name, "index")


def _longer(draft: Draft, statement: ast.stmt, donors: Donors, index: ast.expr, around: ast.AST) -> None:
    """An index with one more term, of those that other indices have."""
    draft.family = f"term {index.col_offset}"
    own = {draft.text.of(term) for _, term in terms_of(index)}
    sizes, blocks = {*draft.scope.sizes}, {*draft.scope.blocks}
    moving = {*blocks, *draft.scope.counters_around(statement), *draft.scope.scalars}
    old, here = draft.text.of(index), draft.scope.meant(names_in(index))
    for term in donors.terms:
        new_names = draft.scope.meant(term.names) - sizes
        if term.text in own or new_names & here or not donors.available(term.names, statement):
            continue
        new = f"{old} - {term.text}" if term.symbol == "-" else f"{term.text} + {old}"
        missing = term.names & moving and not term.names & moving & draft.scope.meant(names_in(around))
        missing = missing and not (blocks & here and blocks & new_names)  # an axis has one start of a tile
        draft.swap(statement, index, new, "offset", USUAL if missing else LESS_USUAL)
    within = (ast.Mult, ast.FloorDiv, ast.Mod)
    for node in (n for n in ast.walk(index) if isinstance(n, ast.BinOp) and isinstance(n.op, within)):
        first = draft.text.of(node.left)
        if isinstance(node.left, ast.Name) and node.left.id in draft.scope.counters:
            for term in donors.terms:
                fits = not (draft.scope.meant(term.names) - sizes) & here and isinstance(
                    term.node, (ast.BinOp, ast.Name)
                )
                if fits and term.symbol == "+" and donors.available(term.names, statement):
                    draft.swap(statement, node.left, f"({term.text} + {first})", "offset", LESS_USUAL)


def _strided(draft: Draft, statement: ast.stmt, index: ast.expr) -> None:
    """A counter times the stride, or a position less the pad, that the function is given."""
    draft.family = "stride"
    used, counted = names_in(index), {*draft.scope.counters, *draft.scope.scalars}
    for size in (size for size in draft.scope.sizes if STRIDE.search(size)):
        for node in (n for n in ast.walk(index) if isinstance(n, ast.Name) and n.id in counted):
            draft.swap(statement, node, f"{node.id} * {size}", "offset")
        if size not in used and isinstance(index, ast.BinOp):
            for _, term in list(terms_of(index))[:-1]:
                draft.swap(statement, term, f"({draft.text.of(term)}) * {size}", "offset")
    for size in (size for size in draft.scope.sizes if SHIFT.search(size) and size not in used):
        for symbol in "-+":
            draft.swap(statement, index, f"{draft.text.of(index)} {symbol} {size}", "offset")


def _as_elsewhere(draft: Draft, statement: ast.stmt, donors: Donors, index: ast.expr) -> None:
    """The index that another statement says."""
    draft.family = "elsewhere"
    old, sizes = draft.text.of(index), {*draft.scope.sizes}
    others = [
        part
        for part in donors.indices
        if part.text != old
        and (part.names - sizes) & names_in(index)
        and isinstance(part.node, (ast.BinOp, ast.Subscript))
        and donors.available(part.names, statement)
    ]
    alike = [-likeness(old, part.text) for part in others]
    nearest = sorted(zip(alike, range(len(others)), strict=True))[:NEAREST]
    for turn, (_, number) in enumerate(nearest):
        draft.swap(statement, index, others[number].text, "index", USUAL if turn < 2 else LESS_USUAL)


def _compared(draft: Draft, statement: ast.stmt, donors: Donors, node: ast.Compare) -> None:
    """A side of a comparison with one more term; and a bound on the other side of a range."""
    for side in (node.left, *node.comparators):
        if isinstance(side, ast.Constant):
            if side.value == 0 and isinstance(node.ops[0], (ast.Eq, ast.NotEq)):
                _counter(draft, statement, node, side)
        elif not isinstance(side, ast.Call) and names_in(side):
            _longer(draft, statement, donors, side, node)
        for end in donors.ends if isinstance(side, ast.Name) and side.id in draft.scope.sizes else ():
            if donors.available(end.names, statement):  # of a group, and not of all
                draft.swap(statement, side, _held(draft, end.node), "bounds", LESS_USUAL)
        if isinstance(side, ast.Name) and side.id in draft.scope.counters:
            lane = next((name for name in _in_order(statement) if name in donors.lanes), None)
            for row in (name for name in donors.whole_rows if lane):
                draft.swap(statement, side, f"{row}[{lane}]", "condition", LESS_USUAL)
    if len(node.ops) == 1 and not isinstance(node.left, ast.Constant):
        draft.family = "range"
        left, whole = draft.text.of(node.left), draft.text.of(node)
        if isinstance(node.ops[0], (ast.Lt, ast.LtE)):
            draft.swap(statement, node, f"({whole} and {left} >= 0)", "condition", LESS_USUAL)
        elif isinstance(node.ops[0], (ast.Gt, ast.GtE)):
            draft.swap(statement, node, f"({whole} or {left} < 0)", "condition", LESS_USUAL)


# -------------------------------------------------------------------------------------------------------------- values


def _is_part_of_counter(node: ast.expr, counter: ast.expr) -> bool:
    """Whether a node is `counter // size` or `counter % size`."""
    divides = isinstance(node, ast.BinOp) and isinstance(node.op, (ast.FloorDiv, ast.Mod))
    return divides and ast.unparse(node.left) == ast.unparse(counter)  # type: ignore[attr-defined]


def _completed(
    draft: Draft, statement: ast.stmt, donors: Donors, node: ast.expr, parent: ast.AST | None, index: bool
) -> None:
    """An operand alone where elsewhere something is computed with it."""
    draft.family = "whole"
    lane = isinstance(node, ast.Name) and node.id in donors.lanes
    if isinstance(parent, (ast.Attribute, ast.Call)) and node is getattr(parent, "func", None):
        return
    beside = draft.text.of(parent) if parent is not None else ""
    parts = donors.wholes.get(draft.text.of(node), [])
    if lane:  # a row of a tile that is a token and a head: the token or the head alone
        for part in (part for part in parts if _is_part_of_counter(part.node, node)):
            if part.text != beside and donors.available(part.names, statement):
                draft.swap(statement, node, f"({part.text})", "index", LESS_USUAL)
        return
    for part in parts[:NEAREST]:
        if part.text != beside and draft.text.of(node) != part.text and donors.available(part.names, statement):
            size = isinstance(node, ast.Name) and node.id in draft.scope.sizes
            kind = "offset" if index else "scale" if size else MOVABLE
            draft.swap(statement, node, f"({part.text})", kind, LESS_USUAL)


def _regrouped(draft: Draft, statement: ast.stmt, node: ast.BinOp, index: bool) -> None:
    """`a + b * c` as `(a + b) * c`, and the other way round; a division before or after a product."""
    draft.family = "grouping"
    kind = "offset" if index or draft.scope.is_count(node) else "operator"
    for new in _groupings(draft, node):
        draft.swap(statement, node, new, kind)


def _groupings(draft: Draft, node: ast.BinOp) -> Iterator[str]:
    left, right = node.left, node.right
    of = functools.partial(_held, draft)
    sums, products = (ast.Add, ast.Sub), (ast.Mult, ast.Div)
    if isinstance(node.op, products) and isinstance(left, ast.BinOp) and isinstance(left.op, sums):
        sign, times = OPERATORS[type(left.op)], OPERATORS[type(node.op)]
        yield f"({of(left.left)} {times} {of(right)} {sign} {of(left.right)})"
        yield f"({of(left.left)} {sign} {of(left.right)} {times} {of(right)})"
    if isinstance(node.op, sums):
        sign = OPERATORS[type(node.op)]
        if isinstance(right, ast.BinOp) and isinstance(right.op, products):
            yield f"({of(left)} {sign} {of(right.left)}) {OPERATORS[type(right.op)]} {of(right.right)}"
        if isinstance(left, ast.BinOp) and isinstance(left.op, products):
            yield f"({of(left.left)} {sign} {of(right)}) {OPERATORS[type(left.op)]} {of(left.right)}"
            if isinstance(left.op, ast.Mult):
                yield f"{of(left.left)} * ({of(left.right)} {sign} {of(right)})"
    if isinstance(left, ast.BinOp):
        pair = type(left.op), type(node.op)
        if pair in ((ast.FloorDiv, ast.Mult), (ast.Mult, ast.FloorDiv), (ast.Mod, ast.Mult), (ast.Mult, ast.Mod)):
            yield f"{of(left.left)} {OPERATORS[pair[1]]} {of(right)} {OPERATORS[pair[0]]} {of(left.right)}"


def _held(draft: Draft, node: ast.expr) -> str:
    return held(node, draft.text.of(node))


def _other_buffer(draft: Draft, statement: ast.stmt, node: ast.Subscript) -> None:
    """An element of another buffer of the same shape, the likest names first."""
    draft.family = "buffer"
    if not isinstance(node.value, ast.Name) or not isinstance(node.ctx, ast.Load):
        return
    shapes = {name: draft.text.of(call.args[0]) for name, call in draft.scope.buffers.items() if call.args}
    own = node.value.id
    alike = [name for name, shape in shapes.items() if name != own and shape == shapes.get(own)]
    alike.sort(key=lambda name: -likeness(name, own))
    for number, name in enumerate(alike):
        draft.swap(statement, node.value, name, "statement", LESS_USUAL if number < 2 else RARE)


def _values(draft: Draft, statement: ast.stmt, donors: Donors) -> None:
    """What is stored, with an element taken off, or divided or multiplied by it: a maximum, a sum, a weight that is there and not used."""
    draft.family = "value"
    if not isinstance(statement, (ast.Assign, ast.AugAssign)):
        return
    place = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
    if not isinstance(place, ast.Subscript):
        return
    value = statement.value
    if isinstance(value, ast.Name) and value.id in draft.scope.counters:
        _longer(draft, statement, donors, value, value)
    for node in (n for n in ast.walk(value) if isinstance(n, ast.Subscript)):
        for part in donors.adjustments:
            taken = part.text in draft.text.of(value)
            if not taken and _over(part, node) and donors.available(part.names, statement):
                new = f"({draft.text.of(node)} {part.symbol} {_held(draft, part.node)})"
                draft.swap(statement, node, new, MOVABLE, LESS_USUAL)
    _by_rows(draft, statement, donors, place, value)
    _rescaled(draft, statement, donors, place, value)


def _shifted(draft: Draft, statement: ast.stmt) -> None:
    """An element less the zero that codes are stored with, which one side knows of and the other does not."""
    draft.family = "shifted"
    value = statement.value if isinstance(statement, (ast.Assign, ast.AugAssign)) else None
    loads = [n for n in ast.walk(value) if isinstance(n, ast.Subscript)] if value is not None else []
    for node in loads:
        for shift in draft.scope.shifts[:NEAREST]:
            for symbol in "-+":
                draft.swap(statement, node, f"({draft.text.of(node)} {symbol} {shift})", MOVABLE, LESS_USUAL)


def _rescaled(draft: Draft, statement: ast.stmt, donors: Donors, place: ast.Subscript, value: ast.expr) -> None:
    """What is accumulated, scaled by what a running maximum has grown."""
    draft.family = "rescaled"
    own = draft.text.of(place)
    first = next((name for name in _in_order(place) if name in donors.lanes), None)
    for node in (n for n in ast.walk(value) if isinstance(n, ast.Subscript) and draft.text.of(n) == own):
        for before, after in donors.running if first and draft.scope.serial_loops(statement) else ():
            grown = f"{before}[{first}] - {after}[{first}]"
            if grown not in draft.text.of(statement):
                for function in ("exp", "exp2"):
                    draft.swap(statement, node, f"{own} * T.{function}({grown})", "scale", LESS_USUAL)


def _how_much_grown(draft: Draft, statement: ast.stmt, donors: Donors, call: ast.Call) -> None:
    """An exponential of what a running sum grows by, from one of its elements to another, in the place of one of the element alone."""
    draft.family = "grown"
    argument = call.args[0]
    if not isinstance(argument, ast.Subscript):
        return
    own, buffer = draft.text.of(argument), draft.text.of(argument.value)
    for other in [one for one in donors.elements(buffer) if one != own][:NEAREST]:
        for new in (f"{other} - {own}", f"{own} - {other}"):
            draft.swap(statement, argument, new, "scale", LESS_USUAL)


def _same_unit(draft: Draft, statement: ast.stmt, node: ast.BinOp) -> None:
    """One summand in the unit of the other: `a * c + b` as `a * c + c * b`."""
    draft.family = "unit"
    for one, other in ((node.left, node.right), (node.right, node.left)):
        factors = [n.id for n in ast.walk(one) if isinstance(n, ast.Name) and _multiplies(n, one)]
        unknown = {*draft.scope.counters, *draft.scope.memory, *draft.scope.blocks, *names_in(other)}
        for name in dict.fromkeys(name for name in factors if name not in unknown):
            draft.swap(statement, other, f"{name} * {_held(draft, other)}", MOVABLE, LESS_USUAL)


def _multiplies(name: ast.Name, within: ast.expr) -> bool:
    products = (n for n in ast.walk(within) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mult))
    return any(name in (product.left, product.right) for product in products)


def _other_elements(draft: Draft, statement: ast.stmt) -> None:
    """An element that the statement reads anyway, in the place of another one it reads."""
    draft.family = "element"
    loads = [n for n in ast.walk(statement) if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Load)]
    own = [n for n in loads if isinstance(n.value, ast.Name) and n.value.id in draft.scope.buffers]
    for node in own:
        others = {draft.text.of(n): n for n in own if n.value.id != node.value.id and rank(n) == rank(node)}  # type: ignore[attr-defined]
        for text in list(others)[:NEAREST]:
            draft.swap(statement, node, text, "index", LESS_USUAL)


def _over(part: Part, node: ast.Subscript) -> bool:
    inner = [n for n in ast.walk(part.node) if isinstance(n, ast.Subscript)]
    return bool(inner) and rank(inner[0]) < rank(node)


def _by_rows(draft: Draft, statement: ast.stmt, donors: Donors, place: ast.Subscript, value: ast.expr) -> None:
    draft.family = "rows"
    lane = next((draft.text.of(i) for i in indices_of(place) if names_in(i) & donors.lanes), None)
    lanes = [name for name in donors.lanes if name in names_in(place)] if lane else []
    last = not draft.scope.serial_loops(statement)
    target = place.value.id if isinstance(place.value, ast.Name) else ""
    first = next((name for name in _in_order(place) if name in lanes), None)
    if first is None:
        return
    whole = draft.text.of(value)
    for buffer in (name for name in donors.rows if name not in names_in(value) and name != target):
        idle = buffer in donors.idle
        grade = USUAL if idle else LESS_USUAL if last else RARE
        element = f"{buffer}[{first}]"
        for symbol in "+-/*" if last or idle else "-*":
            draft.swap(statement, value, f"({whole}) {symbol} {element}", MOVABLE, grade)
        for call in (n for n in ast.walk(value) if isinstance(n, ast.Call) and len(n.args) == 1 and idle):
            draft.swap(statement, call.args[0], f"({draft.text.of(call.args[0])}) - {element}", MOVABLE, grade)


def _in_order(node: ast.AST) -> list[str]:
    names = [n for n in ast.walk(node) if isinstance(n, ast.Name)]
    return [n.id for n in sorted(names, key=lambda n: (n.lineno, n.col_offset))]


# ---------------------------------------------------------------------------------------------- statements as a whole


def edit_means(draft: Draft, statement: ast.stmt, donors: Donors, body: list[ast.stmt]) -> None:
    """After a sum over a tile: where it is read, divided by how many were summed up."""
    draft.family = "mean"
    call = operation(statement)
    if call is None or called(call) != "reduce_sum" or len(call.args) < 2:
        return
    source, target = call.args[:2]
    allocation = draft.scope.buffers.get(source.id) if isinstance(source, ast.Name) else None
    if allocation is None or not allocation.args or not isinstance(target, ast.Name):
        return
    extents = [draft.text.of(extent) for extent in getattr(allocation.args[0], "elts", ())]
    if len(extents) > 1:
        extents.append(f"({' * '.join(extents)})")
    for reader in (
        s for kernel in draft.scope.kernels for s in ast.walk(kernel) if isinstance(s, (ast.Assign, ast.AugAssign))
    ):
        for node, parent in with_parents(reader.value):
            reads = isinstance(node, ast.Subscript) and draft.text.of(node.value) == target.id
            divided = isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Div) and parent.left is node
            for extent in extents if reads and not divided else ():
                draft.swap(reader, node, f"{draft.text.of(node)} / {extent}", MOVABLE, LESS_USUAL)


def edit_tail(draft: Draft, statement: ast.stmt) -> None:
    """After a tile was copied: what lies beyond the tensor as minus infinity, which a maximum or an exponential asks for."""
    draft.family = "tail"
    call = operation(statement)
    if call is None or called(call) != "copy" or len(call.args) < 2:
        return
    source, tile = call.args[:2]
    if not (isinstance(source, ast.Subscript) and isinstance(source.value, ast.Name) and isinstance(tile, ast.Name)):
        return
    allocation = draft.scope.buffers.get(tile.id)
    shape = getattr(allocation.args[0], "elts", ()) if allocation is not None and allocation.args else ()
    ends = draft.scope.shape_of(source.value.id)
    starts = indices_of(source)
    if len(shape) == 2 and len(ends) == len(starts) >= 2 and not isinstance(starts[-1], (ast.Slice, ast.Constant)):
        rows, columns = (draft.text.of(extent) for extent in shape)
        begin, end = _held(draft, starts[-1]), draft.text.of(ends[-1])
        masked = f'T.if_then_else({begin} + tail_j < {end}, {tile.id}[tail_i, tail_j], -T.infinity("float32"))'
        lines = f"for tail_i, tail_j in T.Parallel({rows}, {columns}):", f"    {tile.id}[tail_i, tail_j] = {masked}"
        draft.add(
            statement,
            "bounds",
            "with what lies beyond the tensor as minus infinity",
            draft.text.after(statement, *lines),
            rare=LESS_USUAL,
        )


def edit_factory(draft: Draft, statement: ast.stmt) -> None:
    """A number that a factory computes, with one more size in it, or rounded up."""
    draft.family = "factory"
    if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
        return
    value, own = statement.value, statement.targets[0].id
    if _is_share(value):  # the last tile of a share would run into the next one
        whole = draft.text.of(value)
        for tile in [size for size in draft.scope.given if size in _sizes_of_tiles(draft) - names_in(value)]:
            draft.swap(statement, value, f"({whole} + {tile} - 1) // {tile} * {tile}", "bounds", LESS_USUAL)
    if isinstance(value, (ast.Tuple, ast.List, ast.Dict, ast.Call, ast.Lambda, ast.JoinedStr)):
        return
    whole, used = draft.text.of(value), names_in(value)
    for node in (n for n in ast.walk(value) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.FloorDiv)):
        below = _held(draft, node.right)
        draft.swap(statement, node, f"(({draft.text.of(node.left)} + {below} - 1) // {below})", "bounds", USUAL)
    real = any(
        isinstance(n, (ast.Div, ast.Pow)) or isinstance(getattr(n, "value", None), float) for n in ast.walk(value)
    )
    if real:
        draft.swap(statement, value, f"({whole}) * {LOG2_E}", "scale", LESS_USUAL)
    if any(isinstance(n, (ast.FloorDiv, ast.Mod)) for n in ast.walk(value)):
        return  # a share: of more than all there is, the first block would do the work of the others, too
    for size in (size for size in draft.scope.given if size not in used and size != own):
        new = f"({whole}) * {size}" + ("**-0.5" if real else "")
        draft.swap(statement, value, new, "scale", LESS_USUAL)


def _is_share(value: ast.expr) -> bool:
    """Whether a value is `A // n`, rounded down or up."""
    return any(
        isinstance(n.op, ast.FloorDiv) if isinstance(n, ast.BinOp) else called(n) == "ceildiv"
        for n in ast.walk(value)
        if isinstance(n, (ast.BinOp, ast.Call))
    )


def _sizes_of_tiles(draft: Draft) -> set[str]:
    """The names in the shapes of the buffers that the kernels allocate."""
    shapes = (call.args[0] for call in draft.scope.buffers.values() if call.args)
    return {name for shape in shapes for name in names_in(shape)}


def edit_loads(draft: Draft, statement: ast.stmt, donors: Donors) -> list[ast.expr]:
    """The expressions of a statement that parts may be put in; a number of the kernel may itself be a term short."""
    roots = list(expressions(statement))
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
        value = statement.value
        if donors.counts(value) or (isinstance(value, ast.Subscript) and rank(value) == 1):
            _longer(draft, statement, donors, statement.value, statement.value)
            _strided(draft, statement, statement.value)
    return roots
