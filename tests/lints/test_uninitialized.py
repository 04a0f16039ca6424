from __future__ import annotations

import dataclasses

from lint_kernels import branch, buffer, call, kernel, kinds, loop, only, op, region, store, whole

from triage.model import Place, Statement

A = buffer("A", (128, 128), "global")
S = buffer("s", (128, 128), "shared.dyn", line=6)
C = buffer("acc", (128, 128), "local.fragment", line=7)
GEMM = op("gemm", whole(S, "read"), whole(S, "read"), whole(C, "readwrite"), line=12, clear_accum=False)
FILL_S = op("copy", whole(A, "read"), whole(S, "write"))


def test_an_accumulator_nobody_cleared() -> None:
    record = kernel([A, S, C], loop("pipelined", 4, FILL_S, GEMM))
    hazard = only(record, "uninitialized-read")
    assert hazard.at == Place("kernel.py", 12) and hazard.labels[0].line == 7
    assert (hazard.fields["buffer"], hazard.fields["op"], hazard.fields["mode"]) == ("acc", "gemm", "readwrite")
    assert hazard.certainty == "certain"


def test_cleared_accumulators_in_every_place_they_are_cleared() -> None:
    clear = op("fill", whole(C, "write"))
    for body in (
        (clear, loop("pipelined", 4, FILL_S, GEMM)),
        (loop("pipelined", 4, FILL_S, branch("k == 0", clear), GEMM),),
        (loop("serial", 4, FILL_S, GEMM, clear),),  # the first turn is garbage, yet a loop may bring the clear round
        (FILL_S, op("gemm", whole(S, "read"), whole(S, "read"), whole(C, "write"))),
    ):
        assert kinds(kernel([A, S, C], *body)) == []


def test_registers_cleared_only_afterwards() -> None:
    record = kernel([A, S, C], FILL_S, GEMM, op("fill", whole(C, "write")))
    assert only(record, "uninitialized-read").fields["writers"] == 1


def test_shared_memory_may_be_written_by_other_threads_further_down() -> None:
    consumer = branch("tx < 128", op("copy", whole(S, "read"), whole(C, "write")), divergent=True)
    producer = branch("tx >= 128", FILL_S, divergent=True)
    assert kinds(kernel([A, S, C], consumer, producer)) == []


def test_copying_out_of_shared_memory_nobody_wrote() -> None:
    record = kernel([A, S], op("copy", whole(S, "read"), whole(A, "write"), line=14))
    assert only(record, "uninitialized-read").at == Place("kernel.py", 14)


def test_an_element_that_vouches_only_for_itself() -> None:
    assert kinds(kernel([S], store(whole(S, "write"), whole(S, "read")))) == ["uninitialized-read"]


def test_buffers_that_reach_what_cannot_be_seen_into_are_left_alone() -> None:
    out = op("copy", whole(S, "read"), whole(A, "write"))
    assert kinds(kernel([A, S], call("call_extern('void', 'fill', access_ptr(s[0, 0], 16384, 2))"), out)) == []
    assert kinds(kernel([A, S], call("call_extern('void', 'fill', access_ptr(other[0], 16384, 2))"), out)) == [
        "uninitialized-read"
    ]


def test_a_read_that_may_never_happen() -> None:
    assert kinds(kernel([A, S], branch("flag", op("copy", whole(S, "read"), whole(A, "write"))))) == []


def test_writing_through_another_shape_counts() -> None:
    view = dataclasses.replace(buffer("v", (16384,), "shared.dyn"), alias_of="s")
    out = op("copy", whole(view, "read"), whole(A, "write"))
    assert kinds(kernel([A, S, view], FILL_S, out)) == []
    assert only(kernel([A, S, view], out), "uninitialized-read").fields["buffer"] == "s"


def test_an_operator_that_clears_when_an_expression_says_so() -> None:
    clearing = op("gemm", whole(S, "read"), whole(S, "read"), whole(C, "readwrite"), clear_accum="k == 0")
    assert kinds(kernel([A, S, C], loop("pipelined", 4, FILL_S, clearing))) == []
    unknown = op("gemm_sp", whole(S, "read"), whole(S, "read"), whole(C, "readwrite"))
    assert kinds(kernel([A, S, C], loop("pipelined", 4, FILL_S, unknown))) == []


def test_a_reduction_on_top_of_nothing() -> None:
    total = buffer("total", (128,), "local.fragment")
    for clear, expected in ((False, ["uninitialized-read"]), (True, [])):
        reduce = op("reduce", whole(S, "read"), whole(total, "write"), clear=clear)
        assert kinds(kernel([A, S, total], FILL_S, reduce)) == expected


def test_reading_more_than_was_written() -> None:
    f = buffer("f", (256,), "local.fragment")
    write = loop("parallel", 100, store(region("f", "write", (0, 99, 1))))
    read = loop("parallel", 256, store(region("f", "read", (0, 255, 1)), line=15))
    hazard = only(kernel([f], write, read), "partly-uninitialized-read")
    assert hazard.at == Place("kernel.py", 15) and hazard.certainty == "likely"
    assert (hazard.fields["written_last"], hazard.fields["last"]) == (99, 255)
    rest = loop("parallel", 156, store(region("f", "write", (100, 255, 1))))
    unknown = store(region("f", "write", (None, None, 1)))
    for more in (rest, unknown, branch("flag", rest)):
        assert kinds(kernel([f], write, read, more)) == []


def test_a_pointer_prints_under_the_name_the_author_gave() -> None:
    renamed = dataclasses.replace(buffer("s_1", (128, 128), "shared.dyn"), source_name="s")
    out = op("copy", whole(renamed, "read"), whole(A, "write"))
    assert kinds(kernel([A, renamed], call("call_extern('fill', s)"), out)) == []
    assert kinds(kernel([A, renamed], out)) == ["uninitialized-read"]


def test_a_pointer_inside_an_expression() -> None:
    through = dataclasses.replace(whole(S, "readwrite"), mode="readwrite")
    bound = Statement("b", "bind", None, "n = call_extern('fill', access_ptr(s[0, 0], 16384, 3))", accesses=(through,))
    out = op("copy", whole(S, "read"), whole(A, "write"))
    assert kinds(kernel([A, S], bound, out)) == []


BINS = buffer("bins", (16,), "shared.dyn", line=6)


def counted(text: str, mode: str = "readwrite") -> Statement:
    return dataclasses.replace(call(text, 12), accesses=(region("bins", mode, (0, 15, 1)),))


def test_counting_into_what_nobody_cleared() -> None:
    count = counted("atomic_add_elem_op(access_ptr(bins[i], 1, 3), 1)")
    hazard = only(kernel([BINS], loop("parallel", 128, count)), "uninitialized-read")
    assert hazard.at == Place("kernel.py", 12) and hazard.fields["buffer"] == "bins"
    tile = op("atomicadd", whole(A, "read"), whole(BINS, "write"))
    assert kinds(kernel([A, BINS], tile)) == ["uninitialized-read"]
    assert kinds(kernel([BINS], count, count)) == ["uninitialized-read"]


def test_counting_from_a_start() -> None:
    count = counted("atomic_add_elem_op(access_ptr(bins[i], 1, 3), 1)")
    clear = op("fill", whole(BINS, "write"))
    stored = counted("atomic_store_elem_op(access_ptr(bins[i], 1, 2), 0)", "write")
    elsewhere = call("call_extern('void', 'clear', access_ptr(bins[0], 16, 2))")
    for first in (clear, stored, elsewhere):
        assert kinds(kernel([BINS], first, count)) == []


def test_several_accumulations_and_no_start() -> None:
    twice = kernel([A, S, C], loop("pipelined", 4, FILL_S, GEMM, dataclasses.replace(GEMM, id="again")))
    assert only(twice, "uninitialized-read").fields["writers"] == 0
