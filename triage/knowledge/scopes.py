"""Names of a syntax tree: the scope that a node stands in, and where a name is bound. Pure."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

Scope = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda


@dataclass(frozen=True)
class Binding:
    """Where a name, or an element of what it holds, gets a value.

    `value` is the expression that it is taken from, None where that cannot be told; `inside`, how many containers deep the
    name's own value lies in it.
    """

    node: ast.AST
    value: ast.expr | None = None
    inside: int = 0


class Scopes:
    """One syntax tree, indexed from the leaves to the root."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self.parents: dict[ast.AST, ast.AST] = {}
        self._scopes: dict[ast.AST, Scope] = {}
        waiting: list[tuple[ast.AST, Scope]] = [(tree, tree)]
        while waiting:
            node, scope = waiting.pop()
            self._scopes[node] = scope
            body = [node.body] if isinstance(node, ast.Lambda) else getattr(node, "body", [])
            for child in ast.iter_child_nodes(node):
                self.parents[child] = node
                inside = isinstance(node, Scope) and any(child is one for one in body)
                waiting.append((child, node if isinstance(node, Scope) and inside else scope))

    def of(self, node: ast.AST) -> Scope:
        """The function, class or module whose body holds the node: of a decorator or a default, the one around."""
        return self._scopes[node]

    def around(self, node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
        """The nodes around this one inside its scope, innermost first, each with the child that leads to it."""
        scope = self.of(node)
        while (parent := self.parents.get(node)) is not None and parent is not scope:
            yield parent, node
            node = parent

    def statement(self, node: ast.AST) -> ast.stmt | None:
        """The innermost statement that holds the node."""
        found: ast.AST | None = node
        while found is not None and not isinstance(found, ast.stmt):
            found = self.parents.get(found)
        return found

    def bindings(self, name: ast.Name) -> tuple[Scope, list[Binding]]:
        """The scope that a name belongs to, and every place where it is bound there; none for a builtin."""
        scope = first = self.of(name)
        while True:
            if scope is first or not isinstance(scope, ast.ClassDef):  # a method does not see the names of its class
                found = self._bound.get((scope, name.id)) or self._bound.get((scope, "*"))
                if found or scope is self.tree:
                    return scope, found or []
            scope = self.of(scope)

    @cached_property
    def _bound(self) -> dict[tuple[Scope, str], list[Binding]]:
        """The bindings of every scope by name; `*` is what a module may bind that is imported whole.

        What a function declares `global` or `nonlocal` is bound, whenever the function is called, in every scope around it.
        """
        found: dict[tuple[Scope, str], list[Binding]] = defaultdict(list)
        elsewhere = [n for n in self._scopes if isinstance(n, ast.Global | ast.Nonlocal)]
        declared = {(self.of(node), name) for node in elsewhere for name in node.names}
        for node, scope in self._scopes.items():
            for name, binding in self._bound_at(node):
                if (scope, name) not in declared:
                    found[scope, name].append(binding)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                for parameter in parameters(node):
                    found[node, parameter.arg].append(Binding(node))
        for node in elsewhere:
            outer: Scope = self.of(node)
            while outer is not self.tree:
                outer = self.of(outer)
                for name in node.names:
                    found[outer, name].append(Binding(node))
        return found

    def _bound_at(self, node: ast.AST) -> Iterator[tuple[str, Binding]]:
        match node:
            case ast.Name(ctx=ast.Store() | ast.Del()) if not self._is_of_comprehension(node):
                yield node.id, self._assigned(node)
            case ast.Subscript(value=ast.Name(), ctx=ast.Store() | ast.Del()) if isinstance(node.value, ast.Name):
                yield node.value.id, self._assigned(node)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name, Binding(node)
            case ast.ExceptHandler() | ast.MatchAs() | ast.MatchStar() if node.name is not None:
                yield node.name, Binding(node)
            case ast.MatchMapping() if node.rest is not None:
                yield node.rest, Binding(node)
            case ast.Import() | ast.ImportFrom():
                for alias in node.names:
                    yield (alias.asname or alias.name).partition(".")[0], Binding(node)

    def _is_of_comprehension(self, node: ast.AST) -> bool:
        return any(
            isinstance(parent, ast.comprehension) and child is parent.target for parent, child in self.around(node)
        )

    def _assigned(self, target: ast.Name | ast.Subscript) -> Binding:
        """What a target is given: in a tuple of targets that of a tuple of values, one by one."""
        child: ast.AST = target
        path: list[int] = []
        while isinstance(parent := self.parents[child], ast.Tuple | ast.List):
            path.insert(0, next(n for n, element in enumerate(parent.elts) if element is child))
            child = parent
        value: ast.expr | None = None
        inside = 0
        if isinstance(parent, ast.Assign | ast.AnnAssign | ast.NamedExpr | ast.AugAssign):
            value = parent.value
        elif isinstance(parent, ast.For) and child is parent.target:
            value, inside = parent.iter, 1
        for position in path:
            if not inside and isinstance(value, ast.Tuple | ast.List) and position < len(value.elts):
                unpacked = any(isinstance(element, ast.Starred) for element in value.elts)
                value = None if unpacked else value.elts[position]
            else:
                inside += 1
        return Binding(target, None if isinstance(target.ctx, ast.Del) else value, inside)


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> list[ast.arg]:
    given = function.args
    rest = [one for one in (given.vararg, given.kwarg) if one is not None]
    return [*given.posonlyargs, *given.args, *given.kwonlyargs, *rest]


def imports(scopes: Scopes, name: ast.expr, module: str) -> bool:
    """Whether an expression is a name that stands for this module and for nothing else."""
    nodes = [binding.node for binding in scopes.bindings(name)[1]] if isinstance(name, ast.Name) else []
    imported = [alias for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    return len(nodes) == 1 and any(
        a.name == module and (a.asname or a.name) == getattr(name, "id", "") for a in imported
    )
