"""A script as the statements it consists of, and the script without some of them. Pure: source text in, source text out.

A cut works on whole lines, so what stays keeps its formatting. A statement that shares a line with another, or a
compound statement written in one line, is one piece with its surroundings.

Candidates are changed user code that will be run. A function or statement of the top level that touches files,
processes or the network stays as it is or goes as a whole: cutting inside could take away the guard that keeps it from
doing harm.
"""

from __future__ import annotations

import ast
import functools
import io
import itertools
import re
import textwrap
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

#: modules whose functions act on more than the process itself
ACTING = frozenset(
    {"os", "shutil", "subprocess", "socket", "requests", "urllib", "http", "pathlib", "tempfile", "multiprocessing", "signal", "ctypes", "sqlite3", "pickle"}
)  # fmt: skip
#: of those, what only looks
HARMLESS = ("os.environ", "os.path", "os.getenv", "os.cpu_count", "os.getcwd", "os.linesep", "os.sep")
ACTING_BUILTINS = frozenset({"open", "exec", "eval", "compile", "__import__", "input"})
ACTING_METHODS = frozenset(
    {"write_text", "write_bytes", "unlink", "rmdir", "mkdir", "rename", "save", "system", "rmtree"}
)
BODIES = ("body", "orelse", "finalbody", "handlers", "cases")


@dataclass(frozen=True)
class Piece:
    """A statement that can be cut: its first and last line (from 1), and the piece it is directly inside."""

    start: int
    end: int
    parent: Piece | None = None
    #: what is inside may be cut, too
    open: bool = True

    @property
    def lines(self) -> range:
        return range(self.start, self.end + 1)


def pieces(source: str) -> list[Piece]:
    """All pieces in the order of their first lines, those inside others after them. Empty for what does not parse."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return []
    acting = _acting_names(tree)
    found: list[Piece] = []

    def walk(body: list[ast.stmt], parent: Piece | None) -> None:
        for group in _by_lines(body):
            first, last = group[0], group[-1]
            whole = len(group) > 1 or _one_line(first) or _acts(first, acting)
            piece = Piece(_start(first), last.end_lineno or last.lineno, parent, not whole)
            found.append(piece)
            if piece.open:
                for inner in _inner_bodies(first):
                    walk(inner, piece)

    walk(tree.body, None)
    return sorted(found, key=lambda piece: (piece.start, -piece.end))


def acting(source: str) -> list[Piece]:
    """The statements that touch files, processes or the network: they stay as they are, or go as a whole."""
    closed = [piece for piece in pieces(source) if not piece.open]
    tree = ast.parse(source) if closed else ast.Module([], [])
    names = _acting_names(tree)
    starts = {_start(node) for node in ast.walk(tree) if isinstance(node, ast.stmt) and _acts(node, names)}
    return [piece for piece in closed if any(line in starts for line in piece.lines)]


@functools.lru_cache(maxsize=64)  # who proposes a text asks, and who runs it
def acts(source: str) -> frozenset[str]:
    """What the acting statements of a source do, without their docstrings: no change may add to it."""
    lines = source.splitlines()
    return frozenset(
        ast.dump(ast.parse(bare(textwrap.dedent("\n".join(lines[piece.start - 1 : piece.end])) + "\n")))
        for piece in acting(source)
    )


def without(source: str, gone: Iterable[Piece]) -> str:
    """The source without some pieces; a body that loses all its statements gets a `pass`."""
    cut = {line for piece in gone for line in piece.lines}
    if not cut:
        return source
    lines = source.splitlines()
    needs_pass = {}
    for head, body in _bodies(ast.parse(source)):
        if head in cut:
            continue
        spans = [range(_start(node), (node.end_lineno or node.lineno) + 1) for node in body]
        if all(line in cut for span in spans for line in span):
            needs_pass[spans[0][0]] = body[0].col_offset
    kept = []
    for number, line in enumerate(lines, 1):
        if number in needs_pass:
            kept.append(f"{' ' * needs_pass[number]}pass")
        if number not in cut:
            kept.append(line)
    return "".join(f"{line}\n" for line in kept)


def opened(source: str, piece: Piece) -> str | None:
    """The source with a `with`, `if`, `for`, `while` or `try` replaced by its body; None where that cannot be."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return None
    node = next((n for n in ast.walk(tree) if isinstance(n, ast.stmt) and _start(n) == piece.start), None)
    if not piece.open or not isinstance(node, (ast.With, ast.If, ast.For, ast.While, ast.Try)) or _one_line(node):
        return None
    first, last = _start(node.body[0]), node.body[-1].end_lineno or 0
    lines = source.splitlines()
    shift = node.body[0].col_offset - node.col_offset
    body = lines[first - 1 : last]
    if shift <= 0 or any(line.strip() and not line.startswith(" " * shift) for line in body):
        return None
    inner = [line[shift:] if line.strip() else line for line in body]
    return "\n".join([*lines[: piece.start - 1], *inner, *lines[piece.end :]]) + "\n"


def bare(source: str) -> str:
    """The source without comments, docstrings and blank lines but those between functions."""
    lines = source.splitlines()
    try:
        tree = ast.parse(source)
        tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    except (SyntaxError, tokenize.TokenError, ValueError, RecursionError):
        return source
    for token in tokens:
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column].rstrip()
    documented = (ast.Module, ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)
    strings: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, documented) and len(node.body) > 1 and ast.get_docstring(node, clean=False) is not None:
            strings |= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    inside = {
        n
        for t in tokens
        if t.type == tokenize.STRING and t.end[0] > t.start[0]
        for n in range(t.start[0], t.end[0] + 1)
    }
    kept = [
        line for number, line in enumerate(lines, 1)
        if number not in strings and (line.strip() or (number in inside and number not in strings))
    ]  # fmt: skip
    return "\n".join(kept) + "\n"


def spaced(source: str) -> str:
    """The source with two blank lines around the functions and classes of the top level, and empty parentheses on one
    line, as formatters write it."""
    try:
        tree = ast.parse(source)
        joined = re.sub(r"\(\s+\)", "()", source)
        if ast.dump(ast.parse(joined)) == ast.dump(tree):  # not within a string
            source, tree = joined, ast.parse(joined)
    except SyntaxError:
        return source
    body = tree.body
    defined = (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)
    apart = {
        _start(node)
        for before, node in itertools.pairwise(body)
        if isinstance(before, defined) or isinstance(node, defined)
    }
    lines: list[str] = []
    for number, line in enumerate(source.splitlines(), 1):
        if number in apart:
            while lines and not lines[-1].strip():
                lines.pop()
            lines += ["", ""]
        lines.append(line)
    return "\n".join(lines).strip("\n") + "\n"


# ----------------------------------------------------------------------------------------------------------- helpers


def _start(node: ast.stmt) -> int:
    decorators = getattr(node, "decorator_list", [])
    return int(min([node.lineno, *(decorator.lineno for decorator in decorators)]))


def _by_lines(body: list[ast.stmt]) -> Iterator[list[ast.stmt]]:
    """Statements that share a line together."""
    group: list[ast.stmt] = []
    for node in body:
        if group and _start(node) > (group[-1].end_lineno or 0):
            yield group
            group = []
        group.append(node)
    if group:
        yield group


def _one_line(node: ast.AST) -> bool:
    """Whether a compound statement has its body on the line of its head."""
    bodies = list(_inner_bodies(node))
    return any(body[0].lineno == getattr(node, "lineno", 0) for body in bodies)


def _inner_bodies(node: ast.AST) -> Iterator[list[ast.stmt]]:
    for name in BODIES:
        for child in [getattr(node, name, None)]:
            if not isinstance(child, list) or not child:
                continue
            if _is_elif(node, child):
                yield from _inner_bodies(child[0])
            elif isinstance(child[0], ast.stmt):
                yield child
            else:  # handlers of `try`, cases of `match`: heads that stay with what they belong to
                for part in child:
                    yield from _inner_bodies(part)


def _is_elif(node: ast.AST, child: list[ast.stmt]) -> bool:
    """Whether an `else` part is an `elif`: a head that stays with the `if`."""
    return isinstance(node, ast.If) and child is node.orelse and child[0].col_offset == node.col_offset


def _bodies(tree: ast.Module) -> Iterator[tuple[int, list[ast.stmt]]]:
    """Every body inside another statement, with the line of that statement's head."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.stmt, ast.ExceptHandler)):
            for name in ("body", "orelse", "finalbody"):
                child = getattr(node, name, None)
                if child and isinstance(child[0], ast.stmt) and not _is_elif(node, child) and not _one_line(node):
                    yield node.lineno, child
        elif isinstance(node, ast.match_case):
            yield node.pattern.lineno, node.body


def _acting_names(tree: ast.Module) -> set[str]:
    """Names under which acting modules and what is imported from them are known."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {a.asname or a.name.split(".")[0] for a in node.names if a.name.split(".")[0] in ACTING}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in ACTING:
            names |= {a.asname or a.name for a in node.names}
    return names


def _acts(node: ast.stmt, names: set[str]) -> bool:
    """Whether a statement, or anything inside it, calls something that acts on files, processes or the network."""
    for call in (n for n in ast.walk(node) if isinstance(n, ast.Call)):
        spelled = ast.unparse(call.func)
        if spelled.startswith(HARMLESS):
            continue
        root, _, method = spelled.partition(".")
        if root in names or spelled in ACTING_BUILTINS or method.rpartition(".")[2] in ACTING_METHODS:
            return True
    return False
