"""Whether a script fails by itself, whatever its kernels computed. Pure.

An expression is *constant* if it is made of literals, of what the script is given from outside, of shapes of tensors that it
made itself, of pure operators and builtins, and of names that are bound to nothing else. A statement is *certain* if only constants decide whether it runs. Where nobody can tell, neither is: what may
have come out of a launch, through names, containers, attributes or functions, is never called constant.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from triage.knowledge.attributes import Attributes
from triage.knowledge.scopes import Binding, Scope, Scopes, imports
from triage.knowledge.syntax import Columns, Function, expression_at, parse_source

#: builtins whose result follows from their arguments alone, and that keep hold of these in nothing but a new container
PURE = frozenset(
    {
        "abs", "all", "any", "bin", "bool", "divmod", "enumerate", "float", "frozenset", "hex", "int", "isinstance", "len",
        "list", "max", "min", "oct", "pow", "range", "repr", "reversed", "round", "set", "sorted", "str", "sum", "tuple", "zip",
    }
)  # fmt: skip
#: builtins that make a number or a text
SCALAR = frozenset(
    {
        "abs",
        "all",
        "any",
        "bin",
        "bool",
        "float",
        "hex",
        "int",
        "isinstance",
        "len",
        "oct",
        "pow",
        "repr",
        "round",
        "str",
    }
)
#: builtins that hand on no part of a container
LOOKING = frozenset({"all", "any", "bool", "isinstance", "len", "print", "repr", "str"})
#: methods of containers and texts that change nothing
READING = frozenset(
    {"copy", "count", "endswith", "format", "get", "index", "items", "join", "keys", "lower", "split", "startswith",
     "strip", "upper", "values"}
)  # fmt: skip
#: calls that end the script
EXITS = frozenset({"exit", "quit", "_exit", "abort"})
#: context managers in which an exception is expected
EXPECTING = frozenset({"raises", "assertRaises", "suppress"})
#: names that a module has without binding them
OF_MODULES = frozenset({"__name__", "__file__", "__debug__"})
LOOPS = (ast.For, ast.AsyncFor, ast.While)


@dataclass(frozen=True)
class Running:
    """One call on the stack: the text of its file, the line it had come to, and the columns there, if they are known."""

    source: str
    line: int
    function: str
    columns: Columns | None = None


def fails_by_itself(stack: Sequence[Running]) -> bool:
    """Whether the innermost of these calls, the outermost first, fails whatever the kernels computed.

    Every call was certain to be made, and what the last statement evaluates is constant.
    """
    try:
        return _fails_by_itself(stack)
    except RecursionError:  # nothing that a person wrote
        return False


def _fails_by_itself(stack: Sequence[Running]) -> bool:
    stopped: _Stopped | None = None
    for running in stack:
        stopped = _stop(running, stopped)
        if stopped is None or not stopped.seen.is_certain(stopped.at):
            return False
    return stopped is not None and _is_decided(stopped)


@dataclass(frozen=True)
class _Stopped:
    """A call on the stack in its tree: the expression that was evaluated, if it is known, and its statement."""

    seen: Constants
    statement: ast.stmt
    expression: ast.expr | None

    @property
    def at(self) -> ast.AST:
        return self.expression or self.statement


def _stop(running: Running, caller: _Stopped | None) -> _Stopped | None:
    tree = parse_source(running.source)
    if tree is None:
        return None
    scopes = Scopes(tree)
    expression = expression_at(tree, running.source, running.line, running.columns)
    statement = scopes.statement(expression) if expression else _only_statement(tree, running.line)
    if statement is None:
        return None
    scope = scopes.of(expression or statement)
    if (scope.name if isinstance(scope, Function) else "<module>" if scope is tree else "") != running.function:
        return None
    given = _given(scope, caller) if isinstance(scope, Function) and caller else frozenset[str]()
    return _Stopped(Constants(scopes, scope, given), statement, expression)


def _only_statement(tree: ast.Module, line: int) -> ast.stmt | None:
    """The innermost statement of a line, if no other stands beside it."""
    there = [n for n in ast.walk(tree) if isinstance(n, ast.stmt) and n.lineno <= line <= (n.end_lineno or n.lineno)]
    around = {
        id(n) for n in there for inner in there if inner is not n and any(inner is child for child in ast.walk(n))
    }
    innermost = [n for n in there if id(n) not in around]
    return innermost[0] if len(innermost) == 1 else None


def _given(function: ast.FunctionDef | ast.AsyncFunctionDef, caller: _Stopped) -> frozenset[str]:
    """The parameters to which a call gives a constant number or text.

    A default is taken only where it is a literal: others were evaluated somewhere else.
    """
    call, arguments = caller.expression, function.args
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.func.id != function.name:
        return frozenset()
    if any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords):
        return frozenset()
    plain = [*arguments.posonlyargs, *arguments.args]
    defaults = dict(
        zip([a.arg for a in plain][len(plain) - len(arguments.defaults) :], arguments.defaults, strict=True)
    )
    defaults |= {a.arg: d for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if d is not None}
    passed = {a.arg: value for a, value in zip(plain, call.args, strict=False)}
    passed |= {k.arg: k.value for k in call.keywords if k.arg is not None}
    given = {name for name, value in passed.items() if caller.seen.depth(value) == 0}
    return frozenset(
        given | {name for name, d in defaults.items() if name not in passed and isinstance(d, ast.Constant)}
    )


def _is_decided(stopped: _Stopped) -> bool:
    """Whether what the statement evaluates is constant, so that it always fails where it is reached."""
    seen, statement = stopped.seen, stopped.statement
    match statement:
        case ast.Raise(exc=ast.Call(func=ast.Name(id="SystemExit"))) if isinstance(statement.exc, ast.Call):
            return all(seen.is_status(argument) for argument in statement.exc.args)
        case ast.Raise():
            return True
        case ast.Assert():
            return seen.depth(statement.test) is not None
        case ast.Expr(value=ast.Call()) if isinstance(statement.value, ast.Call) and _calls_one_of(
            statement.value, EXITS
        ):
            return all(seen.is_status(argument) for argument in statement.value.args)
    evaluated = [stopped.expression] if stopped.expression else ast.iter_child_nodes(statement)
    return all(seen.depth(e) is not None for e in evaluated if isinstance(e, ast.expr))


class Constants:
    """What is constant in one source text, seen from a call of `scope` that gives its parameters `given` constants."""

    def __init__(self, scopes: Scopes, scope: Scope, given: frozenset[str] = frozenset()) -> None:
        self.scopes = scopes
        self.scope, self.given = scope, given
        #: the bindings that are being looked at: what depends on itself is decided by everything else
        self._asked: set[ast.AST] = set()
        self._known: dict[ast.AST, int | None] = {}
        self.attributes = Attributes(scopes, self.depth, self.is_certain)

    def is_certain(self, node: ast.AST) -> bool:
        """Whether only constants decide whether, and how often, a node runs in a call of its scope."""
        return self._is_reached(node) and not self._may_have_left(node)

    def is_status(self, node: ast.expr) -> bool:
        """Whether an argument of `exit` always means the same: it is constant, or a text, which means failure."""
        return isinstance(node, ast.JoinedStr) or self.depth(node) is not None

    def _is_reached(self, node: ast.AST) -> bool:
        return all(self._leads(parent, child) for parent, child in self.scopes.around(node))

    def _leads(self, parent: ast.AST, child: ast.AST) -> bool:
        """Whether only constants decide whether control comes from a node to one that it consists of."""
        match parent:
            case ast.If() | ast.While() | ast.IfExp():
                return child is parent.test or self.depth(parent.test) is not None
            case ast.For():
                return child in (parent.iter, parent.target) or self.depth(parent.iter) is not None
            case ast.BoolOp():
                before = parent.values[: next(n for n, value in enumerate(parent.values) if value is child)]
                return self._deepest(before, {}) is not None
            case ast.With():
                return not any(_calls_one_of(item.context_expr, EXPECTING) for item in parent.items)
            case ast.Try():  # a handler that the script survives may have been what was expected
                return child in parent.body and all(map(_gives_up, parent.handlers))
            case (
                ast.Assign()
                | ast.AnnAssign()
                | ast.AugAssign()
                | ast.Expr()
                | ast.Return()
                | ast.Raise()
                | ast.Assert()
            ):
                return True
        return isinstance(parent, ast.expr | ast.keyword | ast.withitem) and not isinstance(
            parent, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
        )

    def _may_have_left(self, node: ast.AST) -> bool:
        """Whether a statement that is not certain may have left the scope, or a loop around the node, before it."""
        scope = self.scopes.of(node)
        loops = [parent for parent, _ in self.scopes.around(node) if isinstance(parent, LOOPS)]
        line = getattr(node, "lineno", 0)
        for leave in ast.walk(scope):
            if not _leaves(leave) or self.scopes.of(leave) is not scope:
                continue
            again = any(parent in loops for parent, _ in self.scopes.around(leave))
            earlier = not isinstance(leave, ast.Break | ast.Continue) and getattr(leave, "lineno", 0) < line
            if (again or earlier) and not self._is_reached(leave):
                return True
        return False

    def depth(self, node: ast.expr, known: Mapping[str, int] | None = None) -> int | None:
        """How many containers that could be changed lie in one another in a constant: 0 for a number or a text.

        None if it is no constant. `known` are the names of the comprehensions around, with their depths.
        """
        known = known or {}
        match node:
            case ast.Constant():
                return 0
            case ast.Name():
                return known[node.id] if node.id in known else self._of_name(node)
            case ast.JoinedStr() | ast.Compare():
                return None if self._deepest(_parts(node), known) is None else 0
            case ast.BinOp() | ast.UnaryOp() | ast.BoolOp() | ast.IfExp() | ast.Starred():
                return self._deepest(_parts(node), known)
            case ast.Tuple() | ast.List() | ast.Set() | ast.Dict():
                inner = self._deepest(_parts(node), known)
                return inner if inner is None or (isinstance(node, ast.Tuple) and inner == 0) else inner + 1
            case ast.Subscript():
                whole = self.depth(node.value, known)
                at = _parts(node.slice) if isinstance(node.slice, ast.Slice) else [node.slice]
                if whole is None or self._deepest(at, known) is None:
                    return None
                return whole if isinstance(node.slice, ast.Slice) else max(whole - 1, 0)
            case ast.Attribute():
                return self.attributes.depth(node)
            case ast.Call():
                return self._of_call(node, known)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                return self._of_comprehension(node, known)
        return None

    def _deepest(self, nodes: Sequence[ast.expr], known: Mapping[str, int]) -> int | None:
        depths = [self.depth(node, known) for node in nodes]
        found = [depth for depth in depths if depth is not None]
        return max(found, default=0) if len(found) == len(depths) else None

    def _of_call(self, node: ast.Call, known: Mapping[str, int]) -> int | None:
        depth = self._deepest([*node.args, *(keyword.value for keyword in node.keywords)], known)
        called = node.func
        if depth is None:
            return None
        if isinstance(called, ast.Attribute) and self.attributes.is_of_shape(called):
            return 0
        if isinstance(called, ast.Name):
            pure = called.id in PURE and self._is_builtin(called)
            return None if not pure else 0 if called.id in SCALAR else depth
        if not isinstance(called, ast.Attribute):
            return None
        if isinstance(called.value, ast.Name) and imports(self.scopes, called.value, "math"):
            return 0
        own = self.depth(called.value, known) if called.attr in READING else None
        return None if own is None else max(own, depth)

    def _of_comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, known: Mapping[str, int]
    ) -> int | None:
        known = dict(known)
        for generator in node.generators:
            depth = self.depth(generator.iter, known)
            if depth is None or generator.is_async:
                return None
            known |= {name.id: max(depth - 1, 0) for name in ast.walk(generator.target) if isinstance(name, ast.Name)}
            if self._deepest(generator.ifs, known) is None:
                return None
        made = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        inner = self._deepest(made, known)
        return None if inner is None else inner + 1

    def _of_name(self, name: ast.Name) -> int | None:
        scope, bindings = self.scopes.bindings(name)
        if not bindings:
            return 0 if name.id in OF_MODULES else None
        depths = [self._of_binding(binding, name.id) for binding in bindings]
        found = [depth for depth in depths if depth is not None]
        deepest = max(found, default=0)
        known = len(found) == len(depths) and (deepest == 0 or self._is_only_read(name.id, scope, deepest))
        return deepest if known else None

    def _of_binding(self, binding: Binding, name: str) -> int | None:
        node = binding.node
        if node is self.scope and name in self.given:
            return 0
        if node in self._asked:
            return 0
        if node not in self._known:
            self._asked.add(node)
            self._known[node] = self._of_value(binding)
            self._asked.discard(node)
            if not self._asked and self._known[node] is None:  # what was found constant may rest on this one's being so
                self._known = {node: depth for node, depth in self._known.items() if depth is None}
        return self._known[node]

    def _of_value(self, binding: Binding) -> int | None:
        node, value = binding.node, binding.value
        if value is None or not self.is_certain(node) or not self._runs_to_its_end(node):
            return None
        if isinstance(node, ast.Subscript):  # an element is set: the container has another binding of its own
            return 1 if self.depth(node.slice) == 0 and self.depth(value) == 0 else None
        depth = self.depth(value)
        return None if depth is None else max(depth - binding.inside, 0)

    def _runs_to_its_end(self, target: ast.AST) -> bool:
        """Whether the loop that a target belongs to, if it does, is left early by nothing but constants."""
        loop = next(
            (p for p, child in self.scopes.around(target) if isinstance(p, ast.For) and child is p.target), None
        )
        return loop is None or all(self._is_reached(node) for node in ast.walk(loop) if _leaves(node))

    def _is_builtin(self, name: ast.Name) -> bool:
        return not self.scopes.bindings(name)[1]

    def _is_only_read(self, name: str, scope: Scope, depth: int) -> bool:
        """Whether nothing can change a container of this depth, but for the assignments to its elements."""
        return all(
            self._is_read(node, depth, self.scopes.of(node) is scope)
            for node in ast.walk(scope)
            if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
        )

    def _is_read(self, node: ast.expr, depth: int, here: bool) -> bool:
        """Whether nobody gets hold of a container, or of one in it, where it is used."""
        parent = self.scopes.parents[node]
        match parent:
            case ast.Subscript() if node is parent.value and isinstance(parent.ctx, ast.Load):
                left = depth if isinstance(parent.slice, ast.Slice) else depth - 1
                return left == 0 or self._is_read(parent, left, here)
            case ast.Subscript():  # set in the scope of the name it is a binding of the name's
                return node is not parent.value or (isinstance(node, ast.Name) and here)
            case (
                ast.Compare()
                | ast.FormattedValue()
                | ast.Expr()
                | ast.If()
                | ast.While()
                | ast.Assert()
                | ast.UnaryOp()
            ):
                return True
            case ast.BinOp() | ast.Starred() | ast.For() | ast.comprehension() | ast.keyword(arg=None):
                return depth == 1
            case ast.Call() if isinstance(parent.func, ast.Name) and node is not parent.func:
                fits = parent.func.id in LOOKING or (parent.func.id in PURE and depth == 1)
                return fits and self._is_builtin(parent.func)
            case ast.Attribute():
                called = self.scopes.parents[parent]
                return depth == 1 and parent.attr in READING and isinstance(called, ast.Call) and called.func is parent
        return False


def _parts(node: ast.expr) -> list[ast.expr]:
    """The expressions that one is made of."""
    parts = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
    return [part.value if isinstance(part, ast.FormattedValue) else part for part in parts]


def _gives_up(handler: ast.ExceptHandler) -> bool:
    """Whether a handler ends in another failure, at the latest."""
    last = handler.body[-1]
    if not isinstance(last, ast.Expr) or not _calls_one_of(last.value, EXITS):
        return isinstance(last, ast.Raise)
    status = last.value.args[:1] if isinstance(last.value, ast.Call) else []
    return not all(isinstance(code, ast.Constant) and not code.value for code in status)


def _leaves(node: ast.AST) -> bool:
    if isinstance(node, ast.Expr):
        return _calls_one_of(node.value, EXITS)
    return isinstance(node, ast.Return | ast.Break | ast.Continue)


def _calls_one_of(node: ast.expr, names: frozenset[str]) -> bool:
    called = node.func if isinstance(node, ast.Call) else None
    return (called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")) in names
