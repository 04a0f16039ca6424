"""What no right kernel does is recorded, with the line of the statement; what the interpreter does not know it refuses."""

import inspect

import numpy as np
import pytest
import tilelang.language as T


def line_of(function, text):
    """The line of this file that holds `text`, in the body of `function`."""
    lines, first = inspect.getsourcelines(function)
    return first + next(at for at, line in enumerate(lines) if text in line)


def only(happenings):
    assert len(happenings) == 1, happenings
    return happenings[0]


def test_reads_out_of_bounds_of_global_memory_give_zero(compute):
    def kernel():
        @T.prim_func
        def main(A: T.Tensor((100,), "float32"), C: T.Tensor((128,), "float32")):
            with T.Kernel(1, threads=128):
                for i in T.Parallel(128):
                    C[i] = A[i + 4] + 1  # beyond the end

        return main

    got, happenings = compute(kernel(), np.ones(100, np.float32), out=((128,), np.float32))
    assert got.tolist() == [2.0] * 96 + [1.0] * 32
    happening = only(happenings)
    assert (happening.kind, happening.buffer, happening.indices, happening.extent) == ("oob-read", "A", (100,), (100,))
    assert happening.count == 32
    assert happening.place == {"file": __file__, "line": line_of(kernel, "# beyond the end")}


def test_writes_out_of_bounds_are_dropped(twin):
    @T.prim_func
    def main(C: T.Tensor((100,), "float32")):
        with T.Kernel(2, threads=64) as x:
            for i in T.Parallel(64):
                C[x * 64 + i] = i

    c = np.empty(100, np.float32)
    happening = only(twin.run(main, [c], fresh=[0]).happenings)
    assert (happening.kind, happening.indices, happening.count) == ("oob-write", (100,), 28)
    assert happening.detail["block"] == (1,)
    assert c.tolist() == [*range(64), *range(36)]


def test_negative_indices_do_not_wrap(compute):
    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), C: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(8):
                C[i] = A[i - 2]

    got, happenings = compute(main, np.arange(1, 9, dtype=np.float32), out=((8,), np.float32))
    assert got.tolist() == [0, 0, 1, 2, 3, 4, 5, 6]
    happening = only(happenings)
    assert (happening.kind, happening.indices, happening.count) == ("oob-read", (-2,), 2)


def test_indices_that_are_negative_for_certain_count_from_the_end(compute):
    """The compiler rewrites them, and only them."""

    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), C: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(4):
                C[i] = A[i - 4]
            C[-4] = A[-1]
            for i in T.Parallel(3):
                C[i + 5] = 0

    got, happenings = compute(main, np.arange(8, dtype=np.float32), out=((8,), np.float32))
    assert got.tolist() == [4, 5, 6, 7, 7, 0, 0, 0]
    assert happenings == []


def test_an_index_that_is_guarded_is_none(compute):
    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), C: T.Tensor((16,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(16):
                if i < 8 and A[i] > 2:
                    C[i] = T.if_then_else(i + 1 < 8, A[i + 1], -1)
                else:
                    C[i] = 0

    got, happenings = compute(main, np.arange(8, dtype=np.float32), out=((16,), np.float32))
    assert got.tolist() == [0, 0, 0, 4, 5, 6, 7, -1] + [0] * 8
    assert happenings == []


def test_shared_memory_out_of_bounds(compute):
    @T.prim_func
    def main(C: T.Tensor((16,), "float32")):
        with T.Kernel(1, threads=32):
            shared = T.alloc_shared((16,), "float32")
            T.clear(shared)
            for i in T.Parallel(16):
                C[i] = shared[i + 1]

    got, happenings = compute(main, out=((16,), np.float32))
    happening = only(happenings)
    assert (happening.kind, happening.buffer, happening.indices, happening.count) == ("oob-read", "shared", (16,), 1)
    assert happening.detail["scope"].startswith("shared")
    assert np.isnan(got[15])


def test_what_is_written_beside_a_fragment_is_found_there_again(compute):
    """Registers are chosen by the indices, so a device mostly computes what was meant: both is told."""

    @T.prim_func
    def main(A: T.Tensor((1,), "float32"), C: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            few = T.alloc_fragment((2,), "float32")
            for i in T.Parallel(64):
                few[i] = A[0] + i
            for i in T.Parallel(64):
                C[i] = few[i] * 2

    got, happenings = compute(main, np.ones(1, np.float32), out=((64,), np.float32))
    assert np.array_equal(got, 2 * (1 + np.arange(64)))
    assert [(h.kind, h.buffer, h.indices, h.count) for h in happenings] == [
        ("oob-write", "few", (2,), 62),
        ("oob-read", "few", (2,), 62),
    ]


def test_what_nobody_wrote(compute):
    def kernel():
        @T.prim_func
        def main(A: T.Tensor((16,), "float32"), C: T.Tensor((16,), "float32")):
            with T.Kernel(1, threads=32):
                acc = T.alloc_fragment((16,), "float32")
                for i in T.Parallel(16):
                    acc[i] += A[i]  # from nothing
                T.copy(acc, C)

        return main

    got, happenings = compute(kernel(), np.ones(16, np.float32), out=((16,), np.float32))
    happening = only(happenings)
    assert (happening.kind, happening.buffer, happening.count) == ("uninitialized-read", "acc", 16)
    assert happening.place["line"] == line_of(kernel, "# from nothing")
    assert np.isnan(got).all()


def test_registers_of_each_thread_start_unwritten(compute):
    @T.prim_func
    def main(A: T.Tensor((32,), "float32"), C: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32):
            t = T.get_thread_binding()
            value = T.alloc_local((1,), "float32")
            if t < 20:
                value[0] = A[t]
            C[t] = value[0]

    got, happenings = compute(main, np.ones(32, np.float32), out=((32,), np.float32))
    happening = only(happenings)
    assert (happening.kind, happening.buffer, happening.count) == ("uninitialized-read", "value", 12)
    assert np.isnan(got[20:]).all()
    assert (got[:20] == 1).all()


def test_unwritten_integers_hold_a_pattern(compute):
    @T.prim_func
    def main(C: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=32):
            shared = T.alloc_shared((4,), "int32")
            for i in T.Parallel(4):
                C[i] = shared[i]

    got, happenings = compute(main, out=((4,), np.int32))
    assert only(happenings).kind == "uninitialized-read"
    assert got.tolist() == [0x5A5A5A5A] * 4


def test_outputs_that_stay_unwritten(compute):
    @T.prim_func
    def main(C: T.Tensor((8, 8), "float32")):
        with T.Kernel(1, threads=32):
            for i, j in T.Parallel(7, 8):
                C[i, j] = 1

    got, happenings = compute(main, out=((8, 8), np.float32))
    happening = only(happenings)
    assert (happening.kind, happening.buffer, happening.indices, happening.count) == ("never-written", "C", (7, 0), 8)
    assert np.isnan(got[7]).all()


def test_an_output_that_is_added_to_before_anyone_wrote_it(compute):
    @T.prim_func
    def main(C: T.Tensor((8,), "float32")):
        with T.Kernel(2, threads=32):
            for i in T.Parallel(8):
                T.atomic_add(C[i], 1)

    got, happenings = compute(main, out=((8,), np.float32))
    happening = only(happenings)
    assert (happening.kind, happening.buffer, happening.count) == ("uninitialized-read", "C", 8)
    assert np.isnan(got).all()


def test_lanes_that_write_different_values_to_one_element(compute, random):
    def kernel():
        @T.prim_func
        def main(A: T.Tensor((8, 16), "float32"), C: T.Tensor((8,), "float32")):
            with T.Kernel(1, threads=128):
                T.clear(C)
                for i, j in T.Parallel(8, 16):
                    C[i] = C[i] + A[i, j]  # they meet

        return main

    _, happenings = compute(kernel(), random.standard_normal((8, 16)).astype(np.float32), out=((8,), np.float32))
    happening = only(happenings)
    assert (happening.kind, happening.buffer) == ("collision", "C")
    assert happening.place["line"] == line_of(kernel, "# they meet")


def test_threads_that_write_the_same_do_not_collide(compute):
    @T.prim_func
    def main(A: T.Tensor((1,), "float32"), C: T.Tensor((1,), "float32")):
        with T.Kernel(1, threads=64):
            value = T.alloc_local((1,), "float32")
            shared = T.alloc_shared((1,), "float32")
            t = T.get_thread_binding()
            value[0] = A[0] + T.if_then_else(t < 64, 1, 2)
            shared[0] = value[0]
            C[0] = shared[0]

    got, happenings = compute(main, np.ones(1, np.float32), out=((1,), np.float32))
    assert got[0] == 2
    assert happenings == []


def test_division_by_zero(compute):
    @T.prim_func
    def main(A: T.Tensor((4,), "int32"), C: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(4):
                C[i] = 12 // A[i]

    got, happenings = compute(main, np.array([1, 0, -5, 0], np.int32), out=((4,), np.int32))
    happening = only(happenings)
    assert (happening.kind, happening.count) == ("division-by-zero", 2)
    assert got[[0, 2]].tolist() == [12, -3]


def test_assertions_of_the_kernel(compute):
    @T.prim_func
    def main(A: T.Tensor((4,), "int32"), C: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=4):
            t = T.get_thread_binding()
            T.device_assert(A[t] > 0)
            C[t] = A[t]

    _, happenings = compute(main, np.array([1, 2, 0, -1], np.int32), out=((4,), np.int32))
    happening = only(happenings)
    assert (happening.kind, happening.count) == ("assertion", 2)
    assert compute(main, np.array([1, 2, 3, 4], np.int32), out=((4,), np.int32))[1] == []


def test_prints_are_ignored(compute):
    @T.prim_func
    def main(C: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=4):
            t = T.get_thread_binding()
            shared = T.alloc_shared((4,), "int32")
            shared[t] = t
            T.print(shared)
            T.print(t, msg="thread")
            C[t] = shared[t]

    got, happenings = compute(main, out=((4,), np.int32))
    assert got.tolist() == [0, 1, 2, 3]
    assert happenings == []


# --------------------------------------------------------------------------------------------- refusals


def test_an_operator_that_is_not_known_is_named_with_its_line(twin):
    def kernel():
        @T.prim_func
        def main(C: T.Tensor((4,), "float32")):
            with T.Kernel(1, threads=32):
                for i in T.Parallel(4):
                    C[i] = T.call_extern("float32", "some_function", i)  # of CUDA

        return main

    with pytest.raises(twin.Unsupported) as caught:
        twin.run(kernel(), [np.zeros(4, np.float32)])
    assert caught.value.reason == "external function some_function"
    assert caught.value.place == {"file": __file__, "line": line_of(kernel, "# of CUDA")}


@pytest.mark.parametrize(
    "value", [np.zeros((2, 2), np.float32), np.zeros(5, np.float32), np.zeros(4, np.float64), None]
)
def test_arguments_that_do_not_fit(twin, value):
    @T.prim_func
    def main(C: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=32):
            T.clear(C)

    with pytest.raises(twin.Unsupported, match="argument of"):
        twin.run(main, [value])


def test_more_work_than_the_limit(twin):
    @T.prim_func
    def main(C: T.Tensor((1024,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(1024):
                C[i] = 1

    with pytest.raises(twin.Unsupported) as caught:
        twin.run(main, [np.zeros(1024, np.float32)], limit=1000)
    assert caught.value.reason == "more work than the limit"
    assert twin.run(main, [np.zeros(1024, np.float32)], limit=4000).work == 1024


# --------------------------------------------------------------------------------------------- observing


def test_an_observer_sees_every_statement_that_writes(twin):
    @T.prim_func
    def main(C: T.Tensor((2, 4), "float32")):
        with T.Kernel(2, threads=32) as x:
            acc = T.alloc_fragment((4,), "float32")
            T.clear(acc)
            for k in T.serial(2):
                for i in T.Parallel(4):
                    acc[i] += i + k
            T.copy(acc, C[x, 0:4])

    class Watch:
        def __init__(self):
            self.seen = []

        def wants(self, block):
            return block == (1,)

        def after(self, path, place, buffer, block, iteration, read):
            self.seen.append((buffer, block, iteration, read().tolist(), place["file"] == __file__, path))

    watch = Watch()
    twin.run(main, [np.zeros((2, 4), np.float32)], observer=watch)
    assert [entry[:5] for entry in watch.seen] == [
        ("acc", (1,), (), [0, 0, 0, 0], True),
        ("acc", (1,), (0,), [0, 1, 2, 3], True),
        ("acc", (1,), (1,), [1, 3, 5, 7], True),
        ("C", (1,), (), [[1, 3, 5, 7]] * 2, True),
    ]
    assert len({entry[5] for entry in watch.seen}) == 3


def test_paths_are_those_of_the_units(twin, harness):
    """Other tools name a statement by the child numbers from the body of the function down."""

    @T.prim_func
    def main(C: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=32):
            for k in T.serial(2):
                for i in T.Parallel(4):
                    if i > 1:
                        C[i] = k

    paths = []

    class Watch:
        def wants(self, block):
            return True

        def after(self, path, *_):
            paths.append(path)

    twin.run(main, [np.zeros(4, np.float32)], observer=Watch())
    by_path = {path: statement for path, _, statement in harness("units").walk(main.body)}
    assert {type(by_path[path]).__name__ for path in paths} == {"BufferStore"}
