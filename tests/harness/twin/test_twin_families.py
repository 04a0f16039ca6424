"""Whole kernels of many families against PyTorch or NumPy: the twin computes what the program says."""

import ml_dtypes
import numpy as np
import pytest
import tilelang
import tilelang.language as T
import torch

LOG2E = 1.4426950408889634


def normal(random, *shape, dtype=np.float16):
    return random.standard_normal(shape).astype(dtype)


def test_pipelined_gemm_with_tails_and_an_epilogue(compute, random):
    m, n, k, tile, step = 100, 90, 70, 64, 32

    @T.prim_func
    def main(
        A: T.Tensor((m, k), "float16"), B: T.Tensor((n, k), "float16"), D: T.Tensor((n,), "float32"), C: T.Tensor((m, n), "float16")
    ):  # fmt: skip
        with T.Kernel(T.ceildiv(n, tile), T.ceildiv(m, tile), threads=128) as (bx, by):
            a = T.alloc_shared((tile, step), "float16")
            b = T.alloc_shared((tile, step), "float16")
            bias = T.alloc_fragment((tile,), "float32")
            acc = T.alloc_fragment((tile, tile), "float32")
            T.use_swizzle(8)
            T.clear(acc)
            for ko in T.Pipelined(T.ceildiv(k, step), num_stages=3):
                T.copy(A[by * tile, ko * step], a)
                T.copy(B[bx * tile, ko * step], b)
                T.gemm(a, b, acc, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
            T.copy(D[bx * tile], bias)
            for i, j in T.Parallel(tile, tile):
                acc[i, j] = T.max(acc[i, j] + bias[j], 0)
            T.copy(acc, C[by * tile, bx * tile])

    a, b, d = normal(random, m, k), normal(random, n, k), normal(random, n, dtype=np.float32)
    got, happenings = compute(main, a, b, d, out=((m, n), np.float16))
    want = np.maximum(a.astype(np.float64) @ b.T.astype(np.float64) + d, 0)
    assert np.allclose(got, want, rtol=2e-3, atol=2e-3)
    assert happenings == []


def test_split_k_with_atomics(twin, random):
    m, n, k, splits, step = 64, 64, 256, 4, 32

    @T.prim_func
    def main(A: T.Tensor((m, k), "bfloat16"), B: T.Tensor((k, n), "bfloat16"), C: T.Tensor((m, n), "float32")):
        with T.Kernel(splits, threads=128) as bz:
            a = T.alloc_shared((m, step), "bfloat16")
            b = T.alloc_shared((step, n), "bfloat16")
            acc = T.alloc_fragment((m, n), "float32")
            T.clear(acc)
            for ko in T.Pipelined(k // splits // step, num_stages=2):
                T.copy(A[0, bz * (k // splits) + ko * step], a)
                T.copy(B[bz * (k // splits) + ko * step, 0], b)
                T.gemm(a, b, acc)
            for i, j in T.Parallel(m, n):
                T.atomic_add(C[i, j], acc[i, j])

    a, b = normal(random, m, k, dtype=ml_dtypes.bfloat16), normal(random, k, n, dtype=ml_dtypes.bfloat16)
    c = np.zeros((m, n), np.float32)
    assert twin.run(main, [a, b, c]).happenings == []
    assert np.allclose(c, a.astype(np.float64) @ b.astype(np.float64), rtol=1e-4, atol=1e-3)


def test_grouped_gemm_with_sizes_from_memory(compute, random):
    sizes, k, n, tile = [40, 0, 64, 17], 32, 48, 32
    total, groups = sum(sizes), len(sizes)
    tiles = [(g, start) for g, size in enumerate(sizes) for start in range(0, size, tile)]
    count = len(tiles)

    @T.prim_func
    def main(
        A: T.Tensor((total, k), "float16"), B: T.Tensor((groups, k, n), "float16"), group: T.Tensor((count,), "int32"),
        start: T.Tensor((count,), "int32"), first: T.Tensor((groups,), "int32"), size: T.Tensor((groups,), "int32"),
        C: T.Tensor((total, n), "float32"),
    ):  # fmt: skip
        with T.Kernel(count, threads=128) as x:
            a = T.alloc_shared((tile, k), "float16")
            b = T.alloc_shared((k, n), "float16")
            acc = T.alloc_fragment((tile, n), "float32")
            g = group[x]
            rows = T.min(tile, size[g] - start[x])
            T.clear(acc)
            T.copy(A[first[g] + start[x] : first[g] + start[x] + tile, 0:k], a)
            T.copy(B[g, 0:k, 0:n], b)
            T.gemm(a, b, acc)
            for i, j in T.Parallel(tile, n):
                if i < rows:
                    C[first[g] + start[x] + i, j] = acc[i, j]

    a, b = normal(random, total, k), normal(random, groups, k, n)
    offsets = np.cumsum([0, *sizes[:-1]]).astype(np.int32)
    group, start = (np.array(column, np.int32) for column in zip(*tiles, strict=True))
    args = (a, b, group, start, offsets, np.array(sizes, np.int32))
    got, happenings = compute(main, *args, out=((total, n), np.float32))
    for g, (at, size) in enumerate(zip(offsets, sizes, strict=True)):
        want = a[at : at + size].astype(np.float64) @ b[g].astype(np.float64)
        assert np.allclose(got[at : at + size], want, rtol=1e-3, atol=1e-3)
    assert happenings == []


def test_gemv_of_single_threads(compute, random):
    n, k, rows, lanes, width = 48, 256, 8, 16, 8

    @T.prim_func
    def main(A: T.Tensor((k,), "float16"), B: T.Tensor((n, k), "float16"), C: T.Tensor((n,), "float32")):
        with T.Kernel(n // rows, threads=(rows, lanes)) as bn:
            tn = T.get_thread_binding(0)
            tk = T.get_thread_binding(1)
            a = T.alloc_local((width,), "float16")
            b = T.alloc_local((width,), "float16")
            acc = T.alloc_local((1,), "float32")
            total = T.alloc_local((1,), "float32")
            T.clear(acc)
            for step in T.serial(k // (lanes * width)):
                for v in T.vectorized(width):
                    a[v] = A[step * lanes * width + tk * width + v]
                    b[v] = B[bn * rows + tn, step * lanes * width + tk * width + v]
                for v in T.serial(width):
                    acc[0] += a[v].astype("float32") * b[v].astype("float32")
            with T.attr(
                T.comm_reducer(lambda x, y: x + y, [T.Cast("float32", 0)]),
                "reduce_scope",
                T.reinterpret(T.uint64(0), dtype="handle"),
            ):
                T.evaluate(T.tvm_thread_allreduce(T.uint32(1), acc[0], True, total[0], tk, dtype="handle"))
            if tk == 0:
                C[bn * rows + tn] = total[0]

    a, b = normal(random, k), normal(random, n, k)
    got, happenings = compute(main, a, b, out=((n,), np.float32))
    assert np.allclose(got, b.astype(np.float64) @ a.astype(np.float64), rtol=1e-4, atol=1e-3)
    assert happenings == []


def softmax_of(x):
    return torch.softmax(torch.from_numpy(np.asarray(x, np.float64)), -1).numpy()


def test_softmax(compute, random):
    rows, columns, tile = 50, 96, 16

    @T.prim_func
    def main(A: T.Tensor((rows, columns), "float16"), C: T.Tensor((rows, columns), "float16")):
        with T.Kernel(T.ceildiv(rows, tile), threads=128) as x:
            a = T.alloc_fragment((tile, columns), "float32")
            top = T.alloc_fragment((tile,), "float32")
            total = T.alloc_fragment((tile,), "float32")
            T.copy(A[x * tile, 0], a)
            T.reduce_max(a, top, dim=1)
            for i, j in T.Parallel(tile, columns):
                a[i, j] = T.exp2((a[i, j] - top[i]) * LOG2E)
            T.reduce_sum(a, total, dim=1)
            for i, j in T.Parallel(tile, columns):
                a[i, j] /= total[i]
            T.copy(a, C[x * tile, 0])

    a = normal(random, rows, columns)
    got, happenings = compute(main, a, out=((rows, columns), np.float16))
    assert np.allclose(got, softmax_of(a), rtol=1e-3, atol=1e-5)
    assert happenings == []


@pytest.mark.parametrize("causal", [False, True])
def test_flash_attention(compute, random, causal):
    batch, heads, length, dim, tile = 1, 2, 100, 32, 32
    scale = dim**-0.5 * LOG2E
    shape = (batch, length, heads, dim)

    @T.prim_func
    def main(
        Q: T.Tensor(shape, "float16"),
        K: T.Tensor(shape, "float16"),
        V: T.Tensor(shape, "float16"),
        Out: T.Tensor(shape, "float16"),
    ):
        with T.Kernel(T.ceildiv(length, tile), heads, batch, threads=128) as (bx, by, bz):
            q = T.alloc_shared((tile, dim), "float16")
            k = T.alloc_shared((tile, dim), "float16")
            v = T.alloc_shared((tile, dim), "float16")
            scores = T.alloc_fragment((tile, tile), "float32")
            weights = T.alloc_fragment((tile, tile), "float16")
            out = T.alloc_fragment((tile, dim), "float32")
            top = T.alloc_fragment((tile,), "float32")
            before = T.alloc_fragment((tile,), "float32")
            factor = T.alloc_fragment((tile,), "float32")
            part = T.alloc_fragment((tile,), "float32")
            total = T.alloc_fragment((tile,), "float32")
            T.copy(Q[bz, bx * tile : (bx + 1) * tile, by, :], q)
            T.fill(out, 0)
            T.fill(total, 0)
            T.fill(top, -T.infinity("float32"))
            steps = T.min(T.ceildiv(length, tile), bx + 1) if causal else T.ceildiv(length, tile)
            for step in T.Pipelined(steps, num_stages=1):
                T.copy(K[bz, step * tile : (step + 1) * tile, by, :], k)
                for i, j in T.Parallel(tile, tile):
                    if causal:
                        scores[i, j] = T.if_then_else(bx * tile + i >= step * tile + j, 0, -T.infinity("float32"))
                    else:
                        scores[i, j] = T.if_then_else(step * tile + j >= length, -T.infinity("float32"), 0)
                T.gemm(q, k, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(V[bz, step * tile : (step + 1) * tile, by, :], v)
                T.copy(top, before)
                T.fill(top, -T.infinity("float32"))
                T.reduce_max(scores, top, dim=1, clear=False)
                for i in T.Parallel(tile):
                    top[i] = T.max(top[i], before[i])
                for i in T.Parallel(tile):
                    factor[i] = T.exp2(before[i] * scale - top[i] * scale)
                for i, j in T.Parallel(tile, tile):
                    scores[i, j] = T.exp2(scores[i, j] * scale - top[i] * scale)
                T.reduce_sum(scores, part, dim=1)
                for i in T.Parallel(tile):
                    total[i] = total[i] * factor[i] + part[i]
                for i, j in T.Parallel(tile, dim):
                    out[i, j] *= factor[i]
                T.copy(scores, weights)
                T.gemm(weights, v, out, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(tile, dim):
                out[i, j] /= total[i]
            T.copy(out, Out[bz, bx * tile : (bx + 1) * tile, by, :])

    q, k, v = (normal(random, *shape) for _ in range(3))
    got, happenings = compute(main, q, k, v, out=(shape, np.float16))
    heads_first = [torch.from_numpy(x).float().transpose(1, 2) for x in (q, k, v)]
    want = torch.nn.functional.scaled_dot_product_attention(*heads_first, is_causal=causal).transpose(1, 2)
    assert np.allclose(got, want.numpy(), rtol=5e-3, atol=5e-3)
    assert happenings == []


@pytest.mark.parametrize("kind", ["layer", "rms"])
def test_norms(compute, random, kind):
    rows, columns, tile = 24, 128, 8

    @T.prim_func
    def main(
        A: T.Tensor((rows, columns), "bfloat16"),
        W: T.Tensor((columns,), "float32"),
        C: T.Tensor((rows, columns), "bfloat16"),
    ):
        with T.Kernel(T.ceildiv(rows, tile), threads=128) as x:
            a = T.alloc_fragment((tile, columns), "float32")
            square = T.alloc_fragment((tile, columns), "float32")
            mean = T.alloc_fragment((tile,), "float32")
            power = T.alloc_fragment((tile,), "float32")
            T.copy(A[x * tile : (x + 1) * tile, :], a)
            if kind == "layer":
                T.reduce_sum(a, mean, dim=1)
                for i, j in T.Parallel(tile, columns):
                    a[i, j] -= mean[i] / columns
            for i, j in T.Parallel(tile, columns):
                square[i, j] = a[i, j] * a[i, j]
            T.reduce_sum(square, power, dim=1)
            for i in T.Parallel(tile):
                power[i] = T.rsqrt(power[i] / columns + 1e-5)
            for i, j in T.Parallel(tile, columns):
                a[i, j] *= power[i] * W[j]
            T.copy(a, C[x * tile : (x + 1) * tile, :])

    a, w = normal(random, rows, columns, dtype=ml_dtypes.bfloat16), normal(random, columns, dtype=np.float32)
    got, happenings = compute(main, a, w, out=((rows, columns), ml_dtypes.bfloat16))
    x = torch.from_numpy(a.astype(np.float32))
    norm = torch.nn.functional.layer_norm if kind == "layer" else torch.nn.functional.rms_norm
    want = norm(x, (columns,), eps=1e-5).numpy() * w
    assert np.allclose(got.astype(np.float32), want, rtol=1e-2, atol=1e-2)
    assert happenings == []


def test_scan_over_blocks_of_a_row(compute, random):
    length, tile = 300, 64

    @T.prim_func
    def main(A: T.Tensor((length,), "float32"), C: T.Tensor((length,), "float32")):
        with T.Kernel(1, threads=64):
            a = T.alloc_shared((tile,), "float32")
            carry = T.alloc_var("float32", init=0)
            for step in T.serial(T.ceildiv(length, tile)):
                T.copy(A[step * tile], a)
                T.cumsum(a, dim=0)
                for i in T.Parallel(tile):
                    if step * tile + i < length:
                        C[step * tile + i] = a[i] + carry
                carry = carry + a[tile - 1]

    a = normal(random, length, dtype=np.float32)
    got, happenings = compute(main, a, out=((length,), np.float32))
    assert np.allclose(got, np.cumsum(a.astype(np.float64)), rtol=1e-4, atol=1e-4)
    assert happenings == []


def test_top_k_by_repeated_maxima(twin, random):
    rows, columns, k, tile = 20, 32, 4, 8

    @T.prim_func
    def main(
        A: T.Tensor((rows, columns), "float32"), V: T.Tensor((rows, k), "float32"), P: T.Tensor((rows, k), "int32")
    ):
        with T.Kernel(T.ceildiv(rows, tile), threads=128) as x:
            a = T.alloc_fragment((tile, columns), "float32")
            top = T.alloc_fragment((tile,), "float32")
            marked = T.alloc_fragment((tile, columns), "int32")
            place = T.alloc_fragment((tile,), "int32")
            T.copy(A[x * tile, 0], a)
            for r in T.serial(k):
                T.reduce_max(a, top, dim=1, clear=True)
                for i, j in T.Parallel(tile, columns):
                    marked[i, j] = T.if_then_else(a[i, j] == top[i], j, -1)
                T.reduce_max(marked, place, dim=1, clear=True)
                for i, j in T.Parallel(tile, columns):
                    a[i, j] = T.if_then_else(marked[i, j] >= 0, -T.infinity("float32"), a[i, j])
                for i in T.Parallel(tile):
                    if x * tile + i < rows:
                        V[x * tile + i, r] = top[i]
                        P[x * tile + i, r] = place[i]

    a = random.permutation(rows * columns).reshape(rows, columns).astype(np.float32)
    values, places = np.empty((rows, k), np.float32), np.empty((rows, k), np.int32)
    outcome = twin.run(main, [a, values, places], fresh=[1, 2])
    assert np.array_equal(values, -np.sort(-a, axis=1)[:, :k])
    assert np.array_equal(places, np.argsort(-a, axis=1)[:, :k])
    assert outcome.happenings == []


def test_dequantized_gemm_with_packed_weights(compute, random):
    m, n, k, step = 32, 32, 64, 32

    @T.prim_func
    def main(
        A: T.Tensor((m, k), "float16"), B: T.Tensor((n, k // 2), "uint8"), S: T.Tensor((n,), "float16"), C: T.Tensor((m, n), "float32")
    ):  # fmt: skip
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((m, step), "float16")
            packed = T.alloc_shared((n, step // 2), "uint8")
            b = T.alloc_shared((n, step), "float16")
            acc = T.alloc_fragment((m, n), "float32")
            T.clear(acc)
            for ko in T.Pipelined(k // step, num_stages=2):
                T.copy(A[0, ko * step], a)
                T.copy(B[0, ko * step // 2], packed)
                for i, j in T.Parallel(n, step):
                    nibble = (packed[i, j // 2] >> ((j % 2) * 4).astype("uint8")) & T.uint8(15)
                    b[i, j] = (nibble.astype("float16") - T.float16(8)) * S[i]
                T.gemm(a, b, acc, transpose_B=True)
            T.copy(acc, C)

    a, s = normal(random, m, k), normal(random, n)
    weights = random.integers(0, 16, (n, k)).astype(np.uint8)
    packed = weights[:, 0::2] | (weights[:, 1::2] << 4)
    got, happenings = compute(main, a, packed, s, out=((m, n), np.float32))
    b = ((weights.astype(np.float16) - np.float16(8)) * s[:, None]).astype(np.float64)
    assert np.allclose(got, a.astype(np.float64) @ b.T, rtol=1e-3, atol=1e-2)
    assert happenings == []


def test_convolution_of_one_dimension(compute, random):
    length, taps, tile = 200, 5, 64

    @T.prim_func
    def main(A: T.Tensor((length,), "float32"), W: T.Tensor((taps,), "float32"), C: T.Tensor((length,), "float32")):
        with T.Kernel(T.ceildiv(length, tile), threads=64) as x:
            acc = T.alloc_fragment((tile,), "float32")
            T.clear(acc)
            for i in T.Parallel(tile):
                for t in T.serial(taps):
                    at = x * tile + i + t - taps // 2
                    acc[i] += T.if_then_else(at >= 0 and at < length, A[at] * W[t], 0)
            T.copy(acc, C[x * tile])

    a, w = normal(random, length, dtype=np.float32), normal(random, taps, dtype=np.float32)
    got, happenings = compute(main, a, w, out=((length,), np.float32))
    assert np.allclose(got, np.convolve(a, w[::-1], mode="same"), rtol=1e-4, atol=1e-5)
    assert happenings == []


def test_elementwise_with_dynamic_sizes_and_a_scalar(compute, random):
    n = T.dynamic("n")

    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), factor: T.float32, C: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, 128), threads=128) as x:
            for i in T.Parallel(128):
                if x * 128 + i < n:
                    C[x * 128 + i] = A[x * 128 + i] * factor

    for length in (1, 128, 1000):
        a = normal(random, length, dtype=np.float32)
        got, happenings = compute(main, a, 2.5, out=((length,), np.float32))
        assert np.array_equal(got, a * np.float32(2.5))
        assert happenings == []


def test_histogram(twin, random):
    length, bins, tile = 1000, 16, 256

    @T.prim_func
    def main(A: T.Tensor((length,), "int32"), H: T.Tensor((bins,), "int32")):
        with T.Kernel(T.ceildiv(length, tile), threads=256) as x:
            counts = T.alloc_shared((bins,), "int32")
            t = T.get_thread_binding()
            if t < bins:
                counts[t] = 0
            T.sync_threads()
            if x * tile + t < length:
                T.atomic_add(counts[A[x * tile + t]], 1)
            T.sync_threads()
            if t < bins:
                T.atomic_add(H[t], counts[t])

    a = random.integers(0, bins, length).astype(np.int32)
    histogram = np.zeros(bins, np.int32)
    assert twin.run(main, [a, histogram]).happenings == []
    assert np.array_equal(histogram, np.bincount(a, minlength=bins))


def test_transpose_through_shared_memory_of_single_threads(compute, random):
    rows, columns, tile = 40, 50, 16

    @T.prim_func
    def main(A: T.Tensor((rows, columns), "float32"), C: T.Tensor((columns, rows), "float32")):
        with T.Kernel(T.ceildiv(columns, tile), T.ceildiv(rows, tile), threads=(tile, tile)) as (bx, by):
            tx = T.get_thread_binding(0)
            ty = T.get_thread_binding(1)
            shared = T.alloc_shared((tile, tile + 1), "float32")
            if by * tile + ty < rows and bx * tile + tx < columns:
                shared[ty, tx] = A[by * tile + ty, bx * tile + tx]
            T.sync_threads()
            if bx * tile + ty < columns and by * tile + tx < rows:
                C[bx * tile + ty, by * tile + tx] = shared[tx, ty]

    a = normal(random, rows, columns, dtype=np.float32)
    got, happenings = compute(main, a, out=((columns, rows), np.float32))
    assert np.array_equal(got, a.T)
    assert happenings == []


def test_warp_shuffles(compute, random):
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), C: T.Tensor((5, 64), "float32")):
        with T.Kernel(1, threads=64):
            t = T.get_thread_binding()
            value = T.alloc_local((1,), "float32")
            value[0] = A[t]
            for step in T.unroll(5):
                value[0] += T.shfl_xor(value[0], 16 >> step)
            C[0, t] = value[0]
            C[1, t] = T.shfl_down(A[t], 3)
            C[2, t] = T.shfl_up(A[t], 3)
            C[3, t] = T.shfl_sync(A[t], 5)
            C[4, t] = T.warp_reduce_max(A[t])

    a = random.integers(-99, 99, 64).astype(np.float32)
    got, happenings = compute(main, a, out=((5, 64), np.float32))
    warps = a.reshape(2, 32)
    assert np.array_equal(got[0], np.repeat(warps.sum(1), 32))
    assert np.array_equal(got[1].reshape(2, 32), np.concatenate([warps[:, 3:], warps[:, 29:]], axis=1))
    assert np.array_equal(got[2].reshape(2, 32), np.concatenate([warps[:, :3], warps[:, :29]], axis=1))
    assert np.array_equal(got[3], np.repeat(warps[:, 5], 32))
    assert np.array_equal(got[4], np.repeat(warps.max(1), 32))
    assert happenings == []


def test_several_launches_in_one_function(compute, random):
    @T.prim_func
    def main(A: T.Tensor((4, 64), "float32"), P: T.Tensor((4,), "float32"), C: T.Tensor((1,), "float32")):
        with T.Kernel(4, threads=64) as x:
            a = T.alloc_fragment((64,), "float32")
            s = T.alloc_fragment((1,), "float32")
            T.copy(A[x, 0:64], a)
            T.reduce_sum(a, s, dim=0)
            P[x] = s[0]
        with T.Kernel(1, threads=32):
            p = T.alloc_fragment((4,), "float32")
            s = T.alloc_fragment((1,), "float32")
            T.copy(P, p)
            T.reduce_sum(p, s, dim=0)
            C[0] = s[0]

    a = random.integers(-9, 9, (4, 64)).astype(np.float32)
    got, happenings = compute(main, a, np.zeros(4, np.float32), out=((1,), np.float32))
    assert got[0] == a.sum()
    assert happenings == []


def test_persistent_blocks(compute, random):
    tiles, tile, blocks = 7, 32, 3

    @T.prim_func
    def main(A: T.Tensor((tiles * tile, tile), "float32"), C: T.Tensor((tiles * tile, tile), "float32")):
        with T.Kernel(blocks, threads=128) as block:
            a = T.alloc_shared((tile, tile), "float32")
            for m, _ in T.Persistent([tiles, 1], blocks, block):
                T.copy(A[m * tile, 0], a)
                for i, j in T.Parallel(tile, tile):
                    a[i, j] = a[i, j] + m
                T.copy(a, C[m * tile, 0])

    a = normal(random, tiles * tile, tile, dtype=np.float32)
    got, happenings = compute(main, a, out=((tiles * tile, tile), np.float32))
    assert np.array_equal(got, a + np.repeat(np.arange(tiles, dtype=np.float32), tile)[:, None])
    assert happenings == []


def test_loops_that_threads_leave_at_different_times(compute, random):
    @T.prim_func
    def main(A: T.Tensor((64,), "int32"), C: T.Tensor((3, 64), "int32")):
        with T.Kernel(1, threads=64):
            t = T.get_thread_binding()
            value = T.alloc_var("int32", init=0)
            steps = T.alloc_var("int32", init=0)
            value = A[t]
            while value > 1:
                value = T.if_then_else(value % 2 == 0, value // 2, 3 * value + 1)
                steps = steps + 1
            C[0, t] = steps
            steps = 0
            for i in T.serial(100):
                if i * i > A[t]:
                    T.loop_break()
                steps = steps + 1
            C[1, t] = steps
            steps = 0
            for _ in T.serial(A[t] % 5):
                steps = steps + 2
            C[2, t] = steps

    def collatz(x):
        steps = 0
        while x > 1:
            x, steps = (x // 2 if x % 2 == 0 else 3 * x + 1), steps + 1
        return steps

    a = random.integers(1, 500, 64).astype(np.int32)
    got, happenings = compute(main, a, out=((3, 64), np.int32))
    assert got[0].tolist() == [collatz(int(x)) for x in a]
    assert np.array_equal(got[1], np.floor(np.sqrt(a)).astype(int) + 1)
    assert np.array_equal(got[2], 2 * (a % 5))
    assert happenings == []


def test_views_share_memory(compute, random):
    @T.prim_func
    def main(A: T.Tensor((4, 32), "float32"), C: T.Tensor((32, 4), "int32")):
        with T.Kernel(1, threads=32):
            a = T.alloc_shared((4, 32), "float32")
            flat = T.reshape(a, (128,))
            bits = T.view(a, (32, 4), dtype="int32")
            T.copy(A, a)
            for i in T.Parallel(128):
                flat[i] = flat[i] * 2
            T.copy(bits, C)

    a = normal(random, 4, 32, dtype=np.float32)
    got, happenings = compute(main, a, out=((32, 4), np.int32))
    assert np.array_equal(got.view(np.float32).reshape(4, 32), a * 2)
    assert happenings == []


def test_jit_functions_of_the_eager_kind(compute, random):
    @tilelang.jit
    def double(A, tile: int = 32):
        m, n = T.const("m, n")
        A: T.Tensor((m, n), "float32")
        C = T.empty((m, n), "float32")
        with T.Kernel(T.ceildiv(m, tile), threads=64) as x:
            for i, j in T.Parallel(tile, n):
                if x * tile + i < m:
                    C[x * tile + i, j] = A[x * tile + i, j] * 2
        return C

    a = normal(random, 40, 8, dtype=np.float32)
    got, happenings = compute(double.get_tir(torch.from_numpy(a)), a, out=((40, 8), np.float32))
    assert np.array_equal(got, a * 2)
    assert happenings == []
