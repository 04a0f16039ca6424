"""Names that do not exist, or not there: the nearest that does. Keywords, modules, variables, words in string literals.

No record of a kernel shows what a name on the host, a keyword or an option means, so two names never count as the same
(`host`).
"""

from __future__ import annotations

import builtins
import re
import sys
from collections.abc import Iterable, Iterator

import libcst as cst

from triage.fixes import tree
from triage.fixes.proposal import Proposal, Question
from triage.fixes.spelling import nearest
from triage.fixes.tree import Edit, Source

#: names that scripts import under a name of their own
USUAL_IMPORTS = {
    "T": "import tilelang.language as T", "tilelang": "import tilelang", "torch": "import torch",
    "F": "import torch.nn.functional as F", "np": "import numpy as np", "math": "import math", "os": "import os",
    "tl": "import tilelang.language as tl", "functools": "import functools", "itertools": "import itertools",
}  # fmt: skip

#: what speaks against another spelling of a name: nothing, because that the name is near is evidence of its own
SPELLING: frozenset[str] = frozenset()


def nearest_attribute(q: Question) -> Iterator[Proposal]:
    """A name that a module does not have, where it is looked up or imported."""
    wrong = str(q.captures.get("attribute") or q.captures.get("name") or "")
    module = str(q.captures.get("module") or "tilelang.language")
    known = q.vocabulary.names.get(module, ())
    for source, line in q.places():
        written = [n.attr for n in source.at(cst.Attribute, line) if n.attr.value == wrong]
        imported = [alias.name for alias in source.at(cst.ImportAlias, line)]
        written += [name for name in imported if isinstance(name, cst.Name) and name.value == wrong]
        if not written:
            continue
        meant = [name for name in q.nicknames.of_dtype(wrong) if name in known]
        for far, name in _meant_or_nearest(meant, wrong, known):
            edits = tuple(Edit(source.path, node, cst.Name(name)) for node in written)
            yield Proposal(f"Write {name} instead of {wrong}", edits, SPELLING, distance=far, host=True)
        return


def _meant_or_nearest(meant: Iterable[str], wrong: str, known: Iterable[str]) -> list[tuple[int, str]]:
    """What a nickname stands for, as near as a single letter; else the nearest known names."""
    return [(1, name) for name in meant] or nearest(wrong, known)


def nearest_module(q: Question) -> Iterator[Proposal]:
    """A module of tilelang that is not there."""
    wrong = str(q.captures.get("module") or "")
    parent, _, last = wrong.rpartition(".")
    for source, line in q.places():
        written = [
            node
            for node in source.at(cst.Attribute, line)
            if tree.dotted(node) == wrong and isinstance(node.attr, cst.Name)
        ]
        for far, name in nearest(last, q.vocabulary.names.get(parent, ())):
            for node in written:
                edit = Edit(source.path, node.attr, cst.Name(name))
                yield Proposal(f"Import {parent}.{name} instead of {wrong}", (edit,), SPELLING, distance=far, host=True)


def nearest_variable(q: Question) -> Iterator[Proposal]:
    """A name without a value: the nearest one that has one here, or the import that is missing."""
    wrong = str(q.captures.get("name") or "")
    for source, line in q.places():
        written = [n for n in source.at(cst.Name, line) if n.value == wrong and not _is_attribute(source, n)]
        if not written:
            continue
        visible = source.visible(written[0]) - {wrong} | (
            {n for n in dir(builtins) if n.islower()} if len(wrong) > 3 else set()
        )
        found = nearest(wrong, visible, related=False)
        statement = USUAL_IMPORTS.get(wrong)
        if statement is None and wrong in sys.stdlib_module_names and _has_members(source, written[0]):
            statement = f"import {wrong}"
        if statement is not None:
            yield Proposal(f"Import {wrong}", (_imported(source, statement),), distance=0)
        for far, name in found:
            edits = tuple(Edit(source.path, node, cst.Name(name)) for node in written)
            yield Proposal(f"Write {name} instead of {wrong}", edits, SPELLING, distance=far, host=True)
        members = _members(q, source, wrong)
        if members is not None:
            edits = tuple(Edit(source.path, node, tree.expression(members)) for node in written)
            yield Proposal(f"Write {members} instead of {wrong}", edits, SPELLING, distance=1, host=True)
        return


def _is_attribute(source: Source, name: cst.Name) -> bool:
    above = source.parents.get(name)
    return (isinstance(above, cst.Attribute) and above.attr is name) or (
        isinstance(above, cst.Arg) and above.keyword is name
    )


def _members(q: Question, source: Source, name: str) -> str | None:
    """`T.name`, where the script knows tilelang.language by a short name and that has such a member."""
    if name not in q.vocabulary.names.get("tilelang.language", ()):
        return None
    for alias in source.all(cst.ImportAlias):
        if tree.dotted(alias.name) in ("tilelang.language", "language") and alias.asname is not None:
            return f"{tree.dotted(alias.asname.name)}.{name}"
    return None


def _has_members(source: Source, name: cst.Name) -> bool:
    """Whether a name is used as a module is: `name.member`."""
    above = source.parents.get(name)
    return isinstance(above, cst.Attribute) and above.value is name


def _imported(source: Source, statement: str) -> Edit:
    """An import, after the other imports."""
    added = cst.parse_statement(statement + "\n")
    lines = [s for s in source.module.body if isinstance(s, cst.SimpleStatementLine)]
    imports = [s for s in lines if isinstance(s.body[0], (cst.Import, cst.ImportFrom))]
    if imports:
        return Edit(source.path, imports[-1], [imports[-1], added])
    first = source.module.body[0]
    return Edit(source.path, first, [added, first])


def nearest_keyword(q: Question) -> Iterator[Proposal]:
    """A keyword that a function does not take: the nearest that it takes, not yet given; and without it."""
    wrong = str(q.captures.get("keyword") or q.captures.get("key") or "")
    if not wrong:
        return
    for source, line in q.places():
        for call in source.at(cst.Call, line):
            for arg in call.args:
                if arg.keyword is None or arg.keyword.value != wrong:
                    continue
                given = {a.keyword.value for a in call.args if a.keyword is not None}
                known = set(_keywords(q, source, call)) - given
                meant = [name for name in q.nicknames.of_keyword(wrong) if name in known]
                for far, name in _meant_or_nearest(meant, wrong, known):
                    edit = Edit(source.path, arg.keyword, cst.Name(name))
                    yield Proposal(f"Write {name}= instead of {wrong}=", (edit,), SPELLING, distance=far, host=True)
                kept = [a for a in call.args if a is not arg]
                edit = Edit(source.path, call, call.with_changes(args=_without_last_comma(kept, call)))
                guess = f"without {wrong}= the script builds, and what the keyword was to say is lost"
                yield Proposal(f"Leave out {wrong}=", (edit,), distance=9, guess=guess)
                return


def _without_last_comma(args: list[cst.Arg], call: cst.Call) -> list[cst.Arg]:
    if args and args[-1].comma is not call.args[-1].comma:
        args[-1] = args[-1].with_changes(comma=call.args[-1].comma)
    return args


def _keywords(q: Question, source: Source, call: cst.Call) -> Iterable[str]:
    """The keywords that what is called takes: a function of the script, else one of tilelang."""
    name = tree.name_of(call)
    for _, function in q.sources.definitions(name):
        params = function.params
        yield from (p.name.value for p in (*params.params, *params.kwonly_params))
        return
    for parameter in q.vocabulary.parameters.get(name, ()):
        if parameter.kind in ("POSITIONAL_OR_KEYWORD", "KEYWORD_ONLY"):
            yield parameter.name


def nearest_word(q: Question) -> Iterator[Proposal]:
    """A word in a string literal that names nothing: the nearest of those that do."""
    captured = [q.captures.get(key) for key in ("dtype", "key", "backend", "word", "target", "flag")]
    wrong = next((str(value) for value in captured if value), "")
    known = set(_words(q))
    if not wrong or not known:
        return
    whole = re.compile(rf"(?<![\w.-]){re.escape(wrong)}(?![\w-])")
    for source in q.sources:
        literals = [n for n in source.all(cst.SimpleString) if whole.search(n.value)]
        if not literals:
            continue
        meant = q.nicknames.of_dtype(wrong) if q.captures.get("dtype") else ()
        for far, name in _meant_or_nearest((n for n in meant if n != wrong), wrong, known):
            edits = tuple(Edit(source.path, node, _with_word(node, whole, name)) for node in literals)
            yield Proposal(f'Write "{name}" instead of "{wrong}"', edits, SPELLING, distance=far, host=True)


def _with_word(node: cst.SimpleString, wrong: re.Pattern[str], name: str) -> cst.SimpleString:
    return node.with_changes(value=wrong.sub(lambda _: name, node.value))


def _words(q: Question) -> Iterator[str]:
    """The words that would do in the place of the wrong one."""
    if q.captures.get("dtype"):
        yield from (name for name in q.vocabulary.dtypes if "x" not in name and "[" not in name)
    elif q.captures.get("word"):
        yield from q.vocabulary.targets
    elif q.captures.get("key"):
        yield from q.vocabulary.options
        yield from (p.name.value for s in q.sources for f in s.all(cst.FunctionDef) for p in f.params.params)
    if q.captures.get("allowed"):
        yield from (word.strip(" '\"[](){}") for word in str(q.captures["allowed"]).split(","))
