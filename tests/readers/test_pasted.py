"""Errors in texts that were copied out of their surroundings: what is read, and what is not."""

from __future__ import annotations

import pytest

from triage.model import ErrorRecord
from triage.ownership import owner_by_path
from triage.readers import read_output


def errors(text: str) -> list[ErrorRecord]:
    return list(read_output(text, "text", owner_by_path).errors)


@pytest.mark.parametrize(
    ("text", "kind", "type_", "message"),
    [
        ("E       ValueError: first\nE       second", "exception", "ValueError", "first\nsecond"),
        ("AssertionError: the layout disagrees with\nthe row-major one\n\nI wonder", "exception", "AssertionError", "the layout disagrees with\nthe row-major one"),
        ("the log says `RuntimeError: no layout`", "exception", "RuntimeError", "no layout"),
        ("[rank0]: tvm.error.InternalError: Check failed", "exception", "tvm.error.InternalError", "Check failed"),
        ('nvcc says identifier "__dfadd_rn" is undefined', "compiler", "nvcc", 'error: identifier "__dfadd_rn" is undefined'),
        ("fatal error: 'hip/hip_runtime.h' file not found", "compiler", "nvcc", "fatal error: 'hip/hip_runtime.h' file not found"),
        (
            'no instance of overloaded function "atomicAdd" matches the argument list\n  argument types are: (half_t *, half_t)',
            "compiler",
            "nvcc",
            'error: no instance of overloaded function "atomicAdd" matches the argument list\n  argument types are: (half_t *, half_t)',
        ),
        ("it dies with CUDA_ERROR_ILLEGAL_ADDRESS after a while", "check", "runtime", "it dies with CUDA_ERROR_ILLEGAL_ADDRESS after a while"),
    ],
)  # fmt: skip
def test_what_is_read(text: str, kind: str, type_: str, message: str) -> None:
    (error,) = errors(text)
    assert (error.kind, error.type, error.message) == (kind, type_, message)


def test_a_whole_error_leaves_no_room_for_guesses() -> None:
    """Beside a whole traceback, words around it are prose."""
    text = 'Traceback (most recent call last):\n  File "k.py", line 3, in <module>\n    f()\nValueError: no\n\nI saw `RuntimeError: x` before'
    assert [error.type for error in errors(text)] == ["ValueError"]


def test_the_last_line_of_a_cut_traceback_may_stand_in_the_prose() -> None:
    text = "AttributeError: 'V' object has no attribute '_inst' since the update\n\nTraceback (most recent call last):\n  File \"k.py\", line 3, in <module>\n    f()\n"
    assert {error.type for error in errors(text)} == {"AttributeError", ""}


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("ERROR: Invalid wheel filename (wrong number of parts): 'tilelang-*'", "pip"),
        ("CMake Error at CMakeLists.txt:12 (find_package): no", "cmake"),
        ("  Could NOT find ZLIB (missing: ZLIB_LIBRARY ZLIB_INCLUDE_DIR)", "cmake"),
        ('Assertion `0 && "Attempting to use X without CUTE_ARCH_Y"` failed.', "runtime"),
    ],
)
def test_tools_around_the_subject(text: str, type_: str) -> None:
    assert [error.type for error in errors(text)] == [type_]


def test_frames_that_end_at_a_raise_are_an_error() -> None:
    text = '  File "/v/site-packages/tilelang/jit/__init__.py", line 71, in compile\n    assert isinstance(func, PrimFunc), "x"\n'
    (error,) = errors(text)
    assert (error.type, error.frames[-1].function) == ("", "compile")


@pytest.mark.parametrize(
    "text",
    [
        "  4: tvm::tl::Outer(x)\n  3: tvm::codegen::CodeGenTileLangCUDA::VisitStmt_(tvm::tir::AttrStmtNode const*)\n",
        'E    File "<unknown>", line 0, in tvm::tl::Outer(x)\n  File "<unknown>", line 0, in tvm::codegen::CodeGenTileLangCUDA::VisitStmt_(x)\n',
    ],
)
def test_a_stack_of_the_compiler_is_an_error(text: str) -> None:
    (error,) = errors(text)
    assert error.frames[-1].function.startswith("tvm::codegen::CodeGenTileLangCUDA::VisitStmt_")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "all tests passed, no errors",
        '  File "k.py", line 3, in f\n    g()\n',
        "we identify 3 defined values; the function has 2 arguments",
        "An Error: is a word here",
        "CUDA 12.8 on an H100",
    ],
)
def test_what_is_not_read(text: str) -> None:
    assert not errors(text)


def test_what_a_cxx_exception_says_may_have_lost_its_indentation() -> None:
    (error,) = errors(
        "terminate called after throwing an instance of 'tvm::ffi::Error'\nwhat(): TypeAttr `x` is already registered\n"
    )
    assert (error.type, error.message) == ("tvm::ffi::Error", "TypeAttr `x` is already registered")


def test_a_crash_without_the_name_of_its_thread() -> None:
    text = 'Fatal Python error: Floating point exception\n...\n  File "tilelang/rocm/op/gemm/gemm_mfma.py", line 22 in infer_layout\n  File "tilelang/ir.py", line 32 in f\n'
    (error,) = errors(text)
    assert (error.type, [frame.function for frame in error.frames]) == ("SIGFPE", ["f", "infer_layout"])
