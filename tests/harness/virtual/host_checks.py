"""The checks that tilelang's own host code makes, asked without a GPU: the reference for `virtual.arguments`.

A kernel is compiled with a stand-in for nvcc, and its host function is called with tensors that claim, through DLPack,
to lie on `cuda:0`. Host code reads their shapes only; a call that passes every check ends at the CUDA driver.
"""

from __future__ import annotations

import ctypes
import json
import sys
from typing import Any

import torch
import tvm_ffi

CODES = {
    torch.float32: (2, 32),
    torch.float16: (2, 16),
    torch.float64: (2, 64),
    torch.bfloat16: (4, 16),
    torch.int64: (0, 64),
    torch.int32: (0, 32),
    torch.int8: (0, 8),
    torch.uint8: (1, 8),
    torch.bool: (6, 8),
}


class Device(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int), ("index", ctypes.c_int))


class DataType(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class Managed(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", Device),
        ("ndim", ctypes.c_int),
        ("dtype", DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    )


_kept: list[Any] = []


class Claim:
    """An array that claims to lie on a device; its address points nowhere."""

    def __init__(self, tensor: torch.Tensor, device: int) -> None:
        rank = max(tensor.dim(), 1)
        shape = (ctypes.c_int64 * rank)(*tensor.shape)
        strides = (ctypes.c_int64 * rank)(*tensor.stride())
        code, bits = CODES[tensor.dtype]
        self.managed = Managed(
            data=0x7F0000000000,
            device=Device(device, 0),
            ndim=tensor.dim(),
            dtype=DataType(code, bits, 1),
            shape=shape,
            strides=strides,
        )
        self.device = device
        _kept.append((self.managed, shape, strides))

    def __dlpack_device__(self) -> tuple[int, int]:
        return (self.device, 0)

    def __dlpack__(self, **options: Any) -> Any:
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self.managed), b"dltensor", None)


def claim(value: Any) -> Any:
    """A tensor description `("cuda"|"cpu", shape, dtype, strides)` as an FFI tensor; other values unchanged."""
    if not isinstance(value, list):
        return value
    return tvm_ffi.from_dlpack(Claim(plain(value), 2 if value[0] == "cuda" else 1))


def plain(value: list[Any]) -> torch.Tensor:
    _, shape, dtype, strides = value
    if strides is None:
        return torch.empty(shape, dtype=getattr(torch, dtype), device="meta")
    return torch.empty_strided(shape, strides, dtype=getattr(torch, dtype), device="meta")


def answers(kernel: Any, calls: list[list[Any]]) -> list[str]:
    """What the host code says to each call: the message, or "" for a call that it accepts."""
    executable = kernel.adapter._get_executable()
    said = []
    for arguments in calls:
        try:
            executable(*(claim(a) for a in arguments))
        except Exception as error:  # noqa: BLE001 - whatever it raises is what is asked
            text = str(error).splitlines()[0]
            said.append("" if "CUDA" in text and "driver" in text else f"{type(error).__name__}: {text}")
        else:
            said.append("")
    return said


def main() -> None:
    """Read `{"calls": …}` from stdin, compile `kernel()` of the module given, print the answers as JSON."""
    tvm_ffi.register_global_func("tilelang_callback_cuda_compile", lambda *args: b"", override=True)
    namespace: dict[str, Any] = {}
    with open(sys.argv[1], encoding="utf-8") as file:
        exec(compile(file.read(), sys.argv[1], "exec", dont_inherit=True), namespace)
    print("ANSWERS" + json.dumps(answers(namespace["kernel"], json.load(sys.stdin))))


if __name__ == "__main__":
    main()
