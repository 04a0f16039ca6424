"""Second places worth a look beside a line of a kernel: where operands were made, where a loop's variable got out, where a
macro is called. Pure."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from triage.knowledge.syntax import Function, base_of, calls_at, functions_at, name_of, own_statements, parse_source

#: how many operands are told; what a report shows of one takes two or three lines
MOST_OPERANDS = 3
#: how many calls of a macro are told
MOST_CALLS = 3
#: calls of the DSL that work on whole buffers or regions of them
OPERATOR = re.compile(r"(\w+_)?(gemm|copy|fill|clear|reduce|cumsum|cummax|im2col|transpose|atomic)(_\w+)?")
#: calls of the DSL that make a buffer, and annotations that declare one
MAKES = re.compile(r"alloc_\w+|empty")
DECLARES = re.compile(r"(\w*Tensor|\w*Buffer)")
#: names that a text lists as variables: `variables (m, n) are used`, `Variable m is …`
VARIABLES = re.compile(r"\b[Vv]ariables?\s*[(\[`'\"]*(\w+(?:,\s*\w+)*)")


@dataclass(frozen=True)
class Related:
    """A line, counted from 1, and what is to be seen there."""

    line: int
    text: str


def find_operands(source: str, line: int, told: str) -> list[Related]:
    """Where the buffers that the tile operator at `line` is given were made; first those that the text `told` names.

    A buffer counts that its function assigns once, from a call that allocates one, or declares as a tensor.
    """
    tree = parse_source(source)
    operators = [c for c in calls_at(tree, line) if OPERATOR.fullmatch(name_of(c.func) or "")] if tree else []
    if tree is None or not operators:
        return []
    given = [*operators[-1].args, *(keyword.value for keyword in operators[-1].keywords)]
    names = list(dict.fromkeys(name for value in given if (name := base_of(value))))
    names.sort(key=lambda name: re.search(rf"(?<!\w){re.escape(name)}(?!\w)", told) is None)
    found = [made for name in names if (made := _made(tree, name, line))]
    return found[:MOST_OPERANDS]


def find_escapes(source: str, line: int, told: str) -> list[Related]:
    """Where a name that the statement at `line` reads got the variable of a loop that has ended there.

    Only of variables that the text `told` lists: what a loop leaves in a name of Python need not be wrong.
    """
    tree = parse_source(source)
    function = next(functions_at(tree, line), None) if tree else None
    if function is None:
        return []
    listed = {name.strip() for names in VARIABLES.findall(told) for name in names.split(",")}
    statements = [s for s in own_statements(function) if s.lineno <= line <= (s.end_lineno or s.lineno)]
    read = set(_loaded(max(statements, key=lambda s: s.lineno))) if statements else set()
    found = {}
    for loop in own_statements(function):
        if isinstance(loop, ast.For) and (loop.end_lineno or loop.lineno) < line:
            for variable in sorted(set(_stored(loop.target)) & listed):
                for name, at in _derived(loop, variable):
                    if name in read:
                        found[name] = Related(at, f"{name} takes {variable} out of its loop here")
    return sorted(found.values(), key=lambda related: related.line)


def find_expansions(source: str, line: int) -> list[Related]:
    """Where the macro around `line` is called: for a fault of its body, of which only one of the calls need be wrong."""
    tree = parse_source(source)
    macro = next(functions_at(tree, line), None) if tree else None
    if tree is None or macro is None or not any(_is_macro(decorator) for decorator in macro.decorator_list):
        return []
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and name_of(n.func) == macro.name]
    lines = sorted({call.lineno for call in calls if macro not in functions_at(tree, call.lineno)})
    one_of = "" if len(lines) == 1 else f", one of {len(lines)} calls"
    return [Related(at, f"{macro.name} is called here{one_of}") for at in lines[:MOST_CALLS]]


def _is_macro(decorator: ast.expr) -> bool:
    return name_of(decorator.func if isinstance(decorator, ast.Call) else decorator) == "macro"


def _made(tree: ast.Module, name: str, line: int) -> Related | None:
    """Where the buffer of this name was made, in the innermost function around `line` that binds the name."""
    for function in functions_at(tree, line):
        arguments = function.args
        parameters = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        bound = [a for a in parameters if a.arg == name]
        stores = sum(stored == name for node in _own_nodes(function) for stored in _stored_by(node))
        if not bound and not stores:
            continue
        declared = [a for a in bound if _matches(a.annotation, DECLARES)]
        if stores + len(declared) != 1:
            return None
        for parameter in declared:
            return Related(parameter.lineno, f"{name} is declared here")
        for node in own_statements(function):
            if isinstance(node, ast.Assign | ast.AnnAssign):
                target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                if isinstance(target, ast.Name) and target.id == name:
                    if isinstance(node.value, ast.Call) and _matches(node.value, MAKES):
                        return Related(node.lineno, f"{name} is allocated here")
                    if isinstance(node, ast.AnnAssign) and node.value is None and _matches(node.annotation, DECLARES):
                        return Related(node.lineno, f"{name} is declared here")
        return None
    return None


def _matches(node: ast.expr | None, names: re.Pattern[str]) -> bool:
    """Whether this is `name(…)` or `name[…]`, of a module or not."""
    head = node.func if isinstance(node, ast.Call) else node.value if isinstance(node, ast.Subscript) else None
    return head is not None and names.fullmatch(name_of(head) or "") is not None


def _own_nodes(function: Function) -> Iterator[ast.AST]:
    """Everything in the body of a function that runs in its own scope."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, Function | ast.ClassDef | ast.Lambda):
            waiting += ast.iter_child_nodes(node)


def _stored_by(node: ast.AST) -> list[str]:
    return [node.id] if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load) else []


def _stored(node: ast.AST) -> list[str]:
    return [name for inner in ast.walk(node) for name in _stored_by(inner)]


def _loaded(node: ast.AST) -> list[str]:
    return [n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]


def _derived(loop: ast.For, variable: str) -> Iterator[tuple[str, int]]:
    """The names that are assigned in a loop from its variable, or from another such name, and the lines."""
    derived = {variable}
    nodes = [n for n in ast.walk(loop) if isinstance(n, ast.Assign | ast.AugAssign | ast.AnnAssign) and n.value]
    for node in sorted(nodes, key=lambda node: node.lineno):
        if node.value and derived.intersection(_loaded(node.value)):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                for name in _stored(target):
                    derived.add(name)
                    yield name, node.lineno
