"""Kernels that do not compile, each for a reason that a switch takes away, or none does. A failure keeps no other from being tried."""

import contextlib

import tilelang
import tilelang.language as T


@T.prim_func
def unvectorized(A: T.Tensor((256, 256), "float16"), B: T.Tensor((256, 256), "float16")):
    with T.Kernel(4, threads=128) as bx:
        a = T.alloc_shared((64, 32), "float16")
        c = T.alloc_fragment((64, 32), "float16")
        for k in T.Pipelined(8, num_stages=3):
            T.copy(A[bx * 64, k * 32], a)
            T.copy(a, c)
            T.copy(c, B[bx * 64, k * 32])


@T.prim_func
def two_orders(A: T.Tensor((256, 256), "float16"), B: T.Tensor((256, 256), "float16")):
    with T.Kernel(4, threads=128) as bx:
        a = T.alloc_shared((64, 32), "float16")
        c = T.alloc_fragment((64, 32), "float16")
        for k in T.Pipelined(8, order=[0, 1], stage=[0, 1]):
            T.copy(A[bx * 64, k * 32], a)
            T.copy(a, c)
            T.copy(c, B[bx * 64, k * 32])
        for n in T.Pipelined(8, order=[0, 1], stage=[0, 1]):
            T.copy(B[bx * 64, n * 32], a)
            T.copy(a, c)
            T.copy(c, B[bx * 64, n * 32])


@T.prim_func
def handover(A: T.Tensor((256, 64), "float16"), B: T.Tensor((256, 64), "float16")):
    with T.Kernel(4, threads=128) as bx:
        tile = T.alloc_shared((64, 64), "float16")
        ready = T.alloc_barrier(128)
        T.copy(A[bx * 64, 0], tile)
        T.barrier_arrive(ready)
        T.barrier_wait(ready, 0)
        T.copy(tile, B[bx * 64, 0])


@T.prim_func
def persistent(
    A: T.Tensor((256, 256), "float16"), B: T.Tensor((256, 256), "float16"), C: T.Tensor((256, 256), "float16")
):
    with T.Kernel(8, threads=128) as worker:
        a = T.alloc_shared((64, 32), "float16")
        b = T.alloc_shared((32, 64), "float16")
        c = T.alloc_fragment((64, 64), "float32")
        turn = T.alloc_local((1,), "int32")
        turn[0] = 0
        while turn[0] < 2:
            T.clear(c)
            for part in T.Pipelined(8, num_stages=2):
                T.copy(A[worker % 4 * 64, part * 32], a)
                T.copy(B[part * 32, turn[0] * 64], b)
                T.gemm(a, b, c)
            T.copy(c, C[worker % 4 * 64, turn[0] * 64])
            turn[0] += 1


@T.prim_func
def warps(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 128), "float16"), C: T.Tensor((64, 128), "float32")):
    with T.Kernel(1, threads=224) as _:
        a = T.alloc_shared((64, 64), "float16")
        b = T.alloc_shared((64, 128), "float16")
        c = T.alloc_fragment((64, 128), "float32")
        T.clear(c)
        T.copy(A, a)
        T.copy(B, b)
        T.gemm(a, b, c)
        T.copy(c, C)


@T.prim_func
def too_small(table: T.Tensor((4, 256, 64), "float32"), picked: T.Tensor((256, 64), "float32")):
    with T.Kernel(4, threads=128) as part:
        rows = T.alloc_shared((64, 16), "float32")
        T.copy(table[part, 0:64, 0:64], rows)
        T.copy(rows, picked[part * 64, 0])


@T.prim_func
def odd_tile(A: T.Tensor((100, 64), "float16"), B: T.Tensor((64, 128), "float16"), C: T.Tensor((100, 128), "float32")):
    with T.Kernel(1, threads=128) as _:
        a = T.alloc_shared((100, 64), "float16")
        b = T.alloc_shared((64, 128), "float16")
        c = T.alloc_fragment((100, 128), "float32")
        T.clear(c)
        T.copy(A, a)
        T.copy(B, b)
        T.gemm(a, b, c)
        T.copy(c, C)


AMPERE = {"kind": "cuda", "arch": "sm_80"}

for kernel, options in (
    (unvectorized, {"target": AMPERE, "pass_configs": {"tirx.disable_vectorize": True}}),
    (two_orders, {}),
    (handover, {"target": AMPERE}),
    (persistent, {}),
    (warps, {}),
    (too_small, {}),
    (odd_tile, {}),
):
    with contextlib.suppress(Exception):
        tilelang.compile(kernel, **options)
