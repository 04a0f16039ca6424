"""Kernels of the virtual device: compiled for real where that is possible, launched by nobody.

A launch checks its arguments as the real one would, is recorded, and answers outputs of the right shape and dtype. Their values
are made up, unless the CPU twin computes them (`computed.py`).
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import torch

from ..outputs import returned
from . import arguments, computed, cython_arguments
from .raisers import OUTPUT, raised_in
from .signature import Binding, Parameter, Signature
from .signature import signature as read_signature
from .tensors import META, Memory, VirtualTensor, taint, without_values

_launches = itertools.count(1)

#: launches of one kernel that are recorded one by one; a loop may launch thousands
RECORDED = 200


def wrap_kernel(real: Any, func: Any, out_idx: Any, context: Any, kernel_id: str) -> Any:
    """The kernel object handed to the script.

    `real` is the compiled `JITKernel`, or None if there is none. A kernel for another target than CUDA is returned as
    it is and runs for real; in twin mode what it computed is replaced by what the twin computes.
    """
    elsewhere = real is not None and _kind(real.target) != "cuda"
    if elsewhere and context.twin is None:
        return real
    kernel = real if real is not None else _uncompiled(func, out_idx, context)
    outputs = _outputs(real.adapter.result_idx if real is not None else out_idx, len(func.params))
    signature = read_signature(func, outputs)
    signature.allocates = bool(getattr(kernel.adapter, "_ffi_callee_allocated_output_abi", True))
    compute = (
        None if context.twin is None else functools.partial(computed.of(context).launch, kernel_id, func, signature)
    )
    told = functools.partial(_wrote, context, kernel)
    if elsewhere and compute is not None:
        run = _replaced(kernel.torch_function, compute, told)
    else:
        run = _imitated(signature, kernel.execution_backend == "cython", compute, told)
    launch = _launcher(signature, kernel.execution_backend == "cython", context, kernel_id, run, compute is None)
    kernel.adapter.func = launch
    kernel.torch_function = launch
    return kernel


def _kind(target: Any) -> str:
    return str(target.kind.name) if hasattr(target, "kind") else str(target)


def _outputs(out_idx: Any, count: int) -> list[int]:
    if out_idx is None:
        return []
    indices = [out_idx] if isinstance(out_idx, int) else list(out_idx)
    return [int(i) % count for i in indices]


#: runs a launch of this id (None where nothing is told of it) and returns what the script gets
Run = Callable[[tuple[Any, ...], str | None], Any]


def _launcher(
    kernel: Signature, cython: bool, context: Any, kernel_id: str, run: Run, made_up: bool
) -> Callable[..., Any]:
    """A launch that is told. `made_up`: nothing will compute its values."""
    numbers = itertools.count(1)

    def launch(*args: Any, **options: Any) -> Any:
        _reject_keywords(options, cython)
        if next(numbers) > RECORDED:
            context.virtual(f"launches of {kernel.kernel} after the first {RECORDED}")
            return run(args, None)
        launch_id = f"l{next(_launches)}"
        if made_up:
            context.virtual("kernel launches")
        context.emit(
            "launch.begin",
            launch=launch_id,
            kernel=kernel_id,
            args=[_describe(kernel.parameters[i], a) for i, a in zip(kernel.inputs, args, strict=False)],
            at=context.user_frame(),
            virtual=True,
        )
        ok = False
        try:
            result = run(args, launch_id)
            ok = True
        finally:
            context.emit("launch.end", launch=launch_id, kernel=kernel_id, ok=ok, virtual=True)
        return result

    return launch


def _wrote(context: Any, kernel: Any, launch_id: str, args: tuple[Any, ...], results: list[Any]) -> None:
    """A launch was computed, also one that a profiler asks for and no call of the kernel."""
    if context.capture is not None and "_triage_id" in kernel.__dict__:
        with context.guarded("remember what a launch wrote", kernel.__dict__["_triage_id"]):
            context.capture.note(launch_id, kernel.__dict__, args, results)


def _imitated(
    kernel: Signature, cython: bool, compute: Callable[..., bool] | None, told: Callable[..., None]
) -> Run:  # fmt: skip
    """A launch on the virtual device, with the checks and the outputs of the real one."""
    check = cython_arguments.check_cython if cython else arguments.check_tvm_ffi

    def run(args: tuple[Any, ...], launch_id: str | None) -> Any:
        binding = check(kernel, args)
        results = [_allocate(kernel.parameters[i], binding) for i in kernel.outputs]
        if compute is None or not compute(launch_id, args, results):
            for argument in (*args, *results):  # after a launch any of them may have been written
                taint(argument)
        elif launch_id is not None:
            told(launch_id, args, results)
        return results[0] if len(results) == 1 else results

    return run


def _replaced(real: Callable[..., Any], compute: Callable[..., bool], told: Callable[..., None]) -> Run:
    """A real launch on the host, whose own checks and outputs count, with the values that the twin computes from the same arguments."""

    def run(args: tuple[Any, ...], launch_id: str | None) -> Any:
        before = computed.copied(args)
        answer = real(*args)
        results = returned(answer)
        mine = [torch.empty_like(result) for result in results]
        if compute(launch_id, before, mine):
            for theirs, value in zip((*args, *results), (*before, *mine), strict=True):
                if isinstance(theirs, torch.Tensor):
                    theirs.detach().copy_(value)
            if launch_id is not None:
                told(launch_id, args, results)
        else:
            for value in (*args, *results):
                taint(value)
        return answer

    return run


def _reject_keywords(options: dict[str, Any], cython: bool) -> None:
    known = {"stream", "skip_tensor_validation"} if cython else set()
    for name in options:
        if name not in known:
            raise TypeError(f"func() got an unexpected keyword argument {name!r}")


def _describe(parameter: Parameter, value: Any) -> dict[str, Any]:
    if isinstance(value, torch.Tensor):
        return {
            "name": parameter.name,
            "shape": list(value.shape),
            "dtype": str(value.dtype).removeprefix("torch."),
            "stride": list(value.stride()),
            "device": str(value.device),
        }
    plain = value if isinstance(value, (int, float, bool, type(None))) else type(value).__name__
    return {"name": parameter.name, "value": plain}


def _allocate(parameter: Parameter, binding: Binding) -> VirtualTensor:
    """Memory for an output of the kernel: zeros while it is small; a size that no argument tells is taken to be one."""
    sizes = [binding.evaluate(dimension) for dimension in parameter.shape]
    shape = [1 if size is None else size for size in sizes]
    if not shape:
        text = f"Cannot create output tensor (name={parameter.name}) - 0-dimensional tensors are not supported. "
        raise raised_in(ValueError(text + "Expected shape: []"), OUTPUT)
    dtype = parameter.torch_dtype
    if parameter.bits < 8:
        shape[-1] = shape[-1] * parameter.bits // (dtype.itemsize * 8)
    payload = torch.empty(shape, dtype=dtype, device=META) if without_values(shape, dtype) else _zeros(shape, dtype)
    output = VirtualTensor(payload, Memory(tainted=False))
    output.guessed = None in sizes
    return output


def _zeros(shape: list[int], dtype: torch.dtype) -> torch.Tensor:
    return (
        torch.zeros(shape, dtype=torch.uint8).repeat_interleave(dtype.itemsize, -1).view(dtype)
        if shape[-1]
        else (torch.empty(shape, dtype=dtype))
    )


def _uncompiled(func: Any, out_idx: Any, context: Any) -> Any:
    """A `JITKernel` of a kernel that was not compiled: it answers questions about its signature, and launches."""
    from tilelang.engine.param import KernelParam
    from tilelang.jit.adapter import BaseKernelAdapter
    from tilelang.jit.kernel import JITKernel
    from tvm.target import Target

    class Adapter(BaseKernelAdapter):
        def _convert_torch_func(self) -> Any:
            return None

        def get_kernel_source(self, kernel_only: bool = True) -> str:
            return ""

        def get_host_source(self) -> str:
            return ""

    params = [
        KernelParam.from_buffer(func.buffer_map[p]) if p in func.buffer_map else KernelParam.from_var(p)
        for p in func.params
    ]
    kernel = JITKernel.__new__(JITKernel)
    kernel.prim_func = func
    kernel.adapter = Adapter(None, params, _outputs(out_idx, len(params)))
    kernel.execution_backend = "tvm_ffi"
    kernel.target = Target(context.target)
    kernel.target_host = None
    kernel.pass_configs = {}
    kernel.compile_flags = None
    kernel.verbose = False
    kernel.artifact = None
    return kernel
