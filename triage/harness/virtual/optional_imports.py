"""Stand-ins for packages that exist only where a GPU does, so that a script reaches its own kernels.

A script that compares with `fla` or benchmarks against `flash_attn` cannot import them here. If its own import would
fail, and it does not handle that itself, it gets a module of placeholders; the report says which. A package that is not
on the list, a misspelt one for example, stays the `ModuleNotFoundError` that it is.
"""

from __future__ import annotations

import ast
import dis
import functools
import importlib.abc
import importlib.machinery
import linecache
import sys
from collections.abc import Callable, Iterator
from types import FrameType, FunctionType, ModuleType
from typing import Any

from . import bench
from .patching import replace_everywhere

#: packages that are built for, or of use only on, a machine with a GPU; and plotting, which no kernel depends on
PACKAGES = frozenset(
    (
        *("triton", "fla", "flash_attn", "flash_attn_interface", "flashinfer", "flash_mla", "deep_gemm", "bitblas"),
        *("vllm", "sglang", "xformers", "mamba_ssm", "causal_conv1d", "native_sparse_attention", "block_sparse_attn"),
        *("cutlass", "cupy", "pynvml", "nvtx", "apex", "transformer_engine", "deep_ep", "fast_hadamard_transform"),
        *("minference", "quack", "liger_kernel", "matplotlib"),
    )
)


class StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """The last finder: asked only for what no other finder knows."""

    def __init__(self, context: Any) -> None:
        self.context = context
        self.made: set[str] = set()

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        root = name.partition(".")[0]
        if root not in PACKAGES:
            return None
        if root not in self.made and not self._make(root):
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def _make(self, root: str) -> bool:
        """Stand in for a package if the script itself imports it, and would fail without it."""
        importing = _importing(sys._getframe(2))
        if importing is None or not self.context.is_user(importing.f_code.co_filename) or _is_guarded(importing, True):
            return False
        self.made.add(root)
        self.context.virtual(f"{root} stubbed")
        if not self._caught(importing):
            self._report(root)
        _settle(root)
        return True

    def _caught(self, frame: FrameType | None) -> bool:
        """Whether the script catches the error of an import, in the importing function or in one that called it."""
        while frame is not None:
            if self.context.is_user(frame.f_code.co_filename) and _is_guarded(frame, False):
                return True
            frame = frame.f_back
        return False

    def _report(self, root: str) -> None:
        """Tell the error in which the import ends under plain Python on this machine."""
        try:
            raise ModuleNotFoundError(f"No module named {root!r}", name=root)
        except ModuleNotFoundError as error:
            self.context.report_error(error, "import", None, handled=True, stubbed=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        for name, value in HELPERS.get(module.__name__, {}).items():
            setattr(module, name, value)


def _settle(root: str) -> None:
    """PyTorch looks for triton when it likes; let it find out now that there is none."""
    if root == "triton":
        module = sys.modules.get("torch.utils._triton")
        for name in ("has_triton_package", "has_triton", "has_triton_tma", "has_triton_tma_device"):
            function = getattr(module, name, None)
            if function is not None:
                function()


def _importing(frame: FrameType | None) -> FrameType | None:
    """The frame of the import statement; None where somebody asks whether a package is installed."""
    while frame is not None and "importlib" in frame.f_code.co_filename:
        if frame.f_code.co_name == "find_spec" and "util" in frame.f_code.co_filename:
            return None
        frame = frame.f_back
    return frame


def _is_guarded(frame: FrameType, helped: bool) -> bool:
    """Whether a frame is in a `try` that catches an `ImportError`; `helped`: and gets on without what was imported."""
    guards = _guards(frame.f_code.co_filename)
    return any(first <= frame.f_lineno <= last and (helps or not helped) for first, last, helps in guards)


@functools.cache
def _guards(path: str) -> tuple[tuple[int, int, bool], ...]:
    """First and last line of the body of every `try` whose handler catches an `ImportError`, and whether that helps."""
    try:
        tree = ast.parse("".join(linecache.getlines(path)))
    except (SyntaxError, ValueError, RecursionError):
        return ()
    found = []
    for node in ast.walk(tree):
        catching = [h for h in node.handlers if _catches(h)] if isinstance(node, ast.Try) else []
        if catching:
            assert isinstance(node, ast.Try)
            last = node.body[-1]
            helps = any(_helps(handler, node, tree) for handler in catching)
            found.append((node.body[0].lineno, last.end_lineno or last.lineno, helps))
    return tuple(found)


def _catches(handler: ast.ExceptHandler) -> bool:
    """Whether a handler catches an `ImportError`."""
    caught = {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"}
    return handler.type is None or bool(caught & _names(handler.type, ast.Load))


def _helps(handler: ast.ExceptHandler, guard: ast.Try, tree: ast.Module) -> bool:
    """Whether the script gets on without what it could not import.

    It does not if the handler raises, or if it binds nothing that the rest of the file reads while the rest reads
    names that only the import would have bound.
    """
    statements = [node for part in handler.body for node in ast.walk(part)]
    if any(isinstance(node, ast.Raise) for node in statements):
        return False
    if any(isinstance(node, (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)) for node in statements):
        return True
    inside = {id(node) for node in ast.walk(guard)}
    read = {
        n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load) and id(n) not in inside
    }
    imported = {
        alias.asname or alias.name.partition(".")[0]
        for part in guard.body
        for node in ast.walk(part)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
    }
    bound = set().union(*(_names(part, ast.Store) for part in handler.body))
    return bool(bound & read) or not (imported - bound) & read


def _names(tree: ast.AST, context: type[ast.expr_context]) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, context)}


class StandIn(ModuleType):
    """A module of placeholders."""

    __path__: list[str] = []  # noqa: RUF012 - a package without files
    __version__ = "0.0.0"
    __file__ = "<stand-in>"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return Placeholder(f"{self.__name__}.{name}")


class Placeholder:
    """Anything that a stood-in package would have given: every use of it gives another placeholder."""

    def __init__(self, name: str) -> None:
        self.__dict__["_name"] = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and not kwargs and isinstance(args[0], FunctionType) and not self._name.startswith("triton"):
            return args[0]  # used as a decorator: the function of the script stays what it is
        return Placeholder(f"{self._name}()")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return Placeholder(f"{self._name}.{name}")

    def __setattr__(self, name: str, value: Any) -> None: ...

    def __getitem__(self, key: Any) -> Any:
        return Placeholder(f"{self._name}[]")

    def __setitem__(self, key: Any, value: Any) -> None: ...

    def __iter__(self) -> Iterator[Any]:
        """As many as the script unpacks; none in a loop."""
        frame = sys._getframe(1)
        here = next((i for i in dis.get_instructions(frame.f_code) if i.offset == frame.f_lasti), None)
        count = here.arg if here is not None and here.opname == "UNPACK_SEQUENCE" else 0
        return iter([Placeholder(f"{self._name}[{i}]") for i in range(count or 0)])

    def __len__(self) -> int:
        return 0

    def __bool__(self) -> bool:
        return True

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        return ()

    def __enter__(self) -> Placeholder:
        return self

    def __exit__(self, *error: object) -> None: ...

    def __float__(self) -> float:
        return 1.0

    def __int__(self) -> int:
        return 1

    def __index__(self) -> int:
        return 1

    def __format__(self, spec: str) -> str:
        return f"<{self._name}: not installed>"

    __repr__ = __str__ = lambda self: self.__format__("")

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return Placeholder(f"torch.{getattr(func, '__name__', func)}()")


def is_placeholder(value: Any) -> bool:
    """Whether a value came out of a stood-in package: nothing can be compared with it."""
    return isinstance(value, Placeholder)


def install_einops(module: Any) -> None:
    """einops knows the tensors of its backends only: rearranging a placeholder gives a placeholder."""
    for name in ("rearrange", "reduce", "repeat", "einsum"):
        if hasattr(module, name):
            function = _passing(getattr(module, name))
            replace_everywhere("einops", name, getattr(module, name), function)


def _passing(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        given = next((a for a in args if is_placeholder(a)), None)
        return original(*args, **kwargs) if given is None else given

    return call


def _operator(self: Placeholder, *others: Any) -> Placeholder:
    return Placeholder(f"({self._name})")


for _name in (
    *("add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift", "rshift"),
    *("neg", "pos", "abs", "invert", "lt", "le", "gt", "ge"),
):
    for _spelled in (f"__{_name}__", f"__r{_name}__", f"__i{_name}__"):
        setattr(Placeholder, _spelled, _operator)


def _ceil_divide(left: int, right: int) -> int:
    return -(-left // right)


def _next_power_of_2(number: int) -> int:
    return 1 << max(0, number - 1).bit_length()


#: helpers of the packages that scripts use on the host, for sizes
HELPERS: dict[str, dict[str, Callable[..., Any]]] = {
    "triton": {"cdiv": _ceil_divide, "next_power_of_2": _next_power_of_2},
    "triton.testing": {"do_bench": bench.do_bench, "do_bench_cudagraph": bench.do_bench},
}
