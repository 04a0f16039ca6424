"""What the statements of a kernel can speak of: its buffers, counters and sizes, and the loops around each statement. Pure."""

from __future__ import annotations

import ast
import difflib
import functools
import itertools
import re
from collections.abc import Collection, Iterable

from triage.experiment.repairs.syntax import (
    ALLOCATING,
    SIMPLE,
    called,
    declares,
    indices_of,
    launches,
    names_in,
    target_names,
)

#: how many other names are tried in the place of one
ALTERNATIVES = 10
#: parameters of a factory that are no sizes
NO_SIZE = re.compile("dtype|thread|stage|causal|policy")
#: parameters of a kernel that are memory are annotated so
MEMORY = ("Tensor", "StridedTensor", "Buffer", "FragmentBuffer", "SharedBuffer", "ptr", "MeshTensor")
SERIAL = ("Pipelined", "serial", "Serial", "range", "unroll", "Unroll", "Persistent")
PARALLEL = ("Parallel", "Vectorized", "vectorized")


class Scope:
    """One outermost function around a kernel."""

    def __init__(
        self,
        function: ast.FunctionDef,
        constants: Collection[str] = (),
        numbers: Collection[float] = (),
        shifts: Collection[int] = (),
    ) -> None:
        self.function = function
        #: the fractions that stand anywhere in the module
        self.numbers = tuple(numbers)
        #: whole numbers that kernels of the module add or take off, such as the zero of a code
        self.shifts = tuple(shifts)
        #: the numbers of the module that the function speaks of
        self.constants = [name for name in constants if name in names_in(function)]
        self.kernels = [n for n in ast.walk(function) if isinstance(n, ast.With) and launches(n)]
        #: the allocation of each buffer
        self.buffers: dict[str, ast.Call] = {}
        for node in ast.walk(function):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and called(node.value) in ALLOCATING:
                self.buffers |= {target.id: node.value for target in node.targets if isinstance(target, ast.Name)}
        self._loops: dict[int, list[ast.For]] = {}
        self._following: dict[int, ast.stmt] = {}
        for one in self.bodies:
            self._look(one.body, [])

    def _look(self, body: list[ast.stmt], loops: list[ast.For]) -> None:
        self._following.update((id(one), other) for one, other in itertools.pairwise(body))
        for statement in body:
            self._loops[id(statement)] = loops
            inner = [statement, *loops] if isinstance(statement, ast.For) else loops
            for name in ("body", "orelse"):
                self._look(getattr(statement, name, []), inner)

    def loops(self, statement: ast.stmt) -> list[ast.For]:
        """The loops around a statement of a kernel, the innermost first."""
        return self._loops.get(id(statement), [])

    def following(self, statement: ast.stmt) -> ast.stmt | None:
        """The statement behind another one of a kernel, in the same block."""
        return self._following.get(id(statement))

    def in_kernel(self, statement: ast.stmt) -> bool:
        return id(statement) in self._loops or statement in self.kernels

    def serial_loops(self, statement: ast.stmt) -> list[ast.For]:
        return [loop for loop in self.loops(statement) if kind_of(loop) in SERIAL]

    def counters_around(self, statement: ast.stmt) -> list[str]:
        """The counters of the serial loops around a statement, the innermost first."""
        targets = (loop.target for loop in self.serial_loops(statement))
        return [target.id for target in targets if isinstance(target, ast.Name)]

    @functools.cached_property
    def blocks(self) -> list[str]:
        """The variables that number the blocks."""
        targets = [item.optional_vars for kernel in self.kernels for item in kernel.items if item.optional_vars]
        return list(dict.fromkeys(name for target in targets for name in target_names(target)))

    @functools.cached_property
    def counters(self) -> list[str]:
        """The variables of loops and blocks."""
        loops = [n for n in ast.walk(self.function) if isinstance(n, ast.For)]
        return list(dict.fromkeys([*(name for loop in loops for name in target_names(loop.target)), *self.blocks]))

    @functools.cached_property
    def scalars(self) -> list[str]:
        """Values that a statement of a kernel gives a name: loaded or computed."""
        named = (name for one in self.bodies for name in self._named(one))
        return list(dict.fromkeys(name for name in named if name not in self.buffers or self._is_counter(name)))

    def _is_counter(self, name: str) -> bool:
        """Whether it is a variable of whole numbers."""
        made = self.buffers[name]
        return called(made) == "alloc_var" and bool(made.args) and "int" in ast.unparse(made.args[0])

    @functools.cached_property
    def sizes(self) -> list[str]:
        """What the factory is given and makes of it, and numbers that the kernel is given."""
        found = dict.fromkeys(_numbers(self.function))
        found |= dict.fromkeys(name for statement in self.beside() for name in self._named(statement))
        found |= dict.fromkeys(self.constants)
        tensors = {*self.buffers, *self._in_body, *self._indexed}
        return [name for name in found if name not in tensors and not NO_SIZE.search(name)]

    @staticmethod
    def _named(root: ast.AST) -> list[str]:
        """Names that are given to numbers of which something can be computed."""
        found: list[str] = []
        for node in ast.walk(root):
            if isinstance(node, ast.Assign) and not isinstance(node.value, (ast.Lambda, ast.JoinedStr)):
                text = isinstance(node.value, ast.Constant) and not isinstance(node.value.value, (int, float))
                found += [] if text else [target.id for target in node.targets if isinstance(target, ast.Name)]
                if isinstance(node.value, ast.Call) and called(node.value) in ("const", "dynamic", "symbolic"):
                    found += [
                        name
                        for target in node.targets
                        if isinstance(target, ast.Tuple)
                        for name in target_names(target)
                    ]
        return found

    @functools.cached_property
    def memory(self) -> dict[str, int]:
        """The tensors that the kernel is given, each with how many dimensions it has; 0 where that is not plain."""
        found: dict[str, int] = {}
        for node in (n for n in ast.walk(self.function) if isinstance(n, ast.arg)):
            if node.annotation is not None and _is_memory(node.annotation):
                found[node.arg] = len(_shape_in(node.annotation))
        return found | self._indexed | {name: len(shape) for name, shape in self._in_body.items()}

    @functools.cached_property
    def _indexed(self) -> dict[str, int]:
        """Memory that macros and helpers are given: parameters of which the body takes elements."""
        found: dict[str, int] = {}
        for function in (n for n in ast.walk(self.function) if isinstance(n, ast.FunctionDef)):
            plain = {arg.arg for arg in function.args.args if arg.annotation is None}
            for node in (
                n for n in ast.walk(function) if isinstance(n, ast.Subscript) and isinstance(n.value, ast.Name)
            ):
                if isinstance(node.value, ast.Name) and node.value.id in plain:
                    found[node.value.id] = len(indices_of(node))
        return found

    @functools.cached_property
    def _in_body(self) -> dict[str, list[ast.expr]]:
        """The shapes of tensors of which the body says what they are (`x: T.Tensor(shape, …)`), or makes them (`T.empty`)."""
        found: dict[str, list[ast.expr]] = {}
        for node in (n for n in ast.walk(self.function) if isinstance(n, (ast.AnnAssign, ast.Assign))):
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            made = node.annotation if isinstance(node, ast.AnnAssign) else node.value
            makes = isinstance(made, ast.Call) and called(made) in (*MEMORY, "empty")
            says = isinstance(node, ast.AnnAssign) and isinstance(made, ast.Subscript) and _is_memory(made)
            if (makes or says) and isinstance(target, ast.Name) and _shape_in(made):
                found[target.id] = _shape_in(made)
        return found

    def shape_of(self, name: str) -> list[ast.expr]:
        """How far the dimensions of a tensor that the kernel is given go, where its annotation says so."""
        for node in (n for n in ast.walk(self.function) if isinstance(n, ast.arg) and n.arg == name):
            if node.annotation is not None and _shape_in(node.annotation):
                return _shape_in(node.annotation)
        return self._in_body.get(name, [])

    def meant(self, names: Iterable[str]) -> set[str]:
        """Names, and those that the values of the kernel among them were computed of."""
        found: set[str] = set()
        coming = set(names)
        while coming:
            found |= coming
            coming = {name for known in coming for name in self._made_of.get(known, ())} - found
        return found

    @functools.cached_property
    def _made_of(self) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for node in (n for kernel in self.kernels for n in ast.walk(kernel) if isinstance(n, ast.Assign)):
            for target in (target for target in node.targets if isinstance(target, ast.Name)):
                found.setdefault(target.id, set()).update(names_in(node.value))
        return found

    def is_count(self, node: ast.expr) -> bool:
        """Whether an expression is one of whole numbers: counters, sizes and what is computed of them."""
        return names_in(node) <= {*self.counters, *self.sizes, *self.scalars} and not any(
            isinstance(n, (ast.Subscript, ast.Call, ast.Div)) for n in ast.walk(node)
        )

    def share(self, name: str) -> ast.BinOp | None:
        """The division that gives a size of the factory its name; None if something else does."""
        for statement in (one for one in self.beside() if isinstance(one, ast.Assign)):
            value, target = statement.value, statement.targets[0]
            if isinstance(target, ast.Name) and target.id == name:
                return value if isinstance(value, ast.BinOp) and isinstance(value.op, ast.FloorDiv) else None
        return None

    @functools.cached_property
    def given(self) -> list[str]:
        """The sizes that the function is given."""
        return [name for name in _numbers(self.function) if name in self.sizes]

    def alike(self, name: str, statement: ast.stmt) -> list[str]:
        """Other names of the same sort that a statement can use, the likeliest first: counters, sizes, or values that a
        statement gives a name, which stand for either."""
        if name in self.sizes:
            group = sorted([*self.sizes, *self.scalars], key=lambda other: -likeness(name, other))
        elif name in self.counters or name in self.scalars:
            around = (counter for loop in self.loops(statement) for counter in target_names(loop.target))
            known = [*around, *self.blocks]
            group = [*self.blocks, *known, *self.scalars] if name in self.blocks else [*known, *self.scalars]
        else:
            return []
        return [other for other in dict.fromkeys(group) if other != name][:ALTERNATIVES]

    def sort_of(self, name: str) -> str:
        """What a name counts: blocks, turns of a loop, or neither."""
        if name in self.blocks:
            return "block"
        return "counter" if name in self.counters else "size" if name in self.sizes else "value"

    def compared_with(self, name: str) -> list[str]:
        """Names that conditions of the function compare a value with."""
        found: dict[str, None] = {}
        for node in (n for n in ast.walk(self.function) if isinstance(n, ast.Compare)):
            sides = [side.id for side in (node.left, *node.comparators) if isinstance(side, ast.Name)]
            if name in sides:
                found |= dict.fromkeys(side for side in sides if side != name)
        return list(found)

    @functools.cached_property
    def extents(self) -> dict[str, ast.expr]:
        """Of the counters of parallel loops, how far they count."""
        found: dict[str, ast.expr] = {}
        for loop in (n for n in ast.walk(self.function) if isinstance(n, ast.For) and kind_of(n) in PARALLEL):
            assert isinstance(loop.iter, ast.Call)
            found |= dict(zip(target_names(loop.target), loop.iter.args, strict=False))
        return found

    @functools.cached_property
    def unread(self) -> dict[str, int]:
        """Of those tensors, the ones that the kernel never speaks of."""
        spoken_of = names_in(self.function)
        return {name: rank for name, rank in self.memory.items() if name not in spoken_of}

    @functools.cached_property
    def unread_places(self) -> list[str]:
        """Of these, the lists of whole numbers, such as positions or rows."""
        arguments = (n for n in ast.walk(self.function) if isinstance(n, ast.arg) and self.unread.get(n.arg) == 1)
        return [node.arg for node in arguments if node.annotation is not None and "int" in ast.dump(node.annotation)]

    @functools.cached_property
    def unused(self) -> list[str]:
        """Names that nothing reads: what should have been part of some value."""
        read: set[str] = set()
        written: dict[str, None] = {}
        for node in ast.walk(self.function):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                read.add(node.id)
            elif isinstance(node, ast.Name):
                written[node.id] = None
            elif isinstance(node, ast.arg) and node.annotation is None:
                written[node.arg] = None
        return [name for name in written if name not in read and name != "_"]

    def definition(self, name: str, statement: ast.stmt) -> ast.expr | None:
        """What a name was bound to last in the lines before a statement, in the innermost function around it."""
        functions = [f for f in ast.walk(self.function) if isinstance(f, ast.FunctionDef) and _holds(f, statement)]
        inmost = max(functions, key=lambda f: f.lineno, default=self.function)
        bindings = [
            n for n in ast.walk(inmost)
            if isinstance(n, ast.Assign) and n.lineno < statement.lineno and any(isinstance(t, ast.Name) and t.id == name for t in n.targets)
        ]  # fmt: skip
        return max(bindings, key=lambda n: n.lineno).value if bindings else None

    @functools.cached_property
    def bodies(self) -> list[ast.With | ast.FunctionDef]:
        """The kernels and the macros."""
        return [*self.kernels, *self.macros]

    @functools.cached_property
    def macros(self) -> list[ast.FunctionDef]:
        """The functions of which tilelang puts the body where they are called."""
        functions = (node for node in ast.walk(self.function) if isinstance(node, ast.FunctionDef))
        return [f for f in functions if any(ast.unparse(d).rpartition(".")[2] == "macro" for d in f.decorator_list)]

    def beside(self) -> list[ast.stmt]:
        """The simple statements of the function that stand in no kernel: of the factory, of macros and helpers."""
        within = {id(node) for kernel in self.kernels for node in ast.walk(kernel)}
        found = []
        for node in ast.walk(self.function):
            simple = isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Return, ast.Expr))
            hands_out = isinstance(node, ast.Return) and isinstance(node.value, ast.Name)
            if isinstance(node, ast.stmt) and simple and not hands_out and id(node) not in within:
                found.append(node)
        return found

    def cleared_in(self, loop: ast.stmt, buffer: str) -> bool:
        """Whether something in a loop sets a whole buffer."""
        for call in (n for n in ast.walk(loop) if isinstance(n, ast.Call) and called(n) in ("clear", "fill", "copy")):
            target = call.args[-1 if called(call) == "copy" else 0] if call.args else None
            if isinstance(target, ast.Name) and target.id == buffer:
                return True
        return False

    def initialized_before(self, loop: ast.stmt, buffer: str) -> ast.stmt | None:
        """The statement of a kernel that sets a whole buffer before a loop, the last one if there are more."""
        found = None
        for statement in (n for kernel in self.kernels for n in ast.walk(kernel) if isinstance(n, ast.Expr)):
            call = statement.value
            if not isinstance(call, ast.Call) or called(call) not in ("clear", "fill") or not call.args:
                continue
            if statement.lineno < loop.lineno and names_in(call.args[0]) == {buffer}:
                found = statement
        return found

    def movable(self, statement: ast.stmt) -> bool:
        return isinstance(statement, SIMPLE) and not declares(statement)


def shifts_of(function: ast.FunctionDef) -> set[int]:
    """The whole numbers that a function adds or takes off and that codes may be shifted by, such as 8, 127 or 128."""
    sums = (n for n in ast.walk(function) if isinstance(n, ast.BinOp) and isinstance(n.op, (ast.Add, ast.Sub)))
    values = [side.value for n in sums for side in (n.left, n.right) if isinstance(side, ast.Constant)]
    whole = {
        int(v) for v in values if isinstance(v, (int, float)) and not isinstance(v, bool) and float(v).is_integer()
    }
    return {value for value in whole if 4 <= value <= 256}


@functools.cache
def _holds(function: ast.FunctionDef, statement: ast.stmt) -> bool:
    return function.lineno < statement.lineno <= (function.end_lineno or function.lineno)


def likeness(one: str, other: str) -> float:
    """How alike two names are; whether letters are large says what sort of name it is, so that it counts half."""
    exactly, roughly = ((one, other), (one.lower(), other.lower()))
    return sum(difflib.SequenceMatcher(None, *pair).ratio() for pair in (exactly, roughly)) / 2


def _numbers(function: ast.FunctionDef) -> list[str]:
    """The parameters of a function and of those in it that can be numbers."""
    found: list[str] = []
    for inner in (node for node in ast.walk(function) if isinstance(node, ast.FunctionDef)):
        arguments = [*inner.args.posonlyargs, *inner.args.args]
        defaults = [None] * (len(arguments) - len(inner.args.defaults)) + list(inner.args.defaults)
        pairs = [
            *zip(arguments, defaults, strict=True),
            *zip(inner.args.kwonlyargs, inner.args.kw_defaults, strict=True),
        ]
        for argument, default in pairs:
            text = isinstance(default, ast.Constant) and isinstance(default.value, (str, bool))
            if not text and (argument.annotation is None or not _is_memory(argument.annotation)):
                found.append(argument.arg)
    return found


def kind_of(loop: ast.For) -> str:
    """`Parallel`, `Pipelined`, `range`, …"""
    return called(loop.iter) if isinstance(loop.iter, ast.Call) else ""


def _shape_in(node: ast.expr | None) -> list[ast.expr]:
    """The extents that `T.Tensor((M, N), dtype)`, `T.Tensor[[M, N], dtype]` or `T.empty((M, N), dtype)` says; none where it is not plain."""
    given: list[ast.expr] = node.args if isinstance(node, ast.Call) else []
    if isinstance(node, ast.Subscript):
        given = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
    shape = given[0] if given else None
    return list(shape.elts) if isinstance(shape, (ast.Tuple, ast.List)) else []


def _is_memory(annotation: ast.expr) -> bool:
    attributes = {node.attr for node in ast.walk(annotation) if isinstance(node, ast.Attribute)}
    return bool((attributes | names_in(annotation)) & set(MEMORY))
