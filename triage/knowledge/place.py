"""Which place of the user's source a finding points at, found in the syntax tree. Pure: source text in, spot out."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

#: How often a name is followed to what it was assigned from: `k = factory(…)`, `factory = jit(out_idx=…)(f)`, …
MAX_HOPS = 4

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Spot:
    """A place in a source text; `line` and `column` count from 1."""

    line: int
    column: int
    function: str | None = None


@dataclass(frozen=True)
class Imported:
    """A name that is called and comes from another module: `from ..a.b import name` is `("a", "b")`, level 2."""

    module: tuple[str, ...]
    level: int
    name: str


def parse_source(source: str) -> ast.Module | None:
    """The tree, or None where the text is not Python (to this interpreter)."""
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def find_call(source: str, line: int) -> Spot | None:
    """The outermost call on `line`."""
    tree = parse_source(source)
    calls = _calls_at(tree, line) if tree else []
    return _spot(calls[-1], tree, line) if tree and calls else None


def find_argument(source: str, line: int, argument: str) -> Spot | None:
    """The keyword `argument` of the call at `line`, of the calls around it, or of where what is called comes from.

    Looked at in this order: the calls that span the line, innermost first; the entry of a dict they are passed as
    `**name`; the decorators of the function called, and the call a called variable was assigned from; the decorators
    of the functions around the line. `argument` may be a position, `"0"`. None if it is nowhere.
    """
    tree = parse_source(source)
    if tree is None:
        return None
    calls = _calls_at(tree, line)
    for call in calls:
        if spot := _in_call(call, argument, tree, line):
            return spot
    for call in calls:
        if spot := _behind(call.func, argument, tree, line, MAX_HOPS):
            return spot
    for function in _functions_at(tree, line):
        if spot := _in_decorators(function, argument, tree):
            return spot
    return None


def find_imported(source: str, line: int) -> list[Imported]:
    """The functions called at `line` that the source imports, innermost call first."""
    tree = parse_source(source)
    found = [_origin(tree, call.func) for call in _calls_at(tree, line)] if tree else []
    return [imported for imported in found if imported]


def _origin(tree: ast.Module, called: ast.expr) -> Imported | None:
    """Where the name called comes from, for `name(…)` and `module.name(…)`."""
    base = called.value if isinstance(called, ast.Attribute) else called
    if not isinstance(base, ast.Name):
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if (alias.asname or alias.name) == base.id:
                    module = tuple(node.module.split(".")) if node.module else ()
                    if isinstance(called, ast.Attribute):
                        return Imported((*module, alias.name), node.level, called.attr)
                    return Imported(module, node.level, alias.name)
        elif isinstance(node, ast.Import) and isinstance(called, ast.Attribute):
            for alias in node.names:
                if (alias.asname or alias.name) == base.id:
                    return Imported(tuple(alias.name.split(".")), 0, called.attr)
    return None


def find_decorator(source: str, line: int) -> Spot | None:
    """The first decorator of the function called at `line`, else of the innermost decorated function around it."""
    tree = parse_source(source)
    if tree is None:
        return None
    called = [f for call in _calls_at(tree, line) for f in _definitions(tree, call.func)]
    around = [f for f in _functions_at(tree, line) if f.decorator_list]
    decorated = called if len(called) == 1 and called[0].decorator_list else around
    return _spot(decorated[0].decorator_list[0], tree, line) if decorated else None


def find_return(source: str, line: int) -> Spot | None:
    """What the function called at `line` returns: its last `return`, else its last statement, after which one is missing.

    None if no function, or more than one, has the name that is called there.
    """
    tree = parse_source(source)
    called = [f for call in _calls_at(tree, line) for f in _definitions(tree, call.func)] if tree else []
    if tree is None or len(called) != 1:
        return None
    returns = [node for node in _own_statements(called[0]) if isinstance(node, ast.Return)]
    if returns:
        last = max(returns, key=lambda node: node.lineno)
        return Spot(last.lineno, last.col_offset + 1, called[0].name)
    end = called[0].body[-1]
    return Spot(end.end_lineno or end.lineno, end.col_offset + 1, called[0].name)


def find_inner_assignment(source: str, line: int, name: str) -> Spot | None:
    """The last assignment to `name` above `line` in a `for`, `while`, `if` or `with` that has ended there.

    Looked for in the innermost function around `line`. None if there is none.
    """
    tree = parse_source(source)
    function = next(_functions_at(tree, line), None) if tree else None
    if function is None:
        return None
    ended = [
        block
        for block in _own_statements(function)
        if isinstance(block, ast.For | ast.While | ast.If | ast.With) and (block.end_lineno or block.lineno) < line
    ]
    found = [
        node
        for block in ended
        for node in ast.walk(block)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id == name
    ]
    last = max(found, key=lambda node: (node.lineno, node.col_offset), default=None)
    return Spot(last.lineno, last.col_offset + 1, function.name) if last else None


def find_only_argument(source: str, line: int, function: str, argument: str) -> Spot | None:
    """The keyword `argument` if it occurs exactly once in a function; for when its line is not known.

    The function is the one whose decorator is at `line`, else the only one called `function`.
    """
    tree = parse_source(source)
    if tree is None:
        return None
    functions = [node for node in ast.walk(tree) if isinstance(node, Function)]
    decorated = [f for f in functions if any(d.lineno <= line <= (d.end_lineno or d.lineno) for d in f.decorator_list)]
    chosen = decorated or [f for f in functions if f.name == function]
    if len(chosen) != 1:
        return None
    keywords = [node for node in ast.walk(chosen[0]) if isinstance(node, ast.keyword) and node.arg == argument]
    return Spot(keywords[0].lineno, keywords[0].col_offset + 1, chosen[0].name) if len(keywords) == 1 else None


def find_launch(source: str, line: int) -> Spot | None:
    """The `T.Kernel(…)` of the function around `line`, or of the function called there."""
    tree = parse_source(source)
    if tree is None:
        return None
    called = [f for call in _calls_at(tree, line) for f in _definitions(tree, call.func)]
    for function in (*_functions_at(tree, line), *(called if len(called) == 1 else ())):
        launches = [
            item.context_expr
            for node in ast.walk(function)
            if isinstance(node, ast.With)
            for item in node.items
            if isinstance(item.context_expr, ast.Call) and _name(item.context_expr.func) == "Kernel"
        ]
        covering = [call for call in launches if call.lineno <= line]
        if launches:
            return _spot((covering or launches)[-1], tree, line)
    return None


def spans(source: str, function: str, line: int) -> bool | None:
    """Whether a function of this name, decorators included, covers `line`; None if the source has no such function."""
    tree = parse_source(source)
    if tree is None:
        return None
    named = any(isinstance(node, Function) and node.name == function for node in ast.walk(tree))
    return any(f.name == function for f in _functions_at(tree, line)) if named else None


def _spot(node: ast.expr | ast.keyword, tree: ast.AST | None, line: int) -> Spot:
    around = next(_functions_at(tree, node.lineno), None) if isinstance(tree, ast.Module) else None
    return Spot(node.lineno, node.col_offset + 1, around.name if around else None)


def _calls_at(tree: ast.Module, line: int) -> list[ast.Call]:
    """The calls spanning `line`, innermost first; of two that start there, the shorter one first."""
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and n.lineno <= line <= (n.end_lineno or n.lineno)]
    return sorted(calls, key=lambda call: ((call.end_lineno or 0) - call.lineno, _width(call)))


def _width(call: ast.Call) -> int:
    return (call.end_col_offset or 0) - call.col_offset


def _functions_at(tree: ast.Module, line: int) -> Iterator[Function]:
    """The functions around `line` (their decorators count), innermost first."""
    found = [
        node
        for node in ast.walk(tree)
        if isinstance(node, Function)
        and min([node.lineno, *(d.lineno for d in node.decorator_list)]) <= line <= (node.end_lineno or node.lineno)
    ]
    return iter(sorted(found, key=lambda node: -node.lineno))


def _in_call(call: ast.Call, argument: str, tree: ast.Module, line: int) -> Spot | None:
    if argument.isdigit():
        position = int(argument)
        plain = not any(isinstance(a, ast.Starred) for a in call.args[: position + 1])
        return _spot(call.args[position], tree, line) if plain and position < len(call.args) else None
    for keyword in call.keywords:
        if keyword.arg == argument:
            return _spot(keyword, tree, line)
    for keyword in call.keywords:
        if keyword.arg is None and (spot := _in_mapping(keyword.value, argument, tree, line)):
            return spot
    return None


def _in_mapping(value: ast.expr, argument: str, tree: ast.Module, line: int, hops: int = MAX_HOPS) -> Spot | None:
    """The entry `argument` of a dict display, of `dict(…)`, or of the variable that holds one."""
    if hops == 0:
        return None
    if isinstance(value, ast.Dict):
        for key, item in zip(value.keys, value.values, strict=True):
            if isinstance(key, ast.Constant) and key.value == argument:
                return _spot(key, tree, line)
            if key is None and (spot := _in_mapping(item, argument, tree, line, hops - 1)):
                return spot
    if isinstance(value, ast.Call) and _name(value.func) == "dict":
        return next((_spot(keyword, tree, line) for keyword in value.keywords if keyword.arg == argument), None)
    if isinstance(value, ast.Name):
        for node in _assignments(tree, value.id, line):
            target = node.targets[0]
            if isinstance(target, ast.Subscript):
                if isinstance(target.slice, ast.Constant) and target.slice.value == argument:
                    return _spot(target, tree, line)
            elif spot := _in_mapping(node.value, argument, tree, node.lineno - 1, hops - 1):
                return spot
    return None


def _assignments(tree: ast.Module, name: str, line: int) -> list[ast.Assign]:
    """`name = …` and `name[…] = …` up to `line`, in the scopes that `line` sees; the nearest first."""
    scopes: list[Function | ast.Module] = [*_functions_at(tree, line), tree]
    found = []
    for scope in scopes:
        here = [
            node
            for node in _own_statements(scope)
            if isinstance(node, ast.Assign)
            and (isinstance(scope, ast.Module) or node.lineno <= line)
            and _base(node.targets[0]) == name
        ]
        before = [node for node in here if node.lineno <= line]
        found += sorted(before or here, key=lambda node: -node.lineno)
        if found:
            break
    return found


def _own_statements(scope: Function | ast.Module) -> Iterator[ast.stmt]:
    """The statements of a scope without those of the functions and classes in it."""
    waiting: list[ast.stmt] = list(scope.body)
    while waiting:
        node = waiting.pop(0)
        yield node
        if not isinstance(node, Function | ast.ClassDef):
            waiting += [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt)]


def _behind(called: ast.expr, argument: str, tree: ast.Module, line: int, hops: int) -> Spot | None:
    """`argument` where the thing called was made: its decorators, or the call whose result it is."""
    if hops == 0:
        return None
    if isinstance(called, ast.Call):
        return _in_call(called, argument, tree, line) or _behind(called.func, argument, tree, line, hops - 1)
    found = [spot for f in _definitions(tree, called) if (spot := _in_decorators(f, argument, tree))]
    if found:  # of two functions of one name nobody can tell here which was called
        return found[0] if len(found) == 1 else None
    if isinstance(called, ast.Name):
        for node in _assignments(tree, called.id, line):
            if isinstance(node.targets[0], ast.Name) and isinstance(node.value, ast.Call):
                spot = _in_call(node.value, argument, tree, node.lineno)
                return spot or _behind(node.value.func, argument, tree, node.lineno - 1, hops - 1)
    return None


def _in_decorators(function: Function, argument: str, tree: ast.Module) -> Spot | None:
    for decorator in function.decorator_list:
        if isinstance(decorator, ast.Call) and (spot := _in_call(decorator, argument, tree, decorator.lineno)):
            return spot
    return None


def _definitions(tree: ast.Module, called: ast.expr) -> list[Function]:
    name = _name(called)
    return [n for n in ast.walk(tree) if isinstance(n, Function) and n.name == name] if name else []


def _name(node: ast.expr) -> str | None:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else None


def _base(node: ast.expr) -> str | None:
    while isinstance(node, ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None
