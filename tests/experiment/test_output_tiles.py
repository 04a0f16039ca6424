from __future__ import annotations

from triage.experiment.feeding import leading_to
from triage.experiment.output_tiles import block_of, counted_rounds, tile_of
from triage.model import Access, KernelRecord, Loop, Statement


def record(*statements: Statement) -> KernelRecord:
    return KernelRecord("main", statements=statements)


def written(index: tuple[str, ...], extent: tuple[int | None, ...], buffer: str = "C") -> Statement:
    unbounded = (None,) * len(index)
    return Statement("0", "store", accesses=(Access(buffer, index, extent, unbounded, unbounded, mode="write"),))


def parallel(var: str, extent: int | str, *body: Statement) -> Statement:
    return Statement("0", "for", loop=Loop(var, "parallel", 0, extent), body=body)


def test_a_copy_tells_its_tile() -> None:
    assert tile_of(record(written(("by * 64", "bx * 32"), (64, 32))), "C") == (64, 32)


def test_single_stores_tell_it_by_the_parallel_loops_around_them() -> None:
    store = written(("by * 16 + i", "bx * 8 + j"), (1, 1))
    assert tile_of(record(parallel("i", 16, parallel("j", 8, store))), "C") == (16, 8)


def test_a_vector_has_one_row() -> None:
    assert tile_of(record(parallel("i", 32, written(("bx * 32 + i",), (1,)))), "C") == (1, 32)


def test_leading_axes_do_not_count() -> None:
    assert tile_of(record(written(("bz", "by * 64", "0"), (1, 64, 128))), "C") == (64, 128)


def test_what_is_open_or_told_twice_is_no_tile() -> None:
    assert tile_of(record(written(("by", "bx"), (None, 32))), "C") is None
    assert tile_of(record(parallel("i", "n", written(("i", "0"), (1, 1)))), "C") is None
    assert tile_of(record(written(("0", "0"), (64, 32)), written(("0", "0"), (32, 32))), "C") is None
    assert tile_of(record(written(("0", "0"), (64, 32), "D")), "C") is None
    assert tile_of(record(written(("bx", "by"), (1, 1))), "C") is None


def test_the_block_of_a_tile_is_told_by_the_names_of_the_program() -> None:
    plain = record(written(("by * 64", "bx * 32"), (64, 32)))
    assert block_of(plain, "C", (128, 32)) == {"by": 2, "bx": 1}
    assert block_of(plain, "C", (96, 32)) is None
    store = written(("by * 16 + i", "bx * 8 + j"), (1, 1))
    assert block_of(record(parallel("i", 16, parallel("j", 8, store))), "C", (16, 24)) == {"by": 1, "bx": 3}


def test_no_block_is_told_where_an_index_has_several_names_or_statements_differ() -> None:
    assert block_of(record(written(("(by + bx) * 64", "bx * 32"), (64, 32))), "C", (64, 0)) is None
    assert block_of(record(written(("by % 2 * 64", "bx * 32"), (64, 32))), "C", (64, 0)) is None
    twice = written(("by * 64", "bx * 32"), (64, 32))
    assert block_of(record(twice, twice), "C", (64, 0)) is None
    assert block_of(record(written(("b * 64", "b * 32"), (64, 32))), "C", (64, 0)) is None


def test_a_factor_is_a_part_of_the_only_loop_that_it_fits() -> None:
    def loop(var: str, extent: int) -> Statement:
        return Statement("0", "for", loop=Loop(var, "pipelined", 0, extent))

    assert counted_rounds(record(loop("k", 4)), 0.7501) == (3, 4, "k")
    assert counted_rounds(record(loop("k", 4)), 0.6) is None
    assert counted_rounds(record(loop("k", 4)), 2.0) is None
    assert counted_rounds(record(loop("k", 4), loop("j", 8)), 0.75) is None


def test_what_leads_to_an_output_is_followed_through_the_statements() -> None:
    def moves(source: str, target: str) -> Statement:
        read, write = (Access(b, ("0",), (1,), (0,), (0,), mode=m) for b, m in ((source, "read"), (target, "write")))
        return Statement("0", "op", accesses=(read, write))

    program = record(moves("A", "a"), parallel("i", 4, moves("a", "c")), moves("B", "d"), moves("c", "C"))
    assert leading_to(program, "C") == {"A", "a", "c"}
