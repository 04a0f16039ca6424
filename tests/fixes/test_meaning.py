"""Doubts about patched kernels, and when two of them are the same program."""

from __future__ import annotations

from dataclasses import replace

from triage.fixes.meaning import doubts, program, uses_thread_index
from triage.model import Access, BufferInfo, KernelRecord, Launch, Loop, Statement, TileOp


def copy(tensor: str, index: tuple[str, ...], extent: tuple[int, ...], high: tuple[int, ...], tile: str, **more):
    low = (0,) * len(extent)
    whole = Access(tile, ("0",) * len(extent), extent, low, low, exact=True, mode="write")
    part = Access(tensor, index, extent, low, high, exact=True, mode="read")
    return Statement("0", "op", op=TileOp("copy"), accesses=(part, whole), **more)


def use(*tiles: str) -> Statement:
    accesses = tuple(Access(tile, ("0",), (1,), (0,), (0,), mode="read") for tile in tiles)
    return Statement("1", "op", op=TileOp("gemm"), accesses=accesses)


def kernel(*statements: Statement, tile: tuple[int, int] = (128, 32), dtype: str = "float16") -> KernelRecord:
    return KernelRecord(
        "main",
        params=({"name": "A", "dtype": "float16", "shape": [1024, 512]},),
        buffers=(
            BufferInfo("A", "global", "float16", (1024, 512), param=True),
            BufferInfo("a", "shared.dyn", dtype, tile),
        ),
        launches=(Launch((8,), (128, 1, 1)),),
        statements=statements,
    )


def kinds(record: KernelRecord) -> set[str]:
    return {doubt.kind for doubt in doubts(record)}


def test_tiles_that_step_by_their_size_and_cover_the_tensor_raise_no_doubt():
    assert doubts(kernel(copy("A", ("by * 128", "k * 32"), (128, 32), (896, 480), "a"), use("a"))) == []


def test_a_transposed_tile_overlaps_in_one_dimension_and_leaves_gaps_in_the_other():
    record = kernel(copy("A", ("by * 128", "k * 32"), (32, 128), (896, 480), "a"), use("a"), tile=(32, 128))
    said = [doubt.what for doubt in doubts(record)]
    assert "tiles of 32 elements of A are 128 apart (dimension 0)" in said
    assert "tiles of 128 elements of A are 32 apart (dimension 1)" in said


def test_a_last_tile_that_reaches_beyond_a_ragged_tensor_is_usual():
    assert "tiles" not in kinds(
        kernel(copy("A", ("by * 96", "k * 32"), (96, 32), (960, 480), "a"), use("a"), tile=(96, 32))
    )


def test_a_part_of_a_tensor_and_a_tile_of_another_type_are_doubts():
    assert kinds(kernel(copy("A", ("by * 128", "k * 32"), (128, 32), (896, 224), "a"), use("a"))) == {"tiles"}
    assert kinds(kernel(copy("A", ("by * 128", "k * 32"), (128, 32), (896, 480), "a"), use("a"), dtype="int8")) == {
        "dtype"
    }


def test_a_tile_that_nobody_reads():
    assert kinds(kernel(copy("A", ("by * 128", "k * 32"), (128, 32), (896, 480), "a"))) == {"unused"}


def bind(text: str) -> Statement:
    return Statement("0", "bind", text=text)


def in_loop(*body: Statement, var: str = "k") -> Statement:
    return Statement("1", "for", loop=Loop(var, "serial", 0, 16), body=body)


def test_a_named_index_is_read_through_its_binding():
    for start in ("part * 256 + k * 32", "(part * 8 + k) * 32", "bz % 2 * 256 + k * 32"):
        named = copy("A", ("by * 128", "start"), (128, 32), (896, 480), "a")
        record = kernel(bind("part = bz % 2"), in_loop(bind(f"start = {start}"), named), use("a"))
        assert doubts(record) == [], start


def test_a_named_index_of_another_step_is_a_doubt_and_one_that_is_not_known_is_none():
    def record(start: str) -> KernelRecord:
        named = copy("A", ("by * 128", "start"), (128, 32), (896, 480), "a")
        return kernel(in_loop(bind(f"start = {start}"), named), use("a"))

    said = [doubt.what for doubt in doubts(record("k * 64"))]
    assert said == ["tiles of 32 elements of A are 64 apart (dimension 1)"]
    assert doubts(record("offsets[k]")) == []
    assert doubts(record("k * <what>")) == []


def test_a_name_that_is_bound_twice_has_the_value_of_the_binding_before():
    first = copy("A", ("by * 128", "col"), (128, 32), (896, 480), "a")
    second = copy("A", ("by * 128", "col"), (128, 32), (896, 448), "a")
    record = kernel(in_loop(bind("col = k * 32"), first, bind("col = col * 2"), second), use("a"))
    said = [doubt.what for doubt in doubts(record) if "apart" in doubt.what]
    assert said == ["tiles of 32 elements of A are 64 apart (dimension 1)"]


def test_an_element_is_written_by_each_iteration_if_its_name_depends_on_the_loop():
    store = Statement(
        "0.0", "store", accesses=(Access("a", ("i", "col"), (1, 1), (0, 0), (127, 31), exact=True, mode="write"),)
    )
    loops = Statement("0", "for", loop=Loop("i", "parallel", 0, 128), body=(
        Statement("0.1", "for", loop=Loop("j", "parallel", 0, 32), body=(bind("col = 31 - j"), store)),))  # fmt: skip
    assert "elements" not in kinds(kernel(loops, use("a", "A")))


def test_an_element_that_several_iterations_write():
    store = Statement(
        "0.0", "store", accesses=(Access("a", ("i", "0"), (1, 1), (0, 0), (127, 0), exact=True, mode="write"),)
    )
    loops = Statement("0", "for", loop=Loop("i", "parallel", 0, 128), body=(
        Statement("0.1", "for", loop=Loop("j", "parallel", 0, 32), body=(store,)),))  # fmt: skip
    said = [doubt.what for doubt in doubts(kernel(loops, use("a", "A")))]
    assert "a is written without j" in said


def test_a_loop_that_reads_a_part_of_a_tensor_or_the_same_elements_again():
    def reads(index: tuple[str, str], high: tuple[int, int]) -> KernelRecord:
        load = Access("A", index, (1, 1), (0, 0), high, exact=True, mode="read")
        store = Access("a", ("i", "j"), (1, 1), (0, 0), (127, 31), exact=True, mode="write")
        inner = in_loop(Statement("0.1", "store", accesses=(load, store)), var="j")
        return kernel(in_loop(inner, var="i"), use("a"))

    assert doubts(reads(("by * 128 + i", "k * 32 + j"), (1023, 511))) == []
    assert kinds(reads(("by * 128 + i", "j"), (1023, 31))) == {"part"}
    assert kinds(reads(("by", "k * 32 + j"), (7, 511))) == {"part"}


def test_an_output_that_is_never_written():
    record = replace(kernel(copy("A", ("by * 128", "k * 32"), (128, 32), (896, 480), "a"), use("a")), out_idx=(0,))
    assert "output" in kinds(record)


def test_threads_and_stages_do_not_make_another_program_and_extents_do():
    def pipelined(stages: int, extent: int) -> KernelRecord:
        loop = Loop("k", "pipelined", 0, extent, {"num_stages": stages})
        return kernel(Statement("0", "for", text=f"for k in pipelined({extent})", loop=loop, body=(use("a"),)))

    one = pipelined(2, 16)
    assert program(one) == program(replace(pipelined(3, 16), launches=(Launch((8,), (256, 1, 1)),)))
    assert program(one) != program(pipelined(2, 8))
    assert program(one) != program(kernel(*one.statements, tile=(32, 128)))


def test_a_kernel_that_computes_with_the_number_of_a_thread():
    bind = Statement("0", "bind", text="tx = launch_thread_idx(0)")
    own = Statement("1", "store", accesses=(Access("a", ("tx", "0"), (1, 1), (0, 0), (127, 0), mode="write"),))
    row = Statement("1", "bind", text="row = tx // 4")
    through = Statement("2", "store", accesses=(Access("a", ("row", "0"), (1, 1), (0, 0), (31, 0), mode="write"),))
    assert uses_thread_index(kernel(bind, own))
    assert uses_thread_index(kernel(bind, row, through))
    assert not uses_thread_index(kernel(bind, use("a")))
