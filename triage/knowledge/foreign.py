"""Whether an error may be another library's, although its words are those of a rule. Pure.

In a run of a kernel everything is about TileLang. Of a text nobody knows that, unless it names TileLang or TVM.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping

from triage.knowledge.match import LOADED, Outcome, Record, Trial
from triage.model import Confidence

#: What only texts about TileLang have: its names, the names of its operators and kernels, its C++ and its templates. Each begins
#: with a fixed text, which a long log is searched for sooner; the texts are in small letters, those of the second table as they are.
SIGNS = {
    "tilelang": r"tilelang(?![a-z])", "tile-lang": r"tile-lang(?![a-z])", "tvm": r"\btvm(?:[_-]ffi)?\b", "tvm_kernels": "tvm_kernels",
    "tl_templates": "tl_templates", "tl::": r"\btl::", "tir.": r"\btir\.", "tirx.": r"\btirx\.", "main_kernel": r"\bmain_kernel\b",
    "primfunc": r"\bprimfunc\b", "prim_func": r"\bprim_func\b",
}  # fmt: skip
EXACT_SIGNS = {"T.": r"(?<![\w.])T\.[A-Za-z_]\w+"}
#: packages whose errors rules read, beside the standard library and what a kernel's script loads
READ = (LOADED - {"triton"}) | {
    "tvm_ffi",
    "tirx",
    "ffi",
    "torch_npu",
    "cupy",
    "builtins",
    "__main__",
    "pip",
    "setuptools",
}


def speaks_of_tilelang(text: str) -> bool:
    return _has(text.lower(), SIGNS) or _has(text, EXACT_SIGNS)


def _has(text: str, signs: Mapping[str, str]) -> bool:
    return any(fixed in text and re.search(pattern, text) for fixed, pattern in signs.items())


def other_package(error_type: str) -> str | None:
    """The package that a dotted type names, if rules are not about its errors: `psycopg2` of `psycopg2.errors.SyntaxError`."""
    package, dot, _ = error_type.partition(".")
    return package if dot and package not in READ | sys.stdlib_module_names else None


def most(record: Record, trial: Trial) -> Confidence | None:
    """The most that a match says where nothing speaks of TileLang; None for no limit."""
    error = record.error
    if error is None:
        return None
    if trial.outcome is Outcome.UNOBSERVED and other_package(error.type):
        return Confidence.POSSIBLE
    return Confidence.LIKELY if error.kind == "compiler" else None
