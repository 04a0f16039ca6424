"""Which device the script is run for: the architecture, its target, and why (mode "virtual")."""

from __future__ import annotations

import ast
import json
import os
import re
import sys
from collections.abc import Iterator
from typing import Any

DEFAULT = "sm_90a"
BLACKWELL = "sm_100a"
VARIABLE = "TILELANG_DEFAULT_TARGET"
ARCH = re.compile(r"\bsm_\d+[a-z]?\b")
#: names a target may have that leave the architecture open; on a machine with a GPU it would be asked
OPEN = ("auto", "cuda")
#: values of `arch_source` that say the user asked for the architecture
ARGUMENT = ("argument", "--arch")


def prepare(context: Any) -> None:
    """Before the script: keep compile results out of the user's caches, and choose the architecture."""
    # what the script compiles must be compiled here, not fetched: a hit would hide its warnings
    os.environ["TILELANG_CACHE_DIR"] = os.path.join(os.path.abspath(context.spec["dir"]), "tilelang-cache")
    if context.mode != "virtual":
        return
    os.environ["TILELANG_DISABLE_CACHE"] = "1"
    os.environ["TILELANG_AUTO_TUNING_DISABLE_CACHE"] = "1"
    if context.spec.get("arch_source") in ARGUMENT:
        context.why = f"--arch {context.arch}"
        context.arch_fixed = True
        return
    named = named_by_script(context.spec.get("text") or context.spec.get("script"))
    context.arch_fixed = named is not None
    if named is not None:
        _choose(context, *named)
    else:
        _from_environment(context)


def pin(context: Any) -> None:
    """The script is about to import tilelang: fix the default target, and say which device it will find."""
    if context.mode != "virtual":
        context.emit("device", mode="real", arch=None, why="the devices of this machine")
        return
    if not context.arch_fixed:
        _from_environment(context)
    context.requested_default = os.environ.get(VARIABLE)
    if is_open(context.requested_default):
        os.environ[VARIABLE] = json.dumps(completed(context.requested_default, context))
    context.emit("device", mode="virtual", arch=context.arch, why=context.why)


def is_open(target: Any) -> bool:
    """Whether a target leaves the architecture open, so that the virtual device decides it."""
    if target is None or (isinstance(target, str) and target.strip().lower() in OPEN):
        return True
    config = as_config(target)
    return config is not None and config.get("kind") == "cuda" and not config.get("arch")


def as_config(target: Any) -> dict[str, Any] | None:
    """A target given as a dict or as its JSON, as a dict; None for anything else."""
    if isinstance(target, str) and target.lstrip().startswith("{"):
        try:
            target = json.loads(target)
        except ValueError:
            return None
    return dict(target) if isinstance(target, dict) else None


def named_by_script(path: str | None) -> tuple[str, str] | None:
    """The architecture a script asks for by what is written in it, and why; None if it names none or several.

    Looked at are `target=` arguments, the value given to `TILELANG_DEFAULT_TARGET`, and, where there are none, tensor
    memory, which only Blackwell has. Nothing is executed, so a name that is computed is not seen.
    """
    try:
        with open(path or "", "rb") as file:
            tree = ast.parse(file.read())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return None
    found: dict[str, int] = {}
    for value in _target_values(tree):
        for node in ast.walk(value):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and (match := ARCH.search(node.value)):
                found.setdefault(match[0], value.lineno)
    if found:
        arch, line = next(iter(found.items()))
        return (arch, f"the script names it (line {line})") if len(found) == 1 else None
    return _tensor_memory(tree)


def _target_values(tree: ast.Module) -> Iterator[ast.expr]:
    """The expressions that say a target: keyword arguments and environment values, constants of the module resolved."""
    constants = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        values: list[ast.expr] = []
        if isinstance(node, ast.Call):
            values += [keyword.value for keyword in node.keywords if keyword.arg == "target"]
            if any(_is_variable(arg) for arg in node.args[:1]):  # os.environ.setdefault, os.putenv
                values += node.args[1:2]
        elif isinstance(node, ast.Assign) and any(
            isinstance(t, ast.Subscript) and _is_variable(t.slice) for t in node.targets
        ):
            values.append(node.value)
        for value in values:
            yield constants.get(value.id, value) if isinstance(value, ast.Name) else value


def _is_variable(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == VARIABLE


def _tensor_memory(tree: ast.Module) -> tuple[str, str] | None:
    names = {node.attr: node.lineno for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    if any(name.startswith("wgmma") for name in names):  # written for Hopper as well: it chooses at run time
        return None
    for name, line in names.items():
        if name == "alloc_tmem" or name.startswith("tcgen05_"):
            return BLACKWELL, f"T.{name} (line {line}) needs tensor memory"
    return None


def _from_environment(context: Any) -> None:
    value = os.environ.get(VARIABLE)
    match = ARCH.search(value or "")
    if match:
        _choose(context, match[0], f"{VARIABLE}={value}")
    else:
        _choose(context, context.spec.get("arch") or DEFAULT, "the default: neither --arch nor the script names one")


def _choose(context: Any, arch: str, why: str) -> None:
    context.arch = arch
    context.target = {"kind": "cuda", "arch": arch}
    context.why = why


def resolve(wanted: Any, context: Any) -> Any:
    """The target to compile for: the pinned one where the script leaves it open (or the user asked for one)."""
    if is_open(wanted):
        tvm = sys.modules.get("tvm")
        current = tvm.target.Target.current(allow_none=True) if tvm is not None else None
        if current is not None and wanted in (None, "auto"):
            return wanted  # inside `with Target(...)`, which tilelang takes before it asks the GPU
        return completed(wanted, context)
    forced = context.spec.get("arch_source") in ARGUMENT
    return {**plain(wanted), **context.target} if forced and is_cuda(wanted) else wanted


def completed(wanted: Any, context: Any) -> dict[str, Any]:
    """An open target with the pinned architecture; what else it asks for stays, right or wrong."""
    return {**(as_config(wanted) or {}), **context.target}


def is_cuda(wanted: Any) -> bool:
    """Whether a target with attributes (a dict, its JSON, a `Target`) is CUDA's own code generator."""
    config = plain(wanted)
    return isinstance(config, dict) and config.get("kind") == "cuda" and "cutedsl" not in config.get("keys", ())


def plain(wanted: Any) -> Any:
    """A target as plain JSON: a dict where it has attributes (or is a `Target`), else its name; None for none."""
    if wanted is None:
        return None
    if hasattr(wanted, "export"):
        wanted = dict(wanted.export())
    config = as_config(wanted)
    if config is not None:
        return {str(k): _plain(v) for k, v in config.items() if k not in ("tag", "host") and v is not None}
    return str(wanted)


def _plain(value: Any) -> Any:
    if isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str) or not hasattr(value, "__iter__"):
        return str(value)
    return [_plain(item) for item in value]
