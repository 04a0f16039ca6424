"""Integer expressions as a record prints them: their names, their value, and their linear form.

The printed text is close enough to Python to be parsed as Python. What does not parse, or is more than arithmetic,
has no value, and a detector that needs one stays silent.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Mapping
from typing import Any


class Unknown(Exception):
    """The expression is more than arithmetic on the names that have a value."""


def _shift(count: int) -> int:
    if not 0 <= count < INT_BITS:
        raise Unknown(f"shift by {count}")
    return count


#: no index is wider
INT_BITS = 64
#: calls that print as functions and are arithmetic
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "min": min,
    "max": max,
    "int32": int,
    "int64": int,
    "uint32": int,
    "shift_left": lambda a, b: a * 2 ** _shift(b),
    "shift_right": lambda a, b: a // 2 ** _shift(b),
    "bitwise_and": lambda a, b: a & b,
    "bitwise_or": lambda a, b: a | b,
    "bitwise_xor": lambda a, b: a ^ b,
}
BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
}
COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: lambda a, b: a < b,
    ast.LtE: lambda a, b: a <= b,
    ast.Gt: lambda a, b: a > b,
    ast.GtE: lambda a, b: a >= b,
    ast.Eq: lambda a, b: a == b,
    ast.NotEq: lambda a, b: a != b,
}
#: a number beyond this is no index of anything
LARGEST = 2**INT_BITS

#: name → coefficient; the constant under ""
Linear = dict[str, int]


def parse(text: str) -> ast.expr | None:
    """The expression, None if the text is not one."""
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def names(expr: ast.AST) -> set[str]:
    """Every name in the expression that is not called."""
    called = {id(node.func) for node in ast.walk(expr) if isinstance(node, ast.Call)}
    return {node.id for node in ast.walk(expr) if isinstance(node, ast.Name) and id(node) not in called}


def value(expr: ast.expr, values: Mapping[str, int]) -> int | bool:
    """The value where `values` gives that of every name. Raises `Unknown`."""
    match expr:
        case ast.Constant(value=int() as number):
            return number
        case ast.Name(id=name) if name in values:
            return values[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -value(operand, values)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return not value(operand, values)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in BINARY:
            return _bounded(BINARY[type(op)], value(left, values), value(right, values))
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in COMPARE:
            return COMPARE[type(op)](value(left, values), value(right, values))
        case ast.BoolOp(op=op, values=parts):
            results = [bool(value(part, values)) for part in parts]
            return all(results) if isinstance(op, ast.And) else any(results)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in FUNCTIONS:
            return _bounded(FUNCTIONS[name], *(value(arg, values) for arg in args))
    raise Unknown(ast.dump(expr))


def linear(expr: ast.expr) -> Linear | None:
    """The expression as a sum of names times constants; None if it is not one. Names that cancel are left out."""
    form = _linear(expr)
    return None if form is None else {name: factor for name, factor in form.items() if factor}


def conjuncts(expr: ast.expr) -> list[ast.expr]:
    """The conditions that must all hold for `expr` to hold."""
    if isinstance(expr, ast.BoolOp) and isinstance(expr.op, ast.And):
        return [term for part in expr.values for term in conjuncts(part)]
    return [expr]


def terms(expr: ast.expr) -> list[ast.expr]:
    """What is added up; conversions between floats, which print as calls of the type, are looked through."""
    match expr:
        case ast.Call(func=ast.Name(id=name), args=[inner], keywords=[]) if name.lstrip("b").startswith("float"):
            return terms(inner)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return [*terms(left), *terms(right)]
    return [expr]


def replaced(expr: ast.expr, by: Mapping[str, ast.expr]) -> ast.expr:
    """The expression with names replaced by what they stand for; names in there are left as they are."""

    class Replace(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.AST:
            return copy.deepcopy(by[node.id]) if node.id in by else node

    return Replace().visit(copy.deepcopy(expr)) if by.keys() & names(expr) else expr


def same(one: ast.expr, other: ast.expr) -> bool:
    return ast.unparse(one) == ast.unparse(other)


def _bounded(operation: Callable[..., Any], *operands: int | bool) -> int | bool:
    if any(abs(operand) > LARGEST for operand in operands):
        raise Unknown("too large")
    try:
        return operation(*operands)  # type: ignore[no-any-return]
    except (ZeroDivisionError, ValueError, OverflowError, TypeError, MemoryError) as error:
        raise Unknown(str(error)) from error


def _linear(expr: ast.expr) -> Linear | None:
    match expr:
        case ast.Constant(value=int() as number):
            return {"": int(number)}
        case ast.Name(id=name):
            return {name: 1}
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _scaled(_linear(operand), -1)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as op, right=right):
            return _sum(_linear(left), _scaled(_linear(right), -1 if isinstance(op, ast.Sub) else 1))
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            one, other = _linear(left), _linear(right)
            if one is not None and set(one) <= {""}:
                return _scaled(other, one.get("", 0))
            return _scaled(one, other.get("", 0)) if other is not None and set(other) <= {""} else None
        case ast.Call(func=ast.Name(id="int32" | "int64"), args=[inner], keywords=[]):
            return _linear(inner)
    return None


def _scaled(form: Linear | None, factor: int) -> Linear | None:
    return None if form is None else {name: value * factor for name, value in form.items()}


def _sum(one: Linear | None, other: Linear | None) -> Linear | None:
    if one is None or other is None:
        return None
    return {name: one.get(name, 0) + other.get(name, 0) for name in one.keys() | other.keys()}
