"""Rewrite a script without changing its meaning: a right answer must follow the marked lines, whatever they look like."""

from __future__ import annotations

import ast
import builtins
import io
import keyword
import textwrap
import tokenize
from collections.abc import Callable
from dataclasses import dataclass

MARK = "# BUG"


@dataclass(frozen=True)
class Script:
    """Files by name; `main` is the one to run. Lines that end in MARK are the right answers."""

    main: str
    files: dict[str, str]

    def marks(self) -> set[tuple[str, int]]:
        """(file name, line) of every marked line."""
        return {
            (name, number)
            for name, text in self.files.items()
            for number, line in enumerate(text.splitlines(), 1)
            if MARK in line
        }

    def plain(self) -> dict[str, str]:
        """The files without any comment, as they are run: no comment may help or hurt."""
        return {name: strip_comments(text) for name, text in self.files.items()}


def strip_comments(text: str) -> str:
    """The text without comments; every line stays where it is."""
    lines = text.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column].rstrip()
    return "\n".join(lines) + "\n"


def shifted(text: str) -> Script:
    """Everything lower, with comments in between."""
    head = [f"# line {n} of a licence" for n in range(1, 6)]
    return Script("kernel.py", {"kernel.py": "\n".join([*head, "", "", text])})


def renamed(text: str) -> Script:
    """Every name of the author's own, but for those that are keyword arguments or attributes somewhere."""
    tree = ast.parse(text)
    own = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    own |= {n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)}
    own |= {n.name for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
    fixed = {k.arg for n in ast.walk(tree) if isinstance(n, ast.Call) for k in n.keywords}
    # a method may stand for one of a base class, as `forward` does
    fixed |= {
        f.name
        for n in ast.walk(tree)
        if isinstance(n, ast.ClassDef) and n.bases
        for f in n.body
        if isinstance(f, ast.FunctionDef)
    }
    fixed |= {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
    # before Python 3.12 an f-string is one token, so a name in it cannot be changed
    fixed |= {
        n.id for f in ast.walk(tree) if isinstance(f, ast.JoinedStr) for n in ast.walk(f) if isinstance(n, ast.Name)
    }
    fixed |= {
        a.asname or a.name for n in ast.walk(tree) if isinstance(n, (ast.Import, ast.ImportFrom)) for a in n.names
    }
    names = {
        name: f"q{len(name)}_{name[::-1]}"
        for name in own - fixed
        if not keyword.iskeyword(name) and not hasattr(builtins, name) and not name.startswith("__")
    }
    out, previous = [], ""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        string = token.string
        if token.type == tokenize.NAME and previous != ".":
            string = names.get(string, string)
        previous = token.string
        out.append((token, string))
    return Script("kernel.py", {"kernel.py": _rebuild(text, out)})


def _rebuild(text: str, tokens: list[tuple[tokenize.TokenInfo, str]]) -> str:
    """Put changed tokens back, from the last to the first, so that columns stay true."""
    lines = text.splitlines()
    for token, string in reversed(tokens):
        if string != token.string:
            row, start = token.start
            line = lines[row - 1]
            lines[row - 1] = line[:start] + string + line[token.end[1] :]
    return "\n".join(lines) + "\n"


def in_class(text: str) -> Script | None:
    """The kernel, or its factory, as a static method of a class; None where there is none at the top level."""
    tree = ast.parse(text)
    function = next((n for n in tree.body if isinstance(n, ast.FunctionDef) and n.decorator_list), None)
    if function is None:
        return None
    lines = text.splitlines()
    first, last = function.decorator_list[0].lineno, function.end_lineno or function.lineno
    body = [f"    {line}" if line.strip() else line for line in lines[first - 1 : last]]
    wrapped = ["class Holder:", '    """Holds a kernel."""', "", "    @staticmethod", *body, "", ""]
    bound = f"{function.name} = Holder.{function.name}"
    return Script("kernel.py", {"kernel.py": "\n".join([*lines[: first - 1], *wrapped, bound, *lines[last:]]) + "\n"})


def in_module(text: str) -> Script:
    """The whole program in a module that a script imports; its `__main__` part runs on import."""
    text = text.replace("'__main__'", '"__main__"').replace('__name__ == "__main__"', '__name__ == "kernel_library"')
    return Script("launcher.py", {"launcher.py": "import kernel_library\n", "kernel_library.py": text})


def in_macro(text: str) -> Script | None:
    """The first marked statement inside a T.macro; None where it is no plain call of the tile language."""
    tree = ast.parse(text)
    marked = [n for n, line in enumerate(text.splitlines(), 1) if MARK in line]
    statement = next(
        (
            n
            for n in ast.walk(tree)
            if isinstance(n, ast.Expr) and isinstance(n.value, ast.Call) and n.lineno in marked[:1]
            and n.end_lineno == n.lineno and ast.unparse(n.value.func).startswith("T.")
        ),
        None,
    )  # fmt: skip
    if statement is None or _top_level(tree, statement):
        return None
    known = {a.asname or a.name for n in ast.walk(tree) if isinstance(n, (ast.Import, ast.ImportFrom)) for a in n.names}
    known |= {n.id for s in tree.body if isinstance(s, ast.Assign) for t in s.targets for n in ast.walk(t) if isinstance(n, ast.Name)}  # fmt: skip
    known |= {n.arg for n in ast.walk(statement) if isinstance(n, ast.arg)}  # those of a lambda in it
    used = [n.id for n in ast.walk(statement) if isinstance(n, ast.Name)]
    names = [n for n in dict.fromkeys(used) if n not in known and not hasattr(builtins, n)]
    lines = text.splitlines()
    line = lines[statement.lineno - 1]
    call = f"{line[: len(line) - len(line.lstrip())]}moved({', '.join(names)})  {MARK}"
    macro = ["@T.macro", f"def moved({', '.join(names)}):", f"    {textwrap.dedent(line)}", "", ""]
    first = next(n for n in tree.body if isinstance(n, (ast.FunctionDef, ast.ClassDef)))
    start = first.decorator_list[0].lineno if first.decorator_list else first.lineno
    lines[statement.lineno - 1] = call
    return Script("kernel.py", {"kernel.py": "\n".join([*lines[: start - 1], *macro, *lines[start - 1 :]]) + "\n"})


def _top_level(tree: ast.Module, statement: ast.Expr) -> bool:
    return statement in tree.body


#: sizes that are doubled: they stay multiples of any usual tile; larger ones would only make the run slow
_SIZES = range(512, 2049, 256)
#: keyword arguments that are no sizes of a problem
_NO_SIZE = {"threads", "seed", "rep", "warmup", "timeout", "num_stages", "shared"}


def reshaped(text: str) -> Script | None:
    """Another problem size: every size of tensors is doubled. Tiles, threads and constants inside kernels stay.

    A number that also stands where a tile or a launch is described is left everywhere; None where nothing is left.
    """
    tree = ast.parse(text)
    fixed = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            parts = [k.value for k in node.keywords if k.arg in _NO_SIZE]
            if ast.unparse(node.func).startswith("T.") and not _is_tensor(node):
                parts.append(node)
            fixed |= {n.value for p in parts for n in ast.walk(p) if isinstance(n, ast.Constant)}
        if isinstance(node, ast.arguments):
            named = [*node.posonlyargs, *node.args]
            pairs = [
                *zip(reversed(named), reversed(node.defaults), strict=False),
                *zip(node.kwonlyargs, node.kw_defaults, strict=True),
            ]
            fixed |= {d.value for a, d in pairs if a.arg in _NO_SIZE and isinstance(d, ast.Constant)}
        if isinstance(node, (ast.BinOp, ast.Compare, ast.Subscript)):  # arithmetic on a size may depend on its value
            fixed |= {n.value for n in ast.walk(node) if isinstance(n, ast.Constant)}
    sizes = {
        n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and type(n.value) is int and n.value in _SIZES
    } - fixed
    indexed = {
        n.value
        for s in ast.walk(tree)
        if isinstance(s, ast.Subscript)
        for n in ast.walk(s.slice)
        if isinstance(n, ast.Constant)
    }
    if not sizes or any(type(value) is int and abs(value) >= _SIZES.start for value in indexed):
        return None  # an index that is outside one size may be inside twice of it
    words = {str(size): str(size * 2) for size in sizes}
    tokens = [
        (token, words.get(token.string, token.string) if token.type == tokenize.NUMBER else token.string)
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
    ]
    return Script("kernel.py", {"kernel.py": _rebuild(text, tokens)})


def _is_tensor(call: ast.Call) -> bool:
    return ast.unparse(call.func) in ("T.Tensor", "T.Buffer", "T.StridedTensor")


REWRITES: dict[str, Callable[[str], Script | None]] = {
    "shifted": shifted,
    "renamed": renamed,
    "in-class": in_class,
    "in-module": in_module,
    "in-macro": in_macro,
    "reshaped": reshaped,
}
