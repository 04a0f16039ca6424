"""The stage table: every name in it exists, real errors land in their stage, and an author's own words do not count."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from triage.knowledge.files import rules_root
from triage.knowledge.stages import Stages, module_path, source_path
from triage.model import ErrorRecord, Frame, Owner

TABLE = rules_root() / "reference" / "stages.toml"
SITE = "/home/me/venv/lib/python3.12/site-packages/"
PIPELINE = Frame(SITE + "tilelang/cuda/pipeline.py", 134, "CUDAPassPipelineBodyPrologue", "", user=False)


@pytest.fixture(scope="module")
def stages() -> Stages:
    return Stages.load(TABLE)


def python(path: str, function: str = "f", text: str = "") -> Frame:
    return Frame(SITE + path, 10, function, text, user=False)


def cxx(path: str) -> Frame:
    return Frame("/project/" + path, 10, "tvm::f()", lang="cxx", user=False)


def error(
    *frames: Frame, message: str = "", type_: str = "ValueError", kind: str = "exception", phase: str | None = None
) -> ErrorRecord:
    return ErrorRecord(kind, type_, message, frames=frames, phase=phase)


@pytest.mark.parametrize(
    ("text", "name", "stage"),
    [
        ("mod = tilelang.transform.LayoutInference()(mod)", "LayoutInference", "layout"),
        ('mod = tilelang.transform.ThreadSync("shared.dyn")(mod)', "ThreadSync", "thread-sync"),
        ("mod = tirx.transform.VerifyMemory()(mod)", "VerifyMemory", "semantic-check"),
        (
            "mod = tilelang.cuda.transform.ProducerConsumerWarpSpecialized()(mod)",
            "ProducerConsumerWarpSpecialized",
            "warp-specialize",
        ),
        ("mod = s_tir.transform.HoistIfThenElse()(mod)", "HoistIfThenElse", "compile"),
        ("PreLowerSemanticCheck(mod)", "PreLowerSemanticCheck", "semantic-check"),
    ],
)
def test_running_pass(stages: Stages, text: str, name: str, stage: str) -> None:
    frame = Frame(PIPELINE.file, 1, "f", text, user=False)
    guess = stages.stage_of(error(frame, python("tilelang/cuda/op/gemm/gemm_mma.py"), cxx("src/cuda/op/gemm.cc")))
    assert (guess.pass_name, guess.stage) == (name, stage)
    assert name in guess.why


def test_pass_context_is_no_pass(stages: Stages) -> None:
    frame = python("tilelang/jit/kernel.py", "_compile", "tvm.transform.PassContext(opt_level=3, config=c),")
    assert stages.stage_of(error(frame)).pass_name is None


@pytest.mark.parametrize(
    ("path", "stage", "name"),
    [
        ("src/transform/pipeline_planning.cc", "pipeline", "PipelinePlanning"),
        ("src/transform/layout_inference/parallel.cc", "layout", "LayoutInference"),
        ("src/cuda/transform/lower_shared_tmem.cc", "memory-plan", "LowerSharedTmem"),
        ("src/cuda/op/gemm.cc", "tile-op", None),
        ("src/op/copy.cc", "tile-op", None),
        ("src/layout/layout.cc", "layout", None),
        ("src/cuda/codegen/codegen_cuda.cc", "codegen", None),
        ("3rdparty/tvm/src/tirx/ir/expr.cc", "dsl", None),
        ("3rdparty/tvm/src/target/target.cc", "target", None),
        ("3rdparty/tvm/src/target/source/codegen_c.cc", "codegen", None),
        ("src/runtime/error_helpers.cc", "call", None),
        ("3rdparty/tvm/src/runtime/cuda/cuda_module.cc", "launch", None),
    ],
)
def test_cxx_files(stages: Stages, path: str, stage: str, name: str | None) -> None:
    guess = stages.stage_of(error(python("tilelang/jit/__init__.py"), cxx(path)))
    assert (guess.stage, guess.pass_name) == (stage, name)


@pytest.mark.parametrize(
    ("frame", "stage", "owner"),
    [
        (python("tilelang/language/gemm_op.py", "_gemm_dense_slots"), "dsl", Owner.UNKNOWN),
        (python("tilelang/analysis/nested_loop_checker.py"), "semantic-check", Owner.UNKNOWN),
        (python("tilelang/contrib/nvcc.py", "compile_cuda"), "device-compile", Owner.ENVIRONMENT),
        (python("tilelang/backend/target.py"), "target", Owner.ENVIRONMENT),
        (python("tilelang/jit/__init__.py", "get_tir"), "dsl", Owner.UNKNOWN),
        (python("tilelang/jit/abi.py"), "compile", Owner.UNKNOWN),
        (python("tilelang/autotuner/tuner.py"), "autotune", Owner.UNKNOWN),
        (python("tilelang/profiler/bench.py"), "profiler", Owner.UNKNOWN),
        (python("tilelang/3rdparty/tvm/python/tvm/libinfo.py", "load_lib_ctypes"), "import", Owner.ENVIRONMENT),
        (
            Frame(
                "../tilelang/jit/adapter/cython/cython_wrapper.pyx", 98, "tilelang_cython_wrapper.W._check", user=False
            ),
            "call",
            Owner.UNKNOWN,
        ),
        (Frame("/src/me/tilelang/tilelang/language/loop.py", 98, "Pipelined", user=False), "dsl", Owner.UNKNOWN),
    ],
)
def test_python_modules(stages: Stages, frame: Frame, stage: str, owner: Owner) -> None:
    guess = stages.stage_of(error(frame))
    assert (guess.stage, guess.owner_hint) == (stage, owner)


def test_the_innermost_listed_file_decides(stages: Stages) -> None:
    build = python("tilelang/language/eager/builder.py")
    assert (
        stages.stage_of(error(python("tilelang/autotuner/tuner.py"), build, python("other/helper.py"))).stage == "dsl"
    )


@pytest.mark.parametrize(
    ("message", "type_", "stage"),
    [
        ("libcudart.so.12: cannot open shared object file: No such file or directory", "ImportError", "import"),
        ("/x/lib.so: undefined symbol: _ZN3tvm", "OSError", "import"),
        ("No module named 'tilelang'", "ModuleNotFoundError", "import"),
        ("Torch not compiled with CUDA enabled", "AssertionError", "install"),
        ("CUDA error: an illegal memory access was encountered", "RuntimeError", "runtime"),
        ("CUDA error: invalid configuration argument", "torch.AcceleratorError", "launch"),
        ("Failed to set the allowed dynamic shared memory size to 262144", "InternalError", "launch"),
        ("No registered target detector found an available target.", "ValueError", "target"),
        ("[Tilelang Semantic Check] Pipelined loop cannot be nested", "ValueError", "semantic-check"),
        ("Tensor-likes are not close!", "AssertionError", "numerics"),
        ("no available layout found", "InternalError", "layout"),
    ],
)
def test_wordings(stages: Stages, message: str, type_: str, stage: str) -> None:
    assert stages.stage_of(error(message=message, type_=type_)).stage == stage


@pytest.mark.parametrize("statement", ["raise ValueError(text)", "assert ok, text"])
def test_the_authors_own_words_count_for_nothing(stages: Stages, statement: str) -> None:
    own = Frame("/home/me/kernel.py", 3, "main", statement, user=True)
    for message in ("no available layout found", "illegal memory access", "Torch not compiled with CUDA enabled"):
        assert stages.stage_of(error(own, message=message)).stage is None


def test_a_name_error_in_the_kernel_body_is_of_the_dsl(stages: Stages) -> None:
    own = Frame("/home/me/kernel.py", 7, "main", "T.copy(a, bb)", user=True)
    assert stages.stage_of(error(python("tilelang/language/eager/builder.py"), own, type_="NameError")).stage == "dsl"


@pytest.mark.parametrize(
    ("kind", "type_", "message", "stage", "owner"),
    [
        (
            "compiler",
            "nvcc",
            "nvcc fatal   : Unsupported gpu architecture 'sm_50'",
            "device-compile",
            Owner.ENVIRONMENT,
        ),
        ("compiler", "c++", "fatal error: cute/x.hpp: No such file or directory", "device-compile", Owner.ENVIRONMENT),
        ("compiler", "nvcc", "error: identifier is undefined", "device-compile", Owner.UNKNOWN),
        ("check", "pip", "No matching distribution found for tilelang", "install", Owner.ENVIRONMENT),
        ("check", "command not found", "nvcc: command not found", "install", Owner.ENVIRONMENT),
        ("check", "command not found", "mytool: command not found", None, Owner.UNKNOWN),
        ("exception", "FileNotFoundError", "[Errno 2] No such file or directory: 'x.pt'", None, Owner.UNKNOWN),
    ],
)
def test_whose_fault_a_tool_reports(
    stages: Stages, kind: str, type_: str, message: str, stage: str | None, owner: Owner
) -> None:
    guess = stages.stage_of(error(kind=kind, type_=type_, message=message))
    assert (guess.stage, guess.owner_hint) == (stage, owner)


def test_other_kinds(stages: Stages) -> None:
    assert stages.stage_of(error(kind="compiler", type_="nvcc", message="error: x")).stage == "device-compile"
    assert stages.stage_of(error(kind="signal", type_="SIGSEGV")).stage == "runtime"
    assert stages.stage_of(error(kind="signal", type_="SIGSEGV", phase="lower")).stage == "compile"
    assert stages.stage_of(error(phase="launch")).stage == "launch"
    unknown = stages.stage_of(error())
    assert (unknown.stage, unknown.owner_hint) == (None, Owner.UNKNOWN)
    syntax = stages.stage_of(error(type_="SyntaxError", phase="import"))
    assert (syntax.stage, syntax.owner_hint) == (None, Owner.KERNEL)


def test_a_stated_stage_stands(stages: Stages) -> None:
    stated = ErrorRecord("exception", "X", "", frames=(cxx("src/op/copy.cc"),), stage="pipeline", pass_name="P")
    guess = stages.stage_of(stated)
    assert (guess.stage, guess.pass_name) == ("pipeline", "P")


def test_paths_wherever_built_or_installed() -> None:
    assert source_path(cxx("3rdparty/tvm/src/ir/expr.cc")) == "3rdparty/tvm/src/ir/expr.cc"
    assert source_path(Frame("/home/ci/tilelang/src/op/copy.cc", 1, lang="cxx")) == "src/op/copy.cc"
    assert source_path(Frame("<unknown>", 0, lang="cxx")) is None
    assert source_path(python("tilelang/env.py")) is None
    assert module_path("/usr/lib/python3/dist-packages/tvm/base.py") == "tvm/base.py"
    assert module_path("C:\\py\\Lib\\site-packages\\tilelang\\env.py") == "tilelang/env.py"


def test_a_table_with_an_unknown_stage_is_refused(tmp_path: Path) -> None:
    broken = tmp_path / "stages.toml"
    broken.write_text(re.sub(r'stage = "tile-op"', 'stage = "tiles"', TABLE.read_text()))
    with pytest.raises(ValueError, match="no stage is called 'tiles'"):
        Stages.load(broken)


@pytest.mark.tilelang
def test_every_pass_of_the_installed_pipelines_is_known_or_plain_lowering(stages: Stages) -> None:
    """A new pass that the table does not list is `compile`; this pins which ones are that on purpose."""
    import importlib.util

    spec = importlib.util.find_spec("tilelang")
    if spec is None or spec.origin is None:
        pytest.skip("tilelang is not installed")
    root = Path(spec.origin).parent
    names = {
        name
        for path in [*root.glob("*/pipeline.py"), root / "engine" / "lower.py"]
        for name in re.findall(r"\btransform\.([A-Z]\w*)\(", path.read_text())
    }
    assert names, "no pipeline found"
    plain = {
        n
        for n in names
        if stages.stage_of(error(Frame("p.py", 1, "f", f"tilelang.transform.{n}()(mod)"))).stage == "compile"
    }
    assert plain <= PLAIN_LOWERING


PLAIN_LOWERING = {
    "AnnotateDeviceRegions", "AnnotateEntryFunc", "AnnotateReadOnlyParams", "ConfigIndexBitwidth", "Filter",
    "HoistIfThenElse", "HoistNonRestrictParams", "InferFragment", "InjectAssumes", "LoopUnswitching", "LowerOpaqueBlock",
    "MergeIfStmt", "NarrowDataType", "PassContext", "RemoveNoOp", "RenormalizeSplitPattern", "Simplify", "UnrollLoop",
    # Ascend
    "AscendInsertOOBPadding", "AscendRemoveNoOp", "EstimateLatency", "LegalizeSimdMerging", "MarkScalarDcacheBypass",
    "NormalizeBufferVersion", "NormalizeConflictHints", "NormalizeControlFlowForSchedule", "RestoreWhileLoops",
    "RewriteAscendBufferVersionLayout", "RewriteDualCopy", "RewriteFp4ToFp4x2", "UnrollLoopSkipVF",
}  # fmt: skip


@pytest.mark.parametrize(
    ("file", "stage"),
    [
        ("/home/me/tilelang/3rdparty/tvm/src/target/llvm/codegen_amdgpu.cc", "install"),
        ("/home/me/build/tilelang_cython_wrapper.cpp", "install"),
        ("/home/me/tilelang/src/op/gemm.cc", "install"),
        ("/v/site-packages/tilelang/src/tl_templates/cuda/gemm.h", "device-compile"),
        ("/tmp/tmpab12/kernel.cu", "device-compile"),
        ("/tmp/tmpab12/kernel.cpp", "device-compile"),
    ],
)
def test_a_compiler_error_in_upstreams_own_sources_is_met_while_it_is_built(
    stages: Stages, file: str, stage: str
) -> None:
    frame = Frame(file, 3, lang="cxx", user=False)
    guess = stages.stage_of(error(frame, kind="compiler", type_="c++", message="error: x"))
    assert guess.stage == stage
    assert (guess.owner_hint is Owner.ENVIRONMENT) == (stage == "install")
