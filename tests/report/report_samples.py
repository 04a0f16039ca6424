"""Real-looking cases for the report tests: what the walk of a gemm kernel, a hostile log and a sound script leaves."""

from __future__ import annotations

from typing import Any

from triage.knowledge.upstream import Issue, entry
from triage.model import (
    Artifact,
    Caliber,
    Category,
    Confidence,
    Environment,
    Fact,
    Finding,
    Fix,
    FoundBy,
    Label,
    Location,
    NotChecked,
    Owner,
    Quote,
    State,
    Step,
    StepOutcome,
    StepStatus,
)
from triage.report.build import build_report
from triage.report.contract import Report

FILE = "/home/user/kernels/matmul.py"
SOURCE = """import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[-1])
def matmul(M, N, K, block_M=128, block_N=128, block_K=32):
    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), "float16")
            B_shared = T.alloc_shared((block_N, block_K), "float16")
            C_local = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return main


kernel = matmul(1024, 1024, 1024)
"""
SUBJECT: dict[str, Any] = {"kind": "script", "path": FILE, "sha256": "0" * 64, "argv": []}
VIRTUAL = Environment("e1", "3.11.7", "0.1.15", "2.13.0+cpu", "virtual:sm_90a")
GPU = Environment("e2", "3.11.7", "0.1.15", "2.13.0+cu130", "cuda:0", {"device": "NVIDIA H200"})

GEMM = Finding(
    State.LOCALIZED,
    Category.GENERATION,
    "T.gemm operands disagree on K",
    "the K extent of A's tile is 32, that of B's tile is 128",
    rule="TLG014",
    cause="gemm-k-mismatch",
    stage="dsl",
    location=Location(FILE, 17, 17, "T.gemm(A_shared, B_shared, C_local)", "main", FoundBy.FRAME),
    labels=(
        Label(FILE, 10, "A's tile: (128, 32), K = 32"),
        Label(FILE, 11, "B's tile: (128, 32), K = 128 without transpose_B"),
    ),
    quote=Quote("AssertionError: T.gemm K shape check failed: K_A = 32, K_B = 128", "steps/1/stderr", 31),
    owner=Owner.KERNEL,
    confidence=Confidence.CONFIRMED,
    why="T.gemm multiplies A's tile (M, K) with B's tile (K, N). With transpose_B=True, B's tile is (N, K).",
    fixes=(
        Fix(
            "Allocate B's tile as (block_K, block_N)",
            "It is filled from B[k * block_K, bx * block_N], whose rows run along K.",
            "@@ -11 +11 @@\n"
            '-            B_shared = T.alloc_shared((block_N, block_K), "float16")\n'
            '+            B_shared = T.alloc_shared((block_K, block_N), "float16")\n',
            "passed",
            "builds",
            "triage run --fix 1",
        ),
        Fix("Or keep the tile and pass transpose_B=True", "Then B must be stored as (N, K)."),
    ),
    captures={"k_a": 32, "k_b": 128},
)
LAYOUT = Finding(
    State.CLASSIFIED,
    Category.GENERATION,
    "No layout satisfies all uses of a fragment",
    "layout inference found no layout for a fragment of this kernel",
    rule="TLG020",
    stage="layout",
    quote=Quote(
        "tvm.error.InternalError: Check failed: (has_best) is false: no available layout found", "steps/1/stderr", 61
    ),
    confidence=Confidence.LIKELY,
    known_issues=(
        entry(
            Issue(
                "tile-ai/tilelang#2883",
                "the prover gives up on a large loop",
                "prover-gives-up",
                ("<0.1.14",),
                ("thread",),
                fixed_in="0.1.14",
                change="split the loop",
            ),
            "0.1.13",
        ),
    ),
)
UNKNOWN = Finding(
    State.UNKNOWN,
    Category.GENERATION,
    "The compile failed with an error that no rule knows",
    "InternalError raised in tvm::tl::LowerTileOp",
    stage="tile-op",
    quote=Quote("tvm.error.InternalError: Check failed: (pci != nullptr) is false: ", "steps/1/stderr", 40),
)
HEALTHY = Finding(State.HEALTHY, None, "No fault found", "2 kernels were built for sm_90a.")
LEFTOVER = Finding(
    State.CLASSIFIED,
    Category.PERFORMANCE,
    "A T.print was left in the kernel",
    "it serializes the warps",
    rule="TLP090",
    level="advice",
    location=Location(FILE, 13, found_by=FoundBy.LINT),
)
STEPS = (
    Step(
        "observe", "observe-run", status=StepStatus.RAN, outcome=StepOutcome.FINDING, why="start", seconds=3.2, number=1
    ),
    Step("error", "read-error", outcome=StepOutcome.FINDING, why="error.text is known", seconds=0.01, number=2),
    Step(
        "measure",
        "measure-launch",
        status=StepStatus.SKIPPED,
        why="needs cuda",
        elsewhere="triage resume .triage/matmul-1",
        number=3,
    ),
)
NOT_CHECKED = (
    NotChecked("the values the kernel computes", "no GPU on this machine", "triage resume .triage/matmul-1"),
    NotChecked("speed", "no GPU on this machine"),
)
FACTS = (
    Fact("error.type", "AssertionError", source="observe-run: steps/1/events-100.jsonl"),
    Fact("kernel.shared_bytes", 49152, "kernel:k1", "B", Caliber.STATIC, source="lints"),
)
ARTIFACTS = (Artifact("steps/1/stderr", "stderr", "a" * 64),)


def sample(*findings: Finding, **changes: Any) -> Report:
    """A report on `matmul.py` with these findings; `changes` replace arguments of `build_report`."""
    arguments: dict[str, Any] = {
        "subject": SUBJECT,
        "environments": [VIRTUAL],
        "findings": list(findings),
        "steps": STEPS,
        "facts": FACTS,
        "artifacts": ARTIFACTS,
        "checked": ["2 kernels lowered for sm_90a [measured here]", "shared memory: 48 KiB of 227 KiB [static]"],
        "not_checked": NOT_CHECKED,
        "sources": {FILE: SOURCE},
        "case": ".triage/matmul-1",
    }
    return build_report(**{**arguments, **changes})
