"""Small edits of a kernel's source that might make a wrong result right: where one does, the statement it changes is suspect.

Values alone cannot say which statement of a wrong kernel is at fault: every one of them computes what it says. What can be
tried is the neighbourhood: the same kernel with one bound, index, initial value, factor, operator, type or place of a statement changed.
`edits` lists such changes of one file in an order in which the likely ones come first and no statement has to wait for all
edits of another. Only code of kernels is changed: the bodies of `with T.Kernel(...)`, macros, what these call in the same file,
and the assignments beside them in a factory. References and comparisons stay as they are. Pure: source text in, edits out.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

#: what a function is swapped for, by its last name
SWAPPED = {
    "exp": ("exp2",), "exp2": ("exp",), "log": ("log2",), "log2": ("log",), "max": ("min",), "min": ("max",),
    "sqrt": ("rsqrt",), "rsqrt": ("sqrt",), "floor": ("ceil", "round"), "ceil": ("floor",), "round": ("floor",), "sin": ("cos",), "cos": ("sin",), "abs": (),
    "reduce_max": ("reduce_min", "reduce_sum", "reduce_absmax"), "reduce_min": ("reduce_max",), "reduce_sum": ("reduce_max", "reduce_abssum"),
    "reduce_absmax": ("reduce_max",), "reduce_abssum": ("reduce_sum",), "atomic_add": ("atomic_max", "atomic_min"), "atomic_max": ("atomic_min", "atomic_add"),
    "atomic_min": ("atomic_max", "atomic_add"), "floordiv": ("ceildiv",), "ceildiv": ("floordiv",), "cumsum": ("cummax",), "cummax": ("cumsum",),
}  # fmt: skip
#: base-2 exponentials want their argument in this unit
LOG2_E = "1.4426950408889634"
COMPARED: dict[type[ast.cmpop], tuple[str, ...]] = {
    ast.Lt: ("<=", ">"), ast.LtE: ("<", ">="), ast.Gt: (">=", "<"), ast.GtE: (">", "<="), ast.Eq: ("!=",), ast.NotEq: ("==",),
}  # fmt: skip
OPERATORS: dict[type[ast.operator], tuple[str, ...]] = {
    ast.Add: ("-",), ast.Sub: ("+",), ast.Mult: ("/",), ast.Div: ("*",), ast.FloorDiv: ("%",), ast.Mod: ("//",),
    ast.BitAnd: ("|",), ast.BitOr: ("&",), ast.LShift: (">>",), ast.RShift: ("<<",),
}  # fmt: skip
ALLOCATING = ("alloc_fragment", "alloc_local", "alloc_shared", "alloc_var", "alloc_reducer")
REGISTERS = ("alloc_fragment", "alloc_local", "alloc_var")
LOOPS = (
    "Pipelined",
    "serial",
    "Parallel",
    "unroll",
    "Unroll",
    "Serial",
    "Vectorized",
    "vectorized",
    "Persistent",
    "range",
)
ACCUMULATING = ("gemm", "reduce_sum", "reduce_max", "reduce_min", "reduce_absmax", "reduce_abssum")
#: floats that an accumulator should have been
WIDE = '"float32"'
WIDER = {"float16": ("float32",), "bfloat16": ("float32",), "int8": ("int32",), "int16": ("int32",)}
#: what a size that softmax divides by the root of is called
OF_HEADS = re.compile(r"dim|^d$|^D$")
#: the kinds of edits, the likeliest first where nothing else is known
KINDS = (
    "bounds", "initial value", "condition", "index", "transposition", "scale", "operator", "reduction", "statement", "order", "data type", "offset",
)  # fmt: skip
#: so much later comes a rarer slip; a later turn of the same statement counts 2, a less likely kind a half
RARE = 7
#: … and which come before them, by what the pattern of the wrong elements says
HINTS = {
    "tail": ("bounds", "condition", "offset"),
    "head": ("bounds", "condition", "offset"),
    "scaled": ("scale", "operator", "statement", "initial value"),
    "transposed": ("transposition", "index"),
    "nan": ("initial value", "operator", "condition"),
    "some-nan": ("initial value", "condition", "operator"),
    "inf": ("initial value", "operator", "scale"),
    "zero": ("bounds", "index", "condition", "statement"),
    "periodic": ("index", "bounds", "offset"),
}


@dataclass(frozen=True)
class Edit:
    """Changes of a text, each from a character to before another, and what is put there.

    `line` and `end` are the lines of the statement that is changed (for a compound one, of its header), and `says` tells the change.
    """

    line: int
    end: int
    kind: str
    says: str
    changes: tuple[tuple[int, int, str], ...]
    #: 0 for a usual slip, 1 for a less usual one, 2 for one that is tried last
    rare: int = 0

    def apply(self, text: str) -> str:
        for start, stop, new in sorted(self.changes, reverse=True):
            text = text[:start] + new + text[stop:]
        return text


def edits(source: str, lines: Iterable[int], patterns: Sequence[str] = ()) -> list[Edit]:
    """The edits of the functions that hold any of `lines` (where statements of kernels stand), the likely ones first.

    `patterns` are words about the wrong elements (`tail-rows`, `scaled`, …). Empty where the source does not parse.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return []
    text = _Text(source)
    found: list[Edit] = []
    for function in _kernel_functions(tree, frozenset(lines)):
        found += _Kernel(text, function).edits()
    distinct = {edit.changes: edit for edit in reversed(found)}
    return _ordered([edit for edit in found if distinct[edit.changes] is edit], patterns)


def _ordered(found: list[Edit], patterns: Sequence[str]) -> list[Edit]:
    """By kind, and within a kind one of every statement before the second of any; the kinds overlap a little, so that a
    statement with few edits does not wait for all of a likely kind."""
    first = [
        kind for pattern in patterns for word, kinds in HINTS.items() if pattern.startswith(word) for kind in kinds
    ]
    ranks = {kind: rank for rank, kind in enumerate(dict.fromkeys((*first, *KINDS)))}
    turns: dict[tuple[int, str, int], itertools.count[int]] = defaultdict(itertools.count)
    keyed = [
        (ranks[edit.kind] / 2 + 2 * next(turns[edit.line, edit.kind, edit.rare]) + RARE * edit.rare, number, edit)
        for number, edit in enumerate(found)
    ]
    return [edit for _, _, edit in sorted(keyed, key=lambda key: key[:2])]


# ------------------------------------------------------------------------------------------------------------- scope


def _kernel_functions(tree: ast.Module, lines: frozenset[int]) -> list[ast.FunctionDef]:
    """The outermost functions with a statement of a kernel, and the functions of this file that those call in their kernels."""
    tops = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    holding = [f for f in tops if lines & set(range(f.lineno, (f.end_lineno or f.lineno) + 1))]
    return [f for f in holding if not any(g is not f and _holds(g, f) for g in holding)]


def _holds(outer: ast.AST, inner: ast.AST) -> bool:
    return any(node is inner for node in ast.walk(outer) if node is not outer)


class _Text:
    """Offsets of nodes: `ast` counts columns in bytes of UTF-8."""

    def __init__(self, source: str) -> None:
        self.source = source
        self._lines = source.splitlines(keepends=True)
        self._starts = list(itertools.accumulate((len(line) for line in self._lines), initial=0))

    def offset(self, line: int, column: int) -> int:
        raw = self._lines[line - 1]
        return self._starts[line - 1] + (
            column if raw.isascii() else len(raw.encode()[:column].decode("utf-8", "replace"))
        )

    def span(self, node: ast.AST) -> tuple[int, int]:
        start = self.offset(node.lineno, node.col_offset)  # type: ignore[attr-defined]
        return start, self.offset(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]

    def of(self, node: ast.AST) -> str:
        start, stop = self.span(node)
        return self.source[start:stop]

    def whole_lines(self, node: ast.stmt) -> tuple[int, int]:
        return self._starts[node.lineno - 1], self._starts[node.end_lineno or node.lineno]

    def line_start(self, line: int) -> int:
        return self._starts[line - 1]


# -------------------------------------------------------------------------------------------------------------- edits


class _Kernel:
    """The edits of one outermost function around a kernel."""

    def __init__(self, text: _Text, function: ast.FunctionDef) -> None:
        self.text, self.function = text, function
        self.found: list[Edit] = []
        self._buffers: dict[str, ast.Call] = {}
        #: the counters of the serial loops around a statement, the innermost first
        self._around: dict[int, list[str]] = {}

    def edits(self) -> list[Edit]:
        kernels = [node for node in ast.walk(self.function) if isinstance(node, ast.With) and _launches(node)]
        for node in ast.walk(self.function):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and _name(node.value) in ALLOCATING:
                self._buffers |= {target.id: node.value for target in node.targets if isinstance(target, ast.Name)}
        self._defaults()
        for kernel in kernels:
            for item in kernel.items:
                self._grid(kernel, item.context_expr)
            self._block(kernel.body, [], self._in_scope(kernel))
            self._rescales(kernel)
        for statement in self._beside(kernels):
            self._simple(statement, self._in_scope(statement))
        return self.found

    def _defaults(self) -> None:
        """Types that the factory's parameters default to."""
        for inner in ast.walk(self.function):
            if isinstance(inner, ast.FunctionDef):
                for default in (d for d in (*inner.args.defaults, *inner.args.kw_defaults) if d is not None):
                    if isinstance(default, ast.Constant) and isinstance(default.value, str):
                        for wide in WIDER.get(default.value, ()):
                            says = f"`{default.value}` as `{wide}`"
                            span = self.text.span(default)
                            self.found.append(
                                Edit(default.lineno, default.lineno, "data type", says, ((*span, f'"{wide}"'),))
                            )

    def _grid(self, kernel: ast.With, launch: ast.expr) -> None:
        """The number of blocks."""
        for argument in launch.args if isinstance(launch, ast.Call) else ():
            self._bound(kernel, argument)
            self._expressions(kernel, argument, bounds=True)

    def _beside(self, kernels: list[ast.With]) -> Iterator[ast.stmt]:
        """Assignments of the factory, and whole macros and helpers in it that are no kernels."""
        around = {id(node) for kernel in kernels for node in ast.walk(kernel)}
        for node in ast.walk(self.function):
            simple = isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Return, ast.Expr))
            hands_out = isinstance(node, ast.Return) and isinstance(node.value, ast.Name)
            if isinstance(node, ast.stmt) and simple and not hands_out and id(node) not in around:
                yield node

    def _in_scope(self, node: ast.AST) -> list[str]:
        """Names that the function's kernel computes with: parameters, block and loop variables, sizes."""
        names: dict[str, None] = {}
        for inner in ast.walk(self.function):
            if isinstance(inner, ast.arg):
                names[inner.arg] = None
            elif isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
                names[inner.id] = None
        return list(names)

    def _add(self, statement: ast.stmt, kind: str, says: str, *changes: tuple[int, int, str], rare: int = 0) -> None:
        end = statement.end_lineno or statement.lineno
        body = getattr(statement, "body", None)
        if body:
            end = max(statement.lineno, body[0].lineno - 1)
        self.found.append(Edit(statement.lineno, end, kind, says, changes, rare))

    def _swap(self, statement: ast.stmt, node: ast.AST, new: str, kind: str, rare: int = 0) -> None:
        old = self.text.of(node)
        if new != old:
            self._add(statement, kind, f"`{old}` as `{new}`", (*self.text.span(node), new), rare=rare)

    # -------------------------------------------------------------------------------------------------- statements

    def _block(self, body: list[ast.stmt], loops: list[ast.For], names: list[str]) -> None:
        for number, statement in enumerate(body):
            targets = (loop.target for loop in reversed(loops))
            self._around[id(statement)] = [target.id for target in targets if isinstance(target, ast.Name)]
            if isinstance(statement, ast.For):
                self._loop(statement, loops)
                self._block(statement.body, [*loops, statement], names)
            elif isinstance(statement, (ast.If, ast.While)):
                self._expressions(statement, statement.test)
                if isinstance(statement, ast.If):
                    self._guard(statement)
                self._block(statement.body, loops, names)
                self._block(statement.orelse, loops, names)
            elif isinstance(statement, ast.With):
                for item in statement.items:
                    self._expressions(statement, item.context_expr)
                self._block(statement.body, loops, names)
            else:
                self._simple(statement, names)
                self._place(statement, body, number, loops)

    def _loop(self, loop: ast.For, loops: list[ast.For]) -> None:
        if isinstance(loop.iter, ast.Call):
            call = loop.iter
            name = _name(call)
            for argument in call.args:
                self._bound(loop, argument)
            if name in ("range", "serial", "Serial") and len(call.args) == 1:
                only = self.text.of(call.args[0])
                self._add(
                    loop, "bounds", f"start at 1: `{name}(1, {only})`", (*self.text.span(call.args[0]), f"1, {only}")
                )
            for argument in call.args:
                self._expressions(loop, argument, bounds=True)

    def _bound(self, loop: ast.stmt, node: ast.expr) -> None:
        old = self.text.of(node)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv):
            new = f"T.ceildiv({self.text.of(node.left)}, {self.text.of(node.right)})"
            self._swap(loop, node, new, "bounds")
        elif isinstance(node, ast.Call) and _name(node) in ("ceildiv", "cdiv") and len(node.args) == 2:
            self._swap(loop, node, f"({self.text.of(node.args[0])}) // ({self.text.of(node.args[1])})", "bounds")
        self._swap(loop, node, f"({old}) + 1", "bounds")
        self._swap(loop, node, f"({old}) - 1", "bounds")
        for inner in ast.walk(node):
            if isinstance(inner, ast.Constant) and inner.value == 1 and not isinstance(inner.value, bool):
                for size in self._groups[1]:
                    self._swap(loop, inner, size, "bounds")

    def _guard(self, statement: ast.If) -> None:
        self._swap(statement, statement.test, "True", "condition")
        self._swap(statement, statement.test, f"not ({self.text.of(statement.test)})", "condition")

    def _simple(self, statement: ast.stmt, names: list[str]) -> None:
        """The edits inside a statement that holds no others."""
        if isinstance(statement, (ast.Assign, ast.AugAssign, ast.AnnAssign)):
            self._assignment(statement)
        for expression in _parts(statement):
            self._expressions(statement, expression)

    def _assignment(self, statement: ast.Assign | ast.AugAssign | ast.AnnAssign) -> None:
        value = statement.value
        if value is None:
            return
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        if not isinstance(targets[0], ast.Subscript):
            return
        target, old = self.text.of(targets[0]), self.text.of(value)
        if isinstance(statement, ast.AugAssign):
            start, stop = self.text.span(statement)
            self._add(statement, "operator", f"`=` for `{_symbol(statement.op)}=`", (start, stop, f"{target} = {old}"))
            for symbol in OPERATORS.get(type(statement.op), ()):
                self._add(statement, "operator", f"`{symbol}=`", (start, stop, f"{target} {symbol}= {old}"))
        else:
            start, stop = self.text.span(statement)
            self._add(statement, "operator", "`+=` for `=`", (start, stop, f"{target} += {old}"))
        self._swap(statement, value, f"-({old})", "operator")
        for name in self._unused():
            self._swap(statement, value, f"({old}) * {name}", "scale")
            self._swap(statement, value, f"({old}) / {name}", "scale")
            self._swap(statement, value, f"({old}) + {name}", "operator")

    def _unused(self) -> list[str]:
        """Scalars of the kernel's functions that nothing reads: what should have been part of some value."""
        read: set[str] = set()
        written: dict[str, None] = {}
        for node in ast.walk(self.function):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                read.add(node.id)
            elif isinstance(node, ast.Name):
                written[node.id] = None
            elif isinstance(node, ast.arg) and node.annotation is None:
                written[node.arg] = None
        return [name for name in written if name not in read and name != "_"][:2]

    # -------------------------------------------------------------------------------------- places of statements

    def _place(self, statement: ast.stmt, body: list[ast.stmt], number: int, loops: list[ast.For]) -> None:
        """Leave a statement out, or do it before or after others, or before the loop around it."""
        if not isinstance(statement, (ast.Expr, ast.Assign, ast.AugAssign)) or self._declares(statement):
            return
        start, stop = self.text.whole_lines(statement)
        text = self.text.source[start:stop]
        indent = text[: len(text) - len(text.lstrip())]
        if len(body) > 1 or loops:
            self._add(statement, "statement", "without this statement", (start, stop, f"{indent}pass\n"))
        if loops and body is loops[-1].body and self._initializes(statement):
            loop = loops[-1]
            before = self.text.line_start(loop.lineno)
            lines = self.text.source[before:].split("\n", 1)[0]
            outer = lines[: len(lines) - len(lines.lstrip())]
            moved = outer + text.strip() + "\n"
            self._add(
                statement,
                "statement",
                "before the loop instead of in it",
                (start, stop, f"{indent}pass\n"),
                (before, before, moved),
            )
        following = body[number + 1] if number + 1 < len(body) else None
        if following is not None and not self._declares(following):
            first, last = self.text.whole_lines(following)
            if first == stop:
                self._add(
                    statement,
                    "order",
                    "after the statement behind it",
                    (start, last, self.text.source[first:last] + text),
                )
            if self._initializes(statement) and isinstance(following, ast.For):
                inner = self.text.line_start(following.body[0].lineno)
                line = self.text.source[inner:].split("\n", 1)[0]
                deeper = line[: len(line) - len(line.lstrip())]
                self._add(
                    statement, "statement", "in the loop instead of before it",
                    (start, stop, f"{indent}pass\n"), (inner, inner, deeper + text.strip() + "\n"),
                )  # fmt: skip
        self._clears(statement, start, indent)

    def _rescales(self, kernel: ast.With) -> None:
        """What a running maximum asks for: the sums so far times a factor that the kernel computes, or could, and does not use."""
        read = {n.id for n in ast.walk(kernel) if isinstance(n, ast.Name)} - self._only_written(kernel)
        for idle in [name for name in self._buffers if name not in read]:
            origin = self._copied_from(kernel, idle)
            factors = (
                [f"T.exp({idle}[i] - {origin}[i])", f"T.exp2({idle}[i] - {origin}[i])"] if origin else [f"{idle}[i]"]
            )
            for statement in (s for s in ast.walk(kernel) if isinstance(s, ast.stmt)):
                for factor in factors:
                    self._rescaled(statement, factor)

    def _only_written(self, kernel: ast.With) -> set[str]:
        """Buffers that the kernel stores to or copies into, and never reads."""
        written: set[str] = set()
        read: set[str] = set()
        targets = set()
        for node in ast.walk(kernel):
            if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name):
                targets.add(id(node.value))
                written.add(node.value.id)
            elif isinstance(node, ast.Call) and _name(node) in ("copy", "clear", "fill"):
                last = node.args[-1 if _name(node) == "copy" else 0] if node.args else None
                if isinstance(last, ast.Name):
                    targets.add(id(last))
                    written.add(last.id)
        for node in ast.walk(kernel):
            if isinstance(node, ast.Name) and id(node) not in targets and isinstance(node.ctx, ast.Load):
                read.add(node.id)
        return written - read

    def _copied_from(self, kernel: ast.With, name: str) -> str | None:
        for node in ast.walk(kernel):
            if isinstance(node, ast.Call) and _name(node) == "copy" and len(node.args) > 1:
                one, other = node.args[:2]
                if isinstance(one, ast.Name) and isinstance(other, ast.Name) and other.id == name:
                    return one.id
        return None

    def _rescaled(self, statement: ast.stmt, factor: str) -> None:
        """`s[i] = s[i] + x` with the sum so far rescaled, or a loop that rescales a tile before more is added to it."""
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Subscript):
            target = self.text.of(statement.targets[0])
            value = statement.value
            if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add) and self.text.of(value.left) == target:
                self._swap(statement, value.left, f"{target} * {factor}", "initial value")
            return
        call = getattr(statement, "value", None)
        if (
            isinstance(statement, ast.Expr)
            and isinstance(call, ast.Call)
            and _name(call) == "gemm"
            and len(call.args) > 2
        ):
            accumulator = call.args[2]
            own = self._buffers.get(accumulator.id) if isinstance(accumulator, ast.Name) else None
            if (
                own is not None
                and own.args
                and isinstance(own.args[0], (ast.Tuple, ast.List))
                and len(own.args[0].elts) == 2
            ):
                start, _ = self.text.whole_lines(statement)
                line = self.text.source[start:].split("\n", 1)[0]
                indent = line[: len(line) - len(line.lstrip())]
                rows, columns = (self.text.of(extent) for extent in own.args[0].elts)
                name = self.text.of(accumulator)
                new = f"{indent}for i, j in T.Parallel({rows}, {columns}):\n{indent}    {name}[i, j] *= {factor}\n"
                self._add(statement, "initial value", f"with `{name}[i, j] *= {factor}` before it", (start, start, new))

    def _clears(self, statement: ast.stmt, start: int, indent: str) -> None:
        """A clear before a statement that adds to a buffer."""
        for call in (node for node in ast.walk(statement) if isinstance(node, ast.Call)):
            if _name(call) in ACCUMULATING and len(call.args) > 1:
                index = 2 if _name(call) == "gemm" else 1
                target = call.args[index] if len(call.args) > index else None
                if isinstance(target, ast.Name):
                    new = f"{indent}T.clear({target.id})\n"
                    self._add(statement, "initial value", f"with `T.clear({target.id})` before it", (start, start, new))

    def _declares(self, statement: ast.stmt) -> bool:
        value = getattr(statement, "value", None)
        named = isinstance(statement, ast.Assign) and isinstance(statement.targets[0], (ast.Name, ast.Tuple))
        return named or (isinstance(value, ast.Call) and _name(value).startswith(("annotate", "use_swizzle", "alloc")))

    def _initializes(self, statement: ast.stmt) -> bool:
        value = getattr(statement, "value", None)
        return isinstance(value, ast.Call) and _name(value) in ("clear", "fill", "copy")

    # ---------------------------------------------------------------------------------------------- expressions

    def _expressions(self, statement: ast.stmt, root: ast.expr, bounds: bool = False) -> None:
        for node, inside in _walk(root):
            index = inside or bounds
            if isinstance(node, ast.BinOp):
                self._binary(statement, node, index)
            elif isinstance(node, ast.Compare) and len(node.ops) == 1:
                self._comparison(statement, node)
            elif isinstance(node, ast.BoolOp):
                self._boolean(statement, node)
            elif isinstance(node, ast.Constant):
                self._constant(statement, node, index)
            elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
                self._swap(statement, node, self.text.of(node.operand), "operator")
            elif isinstance(node, ast.Subscript):
                self._subscript(statement, node)
            elif isinstance(node, ast.Call):
                self._call(statement, node)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                self._variable(statement, node, index)

    def _binary(self, statement: ast.stmt, node: ast.BinOp, index: bool) -> None:
        left, right = self.text.of(node.left), self.text.of(node.right)
        for symbol in OPERATORS.get(type(node.op), ()):
            self._swap(
                statement,
                node,
                f"{_held(node.left, left)} {symbol} {_held(node.right, right)}",
                "offset" if index else "operator",
            )
        if isinstance(node.op, (ast.Sub, ast.Div, ast.FloorDiv)) and not index:
            self._swap(
                statement, node, f"{_held(node.right, right)} {_symbol(node.op)} {_held(node.left, left)}", "operator"
            )
        if isinstance(node.op, (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Mod)):
            kind = "offset" if index else "scale" if isinstance(node.op, (ast.Mult, ast.Div)) else "operator"
            self._swap(statement, node, f"({left})", kind)
            if not isinstance(node.op, (ast.Div, ast.Mod)):
                self._swap(statement, node, f"({right})", kind)
        if isinstance(node.op, ast.FloorDiv) and index:
            self._swap(statement, node, f"T.ceildiv({left}, {right})", "bounds")
        if isinstance(node.op, (ast.FloorDiv, ast.Mod)) and isinstance(node.right, ast.Name):
            for size in self._alike(node.right.id):
                self._swap(statement, node.right, f"({size} * {right})", "offset")
                self._swap(statement, node, f"{_held(node.left, left)} // ({size} // {right})", "offset")
        if isinstance(node.op, ast.Mult) and not index:
            for size in (size for size in self._groups[1] if OF_HEADS.search(size)):
                self._swap(statement, node, f"{left} * {right} * {size}**-0.5", "scale")
        if isinstance(node.op, (ast.Add, ast.Sub)):
            self._both_signs(statement, node)
            self._moved_in(statement, node)

    def _both_signs(self, statement: ast.stmt, node: ast.BinOp) -> None:
        """`a + b - c` as `a - b + c`."""
        inner = node.left
        signs = {ast.Add: "-", ast.Sub: "+"}
        if isinstance(inner, ast.BinOp) and isinstance(inner.op, (ast.Add, ast.Sub)):
            first, second, third = (self.text.of(part) for part in (inner.left, inner.right, node.right))
            new = f"{first} {signs[type(inner.op)]} {_held(inner.right, second)} {signs[type(node.op)]} {_held(node.right, third)}"
            self._swap(statement, node, new, "offset")

    def _moved_in(self, statement: ast.stmt, node: ast.BinOp) -> None:
        """`f(a) + b` as `f(a + b)`, and `f(a + b)` as `f(a) + b` from the call's side."""
        if isinstance(node.left, ast.Call) and len(node.left.args) == 1 and not node.left.keywords:
            function, argument = self.text.of(node.left.func), self.text.of(node.left.args[0])
            self._swap(
                statement, node, f"{function}({argument} {_symbol(node.op)} {self.text.of(node.right)})", "operator"
            )

    def _comparison(self, statement: ast.stmt, node: ast.Compare) -> None:
        left, right = self.text.of(node.left), self.text.of(node.comparators[0])
        for symbol in COMPARED.get(type(node.ops[0]), ()):
            self._swap(statement, node, f"{left} {symbol} {right}", "condition")
        symbol = _compare_symbol(node.ops[0])
        if symbol in ("<", "<=", ">", ">="):
            self._swap(statement, node, f"{left} {symbol} ({right}) + 1", "condition")
            self._swap(statement, node, f"{left} {symbol} ({right}) - 1", "condition")

    def _boolean(self, statement: ast.stmt, node: ast.BoolOp) -> None:
        values = [self.text.of(value) for value in node.values]
        for number in range(len(values)):
            rest = values[:number] + values[number + 1 :]
            word = " and " if isinstance(node.op, ast.And) else " or "
            self._swap(statement, node, f"({word.join(rest)})", "condition")

    def _constant(self, statement: ast.stmt, node: ast.Constant, index: bool) -> None:
        value = node.value
        if isinstance(value, bool):
            self._swap(statement, node, str(not value), "transposition")
        elif isinstance(value, int):
            kind = "index" if index else "initial value" if value in (0, 1) else "operator"
            for new in dict.fromkeys((value + 1, value - 1, 2 * value, value // 2)):
                if new != value:
                    self._swap(statement, node, str(new), kind)
        elif isinstance(value, float):
            news = [f"-({value!r})", f"({value!r}) ** 2", f"({value!r}) ** 0.5", "1.0", "0.0", '-T.infinity("float32")']
            if value:
                news.insert(0, f"1.0 / ({value!r})")
                news.insert(1, f"({value!r}) * {LOG2_E}")
            for text in news:
                self._swap(statement, node, text, "scale")

    def _subscript(self, statement: ast.stmt, node: ast.Subscript) -> None:
        """Two indices exchanged; another index one further or one nearer."""
        if not isinstance(node.slice, ast.Tuple):
            indices: list[ast.expr] = [] if isinstance(node.slice, ast.Slice) else [node.slice]
        else:
            indices = node.slice.elts
        for one, other in itertools.pairwise(indices):
            first, second = self.text.of(one), self.text.of(other)
            if first != second:
                says = f"`{first}` and `{second}` exchanged"
                self._add(statement, "index", says, (*self.text.span(one), second), (*self.text.span(other), first))
        for one in indices:
            start = one.lower if isinstance(one, ast.Slice) else one
            if isinstance(start, (ast.Name, ast.BinOp)):
                old = self.text.of(start)
                for new in (f"{old} + 1", f"{old} - 1", *(f"{old} - {name}" for name in self._groups[2])):
                    self._swap(statement, start, new, "offset")
            elif isinstance(start, ast.Constant) and start.value == 0 and isinstance(node.value, ast.Name):
                self._from_zero(statement, start)

    def _from_zero(self, statement: ast.stmt, zero: ast.expr) -> None:
        """An index that stands still, moved on with a loop around it by a size."""
        for loop in self._around.get(id(statement), []):
            for size in self._groups[1]:
                self._swap(statement, zero, f"{loop} * {size}", "offset")

    def _variable(self, statement: ast.stmt, node: ast.Name, index: bool) -> None:
        for other in self._alike(node.id):
            self._swap(statement, node, other, "index" if index else "operator")

    def _alike(self, name: str) -> list[str]:
        """Variables of the same sort: of loops and blocks, or the sizes of the factory."""
        for group in self._groups:
            if name in group:
                return [other for other in group if other != name][:4]
        return []

    @property
    def _groups(self) -> list[list[str]]:
        """Counters of loops and blocks; sizes of the factory; other values that a statement gives a name."""
        if not hasattr(self, "_grouped"):
            counters: dict[str, None] = {}
            sizes: dict[str, None] = {}
            scalars: dict[str, None] = {}
            for node in ast.walk(self.function):
                if isinstance(node, ast.For):
                    counters |= {n.id: None for n in ast.walk(node.target) if isinstance(n, ast.Name)}
                elif isinstance(node, ast.With) and _launches(node):
                    targets = [item.optional_vars for item in node.items if item.optional_vars is not None]
                    counters |= {n.id: None for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)}
                elif isinstance(node, ast.arg) and node.annotation is None:
                    sizes[node.arg] = None
                elif isinstance(node, ast.Assign) and not isinstance(node.value, (ast.Constant, ast.Lambda)):
                    names = [t.id for t in node.targets if isinstance(t, ast.Name) and t.id not in self._buffers]
                    (scalars if isinstance(node.value, (ast.Subscript, ast.BinOp)) else sizes).update(
                        dict.fromkeys(names)
                    )
            self._grouped = [list({**counters, **scalars}), list({**sizes, **scalars}), list(scalars)]
        return self._grouped

    # ------------------------------------------------------------------------------------------------------ calls

    def _call(self, statement: ast.stmt, node: ast.Call) -> None:
        name = _name(node)
        for other in SWAPPED.get(name, ()):
            if isinstance(node.func, ast.Attribute):
                start, stop = self.text.span(node.func)
                new = self.text.source[start:stop].rpartition(".")[0] + "." + other
                kind = "reduction" if name.startswith(("reduce", "cum", "atomic")) else "operator"
                self._add(statement, kind, f"`{other}` for `{name}`", (start, stop, new))
        if name in ("exp", "exp2") and node.args:
            old = self.text.of(node.args[0])
            for new in (f"({old}) * {LOG2_E}", f"({old}) / {LOG2_E}", f"-({old})"):
                self._swap(statement, node.args[0], new, "scale")
        if name in ("clear", "fill"):
            self._initial(statement, node)
        if name == "gemm":
            self._keywords(statement, node, ("transpose_A", "transpose_B", "clear_accum"), "transposition")
        if name.startswith("reduce_"):
            self._keywords(statement, node, ("clear",), "initial value", absent="False")
        if name in REGISTERS:
            for argument in [*node.args[1:], *(k.value for k in node.keywords if k.arg == "dtype")]:
                if self.text.of(argument) != WIDE:
                    self._swap(statement, argument, WIDE, "data type")
        if name in ("copy", "atomic_add") and len(node.args) >= 2:
            self._region(statement, node)
        if name == "cast" and len(node.args) == 2 and "int" in self.text.of(node.args[1]):
            self._swap(statement, node.args[0], f"T.round({self.text.of(node.args[0])})", "operator")
        if (
            len(node.args) == 1
            and isinstance(node.args[0], ast.BinOp)
            and isinstance(node.args[0].op, (ast.Add, ast.Sub))
        ):
            inner = node.args[0]
            outside = (
                f"{self.text.of(node.func)}({self.text.of(inner.left)}) {_symbol(inner.op)} {self.text.of(inner.right)}"
            )
            self._swap(statement, node, f"({outside})", "operator")
        if name in ("copy", "gemm") or name.startswith("reduce_"):
            self._other_buffers(statement, node)
        if name in ("cast", "astype"):
            for argument in node.args[-1:]:
                for dtype in (WIDE, '"int32"'):
                    self._swap(statement, argument, dtype, "data type")
        if name in ("if_then_else", "Select") and len(node.args) == 3:
            self._choice(statement, node)

    def _other_buffers(self, statement: ast.stmt, node: ast.Call) -> None:
        """Another buffer of the same shape in the place of an argument."""
        for argument in node.args:
            own = self._buffers.get(argument.id) if isinstance(argument, ast.Name) else None
            if own is not None and own.args:
                shape = self.text.of(own.args[0])
                for name, call in self._buffers.items():
                    if (
                        isinstance(argument, ast.Name)
                        and name != argument.id
                        and call.args
                        and self.text.of(call.args[0]) == shape
                    ):
                        self._swap(statement, argument, name, "statement")

    def _initial(self, statement: ast.stmt, node: ast.Call) -> None:
        if not node.args:
            return
        buffer = self.text.of(node.args[0])
        dtype = self._dtype(buffer)
        for value in ("0", f"-T.infinity({dtype})", f"T.infinity({dtype})", "1"):
            new = f"{self.text.of(node.func).rpartition('.')[0]}.fill({buffer}, {value})"
            self._swap(statement, node, new, "initial value")

    def _dtype(self, buffer: str) -> str:
        call = self._buffers.get(buffer)
        return self.text.of(call.args[1]) if call is not None and len(call.args) > 1 else WIDE

    def _keywords(
        self, statement: ast.stmt, node: ast.Call, words: Sequence[str], kind: str, absent: str = "True"
    ) -> None:
        there = {keyword.arg for keyword in node.keywords}
        end = self.text.span(node)[1] - 1
        comma = "" if self.text.source[:end].rstrip().endswith(("(", ",")) else ", "
        for word in words:
            if word not in there:
                self._add(statement, kind, f"with `{word}={absent}`", (end, end, f"{comma}{word}={absent}"))

    def _region(self, statement: ast.stmt, node: ast.Call) -> None:
        one, other = node.args[:2]
        if isinstance(one, ast.Name) and isinstance(other, ast.Name):
            first, second = one.id, other.id
            says = f"from `{second}` to `{first}`"
            self._add(statement, "statement", says, (*self.text.span(one), second), (*self.text.span(other), first))

    def _choice(self, statement: ast.stmt, node: ast.Call) -> None:
        one, other = (self.text.of(argument) for argument in node.args[1:])
        self._swap(statement, node, f"({one})", "condition")
        says = "the other way round"
        self._add(
            statement, "condition", says, (*self.text.span(node.args[1]), other), (*self.text.span(node.args[2]), one)
        )
        for value in ("0", '-T.infinity("float32")'):
            self._swap(statement, node.args[2], value, "initial value")


# ------------------------------------------------------------------------------------------------------------ syntax


def _walk(root: ast.expr) -> Iterator[tuple[ast.expr, bool]]:
    """All expressions in an expression, each with whether it is part of an index."""

    def go(node: ast.AST, inside: bool) -> Iterator[tuple[ast.expr, bool]]:
        if isinstance(node, ast.expr):
            yield node, inside
        for name, value in ast.iter_fields(node):
            deeper = inside or (isinstance(node, ast.Subscript) and name == "slice")
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from go(child, deeper)

    yield from go(root, False)


def _parts(statement: ast.stmt) -> Iterator[ast.expr]:
    """The expressions directly in a simple statement."""
    for value in ast.iter_child_nodes(statement):
        if isinstance(value, ast.expr) and not (isinstance(statement, ast.AnnAssign) and value is statement.annotation):
            yield value


def _launches(node: ast.With) -> bool:
    return any(isinstance(item.context_expr, ast.Call) and _name(item.context_expr) == "Kernel" for item in node.items)


def _name(call: ast.Call) -> str:
    """The last part of the name of what is called."""
    function = call.func
    return (
        function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    )


def _held(node: ast.expr, text: str) -> str:
    return text if isinstance(node, (ast.Name, ast.Constant, ast.Call, ast.Subscript, ast.Attribute)) else f"({text})"


def _symbol(operator: ast.operator) -> str:
    return {
        ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.BitAnd: "&", ast.BitOr: "|",
        ast.LShift: "<<", ast.RShift: ">>", ast.Pow: "**", ast.BitXor: "^", ast.MatMult: "@",
    }[type(operator)]  # fmt: skip


def _compare_symbol(operator: ast.cmpop) -> str:
    return {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}.get(
        type(operator), ""
    )
