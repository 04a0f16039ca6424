"""One lowering experiment: load a PrimFunc, change it, take it as far as asked, and say what happened.

Runs in a fork of the template (`serve.py`), which has tilelang imported. `perform` returns the result as plain JSON
and raises nothing that the subject's program may cause.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import os
import time
from typing import Any

from . import errors, inferred, layouts, tir, units

Result = dict[str, Any]
OPERATIONS = ("units", "layouts", "lower", "codegen", "device")
#: passes that are Python functions of tilelang all go by this name
ANONYMOUS = "pass_fn"


def perform(request: dict[str, Any], files: Any) -> Result:
    """`request` as in `serve.py`; `files` is the `UserFiles` that tells whose a file is."""
    start = time.monotonic()
    result: Result = {"id": request["id"], "status": "succeeded", "error": None, "pass": None, "facts": {}}
    try:
        func = _load(request)
        if request["op"] == "units":
            result["facts"]["units"] = units.Reader(func, files.is_user).read()
            result["facts"]["name"] = (
                str(func.attrs["global_symbol"]) if func.attrs and "global_symbol" in func.attrs else None
            )
        else:
            func = tir.apply(func, request.get("changes", []))
    except Exception as error:  # noqa: BLE001 - whatever the IR library raises: the experiment could not be made
        return result | {
            "status": "infra_error",
            "why": f"{type(error).__name__}: {error}",
            "seconds": time.monotonic() - start,
        }
    if request["op"] == "layouts":
        result |= _layouts(func, request)
    elif request["op"] != "units":
        result |= compile(func, request, files)
    return result | {"seconds": round(time.monotonic() - start, 4)}


def _load(request: dict[str, Any]) -> Any:
    with open(request["primfunc"], encoding="utf-8") as file:
        text = file.read()
    return layouts.load(tir.edit_json(text, request.get("changes", [])))


def _layouts(func: Any, request: dict[str, Any]) -> Result:
    try:
        return {"facts": {"layouts": inferred.infer(func, _backend(request), request.get("pass_configs") or {})}}
    except Exception as error:  # noqa: BLE001 - a kernel that does not lower so far has no layouts
        return {"status": "failed", "why": f"{type(error).__name__}: {error}"}


def compile(func: Any, request: dict[str, Any], files: Any) -> Result:
    """Take a PrimFunc through the lowering, the code generation or the device compiler, as `op` says."""
    from tilelang import tvm

    stack: list[str] = []
    done: list[list[Any]] = []
    where = {"phase": "lower"}
    watch = _instrument(stack, done)
    try:
        context = _backend(request)
        with (
            tvm.transform.PassContext(opt_level=3, config=request.get("pass_configs") or {}, instruments=[watch]),
            context.target,
        ):
            _lower(func, context, request["op"], where)
    except Exception as error:  # noqa: BLE001 - the fault under examination
        record = errors.record(error, files, where["phase"], None, False)
        if record["frames"][-1]["file"] == __file__:
            return {"status": "infra_error", "why": f"{record['type']}: {record['message']}"}
        name = _pass_name(stack, record["frames"])
        if request.get("trace"):
            _write_trace(request["dir"], watch.before, [name for name, _ in done], name)
        return {"status": "failed", "error": record | {"pass_name": name}, "pass": name, "facts": _facts(done, where)}
    return {"status": "succeeded", "facts": _facts(done, where)}


def _facts(done: list[list[Any]], where: dict[str, str]) -> dict[str, Any]:
    """How far it came: the passes that finished, each with a digest of the program after it; `source` is a digest of the
    generated source, where it came so far."""
    facts: dict[str, Any] = {"passes": len(done), "phase": where["phase"], "trace": done}
    return facts | ({"source": where["source"]} if "source" in where else {})


def _lower(func: Any, context: Any, op: str, where: dict[str, str]) -> None:
    lower = importlib.import_module("tilelang.engine.lower")  # `tilelang.engine.lower` is also a function of that name
    host, device, *_ = lower.lower_to_host_device_ir(func, context)
    if op == "lower":
        return
    where["phase"] = "codegen" if op == "codegen" else "device"
    generate = lower.device_codegen if op == "device" else lower.device_codegen_without_compile
    source = _source_of(generate(device, context))
    if source is not None:
        where["source"] = hashlib.sha256(source.encode()).hexdigest()
    if context.execution_backend.enable_host_codegen:  # as the JIT does for backends whose host code is made here
        where["phase"] = "codegen"
        lower.host_codegen(host, context)


def _backend(request: dict[str, Any]) -> Any:
    """The backend context that the JIT would make; `target` is what the script gave, None for the default."""
    from tilelang.backend.module import create_backend_context

    target = request.get("target")
    if target is None:
        target = os.environ.get("TILELANG_DEFAULT_TARGET") or "auto"
    if isinstance(target, str) and target.lstrip().startswith("{"):
        target = json.loads(target)
    return create_backend_context(target, None, request.get("backend") or "auto")


def _source_of(module: Any) -> str | None:
    """The source that a module was generated as; None where the backend keeps none."""
    with contextlib.suppress(Exception):
        return str(module.inspect_source())
    return None


def _instrument(stack: list[str], done: list[list[Any]]) -> Any:
    """Keeps the passes under way in `stack`, where one that raises stays, and in `done` the finished outermost ones, each
    with a digest of the program after it."""
    from tvm.ir.instrument import pass_instrument

    @pass_instrument
    class Watch:
        #: the module before the outermost pass under way
        before: Any = None

        def run_before_pass(self, module: Any, info: Any) -> None:
            if not stack:
                self.before = module
            stack.append(str(info.name))

        def run_after_pass(self, module: Any, info: Any) -> None:
            if stack:
                stack.pop()
            if not stack:
                done.append([str(info.name), _digest(module)])

    return Watch()


def _digest(module: Any) -> str | None:
    """A hash of what a program is, blind to names and source places, and the same in every process. It takes 0.1 ms."""
    from tilelang import tvm

    with contextlib.suppress(Exception):  # a node that cannot be hashed must not become the fault
        return f"{tvm.ir.structural_hash(module, map_free_vars=True) & (1 << 64) - 1:016x}"
    return None


def _write_trace(directory: str, before: Any, done: list[str], failed: str | None) -> None:
    """The IR before the pass that failed, and the passes in their order."""
    if before is not None:
        with open(os.path.join(directory, "before.tir"), "w", encoding="utf-8") as file:
            file.write(before.script())
    with open(os.path.join(directory, "passes.txt"), "w", encoding="utf-8") as file:
        file.writelines(f"{name}\n" for name in [*done, f"{failed or 'code generation'}  <- fails"])


def _pass_name(stack: list[str], frames: list[dict[str, Any]]) -> str | None:
    """The pass that raised. One written in Python is named by its file, because its registered name says nothing."""
    if not stack:
        return None
    if stack[0] != ANONYMOUS:
        return stack[0]
    for frame in frames:
        if frame["function"] == ANONYMOUS:
            return os.path.splitext(os.path.basename(frame["file"]))[0]
    return stack[0]
