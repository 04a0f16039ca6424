"""What can be told of a changed script without running it: names that nothing binds any more, and calls that no longer fit.

Only a guess about what a run would show, good enough to spare the run: a name may be bound in ways that nobody sees here.
So a script is compared with the one it was made from, and only what is new counts against it. Pure.
"""

from __future__ import annotations

import ast
import builtins
import symtable
from dataclasses import dataclass


@dataclass(frozen=True)
class Loose:
    """Names that are read and never bound, and functions of the script that some call does not fit."""

    unbound: frozenset[str] = frozenset()
    miscalled: frozenset[str] = frozenset()

    def within(self, other: Loose) -> bool:
        """Whether nothing is loose here that is not loose there."""
        return self.unbound <= other.unbound and self.miscalled <= other.miscalled


def loose(source: str) -> Loose | None:
    """What is loose in a script; None for what does not compile."""
    try:
        tree = ast.parse(source)
        top = symtable.symtable(source, "candidate", "exec")
    except (SyntaxError, ValueError, RecursionError):
        return None
    return Loose(_unbound(tree, top), _miscalled(tree))


def _unbound(tree: ast.Module, top: symtable.SymbolTable) -> frozenset[str]:
    if any(isinstance(node, ast.ImportFrom) and node.names[0].name == "*" for node in ast.walk(tree)):
        return frozenset()
    bound = {symbol.get_name() for symbol in top.get_symbols() if symbol.is_assigned() or symbol.is_imported()}
    read, tables = set(), [top]
    while tables:
        table = tables.pop()
        tables += table.get_children()
        for symbol in table.get_symbols():
            if symbol.is_declared_global() and symbol.is_assigned():
                bound.add(symbol.get_name())
            elif symbol.is_referenced() and (symbol.is_global() or table is top):
                read.add(symbol.get_name())
    return frozenset(name for name in read - bound if not hasattr(builtins, name) and not name.startswith("__"))


def _miscalled(tree: ast.Module) -> frozenset[str]:
    functions: dict[str, list[ast.FunctionDef]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            functions.setdefault(node.name, []).append(node)
    return frozenset(
        node.func.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        and len(functions.get(node.func.id, ())) == 1 and not _fits(node, functions[node.func.id][0].args)
    )  # fmt: skip


def _fits(call: ast.Call, parameters: ast.arguments) -> bool:
    """Whether a call gives a function what it takes. What stands behind a star is taken to fit."""
    if any(isinstance(value, ast.Starred) for value in call.args) or any(k.arg is None for k in call.keywords):
        return True
    positional = [a.arg for a in (*parameters.posonlyargs, *parameters.args)]
    named = {k.arg for k in call.keywords if k.arg}
    if len(call.args) > len(positional) and parameters.vararg is None:
        return False
    if named - set(positional) - {a.arg for a in parameters.kwonlyargs} and parameters.kwarg is None:
        return False
    given = set(positional[: len(call.args)]) | named
    needed = positional[: len(positional) - len(parameters.defaults)]
    needed += [
        a.arg for a, default in zip(parameters.kwonlyargs, parameters.kw_defaults, strict=True) if default is None
    ]
    return set(needed) <= given
