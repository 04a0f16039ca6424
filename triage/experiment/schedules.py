"""Other schedules of the same kernel: numbers of a script that say how work is cut into tiles and steps, and not what is computed. Pure.

A tile is known by its role: it sizes on-chip buffers or parallel loops, divides the grid or a loop over steps, and neither the shape of a tensor
nor a value depends on it. Results must not depend on it either, which can be checked without a reference.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from triage.experiment.repairs.edit import Change
from triage.experiment.repairs.scope import kind_of
from triage.experiment.repairs.syntax import called, launches, names_in
from triage.experiment.repairs.text import Text

#: a smaller tile is none that anybody would take
SMALLEST = 8
#: numbers of a script that are changed
MOST = 4
ALLOCATES = ("alloc_shared", "alloc_fragment", "alloc_local")
STEPS = ("serial", "Pipelined", "Persistent", "range", "unroll")
TENSORS = ("Tensor", "Buffer", "StridedTensor", "empty", "match_buffer")


@dataclass(frozen=True)
class Schedule:
    """A script with another number in the place of `old`: what it is called, and the line in which it stands. `steps`: it says how far a step of a
    loop goes within a block; else only how much a block does, which may well be a unit of what is computed."""

    name: str
    line: int
    old: int
    new: int
    changes: tuple[Change, ...]
    steps: bool = True

    def __str__(self) -> str:
        return f"{self.name}={self.new}"

    def apply(self, source: str) -> str:
        for start, stop, new in sorted(self.changes, reverse=True):
            source = source[:start] + new + source[stop:]
        return source


@dataclass(frozen=True)
class Found:
    """The schedules that can be tried, and why a number that looks like a tile is left alone, by its name."""

    schedules: tuple[Schedule, ...] = ()
    left_alone: tuple[tuple[str, str], ...] = ()


def schedules(source: str, extents: Collection[int]) -> Found:
    """Half and double the tiles of the kernels of a script, where each of `extents`, the sizes of tensors that kernels were given, is a multiple of
    the new tile if it is one of the old. Nothing where the source does not parse."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return Found()
    text = Text(source)
    found: dict[str, list[Schedule]] = {}
    left_alone: dict[str, str] = {}
    for factory in _factories(tree):
        steps = _of_steps(factory)
        for name in _tiles(factory):
            why = _more_than_a_tile(factory, name)
            places = list(_numbers(tree, factory, name))
            if why or not places:
                left_alone[name] = why or "no plain number in the script says it"
                continue
            old = {int(ast.literal_eval(place)) for place in places}
            whole = _divided_without_rest(factory, name)
            for size in old if len(old) == 1 else ():
                for new in (size // 2, size * 2):
                    if _fits(size, new, extents) and (new < size or not whole):
                        changes = tuple(text.replaced(place, str(new)) for place in places)
                        schedule = Schedule(name, places[0].lineno, size, new, changes, name in steps)
                        found.setdefault(name, []).append(schedule)
    chosen = [one for some in list(found.values())[:MOST] for one in some]
    halves_first = sorted(chosen, key=lambda one: one.new > one.old)
    return Found(tuple(halves_first), tuple(left_alone.items()))


def _fits(old: int, new: int, extents: Collection[int]) -> bool:
    return (
        new >= SMALLEST
        and old * 2 in (new, new * 4)
        and all(extent % new == 0 for extent in extents if extent % old == 0)
    )


def _factories(tree: ast.Module) -> list[ast.FunctionDef]:
    """The outermost functions that build kernels."""
    inside: set[int] = set()
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and id(node) not in inside and any(map(_launches, ast.walk(node))):
            found.append(node)
            inside |= {id(n) for n in ast.walk(node)}
    return found


def _launches(node: ast.AST) -> bool:
    return isinstance(node, ast.With) and launches(node)


def _tiles(factory: ast.FunctionDef) -> list[str]:
    """Names that size what a block holds, and divide what it is a part of."""
    sizes: dict[str, None] = {}
    divisors: set[str] = set()
    for node in ast.walk(factory):
        if isinstance(node, ast.Call) and called(node) in ALLOCATES and node.args:
            sizes |= dict.fromkeys(n.id for n in ast.walk(node.args[0]) if isinstance(n, ast.Name))
        elif isinstance(node, ast.For) and kind_of(node) == "Parallel" and isinstance(node.iter, ast.Call):
            sizes |= dict.fromkeys(arg.id for arg in node.iter.args if isinstance(arg, ast.Name))
        divisors |= _divisor(node)
    return [name for name in sizes if name in divisors]


def _of_steps(factory: ast.FunctionDef) -> set[str]:
    """Names by which the extents of loops over steps are divided, also those that have a name of their own, or their counters multiplied."""
    named = {
        target.id: node.value for node in ast.walk(factory) if isinstance(node, ast.Assign)
        for target in node.targets if isinstance(target, ast.Name)
    }  # fmt: skip
    loops = (
        n for n in ast.walk(factory) if isinstance(n, ast.For) and kind_of(n) in STEPS and isinstance(n.iter, ast.Call)
    )
    extents = [arg for loop in loops if isinstance(loop.iter, ast.Call) for arg in loop.iter.args]
    extents += [named[name] for extent in extents for name in names_in(extent) if name in named]
    counters = {name for loop in loops for name in names_in(loop.target)}
    strides = {
        name for node in ast.walk(factory) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)
        for one, other in ((node.left, node.right), (node.right, node.left)) if counters & names_in(one) for name in names_in(other)
    }  # fmt: skip
    return strides | {name for extent in extents for node in ast.walk(extent) for name in _divisor(node)}


def _divisor(node: ast.AST) -> set[str]:
    if isinstance(node, ast.Call) and called(node) == "ceildiv" and len(node.args) == 2:
        return names_in(node.args[1])
    return names_in(node.right) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv) else set()


def _more_than_a_tile(factory: ast.FunctionDef, name: str) -> str:
    """What else than the schedule depends on a name; empty if nothing does."""
    made_of = {name}
    for node in ast.walk(factory):  # in the order of the text, but for nested functions, which only read
        if isinstance(node, ast.Assign) and made_of & names_in(node.value) and not _is_allocation(node.value):
            made_of |= {n.id for target in node.targets for n in ast.walk(target) if isinstance(n, ast.Name)}
    counts = {name} | {n for n in made_of if _is_beside(factory, n)}
    for node in ast.walk(factory):
        sizes_tensor = isinstance(node, ast.Call) and called(node) in TENSORS
        annotated = isinstance(node, ast.Subscript) and ast.unparse(node.value).rpartition(".")[2] in TENSORS
        if (sizes_tensor or annotated) and counts & names_in(node):
            return "the shape of a tensor depends on it"
    for node in ast.walk(factory):
        if isinstance(node, (ast.Assign, ast.AugAssign)) and counts & set(_in_values(node)):
            return "what is computed depends on it"
        if name in _divisor(node) and len(_divisor(node)) > 1:
            return "it also says how work is split among blocks"
    return ""


def _divided_without_rest(factory: ast.FunctionDef, name: str) -> bool:
    """Whether something is divided by a tile and rounded down: a multiple of the tile then, and perhaps none of twice as much."""
    return any(
        isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.FloorDiv)
        and name in names_in(node.right) - names_in(node.left)
        for node in ast.walk(factory)
    )


def _is_beside(factory: ast.FunctionDef, name: str) -> bool:
    """Whether a name is given a value outside of what a kernel does."""
    within = {id(n) for node in ast.walk(factory) if _launches(node) for n in ast.walk(node)}
    return any(
        isinstance(node, ast.Assign) and id(node) not in within and any(name in names_in(t) for t in node.targets)
        for node in ast.walk(factory)
    )


def _is_allocation(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and called(value).startswith("alloc_")


def _in_values(statement: ast.Assign | ast.AugAssign) -> Iterator[str]:
    """Names in what a statement stores in a buffer, but for those that say which elements or whether."""
    target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
    if not isinstance(target, ast.Subscript):
        return
    queue: list[ast.AST] = [statement.value]
    for node in queue:  # which grows
        if isinstance(node, ast.Name):
            yield node.id
        elif not isinstance(node, (ast.Subscript, ast.Compare, ast.BoolOp)):
            queue += ast.iter_child_nodes(node)


def _numbers(tree: ast.Module, factory: ast.FunctionDef, name: str) -> Iterator[ast.Constant]:
    """The plain numbers that a name of a factory stands for, wherever that is said; none if it is said in another way, too."""
    found: list[ast.expr] = []
    arguments = factory.args
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = dict(
        zip([a.arg for a in positional[len(positional) - len(arguments.defaults) :]], arguments.defaults, strict=True)
    )
    defaults |= {a.arg: d for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if d is not None}
    names = [a.arg for a in (*positional, *arguments.kwonlyargs)]
    if name in names:
        calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and called(n) == factory.name]
        given = [value for call in calls for value in [_argument(call, names, name)] if value is not None]
        omitted = len(given) < len(calls) or not calls
        found += given
        if omitted and name in defaults:
            found.append(defaults[name])
        elif omitted and calls:
            return  # given in a way that is not plain, as by `**config`
    else:
        scope = factory if any(name in names_in(t) for t in _targets(factory)) else tree
        found += [
            node.value for node in ast.walk(scope) if isinstance(node, ast.Assign)
            and any(isinstance(t, ast.Name) and t.id == name for t in node.targets)
        ]  # fmt: skip
        if scope is tree and _read_elsewhere(tree, factory, name):
            return
    plain = [one for one in found if isinstance(one, ast.Constant) and type(one.value) is int]
    if len(plain) == len(found):
        yield from plain


def _targets(factory: ast.FunctionDef) -> Iterator[ast.expr]:
    for node in ast.walk(factory):
        if isinstance(node, ast.Assign):
            yield from node.targets


def _argument(call: ast.Call, names: list[str], name: str) -> ast.expr | None:
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    position = names.index(name)
    plain = not any(isinstance(one, ast.Starred) for one in call.args)
    return call.args[position] if plain and position < len(call.args) else None


def _read_elsewhere(tree: ast.Module, factory: ast.FunctionDef, name: str) -> bool:
    inside = {id(n) for n in ast.walk(factory)}
    reads = (n for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load) and n.id == name)
    return any(id(node) not in inside for node in reads)
