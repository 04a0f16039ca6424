"""Statements of a kernel: a missing clear, loop variables, divisions, memories, reductions, swapped indices."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import libcst as cst

from triage.fixes import tree
from triage.fixes.buffers import DECLARING, Declared, base, declared, indices, shape_of, with_indices
from triage.fixes.datatypes import ACCUMULATORS
from triage.fixes.proposal import USUAL_DOUBTS, Proposal, Question
from triage.fixes.tree import Edit, Source

ALLOCATORS = ("alloc_fragment", "alloc_shared", "alloc_local")
LOOPS = ("serial", "Pipelined", "Persistent", "range", "Serial", "unroll")


def clear_accumulator(q: Question) -> Iterator[Proposal]:
    """A buffer that is accumulated into, set to its start value before the first use.

    In front of the loop that accumulates, if the value is used after it; in front of the statement, if every use is in
    one and the same iteration.
    """
    name = str(q.fields.get("hazard.buffer") or q.captures.get("buffer") or "")
    for source in q.sources:
        for function in source.all(cst.FunctionDef):
            if not any(_allocates(source, node, name) for node in _own(source, function)):
                continue
            uses = [node for node in _own(source, function) if _mentions(source, node, name)]
            start = next((v for v in (_start_value(source, use, name) for use in uses) if v), None)
            start = start or _start_in_macros(q, source, uses, name)
            if not uses or start is None:
                continue
            short = tree.language(source)
            text = f"{short}.clear({name})" if start == "0" else f"{short}.fill({name}, {start.format(T=short, dtype=_dtype(source, function, name))})"  # fmt: skip
            target = _insertion(source, uses)
            added = cst.parse_statement(f"{text}\n").with_changes(leading_lines=getattr(target, "leading_lines", ()))
            edit = Edit(source.path, target, [added, target.with_changes(leading_lines=())])
            yield Proposal(f"Write {text} before it is accumulated into", (edit,))


def _own(source: Source, function: cst.FunctionDef) -> list[cst.SimpleStatementLine]:
    """The simple statements of a function, those of functions inside it aside."""
    lines = source.all(cst.SimpleStatementLine, function)
    return [line for line in lines if next(source.around(line, cst.FunctionDef)) is function]


def _allocates(source: Source, line: cst.SimpleStatementLine, name: str) -> bool:
    return any(
        isinstance(node.value, cst.Call) and tree.name_of(node.value).startswith("alloc_")
        for node in source.all(cst.Assign, line)
        if any(source.code(t.target) == name for t in node.targets)
    )


def _mentions(source: Source, line: cst.SimpleStatementLine, name: str) -> bool:
    return any(n.value == name for n in source.all(cst.Name, line)) and not _allocates(source, line, name)


#: what an operation starts from; the placeholders are filled in where it is written
ZERO, LEAST, GREATEST = "0", "-{T}.infinity({dtype})", "{T}.infinity({dtype})"
STARTS = {"reduce_sum": ZERO, "reduce_abssum": ZERO, "reduce_max": LEAST, "reduce_min": GREATEST, "max": LEAST, "min": GREATEST}  # fmt: skip


def _start_value(source: Source, use: cst.CSTNode, name: str) -> str | None:
    """0 for a sum, minus infinity for a maximum, infinity for a minimum; None where a statement is none of these."""

    def is_it(node: cst.CSTNode) -> bool:
        return source.code(base(node)) == name

    for call in source.all(cst.Call, use):
        called = tree.name_of(call)
        at = 2 if "gemm" in called else 1
        if len(call.args) > at and is_it(call.args[at].value) and ("gemm" in called or called.startswith("reduce_")):
            return ZERO if "gemm" in called else STARTS.get(called)
    for node in source.all(cst.AugAssign, use):
        if is_it(node.target) and isinstance(node.operator, cst.AddAssign | cst.SubtractAssign):
            return ZERO
    for assign in source.all(cst.Assign, use):
        if not any(is_it(target.target) for target in assign.targets):
            continue
        value = assign.value
        own = any(n.value == name for n in source.all(cst.Name, value))
        if own and isinstance(value, cst.BinaryOperation) and isinstance(value.operator, cst.Add):
            return ZERO
        if own and isinstance(value, cst.Call):
            return STARTS.get(tree.name_of(value))
    return None


def _start_in_macros(q: Question, source: Source, uses: list[cst.SimpleStatementLine], name: str) -> str | None:
    """The start value as the macros show it that get the buffer."""
    for use in uses:
        for call in source.all(cst.Call, use):
            for where, function in q.sources.definitions(tree.name_of(call)):
                for param in function.params.params:
                    passed = tree.argument_of(call, function, param.name.value)
                    if passed is None or source.code(passed.value) != name:
                        continue
                    for line in _own(where, function):
                        found = _start_value(where, line, param.name.value)
                        if found:
                            return found
    return None


def _dtype(source: Source, function: cst.FunctionDef, name: str) -> str:
    """The data type of a buffer as its allocation writes it."""
    for line in _own(source, function):
        if _allocates(source, line, name):
            for call in source.all(cst.Call, line):
                arg = tree.argument(call, 1, "dtype")
                if arg is not None:
                    return source.code(arg.value)
    return '"float32"'


def _insertion(source: Source, uses: list[cst.SimpleStatementLine]) -> cst.CSTNode:
    """The statement in front of which the buffer is to be set, going outwards from its first use."""
    target: cst.CSTNode = uses[0]
    for outer in source.around(uses[0], (cst.For, cst.If, cst.While, cst.With)):
        if isinstance(outer, cst.With):
            break
        if isinstance(outer, cst.For) and _runs_in_order(outer):
            inside = {id(node) for node in source.all(cst.SimpleStatementLine, outer)}
            if len(uses) > 1 and all(id(use) in inside for use in uses):
                break
            target = outer
            if any(id(use) not in inside for use in uses):
                break
        else:
            target = outer
    return target


def _runs_in_order(loop: cst.For) -> bool:
    return isinstance(loop.iter, cst.Call) and tree.name_of(loop.iter) in LOOPS


def loop_variables(q: Question) -> Iterator[Proposal]:
    """As many variables as a loop or launch has extents."""
    for source, line in q.places():
        statement = source.statement(line)
        if isinstance(statement, cst.For):
            yield from _unpacked(source, statement.iter, statement.target, statement.body)
        elif isinstance(statement, cst.With):
            for item in statement.items:
                if item.asname is not None:
                    yield from _unpacked(source, item.item, item.asname.name, statement.body)
        else:
            continue
        return


def _unpacked(source: Source, call: cst.CSTNode, target: cst.CSTNode, body: cst.CSTNode) -> Iterator[Proposal]:
    if not isinstance(call, cst.Call):
        return
    plain = [arg for arg in call.args if arg.keyword is None]
    names = [e.value for e in target.elements] if isinstance(target, cst.Tuple) else [target]
    used = {n.value for n in source.all(cst.Name, body)}
    if len(names) > len(plain):
        for number, name in enumerate(names):
            if isinstance(name, cst.Name) and name.value not in used:
                kept = [source.code(n) for i, n in enumerate(names) if i != number]
                yield Proposal(f"Take {', '.join(kept)}", (_target(source, target, kept),))
        for number, name in enumerate(names):
            for text in _extents(source, body, name):
                args = list(plain)
                args.insert(number, cst.Arg(tree.expression(text)))
                new = _call_with(call, args)
                yield Proposal(f"Give the extent {text} for {source.code(name)}", (Edit(source.path, call, new),))
    elif len(names) < len(plain):
        written = [source.code(n) for n in names]
        free = [
            n
            for n in ("bx", "by", "bz", "i", "j", "k")
            if n in used and n not in written and not _bound_elsewhere(source, body, n)
        ]
        for more in free:
            for at in range(len(written), -1, -1):
                yield Proposal(f"Take {more}, too", (_target(source, target, [*written[:at], more, *written[at:]]),))
        for number in range(len(plain) - 1, -1, -1):
            kept_args = [arg for i, arg in enumerate(plain) if i != number]
            new = _call_with(call, kept_args)
            yield Proposal(f"Leave out the extent {source.code(plain[number].value)}", (Edit(source.path, call, new),))


def _bound_elsewhere(source: Source, body: cst.CSTNode, name: str) -> bool:
    return any(source.bound(n) for n in source.all(cst.Name, body) if n.value == name)


def _target(source: Source, target: cst.CSTNode, names: list[str]) -> Edit:
    text = ", ".join(names)
    wrapped = (isinstance(target, cst.Tuple) and bool(target.lpar)) or isinstance(
        source.parents.get(target), cst.AsName
    )
    return Edit(source.path, target, tree.expression(f"({text})" if wrapped and len(names) > 1 else text))


def _call_with(call: cst.Call, plain: list[cst.Arg]) -> cst.Call:
    return tree.with_arguments(call, plain, [arg for arg in call.args if arg.keyword is not None])


def _extents(source: Source, body: cst.CSTNode, name: cst.CSTNode) -> list[str]:
    """Extents of the buffers that the body indexes by a variable alone, as they are written."""
    found = []
    for subscript in source.all(cst.Subscript, body):
        for at, text in enumerate(indices(subscript)):
            if text.strip() == source.code(name):
                for origin in source.bound(subscript.value) if isinstance(subscript.value, cst.Name) else ():
                    shape = tree.argument(origin, 0, "shape") if isinstance(origin, cst.Call) else None
                    if (
                        shape is not None
                        and isinstance(shape.value, (cst.Tuple, cst.List))
                        and at < len(shape.value.elements)
                    ):
                        found.append(source.code(shape.value.elements[at].value))
    return list(dict.fromkeys(found))


def floor_division(q: Question) -> Iterator[Proposal]:
    """Whole numbers divided as such: `//`, and T.ceildiv where a number of blocks or iterations is meant."""
    for source, line in q.places():
        divisions = [n for n in source.at(cst.BinaryOperation, line) if isinstance(n.operator, cst.Divide)]
        divisions = divisions or _divisions_behind(q, source, line)
        for node in divisions:
            operator = cst.FloorDivide()
            left, right = source.code(node.left), source.code(node.right)
            where = _owner(q, node) or source
            yield Proposal(f"Write {left} // {right}", (Edit(where.path, node, node.with_changes(operator=operator)),))
            text = f"{tree.language(where)}.ceildiv({left}, {right})"
            yield Proposal(f"Write {text}", (Edit(where.path, node, tree.expression(text)),))
        if divisions:
            return


def _divisions_behind(q: Question, source: Source, line: int) -> list[cst.BinaryOperation]:
    found = []
    for name in source.at(cst.Name, line):
        for _, value in q.sources.origins(source, name):
            if isinstance(value, cst.BinaryOperation) and isinstance(value.operator, cst.Divide):
                found.append(value)
    return found


def _owner(q: Question, node: cst.CSTNode) -> Source | None:
    return next((source for source in q.sources if node in source.positions), None)


def memory_scope(q: Question) -> Iterator[Proposal]:
    """A buffer of the accused statement allocated in another memory."""
    for source, line in q.places():
        found = False
        seen = set()
        for call in source.at(cst.Call, line):
            for arg in call.args:
                buffer = declared(q.sources, source, arg.value)
                if buffer is None or buffer.allocator not in ALLOCATORS or id(buffer.call) in seen:
                    continue
                seen.add(id(buffer.call))
                for allocator in ALLOCATORS[:2]:
                    if allocator != buffer.allocator:
                        found = True
                        func = buffer.call.func
                        new = (
                            func.with_changes(attr=cst.Name(allocator))
                            if isinstance(func, cst.Attribute)
                            else cst.Name(allocator)
                        )
                        title = f"Allocate {source.code(arg.value)} with {allocator}"
                        yield Proposal(title, (Edit(buffer.source.path, func, new),))
        for subscript in source.at(cst.Subscript, line):
            buffer = declared(q.sources, source, subscript)
            if buffer is None or buffer.allocator != "alloc_local" or id(buffer.call) in seen:
                continue
            seen.add(id(buffer.call))
            func = buffer.call.func
            if isinstance(func, cst.Attribute):
                found = True
                new = func.with_changes(attr=cst.Name("alloc_fragment"))
                yield Proposal(
                    f"Allocate {source.code(subscript.value)} with alloc_fragment",
                    (Edit(buffer.source.path, func, new),),
                )
        if found:
            return


def reduce_shape(q: Question) -> Iterator[Proposal]:
    """A reduction over another dimension, or into an output of the extents that stay."""
    for source, line in q.places():
        for call in source.at(cst.Call, line):
            if not tree.name_of(call).startswith(("reduce", "cum")) or len(call.args) < 2:
                continue
            dim = tree.argument(call, 2 if tree.name_of(call).startswith("reduce_") else 3, "dim")
            rank_of = shape_of(q.sources, declared(q.sources, source, call.args[0].value))
            out = shape_of(q.sources, declared(q.sources, source, call.args[1].value))
            rank = len(rank_of.dims) if rank_of else 2
            for value in range(rank):
                if dim is None:
                    new = tree.with_keyword(call, "dim", str(value))
                    yield Proposal(f"Reduce over dimension {value}", (Edit(source.path, call, new),))
                elif tree.constant(dim.value) != value:
                    edit = Edit(source.path, dim.value, cst.Integer(str(value)))
                    yield Proposal(f"Reduce over dimension {value}", (edit,))
            now = tree.constant(dim.value) if dim is not None else -1
            if rank_of is not None and out is not None and isinstance(now, int) and -rank <= now < rank:
                left = [rank_of.text(n) for n in range(rank) if n != now % rank]
                new_shape = tree.expression(f"({', '.join(left)}{',' if len(left) == 1 else ''})")
                edit = Edit(out.source.path, out.node, new_shape)
                yield Proposal(f"Allocate {source.code(call.args[1].value)} with the extents that stay", (edit,))
            return


def copy_shape(q: Question) -> Iterator[Proposal]:
    """One side of a copy given extents of the other, or its own swapped."""
    for source, line in q.places():
        for call in source.at(cst.Call, line):
            if "copy" not in tree.name_of(call) or len(call.args) < 2:
                continue
            shapes = [shape_of(q.sources, declared(q.sources, source, arg.value)) for arg in call.args[:2]]
            names = [source.code(base(arg.value)) for arg in call.args[:2]]
            for shape, name in zip(shapes, names, strict=True):
                if shape is not None and len(shape.dims) >= 2 and shape.text(-1) != shape.text(-2):
                    yield Proposal(f"Swap the last two extents of {name}", (shape.swapped(),))
            for one, other in ((1, 0), (0, 1)):
                mine, theirs = shapes[one], shapes[other]
                if mine is None or theirs is None or len(mine.dims) != len(theirs.dims):
                    continue
                for dim in range(len(mine.dims)):
                    if mine.text(dim) != theirs.text(dim):
                        title = f"Allocate {names[one]} with the extent {theirs.text(dim)} of {names[other]}"
                        yield Proposal(title, (mine.replaced(dim, theirs.text(dim)),))
            return


def swap_indices(q: Question) -> Iterator[Proposal]:
    """Two indices of an access exchanged."""
    name = str(q.fields.get("hazard.buffer") or q.captures.get("buffer") or "")
    for source, line in q.places():
        accesses = [s for s in source.at(cst.Subscript, line) if len(s.slice) >= 2]
        accesses.sort(key=lambda s: source.code(s.value) != name)
        for subscript in accesses:
            written = indices(subscript)
            for one, other in itertools.combinations(range(len(written)), 2):
                texts = list(written)
                texts[one], texts[other] = texts[other].strip(), texts[one].strip()
                if texts != written:
                    new = with_indices(subscript, texts)
                    title = f"Write {source.code(new)} instead of {source.code(subscript)}"
                    yield Proposal(title, (Edit(source.path, subscript, new),))
        if accesses:
            return


def operand(q: Question) -> Iterator[Proposal]:
    """A buffer for the operand that a tile operation lacks."""
    if not q.captures.get("missing"):
        return
    for source, line in q.places():
        for call in source.at(cst.Call, line):
            if tree.name_of(call) != str(q.captures.get("function")):
                continue
            function = next(source.around(call, cst.FunctionDef), None)
            if tree.name_of(call).startswith("alloc_"):
                yield from _element_type(source, call, function)
                return
            given = {source.code(base(arg.value)) for arg in call.args}
            gemm = "gemm" in tree.name_of(call)
            for made in source.all(cst.Call, function):
                above = source.parents.get(made)
                if not tree.name_of(made).startswith("alloc_") or not isinstance(above, cst.Assign):
                    continue
                name = source.code(above.targets[0].target)
                if name in given or (gemm and tree.name_of(made) != "alloc_fragment"):
                    continue
                plain = [arg for arg in call.args if arg.keyword is None]
                new = _call_with(call, [*plain, cst.Arg(cst.Name(name))])
                yield Proposal(f"Pass {name}", (Edit(source.path, call, new),))
            return


def _element_type(source: Source, call: cst.Call, function: cst.FunctionDef | None) -> Iterator[Proposal]:
    """The data types of the other buffers and of the parameters, for an allocation that has a shape and no type; and those
    of accumulators, because the one without a type may be the only one in its kernel."""
    if len(call.args) != 1 or call.args[0].keyword is not None or function is None:
        return
    buffers = [Declared(source, made) for made in source.all(cst.Call, function)]
    types = [b.dtype for b in buffers if b.allocator.startswith("alloc_") or b.allocator in DECLARING]
    written = [source.code(arg.value) for arg in types if arg is not None]
    for text in dict.fromkeys((*written, *(f'"{name}"' for name in ACCUMULATORS))):
        new = _call_with(call, [*call.args, cst.Arg(tree.expression(text))])
        yield Proposal(f"Allocate elements of {text}", (Edit(source.path, call, new),), USUAL_DOUBTS | {"dtype"})
