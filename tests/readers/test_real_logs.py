"""Logs of real runs: the decisive record, its quote, its frames, and the lines of the user's file that it names."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from triage.model import ErrorRecord
from triage.readers import Reading, decisive, parse_check, read_output

LOGS = Path(__file__).parent / "logs"


def of_user(file: str) -> bool | None:
    if file.startswith("/home/user/kernels/"):
        return True
    return False if file.startswith(("/home/user/venv/", "/usr/", "/project/")) else None


def read(name: str) -> Reading:
    return read_output((LOGS / f"{name}.log").read_text(), f"{name}.log", of_user)


def only_error(name: str) -> ErrorRecord:
    (error,) = read(name).errors
    return error


@dataclass(frozen=True)
class Expected:
    """`user` is the innermost line of the user's file among the frames; `raiser` the end of the innermost frame's path."""

    log: str
    kind: str
    type: str
    message: str
    raiser: str | None = None
    user: int | None = None
    named: tuple[int, ...] = ()
    mentions: tuple[str, ...] = ()


CASES = [
    Expected("call-shape", "exception", "ValueError", "Static shape mismatch for parameter A: expected 16 at index 0, got 17", "cython_wrapper.pyx", 14, (), ("A",)),
    Expected("callback-reentry", "exception", "tvm.error.InternalError", "No valid warp partition for T.gemm: M=128", "<unknown>", 20, (), ("threads",)),
    Expected("cython-backend", "compiler", "c++", "error: invalid conversion from", ".cpp"),
    Expected("dsl-assert", "exception", "AssertionError", "T.gemm K shape check failed: K_A = 32, K_B = 128", "tilelang/language/gemm_op.py", 17),
    Expected("dump-after-message", "exception", "RuntimeError", "Immutable variable `x` is used outside its defining region!", "eager/builder.py", 9, (), ("x",)),
    Expected("hipcc-missing", "exception", "RuntimeError", "Cannot find hipcc.", "contrib/rocm.py", 20),
    Expected("import-library", "exception", "RuntimeError", "Cannot find library libtvm_runtime.so", "tvm/libinfo.py", 3),
    Expected("layout-conflict", "exception", "tvm.error.InternalError", "Layout infer conflict between s and s_cast in T.Parallel loop:", None, 38, (), ("s", "s_cast")),
    Expected("log-fatal-span", "exception", "tvm.error.InternalError", "Selected loop range is smaller", "<unknown>", 9, (6,), ("A", "s")),
    Expected("missing-header", "compiler", "c++", "fatal error: cute/numeric/numeric_types.hpp: No such file or directory", "tl_templates/cuda/instruction/../common.h"),
    Expected("no-layout", "exception", "tvm.error.InternalError", "Check failed: (has_best) is false: no available layout found", "layout_inference.cc", 15),
    Expected("nvcc-fatal", "compiler", "nvcc", "nvcc fatal   : Unsupported gpu architecture 'sm_50'"),
    Expected("nvcc-generated-line", "compiler", "nvcc", "error: a break statement may only be used within a loop or switch", "tvm_kernels.cu"),
    Expected("nvcc-line-directive", "compiler", "nvcc", 'error: identifier "no_such" is undefined', "nv2.py", 8, (8,), ("no_such",)),
    Expected("nvcc-line-directive-trail", "compiler", "nvcc", "error: static assertion failed", "tl_templates/cuda/scan.h", 8, (8,)),
    Expected("nvcc-static-assert", "compiler", "nvcc", 'error: static assertion failed with "tl::mma_sync: unsupported configuration"', "tl_templates/cuda/instruction/mma.h"),
    Expected("nvcc-template-trail", "compiler", "nvcc", "error: static assertion failed", "tl_templates/cuda/scan.h"),
    Expected("python311-eg", "exception", "ValueError", "wrapped", "eg.py", 5),
    Expected("python313-eg", "exception", "ValueError", "wrapped", "eg.py", 5),
    Expected("python311-pool", "exception", "KeyError", "'b'", "pool.py", 3),
    Expected("python313-pool", "exception", "KeyError", "'b'", "pool.py", 3),
    Expected("python311-syn", "exception", "SyntaxError", "invalid syntax", "syn.py", 2, (2,)),
    Expected("python313-syn", "exception", "SyntaxError", "invalid syntax", "syn.py", 2, (2,)),
    Expected("python311-fault", "signal", "SIGSEGV", "Segmentation fault", "ctypes/__init__.py", 4),
    Expected("python313-fault", "signal", "SIGSEGV", "Segmentation fault", "ctypes/__init__.py", 4),
    Expected("python311-stacks", "timeout", "Timeout", "Timeout (0:00:00.300000)!", "stacks.py", 7),
    Expected("python313-stacks", "timeout", "Timeout", "Timeout (0:00:00.300000)!", "stacks.py", 7),
    Expected("segfault-tvm", "signal", "SIGSEGV", "Segfault encountered", "<unknown>"),
    Expected("span-and-check", "exception", "tvm.error.InternalError", "Check failed: (pci != nullptr) is false: Can not use non-constant range", "layout_cost_model.cc", 10, (7,)),
    Expected("structural-equal", "exception", "ValueError", "StructuralEqual check failed, caused by lhs at <root>[0].value:", "structural_equal.cc", 9),
    Expected("thread-sync-fatal", "exception", "tvm.error.InternalError", "[ThreadSync] Cannot lower a required shared-memory sync", "<unknown>", 30),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.log)
def test_decisive_record(case: Expected) -> None:
    found = decisive(only_error(case.log))
    assert (found.kind, found.type) == (case.kind, case.type)
    assert found.message.startswith(case.message)
    if case.raiser is None:
        assert not found.frames or found.frames[-1].user is False
    else:
        assert found.frames[-1].file.endswith(case.raiser)
    lines = [frame.line for frame in found.frames if frame.user]
    assert (lines[-1] if lines else None) == case.user
    assert tuple(place.line for place in found.named) == case.named
    assert found.mentions[: len(case.mentions)] == case.mentions
    assert found.quote is not None
    assert case.message.partition("\n")[0] in found.quote.text


def test_compiler_message_keeps_the_operands_of_the_trail() -> None:
    found = decisive(only_error("nvcc-template-trail"))
    assert "threads=96" in found.message
    assert [frame.line for frame in found.frames] == [25, 160, 109]
    assert found.frames[0].text.startswith("tl::CumSum1D<96")  # mapped to the generated source, which the message holds


def test_generated_line_is_shown_with_its_text() -> None:
    found = decisive(only_error("nvcc-generated-line"))
    assert (found.frames[-1].line, found.frames[-1].text) == (20, "break;;")


def test_includes_lead_from_the_generated_source_to_the_missing_header() -> None:
    found = decisive(only_error("missing-header"))
    assert [Path(frame.file).name for frame in found.frames] == ["tvm_kernels.cu", "wgmma.h", "common.h"]


def test_multi_line_messages_are_whole() -> None:
    assert only_error("structural-equal").message.endswith("(128, 32)\nand rhs at <root>[0].value:\n(64, 32)")
    conflict = only_error("layout-conflict").message
    assert conflict.count("Fragment(") == 2
    span = only_error("log-fatal-span")
    assert "dst buffer: s, scope=shared.dyn" in span.message
    assert span.named[0].snippet == 's = T.alloc_shared((64, 32), "float16")'
    assert span.named[0].column is None


def test_checks_split_into_condition_operands_and_text() -> None:
    check = parse_check(only_error("span-and-check").message)
    assert check is not None
    assert check.condition == "pci != nullptr"
    assert check.text.startswith("Can not use non-constant range")
    compared = parse_check("InternalError: Check failed: a.size() == f(b) (1 vs. 0) : In PrimFunc main")
    assert compared is not None
    assert (compared.condition, compared.left, compared.right) == ("a.size() == f(b)", "1", "0")
    assert compared.text == "In PrimFunc main"
    empty = parse_check("Check failed: (b.dtype().is_bool()) is false: ")
    assert empty is not None
    assert (empty.condition, empty.text) == ("b.dtype().is_bool()", "")
    assert parse_check("nothing was checked") is None


def test_frames_of_both_languages_stand_in_one_list() -> None:
    frames = only_error("callback-reentry").frames
    languages = [frame.lang for frame in frames]
    first = languages.index("cxx")
    assert "python" in languages[first:], "tilelang's Python tile operators re-enter below C++"
    assert languages[-1] == "cxx"
    assert any(frame.text == "mod = tilelang.transform.LayoutInference()(mod)" for frame in frames)


def test_fatal_log_line_and_its_exception_are_one_fault() -> None:
    (error,) = read("log-fatal-span").errors
    assert error.kind == "exception"


@pytest.mark.parametrize(
    ("log", "text", "line", "mention"),
    [
        ("race-warning", "Data race detected: 1 potential race(s)", 8, "`s(0,)` is written by multiple threads"),
        ("uninit-warning", "Buffer read before initialization", 7, "`s` is read before anything writes it"),
        ("vectorize-warning", "T.vectorized loop over `j` with extent 8 is lowered as a serial loop", None, "`j`"),
    ],
)
def test_warnings_at_exit_0(log: str, text: str, line: int | None, mention: str) -> None:
    reading = read(log)
    assert reading.errors == ()
    (warning,) = reading.warnings
    assert warning.text.startswith(text)
    assert mention in warning.text
    assert (warning.at.line if warning.at else None) == line
    assert warning.quote is not None
    assert text in warning.quote.text


@pytest.mark.parametrize("log", ["healthy", "exit-0"])
def test_healthy_output_has_no_records(log: str) -> None:
    reading = read(log)
    assert (reading.errors, reading.warnings) == ((), ())


def test_failed_build_logs_its_program_as_one_warning() -> None:
    (warning,) = read("dsl-assert").warnings
    assert warning.text == "Failed to build prim_func from main"


@pytest.mark.parametrize("version", ["311", "313"])
def test_errors_of_threads_and_destructors_are_handled(version: str) -> None:
    thread, destructor = read(f"python{version}-thread").errors
    assert (thread.type, thread.handled) == ("LookupError", True)
    assert (destructor.type, destructor.handled) == ("OSError", True)


@pytest.mark.parametrize("log", ["python311-multi", "python313-multi", "python313-colors"])
def test_long_statements_notes_and_colours(log: str) -> None:
    recursion, error = read(log).errors
    assert recursion.type == "RecursionError"
    assert [frame.line for frame in recursion.frames] == [11, 9, 9, 9]
    assert error.message == "unsupported operand type(s) for +: 'int' and 'str'\ntry str(1)"
    assert [(frame.line, frame.function) for frame in error.frames] == [(15, "<module>"), (4, "f"), (2, "g")]
    assert error.frames[-1].text == "return a + b"


@pytest.mark.parametrize("version", ["311", "313"])
def test_groups_hold_their_members(version: str) -> None:
    (group,) = read(f"python{version}-eg").errors
    assert (group.type, group.message) == ("ExceptionGroup", "eg (2 sub-exceptions)")
    members = [(c.type, c.message.partition("\n")[0]) for c in group.causes if c.relation == "group"]
    assert members == [("ValueError", "wrapped"), ("KeyError", "'k'"), ("TypeError", "x")]


def test_pytest_layout() -> None:
    errors = read("pytest-long").errors
    assert [e.type for e in errors][:2] == ["AssertionError", "AssertionError"]
    assert errors[0].message == "Torch not compiled with CUDA enabled"
    assert errors[0].frames[-1].line == 522
    last = errors[-1]
    assert last.type == "tvm.error.InternalError"
    assert last.message.startswith("T.Kernel body references thread index `tid`")
    assert any(frame.file.endswith("cpu/pipeline.py") and frame.line == 17 for frame in last.frames)
