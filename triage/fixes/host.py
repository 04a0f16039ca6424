"""The host's side: the call of a kernel, its arguments, and the tensors that the script makes for it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import libcst as cst

from triage.fixes import tree
from triage.fixes.buffers import Shape
from triage.fixes.meaning import output_positions, walk
from triage.fixes.proposal import Proposal, Question
from triage.fixes.tree import Edit, Source, Sources
from triage.model import KernelRecord

#: calls that make a tensor of a given shape
CREATING = ("randn", "rand", "zeros", "ones", "empty", "full", "randint", "arange", "normal", "linspace")
#: calls on a tensor that hand it on
HANDING_ON = ("cuda", "contiguous", "to", "half", "float", "bfloat16", "div_", "mul_", "normal_", "uniform_", "requires_grad_", "clone", "detach")  # fmt: skip


def creation(sources: Sources, source: Source, node: cst.CSTNode) -> tuple[Source, cst.Call] | None:
    """The call that makes the tensor which an expression is: `torch.randn(…)` of `b` or of `b.cuda()`."""
    for where, value in sources.origins(source, node):
        while (
            isinstance(value, cst.Call)
            and isinstance(value.func, cst.Attribute)
            and value.func.attr.value in HANDING_ON
        ):
            value = value.func.value
        if isinstance(value, cst.Name) and value is not node:
            return creation(sources, where, value)
        if isinstance(value, cst.BinaryOperation):
            return creation(sources, where, value.left)
        if isinstance(value, cst.Call) and tree.name_of(value) in CREATING:
            return where, value
    return None


def calls_at(q: Question) -> Iterator[tuple[Source, cst.Call]]:
    """Calls in the user's lines that the error went through, the deepest line first; where the interpreter told which
    expression of the line failed, that one first."""
    frames = q.error.frames if q.error else ()
    failed = {(f.file, f.line): f.column for f in frames if f.user and f.column is not None}
    for source, line in q.places():
        column = failed.get((source.path, line))
        calls = source.at(cst.Call, line)
        if column is not None:
            calls.sort(key=lambda call: source.positions[call].start.column != column - 1)
        for call in calls:
            yield source, call


def passed_for(q: Question) -> Iterator[tuple[Source, cst.CSTNode]]:
    """The expression that the host passes for the parameter that the error names."""
    name = str(q.captures.get("parameter") or "")
    record = next((r for r in q.records if any(p.get("name") == name for p in r.params)), None)
    if record is None:
        return
    names = [str(p.get("name")) for p in record.params]
    outputs = set(output_positions(record.out_idx, len(names)))
    inputs = [n for number, n in enumerate(names) if number not in outputs]
    for source, call in calls_at(q):
        plain = tree.positional(call)
        for order in (inputs, names):
            if len(plain) == len(order) and name in order:
                yield source, plain[order.index(name)].value
                return


def host_shape(q: Question) -> Iterator[Proposal]:
    """A tensor made by the script given the shape of the kernel's parameter."""
    axis = q.captures.get("axis")
    wanted = _declared_extent(q, axis)
    for source, node in passed_for(q):
        made = creation(q.sources, source, node)
        if made is None:
            continue
        where, call = made
        name = source.code(node)
        shape = _shape(q.sources, where, call)
        if isinstance(shape, Shape):
            if len(shape.dims) >= 2:
                yield Proposal(f"Swap the extents of the tensor {name}", (shape.swapped(),), host=True)
            for text in _known_as(q, where, call, wanted):
                if isinstance(axis, int) and axis < len(shape.dims) and shape.text(axis) != text:
                    yield Proposal(
                        f"Make the tensor {name} with extent {text}", (shape.replaced(axis, text),), host=True
                    )
        elif shape:
            for one, other in itertools.combinations(range(len(shape)), 2):
                values = [arg.value for arg in shape]
                edits = (Edit(where.path, values[one], values[other]), Edit(where.path, values[other], values[one]))
                yield Proposal(f"Swap the extents of the tensor {name}", edits, host=True)
            for text in _known_as(q, where, call, wanted):
                if isinstance(axis, int) and axis < len(shape) and where.code(shape[axis].value) != text:
                    edit = Edit(where.path, shape[axis].value, tree.expression(text))
                    yield Proposal(f"Make the tensor {name} with extent {text}", (edit,), host=True)


def _declared_extent(q: Question, axis: object) -> object:
    """The extent that the parameter has in the kernel: as the kernel was captured, else as the error says."""
    name = str(q.captures.get("parameter") or "")
    for record in q.records:
        for param in record.params:
            shape = param.get("shape")
            if param.get("name") == name and isinstance(shape, list) and isinstance(axis, int) and axis < len(shape):
                return shape[axis]
    return q.captures.get("expected")


def factory_extent(q: Question) -> Iterator[Proposal]:
    """The extent with which the kernel was built set to that of the tensor which is passed."""
    name, axis, got = str(q.captures.get("parameter") or ""), q.captures.get("axis"), q.captures.get("got")
    if not isinstance(axis, int) or not isinstance(got, int):
        return
    for source, calls in declared_parameters(q, name):
        found = tree.argument(calls[name], 0, "shape")
        shape = found.value if found is not None else None
        if not isinstance(shape, cst.Tuple | cst.List) or axis >= len(shape.elements):
            continue
        for where, value in q.sources.origins(source, shape.elements[axis].value):
            if tree.constant(value) == q.captures.get("expected"):
                edit = Edit(where.path, value, cst.Integer(str(got)))
                doubts = frozenset({"unused", "tiles", "elements"})
                yield Proposal(f"Build the kernel for the extent {got}", (edit,), doubts, host=True)


def declared_parameters(q: Question, name: str) -> Iterator[tuple[Source, dict[str, cst.Call]]]:
    """The declarations of a kernel's parameters, of the kernels that have one of this name."""
    for source in q.sources:
        for function in source.all(cst.FunctionDef):
            annotated = {p.name.value: p.annotation.annotation for p in function.params.params if p.annotation}
            calls = {n: call for n, call in annotated.items() if isinstance(call, cst.Call)}
            if name in calls:
                yield source, calls


def _shape(sources: Sources, source: Source, call: cst.Call) -> Shape | list[cst.Arg]:
    """The extents that a creating call is given: a written tuple, or single arguments."""
    plain = tree.positional(call)
    if plain and len(plain) <= 2:
        found = sources.origins(source, plain[-1 if tree.name_of(call) == "randint" else 0].value)
        if len(found) == 1 and isinstance(found[0][1], (cst.Tuple, cst.List)):
            return Shape(found[0][0], found[0][1])
    if tree.name_of(call) in ("randint", "full", "arange", "normal", "linspace"):
        return []
    return plain


def _known_as(q: Question, source: Source, call: cst.Call, value: object) -> list[str]:
    """How an extent is written where the tensor is made: names with this value that are used nearby, else the number."""
    if not isinstance(value, int):
        return []
    function = next(source.around(call, cst.FunctionDef), None)
    names = []
    for made in source.all(cst.Call, function):
        if tree.name_of(made) in CREATING or made is call:
            names += [n for arg in made.args for n in source.all(cst.Name, arg.value)]
    found = []
    for name in names:
        origins = q.sources.origins(source, name)
        if any(tree.constant(node) == value for _, node in origins):
            found.append(name.value)
    return list(dict.fromkeys(found)) or [str(value)]


def argument_count(q: Question) -> Iterator[Proposal]:
    """A kernel called with outputs that tilelang allocates, or without a tensor that it takes."""
    expected, given = q.captures.get("expected"), q.captures.get("given")
    if not isinstance(expected, int) or not isinstance(given, int):
        return
    for source, call in calls_at(q):
        plain = tree.positional(call)
        record = next((r for r in q.records if len(r.params) in (len(plain), expected)), None)
        record = record or next(iter(q.records), None)
        if record is None or not plain:
            continue
        outputs = set(output_positions(record.out_idx, len(record.params)))
        if len(plain) == len(record.params) and len(plain) > len(record.params) - len(outputs):
            kept = [arg for number, arg in enumerate(plain) if number not in outputs]
            title = "Do not pass " + ", ".join(source.code(plain[n].value) for n in sorted(outputs))
            yield Proposal(f"{title}: tilelang allocates the outputs", (_with_args(source, call, kept),), host=True)
            return
        inputs = [str(p.get("name")) for n, p in enumerate(record.params) if n not in outputs]
        if len(plain) == len(inputs) - 1:
            yield from _missing(source, call, plain, inputs)
            return
        if len(plain) == len(inputs) + 1:
            for number in range(len(plain) - 1, -1, -1):
                kept = [arg for n, arg in enumerate(plain) if n != number]
                title = f"Do not pass {source.code(plain[number].value)}"
                yield Proposal(title, (_with_args(source, call, kept),), host=True)
            return


def _missing(source: Source, call: cst.Call, plain: list[cst.Arg], inputs: list[str]) -> Iterator[Proposal]:
    """The tensor of the script that is named as a parameter and not passed."""
    given = {source.code(arg.value).lower() for arg in plain}
    function = next(source.around(call, cst.FunctionDef), None)
    names = {n.value for n in source.all(cst.Name, function)}
    for number, wanted in enumerate(inputs):
        for name in sorted(names):
            if name.lower() == wanted.lower() and name.lower() not in given:
                args = [arg.value for arg in plain]
                args.insert(number, cst.Name(name))
                edit = _with_args(source, call, [cst.Arg(value) for value in args])
                yield Proposal(f"Pass {name} for {wanted}", (edit,), host=True)


def _with_args(source: Source, call: cst.Call, args: list[cst.Arg]) -> Edit:
    rest = [arg for arg in call.args if arg.star or arg.keyword is not None]
    return Edit(source.path, call, tree.with_arguments(call, args, rest))


def missing_argument(q: Question) -> Iterator[Proposal]:
    """An argument that a call leaves out, where a variable of the parameter's name has a value.

    Python names the last parameter that is left without an argument, while any of those before it may be the one that
    was forgotten. Arguments that are named as parameters show which: each must then stand where its own is wanted.
    """
    wanted = str(q.captures.get("argument") or "")
    for source, call in calls_at(q):
        defined = [f for _, f in q.sources.definitions(tree.name_of(call))]
        plain = tree.positional(call)
        if len(defined) != 1 or len(plain) + sum(arg.keyword is not None for arg in call.args) != len(call.args):
            continue
        parameters = tree.positional_parameters(defined[0])
        known = {name.lower(): name for name in sorted(source.visible(call))}
        for at, parameter in enumerate(parameters[: len(plain)]):
            name = known.get(parameter.lower())
            if name is None:
                continue
            args = [*(arg.value for arg in plain[:at]), cst.Name(name), *(arg.value for arg in plain[at:])]
            if wanted in parameters[: len(args)] and _in_place(args, parameters):
                edit = _with_args(source, call, [cst.Arg(value) for value in args])
                yield Proposal(f"Pass {name} for {parameter}", (edit,), host=True)
        name = known.get(wanted.lower())
        if name is not None and _in_place([arg.value for arg in plain], parameters):
            edit = Edit(source.path, call, tree.with_keyword(call, wanted, name))
            yield Proposal(f"Pass {wanted}={name}", (edit,), host=True)
        return


def _in_place(args: list[cst.BaseExpression], parameters: list[str]) -> bool:
    """Whether every argument that is named as a parameter is given for that one."""
    there = [name.lower() for name in parameters]
    named = [arg.value.lower() if isinstance(arg, cst.Name) else "" for arg in args]
    return all(name not in there or (at < len(there) and there[at] == name) for at, name in enumerate(named))


# ---------------------------------------------------------------------------------------------- what becomes a kernel


def out_idx(q: Question) -> Iterator[Proposal]:
    """out_idx set to parameters that exist."""
    written = _written(q)
    for source in q.sources:
        for call in source.all(cst.Call):
            arg = tree.argument(call, None, "out_idx") or tree.argument(call, None, "result_idx")
            if arg is None:
                continue
            for where, value in q.sources.origins(source, arg.value):
                for text in written:
                    new = f"[{text}]" if isinstance(value, (cst.List, cst.Tuple)) else text
                    yield Proposal(f"Write out_idx={new}", (Edit(where.path, value, tree.expression(new)),))


def _written(q: Question) -> list[str]:
    """Positions of parameters, those that a kernel writes first; the last one as -1."""
    for record in q.records:
        found = sorted(_written_by(record))
        if found:
            last = found == [len(record.params) - 1]
            return ["-1"] if last else [", ".join(map(str, found))]
    count = q.captures.get("count")
    return ["-1", *(str(n) for n in range(count - 1))] if isinstance(count, int) else ["-1"]


def add_out_idx(q: Question) -> Iterator[Proposal]:
    """out_idx given to a decorator without it, if the call leaves out just the tensors that the kernel writes."""
    for _, call in calls_at(q):
        plain = tree.positional(call)
        for record in q.records:
            written = sorted(_written_by(record))
            if (
                not plain
                or output_positions(record.out_idx, len(record.params))
                or len(plain) + len(written) != len(record.params)
            ):
                continue
            last = written == [len(record.params) - 1]
            value = "[-1]" if last else str(written)
            for where in q.sources:
                for decorator in where.all(cst.Decorator):
                    if tree.name_of(decorator.decorator) != "jit":
                        continue
                    if isinstance(decorator.decorator, cst.Call):
                        new = tree.with_keyword(decorator.decorator, "out_idx", value)
                    else:
                        new = cst.Call(
                            decorator.decorator, tree.with_keyword(cst.Call(cst.Name("f")), "out_idx", value).args
                        )
                    yield Proposal(f"Write out_idx={value}", (Edit(where.path, decorator.decorator, new),), host=True)
            return


def _written_by(record: KernelRecord) -> set[int]:
    """Positions of the parameters that a kernel writes."""
    written = {a.buffer for s, _ in walk(record.statements) for a in s.accesses if a.mode != "read"}
    return {n for n, param in enumerate(record.params) if str(param.get("name")) in written}


def return_kernel(q: Question) -> Iterator[Proposal]:
    """The kernel that a factory defines, returned at its end."""
    for source, line in q.places():
        for function in source.all(cst.FunctionDef):
            span = source.positions[function]
            if not span.start.line <= line <= span.end.line or not isinstance(function.body, cst.IndentedBlock):
                continue
            inner = [s for s in function.body.body if isinstance(s, cst.FunctionDef) and _is_kernel(s)]
            returns = [
                r for r in source.all(cst.Return, function) if next(source.around(r, cst.FunctionDef)) is function
            ]
            if len(inner) != 1:
                continue
            name = inner[0].name.value
            if not returns:
                body = function.body
                added = cst.parse_statement(f"return {name}\n")
                yield Proposal(f"Return {name}", (Edit(source.path, body.body[-1], [body.body[-1], added]),))
            for found in returns:
                if found.value is None or source.code(found.value) != name:
                    new = found.with_changes(value=cst.Name(name), whitespace_after_return=cst.SimpleWhitespace(" "))
                    yield Proposal(f"Return {name}", (Edit(source.path, found, new),))


def _is_kernel(function: cst.FunctionDef) -> bool:
    return any(tree.name_of(d.decorator) == "prim_func" for d in function.decorators)


def decorate_kernel(q: Question) -> Iterator[Proposal]:
    """The decorator that makes a function of the tile language a kernel."""
    for source, line in q.places():
        for function in reversed(source.all(cst.FunctionDef)):
            span = source.positions[function]
            if not span.start.line <= line <= span.end.line or function.decorators:
                continue
            short = tree.language(source)
            decorator = cst.Decorator(tree.expression(f"{short}.prim_func"))
            edit = Edit(source.path, function, function.with_changes(decorators=[decorator]))
            yield Proposal(f"Write @{short}.prim_func above {function.name.value}", (edit,))
            return


def compile_kernel(q: Question) -> Iterator[Proposal]:
    """The decorator that compiles what a factory returns: with the outputs that the kernel writes, or without any.

    Which of them fits, the number of arguments of the call tells.
    """
    for source in q.sources:
        if not any(tree.dotted(a.name) == "tilelang" and a.asname is None for a in source.all(cst.ImportAlias)):
            continue
        for function in source.all(cst.FunctionDef):
            inner = [f for f in source.all(cst.FunctionDef, function.body) if _is_kernel(f)]
            if function.decorators or len(inner) != 1 or isinstance(source.parents.get(function), cst.ClassDef):
                continue
            for text in ("tilelang.jit(out_idx=[-1])", "tilelang.jit"):
                decorator = cst.Decorator(tree.expression(text))
                edit = Edit(source.path, function, function.with_changes(decorators=[decorator]))
                yield Proposal(f"Write @{text} above {function.name.value}", (edit,))


def contiguous(q: Question) -> Iterator[Proposal]:
    """A tensor that is a view copied into the order that the kernel expects."""
    for source, node in passed_for(q):
        if isinstance(node, cst.BaseExpression):
            new = tree.expression(f"({source.code(node)}).contiguous()" if _is_compound(node) else f"{source.code(node)}.contiguous()")  # fmt: skip
            yield Proposal(f"Pass {source.code(new)}", (Edit(source.path, node, new),), host=True)


def _is_compound(node: cst.CSTNode) -> bool:
    return not isinstance(node, cst.Name | cst.Attribute | cst.Call | cst.Subscript)


def host_device(q: Question) -> Iterator[Proposal]:
    """Tensors of a call made on the GPU, where the script does not say on which device."""
    for source, call in calls_at(q):
        edits = {}
        for arg in call.args:
            made = creation(q.sources, source, arg.value)
            if made is not None and tree.argument(made[1], None, "device") is None:
                where, creating = made
                edits[id(creating)] = Edit(where.path, creating, tree.with_keyword(creating, "device", '"cuda"'))
        if edits:
            yield Proposal('Make the tensors with device="cuda"', tuple(edits.values()), host=True)
            return
