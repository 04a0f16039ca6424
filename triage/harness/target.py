"""Which device the script is run for: the architecture, its target, and why (mode "virtual")."""

from __future__ import annotations

import ast
import json
import os
import re
from typing import Any

DEFAULT = "sm_90a"
VARIABLE = "TILELANG_DEFAULT_TARGET"
ARCH = re.compile(r"\bsm_\d+[a-z]?\b")
#: names a target may have that leave the architecture open; on a machine with a GPU it would be asked
OPEN = ("auto", "cuda")
#: values of `arch_source` that say the user asked for the architecture
ARGUMENT = ("argument", "--arch")


def prepare(context: Any) -> None:
    """Before the script: keep compile results out of the user's caches, and choose the architecture."""
    if context.mode != "virtual":
        # what the script compiles must be compiled here, not fetched: a hit would hide its warnings
        os.environ["TILELANG_CACHE_DIR"] = os.path.join(os.path.abspath(context.spec["dir"]), "tilelang-cache")
        return
    os.environ["TILELANG_DISABLE_CACHE"] = "1"
    os.environ["TILELANG_AUTO_TUNING_DISABLE_CACHE"] = "1"
    if context.spec.get("arch_source") in ARGUMENT:
        context.why = f"--arch {context.arch}"
        return
    arch, line = named_by_script(context.spec.get("script"))
    if arch is not None:
        _choose(context, arch, f"the script names it (line {line})")
        return
    _from_environment(context)


def pin(context: Any) -> None:
    """The script is about to import tilelang: fix the default target, and say which device it will find."""
    if context.mode != "virtual":
        context.emit("device", mode="real", arch=None, why="the devices of this machine")
        return
    if context.why is None or not context.why.startswith(("--arch", "the script")):
        _from_environment(context)
    context.requested_default = os.environ.get(VARIABLE)
    if is_open(context.requested_default):
        os.environ[VARIABLE] = json.dumps(context.target)
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


def named_by_script(path: str | None) -> tuple[str | None, int]:
    """The one architecture that the targets written down in a script name, and its line; None if none or several."""
    try:
        with open(path or "", "rb") as file:
            tree = ast.parse(file.read())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return None, 0
    constants = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    found: dict[str, int] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            for keyword in node.keywords:
                if keyword.arg == "target":
                    value = keyword.value
                    value = constants.get(value.id, value) if isinstance(value, ast.Name) else value
                    for text in (n.value for n in ast.walk(value) if isinstance(n, ast.Constant)):
                        if isinstance(text, str) and (match := ARCH.search(text)):
                            found.setdefault(match[0], keyword.value.lineno)
    return next(iter(found.items())) if len(found) == 1 else (None, 0)


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
        return context.target if wanted is not None else None
    forced = context.spec.get("arch_source") in ARGUMENT
    return {**(plain(wanted) or {}), **context.target} if forced and is_cuda(wanted) else wanted


def is_cuda(wanted: Any) -> bool:
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
    return {"kind": "cuda"} if wanted == "cuda" else str(wanted)


def _plain(value: Any) -> Any:
    if isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str) or not hasattr(value, "__iter__"):
        return str(value)
    return [_plain(item) for item in value]
