"""A script as its syntax tree (libcst): what stands on a line, where a name gets its value, and the text after an edit. Pure."""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePath
from typing import Any, TypeVar

import libcst as cst
from libcst.metadata import MetadataWrapper, ParentNodeProvider, PositionProvider, ScopeProvider

#: how many steps a value is followed back: from a name to a parameter, to the argument of a call, to a constant
MOST_STEPS = 6

Node = TypeVar("Node", bound=cst.CSTNode)


@dataclass(frozen=True)
class Edit:
    """In one file, put `new` in the place of the node `old`; a new sequence of statements in the place of one."""

    file: str
    old: cst.CSTNode
    new: cst.CSTNode | Sequence[cst.CSTNode]


class Source:
    """One file. Raises `cst.ParserSyntaxError` where it is no Python."""

    def __init__(self, path: str, text: str) -> None:
        self.path, self.text = path, text
        self._wrapper = MetadataWrapper(cst.parse_module(text), unsafe_skip_copy=True)
        self.module = self._wrapper.module

    @cached_property
    def positions(self) -> Mapping[cst.CSTNode, Any]:
        return self._wrapper.resolve(PositionProvider)

    @cached_property
    def parents(self) -> Mapping[cst.CSTNode, cst.CSTNode]:
        return self._wrapper.resolve(ParentNodeProvider)

    @cached_property
    def scopes(self) -> Mapping[cst.CSTNode, Any]:
        return self._wrapper.resolve(ScopeProvider)

    def all(self, kind: type[Node], within: cst.CSTNode | None = None) -> list[Node]:
        """All nodes of a kind in the order of the text."""
        found: list[Node] = []

        def walk(node: cst.CSTNode) -> None:
            if isinstance(node, kind):
                found.append(node)
            for child in node.children:
                walk(child)

        walk(within or self.module)
        return sorted(found, key=lambda node: (self.line(node), self.positions[node].start.column))

    def line(self, node: cst.CSTNode) -> int:
        """The line, from 1, on which a node begins."""
        return int(self.positions[node].start.line)

    def at(self, kind: type[Node], line: int) -> list[Node]:
        """Nodes of a kind that the statement, or the header of a compound one, on this line holds."""
        statement = self.statement(line)
        if statement is None:
            return []
        return [node for head in own_parts(statement) for node in self.all(kind, head)]

    def statement(self, line: int) -> cst.CSTNode | None:
        """The innermost statement whose own lines (for a compound one, those of its header) hold this line."""
        best = None
        for node in (*self.all(cst.SimpleStatementLine), *self.all(cst.BaseCompoundStatement)):  # type: ignore[type-abstract]
            heads = own_parts(node)
            first = min(self.line(head) for head in heads)
            last = max(int(self.positions[head].end.line) for head in heads)
            if first <= line <= last and (best is None or self.line(best) <= self.line(node)):
                best = node
        return best

    def around(self, node: cst.CSTNode, kind: type[Node] | tuple[type[Node], ...]) -> Iterator[Node]:
        """The nodes of a kind around a node, innermost first."""
        while node in self.parents:
            node = self.parents[node]
            if isinstance(node, kind):
                yield node

    def enclosing_statement(self, node: cst.CSTNode) -> cst.CSTNode:
        """The statement that a node stands in."""
        while not isinstance(node, (cst.SimpleStatementLine, cst.BaseCompoundStatement)):
            node = self.parents[node]
        return node

    def code(self, node: cst.CSTNode) -> str:
        """The text of a node."""
        return self.module.code_for_node(node)

    def edited(self, changes: Iterable[tuple[cst.CSTNode, cst.CSTNode | Sequence[cst.CSTNode]]]) -> str:
        """The text of the file with nodes put in the place of others; everything else keeps its formatting."""
        return str(self.module.visit(_Replace({id(old): (old, new) for old, new in changes})).code)

    # -------------------------------------------------------------------------------------------------- bindings

    def bound(self, name: cst.Name) -> list[cst.CSTNode]:
        """What gives a name its value where it is used: expressions, or the `Param` of a function."""
        scope = self.scopes.get(name)
        if scope is None:
            return []
        try:
            assignments = [a for a in scope[name.value] if hasattr(a, "node")]
        except KeyError:
            return []
        line = self.line(name)
        before = [a for a in assignments if self.line(a.node) < line or isinstance(a.node, cst.Param)]
        chosen = before or assignments
        if len(chosen) > 1 and len({id(a.scope) for a in chosen}) == 1:
            chosen = [max(chosen, key=lambda a: self.line(a.node))]
        return [value for a in chosen for value in self._value(a.node)]

    def visible(self, use: cst.CSTNode) -> set[str]:
        """Names that have a value where a node stands; those of outer functions may be given one later in the text."""
        own = scope = self.scopes.get(use)
        found: set[str] = set()
        while scope is not None:
            before = [a for a in scope.assignments if hasattr(a, "node")]
            found |= {a.name for a in before if scope is not own or self.line(a.node) <= self.line(use)}
            parent = getattr(scope, "parent", None)
            scope = parent if parent is not scope else None
        return found

    def _value(self, target: cst.CSTNode) -> Iterator[cst.CSTNode]:
        if isinstance(target, cst.Param):
            yield target
            return
        if isinstance(target, cst.FunctionDef):
            yield target
            return
        above = self.parents.get(target)
        position: int | None = None
        if isinstance(above, cst.Element):
            holder = self.parents[above]
            if not isinstance(holder, (cst.Tuple, cst.List)):
                return
            position, above = list(holder.elements).index(above), self.parents.get(holder)
        if isinstance(above, cst.AssignTarget):
            above = self.parents.get(above)
        value = above.value if isinstance(above, (cst.Assign, cst.AnnAssign)) else None
        if value is None:
            return
        if position is None:
            yield value
        elif isinstance(value, (cst.Tuple, cst.List)) and position < len(value.elements):
            yield value.elements[position].value


class _Replace(cst.CSTTransformer):
    def __init__(self, changes: Mapping[int, tuple[cst.CSTNode, Any]]) -> None:
        super().__init__()
        self.changes = changes

    def on_leave(self, original_node: Any, updated_node: Any) -> Any:
        change = self.changes.get(id(original_node))
        if change is None:
            return super().on_leave(original_node, updated_node)
        new = change[1]
        return cst.FlattenSentinel(new) if isinstance(new, (list, tuple)) else new


def names_in(node: cst.CSTNode) -> Iterator[str]:
    """All names in a node, also in one that is in no file."""
    if isinstance(node, cst.Name):
        yield node.value
    for child in node.children:
        yield from names_in(child)


def own_parts(statement: cst.CSTNode) -> list[cst.CSTNode]:
    """The parts of a statement that are its own, without the body of a compound one."""
    if isinstance(statement, cst.SimpleStatementLine):
        return [statement]
    if isinstance(statement, cst.FunctionDef):
        return [*statement.decorators, statement.name, statement.params]
    return [
        child
        for child in statement.children
        if not isinstance(child, (cst.BaseSuite, cst.Else, cst.If, cst.ExceptHandler, cst.Finally))
    ]


# ------------------------------------------------------------------------------------------------------ several files


class Sources:
    """The user's files of one run; those that are no Python are left out."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self.files: dict[str, Source] = {}
        for path, text in texts.items():
            try:
                self.files[path] = Source(path, text)
            except (cst.ParserSyntaxError, RecursionError):
                continue

    def __iter__(self) -> Iterator[Source]:
        return iter(self.files.values())

    def get(self, path: str) -> Source | None:
        return self.files.get(path)

    def origins(
        self, source: Source, expression: cst.CSTNode, steps: int = MOST_STEPS
    ) -> list[tuple[Source, cst.CSTNode]]:
        """Where an expression comes from: names followed back through assignments, parameters and the calls that pass them.

        An expression that is no name is its own origin. Several mean that nobody can tell which of them it is.
        """
        if not isinstance(expression, (cst.Name, cst.Param)) or steps == 0:
            return [(source, expression)]
        if isinstance(expression, cst.Param):
            passed = list(self.passed(source, expression))
        else:
            passed = [(source, value) for value in source.bound(expression)]
        found: list[tuple[Source, cst.CSTNode]] = []
        for where, value in passed:
            found += [one for one in self.origins(where, value, steps - 1) if one not in found]
        return found

    def passed(self, source: Source, param: cst.Param) -> Iterator[tuple[Source, cst.CSTNode]]:
        """The arguments that calls pass for a parameter; its default if none does."""
        function = next(source.around(param, cst.FunctionDef), None)
        found = False
        for where, call in self.calls_of(function.name.value) if function else ():
            argument = argument_of(call, function, param.name.value) if function else None
            if argument is not None:
                found = True
                yield where, argument.value
        if not found and param.default is not None:
            yield source, param.default

    def calls_of(self, function: str) -> Iterator[tuple[Source, cst.Call]]:
        """All calls of a function of this name, also as an attribute (`module.make`, `self.make`)."""
        for source in self:
            for call in source.all(cst.Call):
                if name_of(call) == function:
                    yield source, call

    def definitions(self, function: str) -> list[tuple[Source, cst.FunctionDef]]:
        return [(s, node) for s in self for node in s.all(cst.FunctionDef) if node.name.value == function]

    def apply(self, edits: Sequence[Edit]) -> dict[str, str]:
        """The texts of the files that the edits change."""
        texts = {}
        for path in dict.fromkeys(edit.file for edit in edits):
            texts[path] = self.files[path].edited([(e.old, e.new) for e in edits if e.file == path])
        return texts


# ------------------------------------------------------------------------------------------------------------- calls


def language(source: Source) -> str:
    """The short name under which a file knows tilelang.language."""
    owners = [node.value for node in source.all(cst.Attribute) if node.attr.value == "Kernel"]
    return next((owner.value for owner in owners if isinstance(owner, cst.Name)), "T")


def dotted(node: cst.CSTNode) -> str:
    """`T.gemm` of a name or attribute; "" of anything else."""
    if isinstance(node, cst.Name):
        return node.value
    if isinstance(node, cst.Attribute):
        head = dotted(node.value)
        return f"{head}.{node.attr.value}" if head else ""
    return ""


def name_of(node: cst.CSTNode) -> str:
    """The last part of the name of what a call calls: `gemm` of `T.gemm(…)`."""
    called = node.func if isinstance(node, cst.Call) else node
    if isinstance(called, cst.Attribute):
        return called.attr.value
    return called.value if isinstance(called, cst.Name) else ""


def argument(call: cst.Call, position: int | None, keyword: str) -> cst.Arg | None:
    """An argument of a call by its keyword, else by its position."""
    for arg in call.args:
        if arg.keyword is not None and arg.keyword.value == keyword:
            return arg
    plain = list(itertools.takewhile(lambda arg: not arg.star and arg.keyword is None, call.args))
    return plain[position] if position is not None and position < len(plain) else None


def argument_of(call: cst.Call, function: cst.FunctionDef, parameter: str) -> cst.Arg | None:
    """The argument that a call passes for a parameter of a function of the script."""
    names = positional_parameters(function)
    return argument(call, names.index(parameter) if parameter in names else None, parameter)


def positional_parameters(function: cst.FunctionDef) -> list[str]:
    """The parameters that a call can give by position, without the object of a method."""
    names = [p.name.value for p in (*function.params.posonly_params, *function.params.params)]
    return names[1:] if names[:1] in (["self"], ["cls"]) else names


def positional(call: cst.Call) -> list[cst.Arg]:
    """The arguments that stand for themselves: neither named nor spread from a sequence."""
    return [arg for arg in call.args if not arg.star and arg.keyword is None]


def with_arguments(call: cst.Call, first: Sequence[cst.Arg], rest: Sequence[cst.Arg]) -> cst.Call:
    """The call with other arguments before `rest`, which stay as they are written."""
    args = [arg.with_changes(comma=cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))) for arg in first]
    if args and not rest:
        args[-1] = args[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
    return call.with_changes(args=[*args, *rest])


def with_keyword(call: cst.Call, keyword: str, value: str) -> cst.Call:
    """The call with one more keyword argument at its end."""
    new = cst.parse_expression(f"f({keyword}={value})")
    assert isinstance(new, cst.Call)
    args = list(call.args)
    if args and isinstance(args[-1].comma, cst.MaybeSentinel):
        args[-1] = args[-1].with_changes(comma=cst.Comma(whitespace_after=cst.SimpleWhitespace(" ")))
    return call.with_changes(args=[*args, *new.args])


def expression(text: str) -> cst.BaseExpression:
    return cst.parse_expression(text)


def constant(node: cst.CSTNode) -> Any:
    """The value of a literal (numbers, strings, signs, tuples of them); None where it is none."""
    if isinstance(node, cst.Integer | cst.Float):
        return node.evaluated_value
    if isinstance(node, cst.SimpleString):
        return node.evaluated_value
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
        value = constant(node.expression)
        return -value if isinstance(value, int | float) else None
    return None


def same_quotes(old: cst.CSTNode, text: str) -> cst.SimpleString:
    """A string literal written with the quotes of another."""
    quote = old.quote if isinstance(old, cst.SimpleString) and len(old.quote) == 1 else '"'
    return cst.SimpleString(f"{quote}{text}{quote}")


# -------------------------------------------------------------------------------------------------------------- diff


def unified(before: Mapping[str, str], after: Mapping[str, str], root: str) -> str:
    """A unified diff of files below `root`, as `patch -p0` and `git apply -p0` take it in that folder."""
    parts = []
    for path, text in after.items():
        name = _below(path, root)
        lines = difflib.unified_diff(_lines(before[path]), _lines(text), name, name)
        for line in lines:
            parts.append(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n")
    return "".join(parts)


def _lines(text: str) -> list[str]:
    return [line for line in re.split(r"(?<=\n)", text) if line]  # str.splitlines ends lines at form feeds, too


def _below(path: str, root: str) -> str:
    try:
        return PurePath(path).relative_to(root).as_posix()
    except ValueError:
        return path
