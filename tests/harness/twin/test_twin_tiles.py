"""Each tile operator against NumPy."""

import ml_dtypes
import numpy as np
import pytest
import tilelang.language as T

NUMPY = {"bfloat16": ml_dtypes.bfloat16, "float8_e4m3fn": ml_dtypes.float8_e4m3fn, "float8_e5m2": ml_dtypes.float8_e5m2}


def numpy_type(name):
    return np.dtype(NUMPY.get(name, name))


# ------------------------------------------------------------------------------------------------ copy


def copy_kernel(rows, columns, tile_rows, tile_columns, source, middle, target):
    @T.prim_func
    def main(A: T.Tensor((rows, columns), source), B: T.Tensor((rows, columns), target)):
        with T.Kernel(T.ceildiv(columns, tile_columns), T.ceildiv(rows, tile_rows), threads=128) as (bx, by):
            shared = T.alloc_shared((tile_rows, tile_columns), middle)
            T.copy(A[by * tile_rows, bx * tile_columns], shared)
            T.copy(shared, B[by * tile_rows, bx * tile_columns])

    return main


@pytest.mark.parametrize("shape", [(64, 64), (50, 70), (1, 1), (33, 128)])
def test_copy_clips_tails_and_says_nothing_of_them(compute, random, shape):
    a = random.standard_normal(shape).astype(np.float32)
    got, happenings = compute(copy_kernel(*shape, 32, 32, "float32", "float32", "float32"), a, out=(shape, np.float32))
    assert np.array_equal(got, a)
    assert happenings == []


@pytest.mark.parametrize("target", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int32", "int8", "float64"])
def test_copy_converts(compute, random, target):
    a = np.clip(random.standard_normal((32, 32)) * 40, -120, 120).astype(np.float32)
    got, _ = compute(copy_kernel(32, 32, 32, 32, "float32", "float32", target), a, out=((32, 32), numpy_type(target)))
    assert got.tobytes() == a.astype(numpy_type(target)).tobytes()


def test_narrow_floats_saturate_and_integers_wrap(compute):
    a = np.array([[1e6, -1e6, 448.0, 0.0]], np.float32)
    got, _ = compute(
        copy_kernel(1, 4, 1, 4, "float32", "float32", "float8_e4m3fn"), a, out=((1, 4), NUMPY["float8_e4m3fn"])
    )
    assert got.astype(np.float32).tolist() == [[448.0, -448.0, 448.0, 0.0]]
    b = np.array([[300, -1, 255, 128]], np.int32)
    got, _ = compute(copy_kernel(1, 4, 1, 4, "int32", "int32", "int8"), b, out=((1, 4), np.int8))
    assert got.tolist() == [[44, -1, -1, -128]]


def test_copy_between_regions_of_different_rank(compute, random):
    @T.prim_func
    def main(A: T.Tensor((2, 3, 16, 8), "float32"), B: T.Tensor((3, 2, 16, 8), "float32")):
        with T.Kernel(2, 3, threads=32) as (x, y):
            tile = T.alloc_shared((16, 8), "float32")
            T.copy(A[x, y, 0:16, 0:8], tile)
            T.copy(tile, B[y, x, :, :])

    a = random.standard_normal((2, 3, 16, 8)).astype(np.float32)
    got, _ = compute(main, a, out=((3, 2, 16, 8), np.float32))
    assert np.array_equal(got, a.transpose(1, 0, 2, 3))


def test_a_safe_value_fills_the_tail(compute, random):
    @T.prim_func
    def main(A: T.Tensor((20,), "float32"), B: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32):
            T.annotate_safe_value({A: -1})
            shared = T.alloc_shared((32,), "float32")
            T.copy(A[0], shared)
            T.copy(shared, B)

    a = random.standard_normal(20).astype(np.float32)
    got, happenings = compute(main, a, out=((32,), np.float32))
    assert np.array_equal(got, np.append(a, np.full(12, -1, np.float32)))
    assert happenings == []


def test_a_part_that_was_not_filled_is_noticed_where_it_reaches_global_memory(compute, random):
    @T.prim_func
    def main(A: T.Tensor((16,), "float32"), B: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32):
            shared = T.alloc_shared((32,), "float32")
            local = T.alloc_fragment((32,), "float32")
            T.copy(A, shared[0:16])
            T.copy(shared, local)
            T.copy(local, B)

    a = random.standard_normal(16).astype(np.float32)
    got, happenings = compute(main, a, out=((32,), np.float32))
    assert np.array_equal(got[:16], a)
    assert np.isnan(got[16:]).all()
    (happening,) = happenings
    assert (happening.kind, happening.buffer, happening.indices, happening.count) == (
        "uninitialized-read",
        "local",
        (16,),
        16,
    )


# ------------------------------------------------------------------------------------------------ gemm


def gemm_kernel(m, n, k, dtype, accumulator, turn_a=False, turn_b=False, clear_first=True):
    shape_a = (k, m) if turn_a else (m, k)
    shape_b = (n, k) if turn_b else (k, n)

    @T.prim_func
    def main(A: T.Tensor(shape_a, dtype), B: T.Tensor(shape_b, dtype), C: T.Tensor((m, n), accumulator)):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared(shape_a, dtype)
            b = T.alloc_shared(shape_b, dtype)
            c = T.alloc_fragment((m, n), accumulator)
            if clear_first:
                T.clear(c)
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c, transpose_A=turn_a, transpose_B=turn_b)
            T.gemm(a, b, c, transpose_A=turn_a, transpose_B=turn_b)
            T.copy(c, C)

    return main


@pytest.mark.parametrize("turn_a", [False, True])
@pytest.mark.parametrize("turn_b", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn"])
def test_gemm_adds_in_fp32(compute, random, dtype, turn_a, turn_b):
    m, n, k = 64, 32, 48
    a = random.standard_normal((k, m) if turn_a else (m, k)).astype(numpy_type(dtype))
    b = random.standard_normal((n, k) if turn_b else (k, n)).astype(numpy_type(dtype))
    got, happenings = compute(gemm_kernel(m, n, k, dtype, "float32", turn_a, turn_b), a, b, out=((m, n), np.float32))
    left, right = (x.astype(np.float64) for x in (a.T if turn_a else a, b.T if turn_b else b))
    assert np.allclose(got, 2 * left @ right, rtol=1e-5, atol=1e-4)
    assert happenings == []


def test_gemm_of_integers_is_exact(compute, random):
    a = random.integers(-128, 128, (64, 64)).astype(np.int8)
    b = random.integers(-128, 128, (64, 64)).astype(np.int8)
    got, _ = compute(gemm_kernel(64, 64, 64, "int8", "int32"), a, b, out=((64, 64), np.int32))
    assert np.array_equal(got, 2 * (a.astype(np.int32) @ b.astype(np.int32)))


def test_an_fp16_accumulator_is_rounded_on_the_way(compute, random):
    """It comes out worse than one rounding at the end, and better than one for each product."""
    k = 2048
    a, b = (random.standard_normal(s).astype(np.float16) for s in ((16, k), (k, 16)))
    exact = 2 * a.astype(np.float64) @ b.astype(np.float64)
    got, _ = compute(gemm_kernel(16, 16, k, "float16", "float16"), a, b, out=((16, 16), np.float16))
    worst = np.abs(got - exact).max()
    once = np.abs(exact.astype(np.float16) - exact).max()
    assert 2 * once < worst < 0.02 * np.abs(exact).max() * np.sqrt(k)


def test_fp32_operands_are_read_as_tf32(compute):
    a = np.full((16, 16), 1 + 2.0**-12, np.float32)
    b = np.eye(16, dtype=np.float32)
    got, _ = compute(gemm_kernel(16, 16, 16, "float32", "float32"), a, b, out=((16, 16), np.float32))
    assert (got == 2).all()


def test_an_accumulator_that_nobody_cleared(compute, random):
    a, b = (random.standard_normal((32, 32)).astype(np.float16) for _ in range(2))
    kernel = gemm_kernel(32, 32, 32, "float16", "float32", clear_first=False)
    got, happenings = compute(kernel, a, b, out=((32, 32), np.float32))
    assert np.isnan(got).all()
    (happening,) = happenings
    assert (happening.kind, happening.buffer, happening.count) == ("uninitialized-read", "c", 32 * 32)
    assert happening.place["file"] == __file__


# ---------------------------------------------------------------------------------- reductions and scans

REDUCTIONS = {
    "sum": lambda x: x.sum(1),
    "abssum": lambda x: np.abs(x).sum(1),
    "max": lambda x: x.max(1),
    "absmax": lambda x: np.abs(x).max(1),
    "min": lambda x: x.min(1),
}


def reduce_kernel(name, shape, dim, dtype, clear=True):
    result = tuple(size for at, size in enumerate(shape) if at != dim)

    @T.prim_func
    def main(A: T.Tensor(shape, dtype), B: T.Tensor(result, dtype)):
        with T.Kernel(1, threads=128):
            a = T.alloc_fragment(shape, dtype)
            b = T.alloc_fragment(result, dtype)
            T.copy(A, a)
            if not clear:
                T.fill(b, 1000)
            T.reduce(a, b, name, dim, clear)
            T.copy(b, B)

    return main


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize(("dtype", "error"), [("float32", 1e-5), ("float16", 4e-3), ("bfloat16", 3e-2), ("int32", 0)])
def test_reduce(compute, random, name, dtype, error):
    a = (random.standard_normal((16, 64)) * 100).astype(numpy_type(dtype))
    got, happenings = compute(reduce_kernel(name, (16, 64), 1, dtype), a, out=((16,), numpy_type(dtype)))
    expected = REDUCTIONS[name](a.astype(np.float64))
    assert np.allclose(got.astype(np.float64), expected, rtol=error, atol=error * 300)
    assert happenings == []


def test_reduce_without_clear_goes_on_from_what_is_there(compute, random):
    a = random.integers(0, 10, (8, 32)).astype(np.int32)
    got, _ = compute(reduce_kernel("sum", (8, 32), 1, "int32", clear=False), a, out=((8,), np.int32))
    assert np.array_equal(got, 1000 + a.sum(1))


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_reduce_of_any_dimension(compute, random, dim):
    a = random.standard_normal((4, 8, 16)).astype(np.float32)
    expected = a.max(dim)
    got, _ = compute(reduce_kernel("max", (4, 8, 16), dim, "float32"), a, out=(expected.shape, np.float32))
    assert np.array_equal(got, expected)


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("scan", "expected"), [(T.cumsum, np.cumsum), (T.cummax, np.maximum.accumulate)])
def test_scan(compute, random, dim, reverse, scan, expected):
    @T.prim_func
    def main(A: T.Tensor((16, 32), "float32"), B: T.Tensor((16, 32), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((16, 32), "float32")
            T.copy(A, a)
            scan(a, dim=dim, reverse=reverse)
            T.copy(a, B)

    a = random.standard_normal((16, 32)).astype(np.float32)
    got, _ = compute(main, a, out=((16, 32), np.float32))
    want = np.flip(expected(np.flip(a, dim), dim), dim) if reverse else expected(a, dim)
    assert np.allclose(got, want, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
def test_fill_and_transpose(compute, random, dtype):
    @T.prim_func
    def main(A: T.Tensor((16, 32), dtype), B: T.Tensor((40, 16), dtype)):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((16, 32), dtype)
            b = T.alloc_shared((32, 16), dtype)
            c = T.alloc_fragment((8, 16), dtype)
            T.copy(A, a)
            T.transpose(a, b)
            T.fill(c, 3)
            T.copy(b, B[0:32, 0:16])
            T.copy(c, B[32:40, 0:16])

    a = (random.standard_normal((16, 32)) * 10).astype(dtype)
    got, _ = compute(main, a, out=((40, 16), np.dtype(dtype)))
    assert np.array_equal(got, np.concatenate([a.T, np.full((8, 16), 3, dtype)]))


# --------------------------------------------------------------------------------- atomics and reducers


@pytest.mark.parametrize(
    ("atomic", "expected"), [(T.atomic_add, np.sum), (T.atomic_max, np.max), (T.atomic_min, np.min)]
)
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_atomics_of_tiles_and_elements(twin, random, atomic, expected, dtype):
    @T.prim_func
    def main(A: T.Tensor((8, 64), dtype), B: T.Tensor((64,), dtype), C: T.Tensor((1,), dtype)):
        with T.Kernel(8, threads=64) as x:
            a = T.alloc_shared((64,), dtype)
            T.copy(A[x, 0], a)
            atomic(B, a)
            for i in T.Parallel(64):
                atomic(C[0], a[i])

    a = random.integers(-50, 50, (8, 64)).astype(dtype)
    b, c = np.zeros(64, dtype), np.zeros(1, dtype)
    twin.run(main, [a, b, c])
    assert np.array_equal(b, expected(np.concatenate([a, np.zeros((1, 64), dtype)]), axis=0))
    assert c[0] == expected(np.append(a, 0))


def test_a_tile_is_added_up_to_the_tail(twin):
    @T.prim_func
    def main(C: T.Tensor((40,), "float32")):
        with T.Kernel(2, threads=32) as x:
            a = T.alloc_shared((32,), "float32")
            T.fill(a, 1)
            T.atomic_add(C[x * 32 : (x + 1) * 32], a)

    c = np.zeros(40, np.float32)
    assert twin.run(main, [c]).happenings == []
    assert (c == 1).all()


def test_outside_of_parallel_loops_every_thread_adds(twin):
    @T.prim_func
    def main(B: T.Tensor((2,), "int32")):
        with T.Kernel(3, threads=64):
            T.atomic_add(B[0], 1)
            if T.get_thread_binding() == 5:
                T.atomic_add(B[1], 1)

    b = np.zeros(2, np.int32)
    twin.run(main, [b])
    assert b.tolist() == [3 * 64, 3]


def test_atomics_answer_what_was_there(twin):
    @T.prim_func
    def main(A: T.Tensor((64,), "int32"), B: T.Tensor((64,), "int32"), N: T.Tensor((1,), "int32")):
        with T.Kernel(1, threads=64):
            t = T.get_thread_binding()
            if A[t] > 0:
                place = T.atomic_add(N[0], 1, return_prev=True)
                B[place] = A[t]

    a = np.arange(-32, 32, dtype=np.int32)
    b, n = np.full(64, -1, np.int32), np.zeros(1, np.int32)
    assert twin.run(main, [a, b, n]).happenings == []
    assert n[0] == 31
    assert sorted(b[:31]) == list(range(1, 32))
    assert (b[31:] == -1).all()


@pytest.mark.parametrize(("operation", "expected"), [("sum", np.sum), ("max", np.max), ("min", np.min)])
def test_reducers(compute, random, operation, expected):
    @T.prim_func
    def main(A: T.Tensor((16, 64), "float32"), B: T.Tensor((16,), "float32")):
        with T.Kernel(1, threads=128):
            acc = T.alloc_reducer((16,), "float32", op=operation)
            out = T.alloc_fragment((16,), "float32")
            T.reducer_init(acc)
            for i, j in T.Parallel(16, 64):
                T.reducer_update(acc[i], A[i, j])
            T.finalize_reducer(acc, out)
            T.copy(out, B)

    a = random.integers(-99, 99, (16, 64)).astype(np.float32)
    got, happenings = compute(main, a, out=((16,), np.float32))
    assert np.array_equal(got, expected(a, axis=1))
    assert happenings == []


def test_a_reducer_whose_parts_are_added_in_place(compute, random):
    @T.prim_func
    def main(A: T.Tensor((16, 64), "float32"), B: T.Tensor((16,), "float32")):
        with T.Kernel(1, threads=128):
            acc = T.alloc_reducer((16,), "float32", op="sum", replication="all")
            T.clear(acc)
            for i, j in T.Parallel(16, 64):
                acc[i] += A[i, j]
            T.finalize_reducer(acc)
            T.copy(acc, B)

    a = random.integers(-99, 99, (16, 64)).astype(np.float32)
    got, happenings = compute(main, a, out=((16,), np.float32))
    assert np.array_equal(got, a.sum(1))
    assert happenings == []


# -------------------------------------------------------------------------------------------- im2col


@pytest.mark.parametrize(("stride", "dilation", "padding"), [(1, 1, 1), (2, 1, 0), (1, 2, 2)])
def test_im2col(compute, random, stride, dilation, padding):
    import torch

    n, c, h, w, f, k = 2, 16, 9, 7, 8, 3
    out_h, out_w = ((size + 2 * padding - dilation * (k - 1) - 1) // stride + 1 for size in (h, w))
    pixels = n * out_h * out_w

    @T.prim_func
    def main(
        A: T.Tensor((n, h, w, c), "float16"),
        B: T.Tensor((k, k, c, f), "float16"),
        C: T.Tensor((n, out_h, out_w, f), "float32"),
    ):
        with T.Kernel(T.ceildiv(pixels, 32), threads=128) as x:
            a = T.alloc_shared((32, 16), "float16")
            b = T.alloc_shared((16, f), "float16")
            acc = T.alloc_fragment((32, f), "float32")
            flat = T.Tensor((k * k * c, f), "float16", B.data)
            out = T.Tensor((pixels, f), "float32", C.data)
            T.clear(acc)
            for step in T.Pipelined(k * k * c // 16, num_stages=2):
                T.im2col(A, a, x, step, k, stride, dilation, padding)
                T.copy(flat[step * 16, 0], b)
                T.gemm(a, b, acc)
            T.copy(acc, out[x * 32, 0])

    a, b = (random.standard_normal(s).astype(np.float16) for s in ((n, h, w, c), (k, k, c, f)))
    got, happenings = compute(main, a, b, out=((n, out_h, out_w, f), np.float32))
    image, taps = (torch.from_numpy(x.astype(np.float32)) for x in (a, b))
    want = torch.conv2d(
        image.permute(0, 3, 1, 2), taps.permute(3, 2, 0, 1), stride=stride, padding=padding, dilation=dilation
    )
    assert np.allclose(got, want.permute(0, 2, 3, 1).numpy(), rtol=1e-4, atol=1e-3)
    assert happenings == []
