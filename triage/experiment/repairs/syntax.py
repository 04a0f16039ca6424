"""What an edit asks of Python's syntax tree. Pure."""

from __future__ import annotations

import ast
from collections.abc import Iterator

OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.BitAnd: "&", ast.BitOr: "|",
    ast.LShift: "<<", ast.RShift: ">>", ast.Pow: "**", ast.BitXor: "^", ast.MatMult: "@",
}  # fmt: skip
#: the operators of arithmetic that parts of a value are joined by
SIGNS: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%",
}  # fmt: skip
#: the nodes of an expression that is computed from numbers alone
OF_NUMBERS = (ast.Constant, ast.BinOp, ast.UnaryOp, ast.Tuple, ast.operator, ast.unaryop, ast.expr_context)
COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip
#: statements that something is computed or done by, and that hold no others
SIMPLE = (ast.Assign, ast.AugAssign, ast.Expr)
ALLOCATING = ("alloc_fragment", "alloc_local", "alloc_shared", "alloc_var", "alloc_reducer")
ATOMS = (ast.Name, ast.Constant, ast.Call, ast.Subscript, ast.Attribute)


def walk(root: ast.expr) -> Iterator[tuple[ast.expr, bool]]:
    """All expressions in an expression, each with whether it says which elements: in an index, or compared in a condition."""

    def go(node: ast.AST, inside: bool) -> Iterator[tuple[ast.expr, bool]]:
        if isinstance(node, ast.expr):
            yield node, inside
        for name, value in ast.iter_fields(node):
            deeper = inside or isinstance(node, ast.Compare) or (isinstance(node, ast.Subscript) and name == "slice")
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from go(child, deeper)

    yield from go(root, False)


def expressions(statement: ast.stmt) -> Iterator[ast.expr]:
    """The expressions directly in a simple statement, the annotation aside."""
    for value in ast.iter_child_nodes(statement):
        if isinstance(value, ast.expr) and not (isinstance(statement, ast.AnnAssign) and value is statement.annotation):
            yield value


def launches(node: ast.With) -> bool:
    """Whether it is `with T.Kernel(...)`."""
    return any(isinstance(item.context_expr, ast.Call) and called(item.context_expr) == "Kernel" for item in node.items)


def called(call: ast.Call) -> str:
    """The last part of the name of what is called."""
    function = call.func
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def names_in(node: ast.AST) -> set[str]:
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}


def target_names(node: ast.AST) -> list[str]:
    return [inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store)]


def indices_of(node: ast.Subscript) -> list[ast.expr]:
    """The indices of a subscript, slices among them."""
    return list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]


def held(node: ast.expr, text: str) -> str:
    """The text of an operand, in parentheses where it needs some."""
    return text if isinstance(node, ATOMS) else f"({text})"


def operation(statement: ast.stmt) -> ast.Call | None:
    """The call that a statement consists of."""
    value = statement.value if isinstance(statement, ast.Expr) else None
    return value if isinstance(value, ast.Call) else None


def declares(statement: ast.stmt) -> bool:
    """Whether it gives something a name, or tells the compiler something: such statements are not moved or left out."""
    named = isinstance(statement, ast.Assign) and isinstance(statement.targets[0], (ast.Name, ast.Tuple))
    return named or directs(operation(statement))


def directs(value: ast.expr | None) -> bool:
    """Whether it is a call that makes a buffer, or tells the compiler something."""
    return isinstance(value, ast.Call) and called(value).startswith(("annotate", "use_swizzle", "alloc"))


def initializes(statement: ast.stmt) -> bool:
    call = operation(statement)
    return call is not None and called(call) in ("clear", "fill", "copy")


def terms_of(node: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """What is added up in an expression, each with its sign."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        yield from terms_of(node.left)
        sign = OPERATORS[type(node.op)]
        yield from ((sign if own == "+" else "+" if sign == "-" else "-", term) for own, term in terms_of(node.right))
    else:
        yield "+", node


def with_parents(root: ast.expr) -> Iterator[tuple[ast.expr, ast.AST | None]]:
    """All expressions in an expression, each with what it is directly a part of."""
    yield root, None
    for parent in ast.walk(root):
        yield from ((child, parent) for child in ast.iter_child_nodes(parent) if isinstance(child, ast.expr))
