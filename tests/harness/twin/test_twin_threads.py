"""Threads that part and meet: roles with barriers, barriers of the grid, loops over threads, votes; and packed arguments."""

import numpy as np
import pytest
import tilelang.language as T


def role_kernel(stages, wait_before_compute=True, wait_before_load=True):
    m, n, k, step = 64, 64, 128, 32

    @T.prim_func
    def main(A: T.Tensor((m, k), "float16"), B: T.Tensor((k, n), "float16"), C: T.Tensor((m, n), "float32")):
        with T.Kernel(1, threads=256):
            a = T.alloc_shared((stages, m, step), "float16")
            b = T.alloc_shared((stages, step, n), "float16")
            acc = T.alloc_fragment((m, n), "float32")
            ready = T.alloc_barrier([128] * stages)
            free = T.alloc_barrier([128] * stages)
            with T.ws(0):
                T.clear(acc)
            for ko in T.serial(k // step):
                with T.ws(1):
                    if wait_before_load:
                        T.mbarrier_wait_parity(free[ko % stages], (ko // stages + 1) % 2)
                    T.copy(A[0:m, ko * step : (ko + 1) * step], a[ko % stages, :, :])
                    T.copy(B[ko * step : (ko + 1) * step, 0:n], b[ko % stages, :, :])
                    T.mbarrier_arrive(ready[ko % stages])
                with T.ws(0):
                    if wait_before_compute:
                        T.mbarrier_wait_parity(ready[ko % stages], (ko // stages) % 2)
                    T.gemm(a[ko % stages, :, :], b[ko % stages, :, :], acc)
                    T.mbarrier_arrive(free[ko % stages])
            with T.ws(0):
                T.copy(acc, C)

    return main


@pytest.mark.parametrize("stages", [1, 2, 3])
def test_a_producer_and_a_consumer(compute, random, stages):
    a, b = (random.standard_normal(s).astype(np.float16) for s in ((64, 128), (128, 64)))
    got, happenings = compute(role_kernel(stages), a, b, out=((64, 64), np.float32))
    assert np.allclose(got, a.astype(np.float64) @ b.astype(np.float64), rtol=1e-3, atol=1e-3)
    assert happenings == []


def test_a_wait_that_nobody_ends(twin):
    @T.prim_func
    def main(C: T.Tensor((1,), "float32")):
        with T.Kernel(1, threads=256):
            never = T.alloc_barrier([256])
            with T.ws(0):
                T.mbarrier_arrive(never[0])
                T.mbarrier_wait_parity(never[0], 0)
                C[0] = 1
            with T.ws(1):
                T.mbarrier_wait_parity(never[0], 0)

    with pytest.raises(twin.Unsupported, match="barriers at which all that is left waits"):
        twin.run(main, [np.zeros(1, np.float32)])


def test_what_all_roles_do_is_done_once(compute):
    @T.prim_func
    def main(C: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=256):
            acc = T.alloc_shared((32,), "float32")
            done = T.alloc_barrier([128])
            T.clear(acc)
            with T.ws(0):
                for i in T.Parallel(32):
                    acc[i] = i
                T.mbarrier_arrive(done[0])
            with T.ws(1):
                T.mbarrier_wait_parity(done[0], 0)
            for i in T.Parallel(32):
                acc[i] = acc[i] + 1
            T.copy(acc, C)

    got, happenings = compute(main, out=((32,), np.float32))
    assert got.tolist() == list(range(1, 33))
    assert happenings == []


def test_blocks_that_meet(compute, random):
    blocks = 4

    @T.prim_func
    def main(
        A: T.Tensor((blocks, 32), "float32"), P: T.Tensor((blocks,), "float32"), C: T.Tensor((blocks,), "float32")
    ):
        with T.Kernel(blocks, threads=32) as x:
            a = T.alloc_fragment((32,), "float32")
            s = T.alloc_fragment((1,), "float32")
            T.copy(A[x, 0:32], a)
            T.reduce_sum(a, s, dim=0)
            P[x] = s[0]
            T.sync_grid()
            C[x] = P[(x + 1) % blocks]

    a = random.integers(-9, 9, (blocks, 32)).astype(np.float32)
    got, happenings = compute(main, a, np.zeros(blocks, np.float32), out=((blocks,), np.float32))
    assert np.array_equal(got, np.roll(a.sum(1), -1))
    assert happenings == []


def test_a_loop_over_threads_is_the_thread_index(compute):
    @T.prim_func
    def main(C: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            for t in T.thread_binding(0, 64, thread="threadIdx.x"):
                C[t] = t * 2

    got, happenings = compute(main, out=((64,), np.int32))
    assert got.tolist() == list(range(0, 128, 2))
    assert happenings == []


def test_a_launch_that_names_no_threads_has_128(compute):
    @T.prim_func
    def main(C: T.Tensor((256,), "int32")):
        with T.Kernel(2) as x:
            t = T.get_thread_binding()
            C[x * 128 + t] = t

    got, happenings = compute(main, out=((256,), np.int32))
    assert got.tolist() == [*range(128), *range(128)]
    assert happenings == []


def test_registers_inside_of_parallel_loops_belong_to_each_iteration(compute, random):
    @T.prim_func
    def main(A: T.Tensor((8, 64), "float32"), C: T.Tensor((8, 64), "float32")):
        with T.Kernel(1, threads=64):
            two = T.alloc_local((2,), "float32")
            best = T.alloc_var("float32")
            for i, j in T.Parallel(8, 64):
                two[0] = A[i, j] * 2
                two[1] = two[0] + 1
                best = T.max(two[0], two[1])
                for k in T.serial(3):
                    if k > i:
                        best = best + two[1]
                C[i, j] = best

    a = random.integers(-9, 9, (8, 64)).astype(np.float32)
    got, happenings = compute(main, a, out=((8, 64), np.float32))
    times = np.maximum(0, 2 - np.arange(8))[:, None]
    assert np.array_equal(got, (2 * a + 1) * (1 + times))
    assert happenings == []


def test_lanes_continue_with_the_next_iteration(compute):
    @T.prim_func
    def main(C: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            t = T.get_thread_binding()
            total = T.alloc_var("int32", init=0)
            for i in range(10):
                if i == t % 10:
                    continue
                if i > t:
                    break
                total = total + i
            C[t] = total

    got, _ = compute(main, out=((64,), np.int32))
    assert got.tolist() == [sum(i for i in range(10) if i != t % 10 and i <= t) for t in range(64)]


def test_asynchronous_copies_of_single_threads(compute, random):
    @T.prim_func
    def main(A: T.Tensor((32, 16), "float16"), C: T.Tensor((32, 16), "float16")):
        with T.Kernel(1, threads=64):
            t = T.get_thread_binding()
            shared = T.alloc_shared((32, 16), "float16")
            T.ptx_cp_async(
                T.access_ptr(shared[t // 2, t % 2 * 8], "w", 8), T.access_ptr(A[t // 2, t % 2 * 8], "r", 8), 8
            )
            T.ptx_commit_group()
            T.ptx_wait_group(0)
            T.copy(shared, C)

    a = random.standard_normal((32, 16)).astype(np.float16)
    got, happenings = compute(main, a, out=((32, 16), np.float16))
    assert np.array_equal(got, a)
    assert happenings == []


def test_votes(compute, random):
    @T.prim_func
    def main(A: T.Tensor((64,), "int32"), C: T.Tensor((4, 64), "int32")):
        with T.Kernel(1, threads=64):
            t = T.get_thread_binding()
            C[0, t] = T.any_sync(A[t] > 90)
            C[1, t] = T.all_sync(A[t] > -90)
            C[2, t] = T.Cast("int32", T.popcount(T.ballot_sync(A[t] > 0)))
            C[3, t] = T.syncthreads_count(A[t] > 0)

    a = random.integers(-99, 99, 64).astype(np.int32)
    got, _ = compute(main, a, out=((4, 64), np.int32))
    warps = a.reshape(2, 32)
    assert np.array_equal(got[0], np.repeat((warps > 90).any(1), 32))
    assert np.array_equal(got[1], np.repeat((warps > -90).all(1), 32))
    assert np.array_equal(got[2], np.repeat((warps > 0).sum(1), 32))
    assert (got[3] == (a > 0).sum()).all()


@pytest.mark.parametrize(("dtype", "low"), [("int4", -8), ("uint4", 0)])
def test_arguments_of_four_bits(twin, random, dtype, low):
    @T.prim_func
    def main(A: T.Tensor((4, 16), dtype), C: T.Tensor((4, 16), "int32")):
        with T.Kernel(1, threads=32):
            for i, j in T.Parallel(4, 16):
                C[i, j] = A[i, j].astype("int32")

    values = random.integers(low, low + 16, (4, 16))
    packed = ((values[:, 0::2] & 15) | ((values[:, 1::2] & 15) << 4)).astype(np.uint8)
    got = np.empty((4, 16), np.int32)
    twin.run(main, [packed.view(np.int8), got])
    assert np.array_equal(got, values)


def test_tile_operators_on_registers_of_each_thread(compute, random):
    @T.prim_func
    def main(A: T.Tensor((64, 8), "float32"), C: T.Tensor((3, 64), "float32")):
        with T.Kernel(1, threads=64):
            t = T.get_thread_binding()
            row = T.alloc_local((8,), "float32")
            twice = T.alloc_local((8,), "float32")
            total = T.alloc_local((1,), "float32")
            T.copy(A[t, 0:8], row)
            T.reduce_sum(row, total, dim=0)
            C[0, t] = total[0]
            T.clear(twice)
            for k in T.vectorized(8):
                twice[k] += row[k] * 2
            T.reduce_max(twice, total, dim=0)
            C[1, t] = total[0]
            total[0] = 0
            for k in T.vectorized(8):
                total[0] += row[k]
            C[2, t] = total[0]

    a = random.integers(-99, 99, (64, 8)).astype(np.float32)
    got, happenings = compute(main, a, out=((3, 64), np.float32))
    assert np.array_equal(got, np.stack([a.sum(1), 2 * a.max(1), a.sum(1)]))
    assert happenings == []


def test_threads_of_two_dimensions_share_a_tile(compute, random):
    @T.prim_func
    def main(A: T.Tensor((16, 32), "float32"), C: T.Tensor((16, 32), "float32")):
        with T.Kernel(1, threads=(8, 16)):
            tx = T.get_thread_binding(0)
            ty = T.get_thread_binding(1)
            tile = T.alloc_shared((16, 32), "float32")
            for k in T.serial(4):
                tile[ty, k * 8 + tx] = A[ty, k * 8 + tx]
            if tx == 0 and ty < 8:
                for k in T.serial(32):
                    tile[ty, k] = tile[ty, k] + tile[15 - ty, k]
            for i, j in T.Parallel(16, 32):
                tile[i, j] = tile[i, j] * 2
            for k in T.vectorized(4):
                C[ty, tx * 4 + k] = tile[ty, tx * 4 + k]

    a = random.integers(-99, 99, (16, 32)).astype(np.float32)
    got, happenings = compute(main, a, out=((16, 32), np.float32))
    want = a.copy()
    want[:8] += a[:7:-1]
    assert np.array_equal(got, 2 * want)
    assert happenings == []
