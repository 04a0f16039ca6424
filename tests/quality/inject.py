"""Put one fault into a healthy script, as a person makes it: the start of a case in which a fix is judged.

A kind of fault offers edits, the places of a script where it can be made; a seed chooses one, so that a run can be
repeated. Nothing but that place changes. An edit may well leave a script that works (a tile of two equal sides is
swapped): such an injection is no fault, which only a run can tell.
"""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from mutate import calls, is_call, kernel_body, kernels
from rewrite import Script

HEALTHY = Path(__file__).resolve().parent / "healthy"


@dataclass(frozen=True)
class Edit:
    """`new` in the place of `node`."""

    node: ast.AST
    new: str


@dataclass(frozen=True)
class Injection:
    """A healthy script, and the same with one fault of a kind at (file, line)."""

    kind: str
    name: str
    healthy: Script
    broken: Script
    place: tuple[str, int]
    was: str
    now: str

    @property
    def id(self) -> str:
        return f"{self.name}~{self.kind}"


def healthy_scripts() -> dict[str, Script]:
    """Every script of `healthy/` by name: a file, or a folder whose `run.py` imports the other files."""
    found = {}
    for path in sorted(HEALTHY.iterdir()):
        if path.suffix == ".py":
            found[path.stem] = Script(path.name, {path.name: path.read_text(encoding="utf-8")})
        elif (path / "run.py").is_file():
            files = {p.name: p.read_text(encoding="utf-8") for p in sorted(path.glob("*.py"))}
            found[path.name] = Script("run.py", files)
    return found


def inject(kind: str, name: str, script: Script, seed: int) -> Injection | None:
    """The script with one fault of a kind; None where it holds nothing of that kind."""
    chance = random.Random(f"{kind}/{name}/{seed}")
    edits = [
        (file, edit)
        for file, text in script.files.items()
        for edit in KINDS[kind](ast.parse(text), chance)
        if edit.new != ast.get_source_segment(text, edit.node)
    ]
    if not edits:
        return None
    file, edit = chance.choice(edits)
    text = script.files[file]
    start, end = span(text, edit.node)
    broken = Script(script.main, {**script.files, file: text[:start] + edit.new + text[end:]})
    return Injection(kind, name, script, broken, (file, edit.node.lineno), text[start:end], edit.new)


def injections(seed: int) -> list[Injection]:
    """Every kind of fault in every healthy script, where it can be made."""
    made = (inject(kind, name, script, seed) for name, script in healthy_scripts().items() for kind in KINDS)
    return [injection for injection in made if injection is not None]


def span(text: str, node: ast.AST) -> tuple[int, int]:
    """Where a node stands in a text of ASCII characters."""
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    return starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset


# ------------------------------------------------------------------------------------------------ what a script holds

ALLOCATIONS = ("alloc_shared", "alloc_fragment", "alloc_local")
REDUCTIONS = ("reduce_sum", "reduce_max", "reduce_min", "reduce_absmax")
MAKERS = ("randn", "rand", "zeros", "ones", "empty", "randint", "full")


def misspelt(word: str, chance: random.Random) -> str:
    """The word with one slip of the hand after its first letter: a letter missing, doubled, or two of them swapped."""
    slips = [word[:i] + word[i + 1 :] for i in range(1, len(word))]
    slips += [word[:i] + word[i] + word[i:] for i in range(1, len(word))]
    slips += [word[:i] + word[i + 1] + word[i] + word[i + 2 :] for i in range(1, len(word) - 1)]
    return chance.choice([s for s in slips if s != word and s.isidentifier()])


def bound_names(tree: ast.AST) -> set[str]:
    """Names that the author bound: variables, parameters, functions."""
    names = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    names |= {n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)}
    return names | {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}


def tiles(tree: ast.AST) -> Iterator[tuple[ast.Call, list[ast.expr]]]:
    """Every allocation of a tile with the extents of its shape."""
    for call in calls(tree, *ALLOCATIONS):
        if call.args and isinstance(call.args[0], (ast.Tuple, ast.List)):
            yield call, call.args[0].elts


def host_nodes(tree: ast.Module) -> Iterator[ast.AST]:
    """What is outside of every kernel and every function that makes one."""
    makers = {f for f in ast.walk(tree) if isinstance(f, ast.FunctionDef) and any(True for _ in kernels(f))}

    def go(node: ast.AST) -> Iterator[ast.AST]:
        if node not in makers:
            yield node
            for child in ast.iter_child_nodes(node):
                yield from go(child)

    return go(tree)


def host_calls(tree: ast.Module) -> Iterator[ast.Call]:
    return (node for node in host_nodes(tree) if isinstance(node, ast.Call))


def settings(tree: ast.Module, *names: str) -> Iterator[ast.Constant]:
    """Numbers that a name is given: as a keyword, as the default of a parameter, in a dictionary."""
    for node in ast.walk(tree):
        pairs: list[tuple[str | None, ast.expr | None]] = []
        if isinstance(node, ast.Call):
            pairs = [(k.arg, k.value) for k in node.keywords]
        elif isinstance(node, ast.arguments):
            named = [*node.posonlyargs, *node.args]
            pairs = [(a.arg, d) for a, d in zip(reversed(named), reversed(node.defaults), strict=False)]
        elif isinstance(node, ast.Dict):
            pairs = [
                (str(k.value), v) for k, v in zip(node.keys, node.values, strict=True) if isinstance(k, ast.Constant)
            ]
        for name, value in pairs:
            if name in names and isinstance(value, ast.Constant):
                yield value


def rewritten_call(call: ast.Call, args: list[str] | None = None, keywords: list[str] | None = None) -> str:
    args = [ast.unparse(a) for a in call.args] if args is None else args
    keywords = [ast.unparse(k) for k in call.keywords] if keywords is None else keywords
    return f"{ast.unparse(call.func)}({', '.join([*args, *keywords])})"


# ------------------------------------------------------------------------------------------------------ kinds of fault


def misspelt_attribute(tree: ast.Module, chance: random.Random) -> Iterator[Edit]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "T":
            yield Edit(node, f"T.{misspelt(node.attr, chance)}")


#: what the same thing is called in CUDA, Triton, torch, or was in an older TileLang
FOREIGN = {
    "ceildiv": "ceil_div", "infinity": "inf", "if_then_else": "where", "clear": "zero", "fill": "full", "cast": "astype",
    "reduce_sum": "sum", "atomic_add": "atomicAdd", "alloc_shared": "shared_memory", "max": "maximum", "rsqrt": "rsqrtf",
    "Parallel": "parallel", "Pipelined": "pipelined", "serial": "range", "dynamic": "symbolic_dim",
    "alloc_fragment": "alloc_register", "exp2": "ex2", "gemm": "dot", "GemmWarpPolicy": "GEMMWarpPolicy",
}  # fmt: skip


def foreign_name(tree: ast.Module, chance: random.Random) -> Iterator[Edit]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "T" and node.attr in FOREIGN:
            yield Edit(node, f"T.{FOREIGN[node.attr]}")


def misspelt_variable(tree: ast.Module, chance: random.Random) -> Iterator[Edit]:
    own = bound_names(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in own and len(node.id) > 2:
            new = misspelt(node.id, chance)
            if new not in own:
                yield Edit(node, new)


#: what an author takes a keyword for
OTHER_WORDS = {
    "dim": "axis", "threads": "num_threads", "num_stages": "stages", "transpose_B": "trans_b", "clear": "init",
    "out_idx": "out_index", "policy": "warp_policy", "dtype": "type", "rtol": "rel_tol", "panel_size": "panel",
}  # fmt: skip


def unknown_keyword(tree: ast.Module, chance: random.Random) -> Iterator[Edit]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and re.match(r"(T|tilelang|torch)\b", ast.unparse(node.func)):
            for keyword in node.keywords:
                if keyword.arg is not None:
                    words = [misspelt(keyword.arg, chance), OTHER_WORDS.get(keyword.arg)]
                    word = chance.choice([w for w in words if w])
                    yield Edit(keyword, f"{word}={ast.unparse(keyword.value)}")


def missing_argument(tree: ast.Module, chance: random.Random) -> Iterator[Edit]:
    operators = ("copy", "gemm", "fill", "if_then_else", "atomic_add", "cast", "max", *REDUCTIONS, *ALLOCATIONS)
    own = {f.name for f in ast.walk(tree) if isinstance(f, ast.FunctionDef)}
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and len(node.args) > 1
            and (is_call(node, *operators) or ast.unparse(node.func) in own)
        ):
            left_out = chance.randrange(1, len(node.args))
            yield Edit(node, rewritten_call(node, [ast.unparse(a) for n, a in enumerate(node.args) if n != left_out]))


def index_rank(tree: ast.Module, chance: random.Random) -> Iterator[Edit]:
    """One index of an access left out, or one too many."""
    for node in kernel_body(tree):
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
            indices = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            if len(indices) == 1 and isinstance(indices[0], ast.Constant):
                continue  # an entry of a dictionary or a list
            words = [ast.unparse(i) for i in indices]
            left_out = chance.randrange(len(words))
            less = [word for n, word in enumerate(words) if n != left_out]
            more = [*words, chance.choice(["0", words[-1]])]
            chosen = chance.choice([less, more]) if less else more
            yield Edit(node, f"{node.value.id}[{', '.join(chosen)}]")


def swapped_tile(tree: ast.Module, chance: random.Random) -> Iterator[Edit]:
    for call, extents in tiles(tree):
        if len(extents) == 2:
            first, second = map(ast.unparse, extents)
            yield Edit(call.args[0], f"({second}, {first})")


def wrong_extent(tree: ast.Module, chance: random.Random) -> Iterator[Edit]:
    """A tile with an extent that belongs to another dimension."""
    for kernel in kernels(tree):
        shapes = [extents for _, extents in tiles(kernel)]
        known = {ast.unparse(e) for extents in shapes for e in extents if isinstance(e, ast.Name)}
        for extents in shapes:
            others = sorted(known - {ast.unparse(e) for e in extents})
            for extent in extents if len(extents) > 1 and others else ():
                yield Edit(extent, chance.choice(others))


def transpose_flag(tree: ast.Module, chance: random.Random) -> Iterator[Edit]:
    for call in calls(tree, "gemm"):
        kept = [ast.unparse(k) for k in call.keywords if not str(k.arg).startswith("transpose_")]
        flag = f"transpose_{chance.choice('AB')}=True"
        yield Edit(call, rewritten_call(call, keywords=kept if len(kept) < len(call.keywords) else [flag, *kept]))


def allocation_dtype(tree: ast.Module, chance: random.Random) -> Iterator[Edit]:
    """A tile of another type, one that exists."""
    for call, _ in tiles(tree):
        if len(call.args) > 1:
            before = ast.unparse(call.args[1]).strip("'").removeprefix("T.")
            others = {"float32", "float16", "bfloat16", "int32", "float64"} - {before}
            yield Edit(call.args[1], f'"{chance.choice(sorted(others))}"')


#: types that do not exist under that name
NICKNAMES = {
    "float16": ["half_t", "flaot16", "fp16", "float_16"], "float32": ["fp32", "flaot32", "f32", "float_32"],
    "int8": ["i8", "int_8"], "int32": ["i32", "int_32"], "bfloat16": ["bf16", "bfloat_16"],
}  # fmt: skip


def dtype_name(tree: ast.Module, chance: random.Random) -> Iterator[Edit]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in NICKNAMES:
            yield Edit(node, f'"{chance.choice(NICKNAMES[node.value])}"')
        if isinstance(node, ast.Attribute) and node.attr in NICKNAMES and ast.unparse(node.value) in ("T", "torch"):
            yield Edit(node, f"{ast.unparse(node.value)}.{chance.choice(NICKNAMES[node.attr])}")


def too_many_stages(tree: ast.Module, chance: random.Random) -> Iterator[Edit]:
    for value in settings(tree, "num_stages", "stages"):
        yield Edit(value, str(chance.choice([24, 32, 48, 64])))


def illegal_threads(tree: ast.Module, chance: random.Random) -> Iterator[Edit]:
    for value in settings(tree, "threads"):
        yield Edit(value, str(chance.choice([48, 96, 100, 2048, 0])))


def architecture(tree: ast.Module, chance: random.Random) -> Iterator[Edit]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and node.value == "sm_90a":
            yield Edit(node, chance.choice(['"sm_90"', '"sm90a"']))


def reduced_dimension(tree: ast.Module, chance: random.Random) -> Iterator[Edit]:
    for call in calls(tree, *REDUCTIONS):
        for keyword in call.keywords:
            if keyword.arg == "dim" and isinstance(keyword.value, ast.Constant):
                yield Edit(keyword.value, str(chance.choice([d for d in (0, 1, 2) if d != keyword.value.value])))


def missing_clear(tree: ast.Module, chance: random.Random) -> Iterator[Edit]:
    for node in kernel_body(tree):
        if isinstance(node, ast.Expr) and is_call(node.value, "clear", "fill"):
            yield Edit(node, "pass" if _alone(tree, node) else "")


def _alone(tree: ast.Module, statement: ast.stmt) -> bool:
    bodies = [
        getattr(n, part)
        for n in ast.walk(tree)
        for part in ("body", "orelse")
        if isinstance(getattr(n, part, None), list)
    ]
    return [statement] in bodies


def output_index(tree: ast.Module, chance: random.Random) -> Iterator[Edit]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            for keyword in node.keywords:
                if keyword.arg == "out_idx":
                    yield Edit(keyword.value, chance.choice(["[7]", "[0]", "[-9]"]))


def host_dtype(tree: ast.Module, chance: random.Random) -> Iterator[Edit]:
    for call in host_calls(tree):
        for keyword in call.keywords:
            if keyword.arg == "dtype" and ast.unparse(keyword.value).startswith("torch."):
                others = {"torch.float16", "torch.float32", "torch.bfloat16"} - {ast.unparse(keyword.value)}
                yield Edit(keyword.value, chance.choice(sorted(others)))
        if isinstance(call.func, ast.Attribute) and call.func.attr == "half" and not call.args:
            yield Edit(call, ast.unparse(call.func.value))


def host_shape(tree: ast.Module, chance: random.Random) -> Iterator[Edit]:
    """The sizes of an input swapped, or one of them left out."""
    for call in host_calls(tree):
        if ast.unparse(call.func) in {f"torch.{name}" for name in MAKERS} and len(call.args) > 1:
            words = [ast.unparse(a) for a in call.args]
            first = chance.randrange(len(words) - 1)
            swapped = [*words[:first], words[first + 1], words[first], *words[first + 2 :]]
            yield Edit(call, rewritten_call(call, chance.choice([swapped, words[:first] + words[first + 1 :]])))


def host_arguments(tree: ast.Module, chance: random.Random) -> Iterator[Edit]:
    """What a kernel is called with: two arguments swapped, or one left out."""
    own = bound_names(tree)
    for call in host_calls(tree):
        root = call.func
        while isinstance(root, (ast.Call, ast.Attribute)):
            root = root.func if isinstance(root, ast.Call) else root.value
        if isinstance(root, ast.Name) and root.id in own and "ref" not in ast.unparse(call.func) and len(call.args) > 1:
            words = [ast.unparse(a) for a in call.args]
            first = chance.randrange(len(words) - 1)
            swapped = [*words[:first], words[first + 1], words[first], *words[first + 2 :]]
            yield Edit(call, rewritten_call(call, chance.choice([swapped, words[:-1]])))


def host_device(tree: ast.Module, chance: random.Random) -> Iterator[Edit]:
    """An input that stays on the host."""
    for call in host_calls(tree):
        kept = [k for k in call.keywords if k.arg != "device"]
        if len(kept) < len(call.keywords):
            yield Edit(call, rewritten_call(call, keywords=[ast.unparse(k) for k in kept]))


def missing_import(tree: ast.Module, chance: random.Random) -> Iterator[Edit]:
    for node in tree.body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield Edit(node, "")


def missing_return(tree: ast.Module, chance: random.Random) -> Iterator[Edit]:
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef) and any(True for _ in kernels(function)):
            for node in function.body:
                if isinstance(node, ast.Return):
                    yield Edit(node, "")


KINDS: dict[str, Callable[[ast.Module, random.Random], Iterator[Edit]]] = {
    "misspelt-attribute": misspelt_attribute,
    "foreign-name": foreign_name,
    "misspelt-variable": misspelt_variable,
    "unknown-keyword": unknown_keyword,
    "missing-argument": missing_argument,
    "index-rank": index_rank,
    "swapped-tile": swapped_tile,
    "wrong-extent": wrong_extent,
    "transpose-flag": transpose_flag,
    "allocation-dtype": allocation_dtype,
    "dtype-name": dtype_name,
    "too-many-stages": too_many_stages,
    "illegal-threads": illegal_threads,
    "architecture": architecture,
    "reduced-dimension": reduced_dimension,
    "missing-clear": missing_clear,
    "output-index": output_index,
    "host-dtype": host_dtype,
    "host-shape": host_shape,
    "host-arguments": host_arguments,
    "host-device": host_device,
    "missing-import": missing_import,
    "missing-return": missing_return,
}
