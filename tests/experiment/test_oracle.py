from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triage.experiment.oracle import (
    Verdict,
    decisive,
    differing,
    fault_key,
    function_name,
    judge,
    normalize,
    placeless,
    raiser,
    told,
)
from triage.model import ErrorRecord, Frame

PYTHON = Frame(
    "/home/user/venv/lib/python3.11/site-packages/tilelang/cuda/pipeline.py", 134, "Prologue", "", "python", False
)
INFER = Frame(
    "<unknown>",
    0,
    "tvm::tl::GemmNode::InferLayout(tvm::tl::LayoutInferArgs const&, tvm::tl::InferLevel) const",
    "",
    "cxx",
)
FATAL = Frame("<unknown>", 0, "tvm::runtime::detail::LogFatal::~LogFatal()", "", "cxx")
THROW = Frame(
    "/project/src/cuda/op/gemm.cc",
    257,
    "std::pair<int, int> tvm::tl::cuda::{anonymous}::Partition(int, int)",
    "",
    "cxx",
)


def error(
    message: str = "M must be divisible by 16, but got 100", frames: tuple[Frame, ...] = (PYTHON, THROW)
) -> ErrorRecord:
    return ErrorRecord("exception", "tvm.error.InternalError", message, frames, pass_name="tl.LayoutInference")


def test_the_same_error_with_other_numbers_is_the_same_fault() -> None:
    start = fault_key(error())
    assert judge(start, "failed", error("M must be divisible by 16, but got 40")).verdict == Verdict.SAME


@pytest.mark.parametrize(
    ("other", "part"),
    [
        (error("N must be divisible by 16, but got 100"), "text"),
        (dataclasses.replace(error(), type="ValueError"), "exception"),
        (dataclasses.replace(error(), pass_name="tl.LowerTileOp"), "pass_name"),
        (error(frames=(PYTHON, dataclasses.replace(THROW, file="/project/src/op/copy.cc"))), "raiser"),
        (error(frames=()), "raiser"),
        (dataclasses.replace(error(), kind="signal"), "kind"),
    ],
)
def test_an_error_that_differs_in_one_part_is_another_fault(other: ErrorRecord, part: str) -> None:
    outcome = judge(fault_key(error()), "failed", other)
    assert outcome.verdict == Verdict.OTHER
    assert outcome.differs == (part,)


@pytest.mark.parametrize(
    ("status", "verdict"),
    [("succeeded", Verdict.NONE), ("timed_out", Verdict.UNKNOWN), ("infra_error", Verdict.UNKNOWN)],
)
def test_only_an_error_is_evidence_of_a_fault(status: str, verdict: Verdict) -> None:
    assert judge(fault_key(error()), status, None).verdict == verdict


def test_operands_are_compared_where_both_are_known() -> None:
    start = fault_key(error(), operands={"k_a": 32, "k_b": 64})
    assert differing(start, fault_key(error(), operands={"k_a": 32, "k_b": 128})) == ("operands.k_b",)
    assert differing(start, fault_key(error(), operands={"k_a": 32})) == ()


def test_the_line_of_a_frame_is_no_part_of_the_fault() -> None:
    moved = error(frames=(dataclasses.replace(PYTHON, line=1), dataclasses.replace(THROW, line=2)))
    assert fault_key(moved) == fault_key(error())


def test_the_raiser_is_the_innermost_frame_that_says_something() -> None:
    assert raiser((PYTHON, THROW)) == "src/cuda/op/gemm.cc:tvm::tl::cuda::{anonymous}::Partition"
    assert raiser((PYTHON, INFER, FATAL)) == ":tvm::tl::GemmNode::InferLayout"
    user = Frame("/home/user/kernels/k.py", 3, "main", "", "python", True)
    assert raiser((PYTHON, user)) == "tilelang/cuda/pipeline.py:Prologue"
    assert raiser(()) == ""
    generated = Frame("/tmp/tmpa1b2/tvm_kernels.cu", 40, "", "", "cxx", False)
    assert raiser((generated,)) == "tvm_kernels.cu:"


@pytest.mark.parametrize(
    ("signature", "name"),
    [
        ("visit_for_", "visit_for_"),
        ("void tvm::tl::Collector::Infer(tvm::Map<int, int>&, const char*)", "tvm::tl::Collector::Infer"),
        ("std::vector<std::pair<int, A>> ns::f(int) const", "ns::f"),
        (
            "tvm::tirx::PrimFunc tvm::tl::MakePackedAPI(tvm::tirx::PrimFunc, const std::vector<int>&)",
            "tvm::tl::MakePackedAPI",
        ),
        ("ns::(anonymous namespace)::g(int)", "ns::{anonymous}::g"),
    ],
)
def test_names_of_functions_have_no_types(signature: str, name: str) -> None:
    assert function_name(signature) == name


def test_the_decisive_line_is_neither_source_excerpt_nor_generated_code() -> None:
    excerpt = "\nGet different layout for c\n current: x\n  --> /home/user/k.py:8:1\n    |\n 8 |  c = f()\n    |  ^"
    assert decisive(excerpt) == "Get different layout for c"
    nvcc = '#if defined(_MSC_VER)\nint x;\nCompilation error:\n/tmp/a/k.cu(7): warning #1: w\n/tmp/a/k.cu(9): error: identifier "f" is undefined\nCommand: nvcc'
    assert decisive(nvcc) == '/tmp/a/k.cu(9): error: identifier "f" is undefined'
    assert decisive("") == ""
    assert "Command" not in told(nvcc)
    assert "int x" not in told(nvcc)
    assert decisive("an error: of another kind") == "an error: of another kind"


def test_what_varies_is_blanked() -> None:
    assert (
        normalize("buffer acc_12 at 0x7f12 in /tmp/tmpab1/k.cu(9) is 3.5 of -7")
        == "buffer acc at # in k.cu(#) is # of #"
    )
    assert normalize("tl.copy of fp16") == "tl.copy of fp16"
    assert normalize("/tmp/tmp0xab_12/k.cu(4): error") == normalize("/tmp/tmpc-7.1/k.cu(5): error")


def test_a_place_is_blanked_and_a_number_is_not() -> None:
    assert placeless("/tmp/tmpab/k.cu at 0x7f12 of 64 float16") == "k.cu at # of 64 float16"


@given(st.text())
def test_any_text_can_be_normalized_twice(text: str) -> None:
    once = normalize(text)
    assert normalize(once) == once
    assert "\n" not in decisive(text)


@given(st.text(max_size=60))
def test_any_signature_has_a_name(text: str) -> None:
    assert "\n" not in text or isinstance(function_name(text), str)
    assert len(function_name(text)) <= len(text) + 20
