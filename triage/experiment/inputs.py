"""The random inputs of a script, and the script with simpler values in their place. Pure: source text in, source text out.

What torch fills at random is found by name: `torch.randn(…)` and its kin, and methods such as `.normal_()`. The text that comes
out is a script of its own: where values need more than one call, a small function is put before its first statement.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from triage.experiment.parts import Span, Text

#: values, the simplest first, and how they are called
KINDS = {
    "ones": "ones",
    "last-one": "zeros with a one in the last place",
    "first-one": "zeros with a one in the first place",
    "ramp": "the numbers 0, 1, 2, …",
    "small-integers": "the integers -2 to 2 in turn",
}
#: the function that fills a tensor with values
FILLERS = {
    "last-one": "def last_one(x):\n    x.zero_().view(-1)[-1:] = 1\n    return x\n",
    "first-one": "def first_one(x):\n    x.zero_().view(-1)[:1] = 1\n    return x\n",
    "ramp": "def ramp(x):\n    return x.copy_(torch.arange(x.numel()).reshape(x.shape))\n",
    "small-integers": "def small_integers(x):\n    return x.copy_((torch.arange(x.numel()) % 5 - 2).reshape(x.shape))\n",
}
FACTORIES = frozenset({"randn", "rand", "randint", "normal"})
LIKE = frozenset({"randn_like", "rand_like", "randint_like"})
METHODS = frozenset({"normal_", "uniform_", "random_"})
#: numbers up to this are axes, exponents or factors, and left as they are
SMALL = 4
#: arguments of a random factory that others have, too
SHARED = frozenset({"dtype", "device", "requires_grad", "layout", "pin_memory"})


@dataclass(frozen=True)
class Random:
    """A call that fills a tensor at random: where it stands in the encoded text, and the same call with zeros or ones."""

    span: Span
    zeros: str
    ones: str


def random_calls(source: str) -> list[Random]:
    """In the order of the text; of calls inside each other the outermost. Empty for what does not parse."""
    try:
        text = Text(source)
    except (SyntaxError, ValueError, RecursionError):
        return []
    torch = _name_of_torch(text.tree)
    found = [one for node in text.nodes() if isinstance(node, ast.Call) and (one := _random(node, torch, text))]
    within = [a for a in found for b in found if b is not a and b.span[0] <= a.span[0] and a.span[1] <= b.span[1]]
    return sorted((one for one in found if one not in within), key=lambda one: one.span)


def filled(source: str, calls: Collection[Random], kind: str) -> str:
    """The source with values of a kind in the place of some random ones."""
    new = {c.span: c.ones if kind == "ones" else f"{kind.replace('-', '_')}({c.zeros})" for c in calls}
    text = Text(source).replaced((*span, value.encode()) for span, value in new.items())
    return text if kind not in FILLERS or FILLERS[kind] in text else _with_function(text, FILLERS[kind])


def seeded(source: str) -> str | None:
    """The source with torch's random numbers fixed; None if they are, or if it does not import torch."""
    tree = ast.parse(source)
    if any(_is_seeding(node) for node in tree.body) or (at := _import_of_torch(tree)) is None:
        return None
    lines = source.splitlines()
    return "\n".join([*lines[:at], f"{_name_of_torch(tree)}.manual_seed(0)", *lines[at:]]) + "\n"


def unseeded(source: str) -> str | None:
    """The source without fixing random numbers at the top level; None if it does not."""
    gone = {
        line
        for node in ast.parse(source).body
        if _is_seeding(node)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    kept = [line for number, line in enumerate(source.splitlines(), 1) if number not in gone]
    return "\n".join(kept) + "\n" if gone else None


# ----------------------------------------------------------------------------------------------------------- helpers


def _random(call: ast.Call, torch: str, where: Text) -> Random | None:
    if not isinstance(call.func, ast.Attribute):
        return None
    name, base = call.func.attr, call.func.value
    of_torch = isinstance(base, ast.Name) and base.id == torch
    source, span = where.source, where.span(call)
    if name in METHODS and not of_torch:
        text = _text(base, source)
        return Random(span, text, f"{text}.fill_(1)")
    if not of_torch or name not in FACTORIES | LIKE:
        return None
    arguments = _size(name, call, source)
    if arguments is None:
        return None
    given = {keyword.arg: _text(keyword.value, source) for keyword in call.keywords if keyword.arg in SHARED}
    if name == "randint":
        given.setdefault("dtype", f"{torch}.int64")
    inside = ", ".join([*arguments, *(f"{key}={value}" for key, value in given.items())])
    suffix = "_like" if name in LIKE else ""
    return Random(span, f"{torch}.zeros{suffix}({inside})", f"{torch}.ones{suffix}({inside})")


def _size(name: str, call: ast.Call, source: str) -> list[str] | None:
    """The arguments that give the shape, or None if they cannot be told."""
    named = next((k.value for k in call.keywords if k.arg in ("size", "input")), None)
    given: Sequence[ast.expr] = [named] if named is not None else call.args
    if named is None and name == "randint":
        given = call.args[-1:] if len(call.args) > 1 else []
    elif named is None and name == "normal":
        given = call.args[2:3]
    elif named is None and name in LIKE:
        given = call.args[:1]
    return [_text(one, source) for one in given] or None


def _text(node: ast.expr, source: str) -> str:
    """The source of an expression, on one line."""
    return ast.unparse(node) if node.lineno != node.end_lineno else ast.get_source_segment(source, node) or ""


def _name_of_torch(tree: ast.Module) -> str:
    for alias in _imported(tree):
        if alias.name == "torch":
            return alias.asname or "torch"
    return "torch"


def _imported(tree: ast.Module) -> Iterator[ast.alias]:
    return (alias for node in tree.body if isinstance(node, ast.Import) for alias in node.names)


def _import_of_torch(tree: ast.Module) -> int | None:
    """The last line of the statement that imports torch at the top level."""
    for node in tree.body:
        if isinstance(node, ast.Import) and any(alias.name == "torch" for alias in node.names):
            return node.end_lineno or node.lineno
    return None


def _is_seeding(node: ast.stmt) -> bool:
    called = node.value.func if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) else None
    return isinstance(called, ast.Attribute) and called.attr in ("manual_seed", "manual_seed_all")


def _with_function(source: str, function: str) -> str:
    """The source with a function put before its first statement that is no import and no docstring."""
    tree = ast.parse(source)
    torch = _name_of_torch(tree)
    if torch != "torch":
        function = function.replace("torch.", f"{torch}.")
    passed = [
        node for node in tree.body
        if isinstance(node, (ast.Import, ast.ImportFrom))
        or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
    ]  # fmt: skip
    at = max((node.end_lineno or node.lineno for node in passed), default=0)
    lines = source.splitlines()
    return "\n".join([*lines[:at], "", "", *function.splitlines(), "", "", *lines[at:]]).strip("\n") + "\n"
