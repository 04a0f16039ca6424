"""What the statements of a kernel say elsewhere: where one of them says less, or something else, it may have been meant to say that. Pure."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from triage.experiment.repairs.scope import PARALLEL, Scope, kind_of
from triage.experiment.repairs.syntax import SIGNS, called, expressions, indices_of, names_in, target_names, terms_of
from triage.experiment.repairs.text import Text

#: so many statements of a kernel are read for parts: what a longer one says is known by then
MOST_PARTS = 40


@dataclass(frozen=True)
class Part:
    """A text that an expression consists of, or an operand of it, with its sign or operator and the names in it."""

    text: str
    symbol: str
    names: frozenset[str]
    node: ast.expr


class Donors:
    """The parts of all expressions of one outermost function around a kernel."""

    def __init__(self, text: Text, scope: Scope) -> None:
        self.text, self.scope = text, scope

    # --------------------------------------------------------------------------------------- what can be said where

    def available(self, names: Iterable[str], statement: ast.stmt) -> bool:
        """Whether a statement can speak of these: not of counters of loops that it is not in, nor of what is computed later."""
        return not self._unknown(statement) & set(names)

    def _unknown(self, statement: ast.stmt) -> set[str]:
        around = {name for loop in self.scope.loops(statement) for name in target_names(loop.target)}
        later = {name for name, line in self._first_named.items() if line >= statement.lineno}
        within = {*self.scope.blocks, *around} if self.scope.in_kernel(statement) else set()
        return ({*self.scope.counters} - within) | later

    @functools.cached_property
    def _first_named(self) -> dict[str, int]:
        """In which line a value of the kernel gets its name."""
        found: dict[str, int] = {}
        for node in (n for body in self.scope.bodies for n in ast.walk(body) if isinstance(n, ast.Assign)):
            for name in (target.id for target in node.targets if isinstance(target, ast.Name)):
                found[name] = min(found.get(name, node.lineno), node.lineno)
        return found

    @functools.cached_property
    def ends(self) -> list[Part]:
        """Where the ranges end whose lengths the kernels compute: `offsets[e + 1]` of `count = offsets[e + 1] - first`."""
        found: dict[str, Part] = {}
        for node in (n for body in self.scope.bodies for n in ast.walk(body) if isinstance(n, ast.Assign)):
            value = node.value
            if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Sub) and isinstance(node.targets[0], ast.Name):
                end = value.left
                found.setdefault(self.text.of(end), Part(self.text.of(end), "+", frozenset(names_in(end)), end))
        return list(found.values())

    def elements(self, buffer: str) -> list[str]:
        """The elements of a buffer that the kernels speak of."""
        loads = (n for body in self.scope.bodies for n in ast.walk(body) if isinstance(n, ast.Subscript))
        return list(dict.fromkeys(self.text.of(n) for n in loads if self.text.of(n.value) == buffer))

    @functools.cached_property
    def lanes(self) -> set[str]:
        """The counters of parallel loops."""
        loops = (n for n in ast.walk(self.scope.function) if isinstance(n, ast.For) and kind_of(n) in PARALLEL)
        return {name for loop in loops for name in target_names(loop.target)}

    # ------------------------------------------------------------------------------------------------- what is said

    @functools.cached_property
    def _places(self) -> list[tuple[ast.expr, bool]]:
        """The expressions of the kernels that say which elements: indices, sides of comparisons, values of counters; and
        whether each is an index."""
        found: list[tuple[ast.expr, bool]] = []
        for node in (n for body in self.scope.bodies for n in ast.walk(body)):
            if isinstance(node, ast.Subscript):
                found += [
                    (one.lower if isinstance(one, ast.Slice) and one.lower else one, True) for one in indices_of(node)
                ]
            elif isinstance(node, ast.Compare):
                found += [(side, False) for side in (node.left, *node.comparators)]
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and self.counts(node.value):
                found.append((node.value, False))
        return found

    def counts(self, value: ast.expr) -> bool:
        """Whether a value is computed of counters and sizes, and of elements of tensors only if one of these stands beside them."""
        plain = (ast.Name, ast.Constant, ast.BinOp, ast.Subscript, ast.operator, ast.expr_context, ast.Tuple)
        known = {*self.scope.counters, *self.scope.sizes, *self.scope.scalars, *self.scope.memory}
        names = names_in(value)
        within = {id(n) for part in ast.walk(value) if isinstance(part, ast.Subscript) for n in ast.walk(part)}
        beside = [n for n in ast.walk(value) if isinstance(n, ast.Name) and id(n) not in within]
        return names <= known and bool(beside) and all(isinstance(node, plain) for node in ast.walk(value))

    @functools.cached_property
    def terms(self) -> list[Part]:
        """What is added in such places, lanes aside: the start of a tile, a pad, an offset."""
        found: dict[tuple[str, str], Part] = {}
        for place, _ in self._places:
            for root in (n for n in ast.walk(place) if n is place or isinstance(n, ast.BinOp)):
                for symbol, term in terms_of(root):
                    names = frozenset(names_in(term))
                    if names and not names & self.lanes and not isinstance(term, ast.Compare):
                        text = self.text.of(term)
                        found.setdefault((symbol, text), Part(text, symbol, names, term))
        longest_first = sorted(found.values(), key=lambda part: isinstance(part.node, (ast.Name, ast.Constant)))
        return longest_first[:MOST_PARTS]

    @functools.cached_property
    def indices(self) -> list[Part]:
        """Whole indices."""
        found: dict[str, Part] = {}
        for place, index in self._places:
            if index and not isinstance(place, (ast.Constant, ast.Slice)):
                text = self.text.of(place)
                found.setdefault(text, Part(text, "", frozenset(names_in(place)), place))
        return list(found.values())

    @functools.cached_property
    def wholes(self) -> dict[str, list[Part]]:
        """By the text of an operand, what is computed with it somewhere."""
        found: dict[str, dict[str, Part]] = {}
        for node in self._computed():
            text = self.text.of(node)
            part = Part(text, SIGNS[type(node.op)], frozenset(names_in(node)), node)
            for operand in (node.left, node.right):
                if not isinstance(operand, ast.Constant):
                    found.setdefault(self.text.of(operand), {}).setdefault(text, part)
        return {operand: list(parts.values()) for operand, parts in found.items()}

    @functools.cached_property
    def adjustments(self) -> list[Part]:
        """Elements that are taken off others of more dimensions, or that these are divided or multiplied by: a mean, a maximum, a sum."""
        found: dict[tuple[str, str], Part] = {}
        for node in self._computed():
            elements = [n for n in ast.walk(node.right) if isinstance(n, ast.Subscript)]
            left = [n for n in ast.walk(node.left) if isinstance(n, ast.Subscript)]
            if elements and left and rank(elements[0]) < rank(left[0]) and not isinstance(node.op, ast.Add):
                text, symbol = self.text.of(node.right), SIGNS[type(node.op)]
                found.setdefault((symbol, text), Part(text, symbol, frozenset(names_in(node.right)), node.right))
        return list(found.values())

    @functools.cached_property
    def counts_of_elements(self) -> list[Part]:
        """Products of sizes and counters: how many elements there are."""
        found: dict[str, Part] = {}
        for node in self._computed():
            if isinstance(node.op, ast.Mult) and all(isinstance(side, ast.Name) for side in (node.left, node.right)):
                text = self.text.of(node)
                found.setdefault(text, Part(text, "*", frozenset(names_in(node)), node))
        return list(found.values())

    def _computed(self) -> Iterator[ast.BinOp]:
        for node in ast.walk(self.scope.function):
            if isinstance(node, ast.BinOp) and type(node.op) in SIGNS:
                yield node

    @functools.cached_property
    def rows(self) -> list[str]:
        """The buffers with one value a row."""
        shapes = {name: call.args[0] for name, call in self.scope.buffers.items() if call.args}
        return [name for name, shape in shapes.items() if len(getattr(shape, "elts", ())) == 1]

    @functools.cached_property
    def running(self) -> list[tuple[str, str]]:
        """Pairs of these that are copied to each other: a running maximum before and after a step."""
        found: dict[tuple[str, str], None] = {}
        for call in (n for body in self.scope.bodies for n in ast.walk(body) if isinstance(n, ast.Call)):
            names = [a.id for a in call.args[:2] if isinstance(a, ast.Name)] if called(call) == "copy" else []
            if len(names) == 2 and {*names} <= {*self.rows}:
                found |= {(names[0], names[1]): None, (names[1], names[0]): None}
        return list(found)

    @functools.cached_property
    def whole_rows(self) -> list[str]:
        """Of these, the ones of whole numbers, such as the places of maxima."""
        types = {name: call.args[1] for name, call in self.scope.buffers.items() if len(call.args) > 1}
        return [name for name in self.rows if name in types and "int" in self.text.of(types[name])]

    @functools.cached_property
    def units(self) -> list[str]:
        """The names that arguments of exponentials are multiplied with."""
        found: dict[str, None] = {}
        for call in (
            n for n in ast.walk(self.scope.function) if isinstance(n, ast.Call) and called(n) in ("exp", "exp2")
        ):
            for node in (n for n in ast.walk(call) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mult)):
                found |= {side.id: None for side in (node.left, node.right) if isinstance(side, ast.Name)}
        return list(found)

    @functools.cached_property
    def idle(self) -> list[str]:
        """Of these, the ones that nothing reads but the statements that change them."""
        read: set[str] = set()
        for kernel in self.scope.kernels:
            for statement in (
                n for n in ast.walk(kernel) if isinstance(n, (ast.Assign, ast.AugAssign, ast.Expr, ast.If))
            ):
                roots = [statement.test] if isinstance(statement, ast.If) else list(expressions(statement))
                targets = statement.targets if isinstance(statement, ast.Assign) else []
                changed = {
                    n.value.id for n in targets if isinstance(n, ast.Subscript) and isinstance(n.value, ast.Name)
                }
                read |= {name for root in roots if root not in targets for name in names_in(root)} - changed
        return [name for name in self.rows if name not in read]


def rank(node: ast.Subscript) -> int:
    return len(indices_of(node))
