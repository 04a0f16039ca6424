"""Where tilelang itself raises what a virtual launch raises: the innermost frames of the real traceback.

An error of a call is told by its raising frame from one with the same words out of the user's code. The frames of the
virtual launch are the harness's and left out of every record, so the error carries the real ones with it.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
from dataclasses import dataclass

from ..errors import RAISED_AT

#: a statement whose message stands on its following lines is shown by its first
RAISES = re.compile(r"\s*raise\b")


@dataclass(frozen=True)
class Raiser:
    """A function of tilelang's runtime. `file` is the path below site-packages; `shown` is the path that a traceback
    prints, where it is another one; `source` is text of the raising statement."""

    file: str
    function: str
    source: str
    shown: str | None = None


CALL = Raiser("tilelang/jit/adapter/tvm_ffi.py", "func", "executable(*tensor_list)")
COUNT = Raiser("tilelang/jit/adapter/tvm_ffi.py", "func", "inputs, but {len(inputs)} are provided.")
OUTPUT = Raiser("tilelang/jit/adapter/tvm_ffi.py", "func", "Cannot create output tensor")
HOST_CODE = Raiser(
    "tvm_ffi/cython/function.pxi",
    "tvm_ffi.core.Function.__call__",
    "raise error.py_error()",
    "python/tvm_ffi/cython/function.pxi",
)


def cython(method: str, source: str) -> Raiser:
    """A method of the cython backend's wrapper."""
    name = f"tilelang_cython_wrapper.CythonKernelWrapper.{method}"
    return Raiser("tilelang/jit/adapter/cython/cython_wrapper.pyx", name, source)


def raised_in(error: Exception, *raisers: Raiser) -> Exception:
    """`error`, which will be recorded as raised in the last of the `raisers`, called by those before it."""
    setattr(error, RAISED_AT, [_frame(raiser) for raiser in raisers])
    return error


def _frame(raiser: Raiser) -> dict[str, object]:
    path, line, text = _find(raiser)
    return {
        "file": raiser.shown or path,
        "line": line,
        "function": raiser.function,
        "text": text,
        "lang": "python",
        "user": False,
        "column": None,
        "end_column": None,
        "dsl": False,
    }


@functools.cache
def _find(raiser: Raiser) -> tuple[str, int, str]:
    """Path, number and text of the raising line in the installed package; line 0 where it does not ship its source."""
    package, _, rest = raiser.file.partition("/")
    spec = importlib.util.find_spec(package)
    root = os.path.dirname(spec.origin) if spec is not None and spec.origin else package
    path = os.path.join(root, *rest.split("/"))
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
    except (OSError, UnicodeDecodeError):
        return path, 0, ""
    last = max((n for n, line in enumerate(lines, 1) if raiser.source in line), default=0)
    number = next((n for n in range(last, max(last - 3, 0), -1) if RAISES.match(lines[n - 1])), last)
    return path, number, lines[number - 1].strip() if number else ""
