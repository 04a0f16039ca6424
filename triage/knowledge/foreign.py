"""Whether an error may be another library's, although its words are those of a rule. Pure.

In a run of a kernel everything is about TileLang. Of a text nobody knows that, unless it names TileLang or TVM.
"""

from __future__ import annotations

import re
import sys

from triage.knowledge.match import LOADED, Outcome, Record, Trial
from triage.model import Confidence

#: what only texts about TileLang have: its names, the names of its operators and kernels, its C++ and its templates
OF_TILELANG = re.compile(
    r"tile-?lang(?![a-z])|\btvm(?:_ffi|-ffi)?\b|tvm_kernels|tl_templates|\btl::|\bT\.[A-Za-z_]\w+|\btirx?\.|\bmain_kernel\b|\bprim_?func\b",
    re.IGNORECASE,
)
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
    return OF_TILELANG.search(text) is not None


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
