"""What the statements of a kernel can speak of: its buffers, counters and sizes, and the loops around each statement. Pure."""

from __future__ import annotations

import ast
import functools

from triage.experiment.repairs.syntax import ALLOCATING, called, declares, launches, names_in, target_names

#: how many other names are tried in the place of one
ALTERNATIVES = 6
#: parameters of a kernel that are memory are annotated so
MEMORY = ("Tensor", "StridedTensor", "Buffer", "FragmentBuffer", "SharedBuffer", "ptr", "MeshTensor")
SERIAL = ("Pipelined", "serial", "Serial", "range", "unroll", "Unroll", "Persistent")
PARALLEL = ("Parallel", "Vectorized", "vectorized")


class Scope:
    """One outermost function around a kernel."""

    def __init__(self, function: ast.FunctionDef) -> None:
        self.function = function
        self.kernels = [n for n in ast.walk(function) if isinstance(n, ast.With) and launches(n)]
        #: the allocation of each buffer
        self.buffers: dict[str, ast.Call] = {}
        for node in ast.walk(function):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and called(node.value) in ALLOCATING:
                self.buffers |= {target.id: node.value for target in node.targets if isinstance(target, ast.Name)}
        self._loops: dict[int, list[ast.For]] = {}
        for kernel in self.kernels:
            self._look(kernel.body, [])

    def _look(self, body: list[ast.stmt], loops: list[ast.For]) -> None:
        for statement in body:
            self._loops[id(statement)] = loops
            inner = [statement, *loops] if isinstance(statement, ast.For) else loops
            for name in ("body", "orelse"):
                self._look(getattr(statement, name, []), inner)

    def loops(self, statement: ast.stmt) -> list[ast.For]:
        """The loops around a statement of a kernel, the innermost first."""
        return self._loops.get(id(statement), [])

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
        """Values that a statement gives a name: loaded or computed."""
        return [name for name, value in self._named.items() if isinstance(value, (ast.Subscript, ast.BinOp))]

    @functools.cached_property
    def sizes(self) -> list[str]:
        """What the factory is given and makes of it, and numbers that the kernel is given."""
        given: dict[str, None] = {}
        for node in ast.walk(self.function):
            if isinstance(node, ast.arg) and (node.annotation is None or not _is_memory(node.annotation)):
                given[node.arg] = None
        made = {name: None for name, value in self._named.items() if not isinstance(value, (ast.Subscript, ast.BinOp))}
        return list({**given, **made})

    @functools.cached_property
    def _named(self) -> dict[str, ast.expr]:
        named: dict[str, ast.expr] = {}
        for node in ast.walk(self.function):
            if isinstance(node, ast.Assign) and not isinstance(node.value, (ast.Constant, ast.Lambda)):
                names = [t.id for t in node.targets if isinstance(t, ast.Name) and t.id not in self.buffers]
                named |= dict.fromkeys(names, node.value)
        return named

    @functools.cached_property
    def memory(self) -> set[str]:
        """The parameters of the kernel that are tensors."""
        arguments = (node for node in ast.walk(self.function) if isinstance(node, ast.arg))
        return {node.arg for node in arguments if node.annotation is not None and _is_memory(node.annotation)}

    def alike(self, name: str) -> list[str]:
        """Other names of the same sort: counters, or sizes; values that a statement gives a name are both."""
        groups = [group for group in (self.counters, self.sizes) if name in group]
        if name in self.scalars:
            groups = [self.sizes, self.counters]
        others = dict.fromkeys(other for group in groups for other in (*group, *self.scalars) if other != name)
        return list(others)[:ALTERNATIVES]

    @functools.cached_property
    def extents(self) -> dict[str, ast.expr]:
        """Of the counters of parallel loops, how far they count."""
        found: dict[str, ast.expr] = {}
        for loop in (n for n in ast.walk(self.function) if isinstance(n, ast.For) and kind_of(n) in PARALLEL):
            assert isinstance(loop.iter, ast.Call)
            found |= dict(zip(target_names(loop.target), loop.iter.args, strict=False))
        return found

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

    def movable(self, statement: ast.stmt) -> bool:
        return isinstance(statement, (ast.Expr, ast.Assign, ast.AugAssign)) and not declares(statement)


def kind_of(loop: ast.For) -> str:
    """`Parallel`, `Pipelined`, `range`, …"""
    return called(loop.iter) if isinstance(loop.iter, ast.Call) else ""


def _is_memory(annotation: ast.expr) -> bool:
    attributes = {node.attr for node in ast.walk(annotation) if isinstance(node, ast.Attribute)}
    return bool((attributes | names_in(annotation)) & set(MEMORY))
