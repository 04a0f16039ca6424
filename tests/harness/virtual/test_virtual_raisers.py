"""The error of a virtual launch is recorded as raised where tilelang's own runtime raises it."""

from __future__ import annotations

import linecache

import pytest

pytestmark = pytest.mark.tilelang

SCRIPT = """
import torch, tilelang
import tilelang.language as T

@tilelang.jit
def build(n):
    @T.prim_func
    def scale(X: T.Tensor((n, 64), "float16"), Y: T.Tensor((n, 64), "float16")):
        with T.Kernel(n, threads=64) as bx:
            for j in T.Parallel(64):
                Y[bx, j] = X[bx, j] * 2
    return scale

kernel = build(32)
x = torch.zeros(32, 64, device="cuda", dtype=torch.float16)
y = torch.empty_like(x)
wide = torch.zeros(64, 32, device="cuda", dtype=torch.float16)
for call in (
    lambda: kernel(x),
    lambda: kernel(x.view(-1), y),
    lambda: kernel(x[:31], y),
    lambda: kernel(x.float(), y),
    lambda: kernel(wide.T, y),
    lambda: kernel(x.cpu(), y),
    lambda: kernel(None, y),
    lambda: kernel(3, y),
    lambda: kernel([1.0], y),
):
    try:
        call()
    except (RuntimeError, ValueError):
        pass
"""
FIRST_CALL = 19
HOST_CODE = "python/tvm_ffi/cython/function.pxi"


def test_every_wrong_call_ends_in_the_frame_of_the_runtime(device):
    run = device(SCRIPT)
    records = [e["error"] for e in run.of("error")]
    last = [record["frames"][-1] for record in records]
    assert [frame["file"].endswith("tilelang/jit/adapter/tvm_ffi.py") for frame in last] == [True] + [False] * 8
    assert [frame["file"] for frame in last[1:]] == [HOST_CODE] * 8
    users = [[f["line"] for f in record["frames"] if f["user"]][-1] for record in records]
    assert users == list(range(FIRST_CALL, FIRST_CALL + 9))
    assert {record["phase"] for record in records} == {"call"}
    assert all(frame["line"] and frame["text"].startswith("raise") for frame in last)


def test_the_frame_shows_the_raising_line_of_the_installed_package(harness):
    raisers = harness("virtual.raisers")
    for raiser in (raisers.COUNT, raisers.OUTPUT, raisers.cython("forward", "Unsupported tensor type")):
        (frame,) = getattr(raisers.raised_in(ValueError("x"), raiser), harness("errors").RAISED_AT)
        assert linecache.getline(frame["file"], frame["line"]).strip() == frame["text"]
        assert frame["text"].startswith("raise ValueError(")
