"""Observed scripts: what the events say about the kernels they compile."""

from __future__ import annotations

import json
import os
import textwrap
from pathlib import Path

import pytest

from triage.experiment.process import Run, Subject, run_subject
from triage.model import ErrorRecord, KernelRecord, from_json

pytestmark = pytest.mark.tilelang

KERNEL = """
    import tilelang
    import tilelang.language as T


    def factory(n, body=0):
        @T.prim_func
        def scaled(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
            with T.Kernel(T.ceildiv(n, 128), threads=128) as bx:
                f = T.alloc_fragment((128,), "float32")
                m = T.alloc_fragment((1,), "float32")
                T.copy(A[bx * 128], f)
                T.reduce_max(f, m, dim=0)
                for i in T.Parallel(128):
                    B[bx * 128 + i] = f[i] * m[0]
        return scaled
"""


@pytest.fixture
def observe(tmp_path):
    def observe(text: str, *, env=None, prefix=KERNEL, **subject) -> Run:
        script = tmp_path / "kernel.py"
        script.write_text(textwrap.dedent(prefix) + textwrap.dedent(text))
        return run_subject(
            Subject(script=script, **subject), tmp_path / "step", tmp_path / "blobs", timeout=300, env=env or {}
        )

    return observe


def told(run: Run, kind: str) -> list[dict]:
    return [event for event in run.events if event["type"] == kind]


def blob(run: Run, value) -> str:
    digest = value["blob"] if isinstance(value, dict) else value
    return (run.directory.parent / "blobs" / digest).read_text()


def error_of(run: Run, event: dict) -> ErrorRecord:
    data = event["error"]
    return from_json(ErrorRecord, json.loads(blob(run, data)) if "blob" in data else data)


def line_of(run: Run, text: str) -> int:
    lines = (run.directory.parent / "kernel.py").read_text().splitlines()
    (found,) = [number for number, line in enumerate(lines, 1) if text in line]
    return found


def no_capture_failed(run: Run) -> None:
    assert [e["text"] for e in told(run, "warning") if e["text"].startswith("capture-failed")] == []


def test_a_compiled_kernel_is_told_whole(observe):
    run = observe("kernel = tilelang.compile(factory(1024), out_idx=[1])  # compile\nprint(type(kernel).__name__)\n")
    assert run.exit.status == "succeeded", run.stderr.read_text()
    no_capture_failed(run)
    (kernel,) = told(run, "kernel")
    assert (kernel["name"], kernel["compiled"], kernel["out_idx"]) == ("scaled", True, [1])
    assert kernel["defined_at"]["line"] == line_of(run, "def scaled")
    assert kernel["called_at"]["line"] == line_of(run, "# compile")
    assert kernel["target"]["arch"] == "sm_90a"
    assert kernel["requested_target"] is None
    assert kernel["pass_configs"] == {"tl.emit_line_directives": True}
    assert "tl.tileop.reduce" in blob(run, kernel["primfunc"])
    record = from_json(KernelRecord, json.loads(blob(run, kernel["record"])))
    (reduce,) = [s for s in record.statements if s.op and s.op.name == "reduce"]
    assert reduce.at is not None and reduce.at.line == line_of(run, "T.reduce_max")
    ends = {e["phase"]: e for e in told(run, "compile.end")}
    assert [e["phase"] for e in told(run, "compile.begin")] == ["lower", "codegen", "device"]
    assert ends["lower"]["ok"] is True and isinstance(ends["lower"]["shared_bytes"], int)
    source = blob(run, ends["codegen"]["source"])
    assert "__global__" in source and f"#line {line_of(run, 'B[bx * 128 + i] =')}" in source
    (device,) = told(run, "device")
    assert (device["arch"], "default" in device["why"]) == ("sm_90a", True)
    assert {e["name"] for e in told(run, "module")} == {"torch", "tilelang", "tvm_ffi"}


def test_an_uncaught_error_in_a_pass(observe):
    run = observe("tilelang.compile(bad())  # here\n", prefix=BAD_WARPS)
    assert run.exit.code == 1
    (event,) = told(run, "error")
    assert (event["phase"], event["kernel"], event["handled"]) == ("lower", "k1", False)
    error = error_of(run, event)
    assert "No valid warp partition" in error.message
    assert [f.line for f in error.frames if f.user] == [line_of(run, "# here")]
    assert any(f.lang == "cxx" for f in error.frames)
    assert not any("harness" in f.file for f in error.frames)
    assert "harness" not in run.stderr.read_text()
    (end,) = told(run, "compile.end")
    assert (end["phase"], end["ok"]) == ("lower", False)


BAD_WARPS = """
    import tilelang
    import tilelang.language as T

    def bad():
        @T.prim_func
        def main(A: T.Tensor((128, 64), "float16"), C: T.Tensor((128, 128), "float32")):
            with T.Kernel(1, threads=96) as bx:
                a = T.alloc_shared((128, 64), "float16")
                c = T.alloc_fragment((128, 128), "float32")
                T.clear(c)
                T.gemm(a, a, c, transpose_B=True)
                T.copy(c, C)
        return main
"""


def test_caught_errors_are_told_as_handled(observe):
    run = observe(
        """
        try:
            tilelang.compile(bad())  # compiled
        except Exception as error:
            print("caught", type(error).__name__)
        try:
            @T.prim_func
            def wrong(A: T.Tensor((128,), "float32")):
                with T.Kernel(1, threads=128) as bx:
                    A[undefined] = 0.0
        except NameError:
            print("caught NameError")
        try:
            tilelang.compile(bad())
        except Exception as error:
            raise RuntimeError("given up") from error  # raised
        """,
        prefix=BAD_WARPS,
    )
    lower, build, last = told(run, "error")
    assert (lower["phase"], lower["kernel"], lower["handled"]) == ("lower", "k1", True)
    assert [f.line for f in error_of(run, lower).frames if f.user] == [line_of(run, "# compiled")]
    assert (build["phase"], build["handled"]) == ("build", True)
    assert [f.line for f in error_of(run, build).frames if f.user][-1] == line_of(run, "A[undefined]")
    assert (last["kernel"], last["handled"]) == ("k2", False)
    error = error_of(run, last)
    assert (error.type, [cause.type for cause in error.causes]) == ("RuntimeError", ["tvm.error.InternalError"])
    assert [line for line in run.stdout.read_text().splitlines() if line.startswith("caught")] == [
        "caught InternalError",
        "caught NameError",
    ]


def test_an_exit_after_a_caught_error_leaves_both(observe):
    run = observe(
        """
        import sys
        try:
            tilelang.compile(bad())
        except Exception as error:
            print(error)
            sys.exit(3)
        """,
        prefix=BAD_WARPS,
    )
    assert run.exit.code == 3
    first, second = told(run, "error")
    assert (first["handled"], first["phase"], error_of(run, first).type) == (True, "lower", "tvm.error.InternalError")
    assert (second["handled"], error_of(run, second).type) == (False, "SystemExit")
    assert [cause.type for cause in error_of(run, second).causes] == ["tvm.error.InternalError"]


def test_an_error_in_a_thread_is_told(observe):
    run = observe(
        """
        import threading
        thread = threading.Thread(target=lambda: tilelang.compile(bad()))
        thread.start()
        thread.join()
        """,
        prefix=BAD_WARPS,
    )
    assert run.exit.status == "succeeded"
    (event,) = told(run, "error")
    assert (event["handled"], event["kernel"]) == (True, "k1")


@pytest.mark.skipif(not any(os.access(Path(d, "nvcc"), os.X_OK) for d in os.get_exec_path()), reason="needs nvcc")
def test_nvcc_errors_cite_the_users_line(observe):
    run = observe(
        """
        @T.prim_func
        def main(A: T.Tensor((128,), "float32")):
            with T.Kernel(1, threads=128) as bx:
                for i in T.Parallel(128):
                    A[i] = T.call_extern("float32", "no_such_function", A[i])
        tilelang.compile(main)
        """
    )
    (event,) = told(run, "error")
    assert (event["phase"], event["handled"]) == ("device", False)
    error = error_of(run, event)
    assert error.kind == "compiler"
    assert f'kernel.py({line_of(run, "no_such_function")}): error: identifier "no_such_function"' in error.message
    ends = {e["phase"]: e for e in told(run, "compile.end")}
    assert ends["device"]["ok"] is False and "no_such_function" in blob(run, ends["device"]["source"])


def test_without_nvcc_the_script_goes_on(observe, tmp_path):
    empty = tmp_path / "bin"
    empty.mkdir()
    run = observe(
        "k = tilelang.compile(factory(1024), out_idx=[1])\nprint('went on', len(k.get_kernel_source()) > 100)\n",
        env={"PATH": str(empty)},
    )
    assert run.exit.status == "succeeded", run.stderr.read_text()
    ends = {e["phase"]: e for e in told(run, "compile.end")}
    assert ends["device"]["ok"] is None
    # an nvcc in a well-known place is found without PATH, its host compiler is not
    assert ends["device"]["skipped"] in ("nvcc not found", "no C++ compiler for nvcc found")
    assert ends["codegen"]["ok"] is True
    assert "went on True" in run.stdout.read_text()


def test_a_cuda_home_that_does_not_exist_is_a_fault(observe):
    run = observe("tilelang.compile(factory(1024))\n", env={"CUDA_HOME": "/nonexistent"}, compile=True)
    (event,) = told(run, "error")
    assert (event["phase"], event["handled"]) == ("device", False)
    assert "/nonexistent/bin/nvcc" in error_of(run, event).message


@pytest.mark.slow
def test_compile_can_be_left_out(observe):
    run = observe("tilelang.compile(factory(1024))\n", compile=False)
    ends = {e["phase"]: e for e in told(run, "compile.end")}
    assert (ends["device"]["ok"], ends["device"]["skipped"]) == (None, "not asked for")


def test_uncompiled_functions_and_a_call(observe):
    run = observe(
        """
        left = factory(256)

        @tilelang.jit(out_idx=[1])
        def made(n):
            return factory(n)
        """,
        call="made(512)",
        compile=False,
    )
    assert run.exit.status == "succeeded", run.stderr.read_text()
    kernels = told(run, "kernel")
    assert [(k["name"], k["compiled"]) for k in kernels] == [("scaled", True), ("scaled", False)]
    shapes = [json.loads(blob(run, k["record"]))["params"][0]["shape"] for k in kernels]
    assert shapes == [[512], [256]]


@pytest.mark.slow
def test_lower_alone_is_told(observe):
    run = observe(
        """
        from tvm.target import Target
        with Target({"kind": "cuda", "arch": "sm_80"}) as target:
            tilelang.lower(factory(1024), target=target)
        """
    )
    (kernel,) = told(run, "kernel")
    assert kernel["target"]["arch"] == "sm_80"
    assert told(run, "compile.end")[0]["phase"] == "lower"
    assert run.exit.status == "succeeded", run.stderr.read_text()


@pytest.mark.parametrize(
    ("target", "env", "subject", "arch", "requested"),
    [
        pytest.param("'auto'", {}, {}, "sm_90a", "auto", marks=pytest.mark.slow),
        ("'cuda'", {}, {}, "sm_90a", "cuda"),
        pytest.param(
            "'cuda'", {}, {"arch": "sm_80", "arch_source": "argument"}, "sm_80", "cuda", marks=pytest.mark.slow
        ),
        ("{'kind': 'cuda', 'arch': 'sm_80'}", {}, {}, "sm_80", {"kind": "cuda", "arch": "sm_80"}),
        ("None", {"TILELANG_DEFAULT_TARGET": '{"kind": "cuda", "arch": "sm_89"}'}, {}, "sm_89", None),
        pytest.param("None", {"TILELANG_DEFAULT_TARGET": "auto"}, {}, "sm_90a", "auto", marks=pytest.mark.slow),
    ],
)
def test_the_target_is_pinned(observe, target, env, subject, arch, requested):
    run = observe(f"tilelang.compile(factory(1024), target={target})\n", env=env, compile=False, **subject)
    assert run.exit.status == "succeeded", run.stderr.read_text()
    (kernel,) = told(run, "kernel")
    assert kernel["target"]["arch"] == arch
    assert told(run, "device")[0]["arch"] == arch
    if requested is not None:
        assert kernel["requested_target"] == requested


def test_changed_variables_are_told_once(observe):
    run = observe(
        "",
        prefix="""
        import os
        os.environ["OMP_NUM_THREADS"] = "1"
        os.environ["SECRET_TOKEN"] = "do not tell"
        import tilelang
        assert os.environ["OMP_NUM_THREADS"] == "1"
        """,
    )
    assert run.exit.status == "succeeded", run.stderr.read_text()
    assert [e["set"] for e in told(run, "env")] == [{"OMP_NUM_THREADS": "1"}]
    assert "do not tell" not in "".join(p.read_text() for p in run.directory.glob("events-*"))


@pytest.mark.slow
def test_real_mode_changes_no_options(observe):
    """On this machine a `c` kernel is what runs for real; nothing but the cache directory differs from the script alone."""
    run = observe(
        """
        @T.prim_func
        def add(A: T.Tensor((16,), "float32"), B: T.Tensor((16,), "float32")):
            with T.Kernel(1) as bx:
                for i in T.serial(16):
                    B[i] = A[i] + 1.0
        k = tilelang.compile(add, out_idx=[1], target="c")
        import torch
        assert torch.equal(k(torch.ones(16)), torch.full((16,), 2.0))
        try:
            k(torch.ones(17))
        except Exception as error:
            print("refused")
        """,
        mode="real",
    )
    assert run.exit.status == "succeeded", run.stderr.read_text()
    no_capture_failed(run)
    (kernel,) = told(run, "kernel")
    assert (kernel["pass_configs"], kernel["target"]) == ({}, "c")
    first, _ = told(run, "launch.begin")
    assert first["args"] == [{"name": "A", "shape": [16], "dtype": "float32", "stride": [1], "device": "cpu"}]
    assert (first["kernel"], first["virtual"], first["at"]["line"]) == ("k1", False, line_of(run, "torch.equal"))
    assert [e["ok"] for e in told(run, "launch.end")] == [True, False]
    (event,) = told(run, "error")
    assert (event["phase"], event["handled"], event["kernel"]) == ("call", True, "k1")
    assert [f.line for f in error_of(run, event).frames if f.user] == [line_of(run, "torch.ones(17)")]
