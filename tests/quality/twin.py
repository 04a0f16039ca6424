"""Run a script on the CPU, its kernels too, and keep what it computed: `python twin.py SCRIPT FOLDER [spoiled]`.

Every kernel is lowered for TileLang's target `c` and computes there, one thread after another; `cuda` means the CPU.
Tiles and outputs start as a pattern of bits, so that a value nobody wrote shows. FOLDER gets `told.json`
(kernels, launches, comparisons, how the script ended) and the tensors that it names. Races and the speed of a
script do not show here; what it computes does.

`spoiled` adds 1 to whatever a kernel wrote, and lets the script go on after a comparison that fails: what it then
compares, and finds wrong, shows what its comparisons are worth.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import resource
import runpy
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

TARGET = {"kind": "cuda", "arch": "sm_90a"}
#: tiles are local arrays of one C function, and one that is never written holds this pattern, no value of before
COMPILE_FLAGS = ["-O2", "-ftrivial-auto-var-init=pattern"]
#: what only arranges the work of a GPU
ARRANGING = (
    *("annotate_layout", "use_swizzle", "annotate_l2_hit_ratio", "annotate_restrict_buffers", "annotate_padding"),
    *("sync_threads", "sync_warp", "set_max_nreg", "no_set_max_nreg", "disable_warp_group_reg_alloc"),
)


class Told:
    """What the script did, in order."""

    def __init__(self, folder: Path, spoiled: bool) -> None:
        self.folder = folder
        self.spoiled = spoiled
        self.kernels: list[dict[str, Any]] = []
        self.launches: list[dict[str, Any]] = []
        self.compares: list[dict[str, Any]] = []
        self._tensors = 0

    def keep(self, value: Any) -> Any:
        """The value as JSON; a tensor is written to a file of its own."""
        if isinstance(value, torch.Tensor):
            self._tensors += 1
            name = f"{self._tensors}.pt"
            torch.save(value.detach().clone(), self.folder / name)
            return {"tensor": name}
        if isinstance(value, (list, tuple)):
            return [self.keep(item) for item in value]
        return value if isinstance(value, (bool, int, float, str)) or value is None else str(value)

    def write(self, end: str) -> None:
        told = {"end": end, "kernels": self.kernels, "launches": self.launches, "compares": self.compares}
        (self.folder / "told.json").write_text(json.dumps(told), encoding="utf-8")


# ------------------------------------------------------------------------------------------------------ torch's cuda


class CudaIsCpu(TorchFunctionMode):
    """Every function of torch that is told `cuda` does it on the CPU."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.Tensor.cuda:
            return args[0]
        return func(*map(_on_cpu, args), **{k: _on_cpu(v) for k, v in (kwargs or {}).items()})


def _on_cpu(value: Any) -> Any:
    if isinstance(value, (str, torch.device)) and str(value).partition(":")[0] == "cuda":
        return torch.device("cpu")
    return value


def compare_through(told: Told, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    """Keep both sides of a comparison, the tolerance and the answer."""

    @functools.wraps(original)
    def compare(actual: Any, expected: Any, *args: Any, **options: Any) -> Any:
        kept = {"function": name, "actual": told.keep(actual), "expected": told.keep(expected)}
        kept["tolerance"] = [told.keep(args), {k: told.keep(v) for k, v in sorted(options.items())}]
        told.compares.append({**kept, "passed": False})
        try:
            answer = original(actual, expected, *args, **options)
        except AssertionError:
            if told.spoiled:
                return None
            raise
        told.compares[-1]["passed"] = answer is None or bool(answer)
        return answer or told.spoiled

    return compare


# --------------------------------------------------------------------------------------------------------- tilelang


def install(told: Told) -> None:
    """Let tilelang compile every kernel for `c`, whatever the script asks for, and tell of kernels and launches."""
    import tilelang
    import tilelang.engine.lower

    tilelang.disable_cache()
    lower = sys.modules["tilelang.engine.lower"]
    lower.PreLowerSemanticCheck = lambda module: None  # it refuses tiles in registers that are ordinary arrays
    for module in [m for n, m in sys.modules.items() if n.startswith("tilelang") and "language" in n]:
        for name in ARRANGING:
            if name in vars(module):
                setattr(module, name, lambda *args, **options: None)
    jit = sys.modules["tilelang.jit"]
    original = jit.cached

    @functools.wraps(original)
    def cached(func: Any = None, out_idx: Any = None, *args: Any, **options: Any) -> Any:
        kept = {"target": str(options.get("target") or ""), "out_idx": out_idx, "pass_configs": _words(options)}
        told.kernels.append({**kept, **describe(func)})
        kernel = original(
            as_arrays(func), out_idx, target="c", compile_flags=COMPILE_FLAGS, pass_configs={"tirx.disable_vectorize": True}
        )  # fmt: skip
        return Launching(kernel, len(told.kernels) - 1, told)

    for module in [m for n, m in sys.modules.items() if n.startswith("tilelang")]:
        for name in [n for n, value in vars(module).items() if value is original]:
            setattr(module, name, cached)


def _words(options: dict[str, Any]) -> dict[str, str]:
    return {str(getattr(k, "value", k)): str(v) for k, v in (options.get("pass_configs") or {}).items()}


def describe(func: Any) -> dict[str, Any]:
    """What a kernel is: its parameters, and a hash of what it computes."""
    from tvm import ir

    buffers = [func.buffer_map.get(p) for p in func.params]
    params = [
        [str(b.dtype), str(b.shape)] if b is not None else [str(p.dtype)]
        for p, b in zip(func.params, buffers, strict=True)
    ]
    return {"params": params, "hash": str(ir.structural_hash(without_knobs(func), map_free_vars=True))}


def without_knobs(func: Any) -> Any:
    """The function without what may only change its speed: number of threads, stages of a pipeline, its name."""
    from tvm import tirx

    def plain(node: Any) -> Any:
        if isinstance(node, tirx.For) and "num_stages" in node.annotations:
            kept = {k: v for k, v in node.annotations.items() if k != "num_stages"}
            return tirx.For(
                node.loop_var, node.min, node.extent, node.kind, node.body, node.thread_binding, kept or None
            )
        if isinstance(node, tirx.SBlock) and "tl.launch_threads" in node.annotations:
            kept = {k: v for k, v in node.annotations.items() if k != "tl.launch_threads"}
            return tirx.SBlock(
                node.iter_vars, node.reads, node.writes, node.name_hint, node.body, node.init,
                node.alloc_buffers, node.match_buffers, kept,
            )  # fmt: skip
        return None

    body = tirx.stmt_functor.ir_transform(func.body, None, plain, ["tirx.For", "tirx.SBlock"])
    return func.with_body(body).without_attr("global_symbol")


def as_arrays(func: Any) -> Any:
    """The function with all its tiles as local arrays: `c` has neither shared memory nor fragments."""
    from tvm import ir

    text = ir.save_json(func)
    for scope in ("shared.dyn", "shared", "local.fragment"):
        text = text.replace(f'"{scope}"', '"local"')
    return ir.load_json(text)


class Launching:
    """A compiled kernel whose calls are told, with every tensor as it is afterwards."""

    def __init__(self, kernel: Any, number: int, told: Told) -> None:
        self._kernel, self._number, self._told = kernel, number, told

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kernel, name)

    def __call__(self, *args: Any, **options: Any) -> Any:
        before = [a.clone() if isinstance(a, torch.Tensor) else None for a in args] if self._told.spoiled else []
        result = self._kernel(*args, **options)
        if self._told.spoiled:
            written = [a for a, b in zip(args, before, strict=True) if b is not None and not torch.equal(a, b)]
            for tensor in [*written, *(result if isinstance(result, (list, tuple)) else [result])]:
                if tensor is not None:
                    tensor.add_(1)
        kept = {"args": self._told.keep(args), "result": self._told.keep(result)}
        self._told.launches.append({"kernel": self._number, **kept})
        return result


# ------------------------------------------------------------------------------------------------------- the script


@contextlib.contextmanager
def cpu_instead_of_cuda(told: Told) -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = True  # NaN, or the largest integer
    torch.manual_seed(0)
    torch.set_num_threads(1)
    for name in ("synchronize", "manual_seed", "manual_seed_all", "empty_cache", "set_device"):
        setattr(torch.cuda, name, lambda *args: None)
    torch.cuda.is_available = lambda: True
    torch.testing.assert_close = compare_through(told, "assert_close", torch.testing.assert_close)
    torch.allclose = compare_through(told, "allclose", torch.allclose)
    torch.equal = compare_through(told, "equal", torch.equal)
    with CudaIsCpu():
        yield


def main() -> None:
    script, folder = os.path.abspath(sys.argv[1]), Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    told = Told(folder, spoiled="spoiled" in sys.argv[3:])
    os.environ["TILELANG_DEFAULT_TARGET"] = json.dumps(TARGET)
    install(told)
    sys.argv = [script]
    sys.path[0] = os.path.dirname(script)
    end = "returned"
    try:
        with cpu_instead_of_cuda(told):
            runpy.run_path(script, run_name="__main__")
    except SystemExit as error:
        end = f"exited {error.code or 0}"
    except BaseException as error:  # noqa: BLE001 - however it ends is told
        end = f"{type(error).__name__}: {error}"[:500]
        traceback.print_exc()
    told.write(end)


if __name__ == "__main__":
    if resource.getrlimit(resource.RLIMIT_STACK)[0] != resource.RLIM_INFINITY:
        # tiles lie on the stack of the main thread, whose size is fixed when the process starts
        resource.setrlimit(resource.RLIMIT_STACK, (resource.getrlimit(resource.RLIMIT_STACK)[1],) * 2)
        os.execv(sys.executable, [sys.executable, *sys.argv])
    main()
