"""`--reference module:function[@kernel]`: functions of the user's that say what kernels have to compute.

What can be known of one without running anything is known here; `harness/references.py` calls it.
"""

from __future__ import annotations

import ast
import difflib
import importlib.machinery
import os
import symtable
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from triage.numerics.tolerance import FALLBACK

FORM = "write module:function or path/to/file.py:function, with @kernel behind it for one kernel only"
#: by these a module may get names that no statement of it shows
HIDDEN = ("import *", "globals(", "exec(", "setattr(", "global ", "__getattr__")
#: names that are told where one is not found
MOST_NAMES = 6


class BadReference(Exception):
    """A reference that cannot be called; the message says why, and what to do."""


@dataclass(frozen=True)
class Reference:
    """`text` as it was given. `file`: where the module lies, "" where only the user's interpreter can tell; `module`: its name, ""
    of a path. `kernel`: the one that it is for, None for all that it fits. `paths`: folders in which modules are looked for, too."""

    text: str
    module: str
    file: str
    function: str
    kernel: str | None = None
    paths: tuple[str, ...] = ()


def read_reference(text: str, script: Path | None, cwd: Path) -> Reference:
    """Take apart what was given; relative paths are below `cwd`, modules beside the script or there. Raises `BadReference`."""
    where, _, named = text.rpartition(":")
    function, at, kernel = named.partition("@")
    if not where or not all(part.isidentifier() for part in function.split(".")):
        raise BadReference(FORM)
    if at and not kernel:
        raise BadReference(f"no kernel is named behind the @; {FORM}")
    folders = dict.fromkeys(str(folder.absolute()) for folder in (*([script.parent] if script else []), cwd))
    common: dict[str, Any] = {"function": function, "kernel": kernel or None, "paths": tuple(folders)}
    if where.endswith(".py") or os.sep in where:
        path = cwd / where
        own = str(path.parent.absolute())
        return Reference(text, "", str(path.absolute()), **{**common, "paths": (own, *folders)})
    if not all(part.isidentifier() for part in where.split(".")):
        raise BadReference(FORM)
    return Reference(text, where, _file_of(where, tuple(folders)), **common)


def _file_of(module: str, folders: Sequence[str]) -> str:
    """The file of a module that lies in one of some folders; "" where none does, or it is part of a package."""
    if "." in module:
        return ""  # a package may import its parts by relative names
    found = (Path(folder) / f"{module}.py" for folder in folders)
    return next((str(path) for path in found if path.is_file()), "")


def look_at(reference: Reference, script: Path | None, own_interpreter: bool) -> None:
    """Raise `BadReference` where it can be seen that the function is not there. What only a run can tell is left to it.

    `own_interpreter`: the script runs in this one, so that what cannot be read or found here, cannot there.
    """
    if not reference.file:
        if own_interpreter and not _findable(reference, script):
            raise BadReference(
                f"no module {reference.module!r} is beside the script, here, or installed; name its file"
            )
        return
    path = Path(reference.file)
    if not path.is_file():
        raise BadReference(f"no such file: {path}")
    try:
        text = path.read_text(encoding="utf-8-sig")
        tree = ast.parse(text)
        table = symtable.symtable(text, str(path), "exec")
    except SyntaxError as error:
        if own_interpreter:
            raise BadReference(f"{path}:{error.lineno} cannot be parsed: {error.msg}") from None
        return
    except (OSError, ValueError, RecursionError) as error:
        raise BadReference(f"{path} cannot be read: {error}") from None
    names = {s.get_name() for s in table.get_symbols() if s.is_assigned() or s.is_imported() or s.is_namespace()}
    wanted = reference.function.partition(".")[0]
    if wanted in names or any(hidden in text for hidden in HIDDEN):
        return
    functions = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    near = difflib.get_close_matches(wanted, functions, MOST_NAMES) or functions[:MOST_NAMES]
    has = f"; it has {', '.join(near)}" if near else ""
    raise BadReference(f"{path.name} has no {wanted} at its top level{has}")


def _findable(reference: Reference, script: Path | None) -> bool:
    """Whether a module may be found when the script runs: in a folder of its own, installed, or where the script adds folders."""
    if script is None or "sys.path" in script.read_text(encoding="utf-8", errors="replace"):
        return True
    first = reference.module.partition(".")[0]
    if first in sys.builtin_module_names:
        return True
    return importlib.machinery.PathFinder.find_spec(first, [*reference.paths, *sys.path]) is not None


def spec_of(references: Sequence[Reference]) -> dict[str, Any]:
    """What the harness is told: the references, and what to compare results of each type with (rtol and atol)."""
    if not references:
        return {}
    return {"references": [asdict(reference) for reference in references], "tolerances": tolerances()}


def tolerances() -> dict[str, list[float]]:
    """What to compare results of each type with: rtol and atol."""
    return {name: [bound.rtol, bound.atol] for name, (bound, _) in FALLBACK.items()}
