from __future__ import annotations

from triage.experiment.output_tiles import tile_of
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
