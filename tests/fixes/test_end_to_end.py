"""Faults in real kernels, repaired by real runs: the fix that is called verified is the original, or there is none."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from sampling import one_in

from triage.experiment.client import TemplateError
from triage.experiment.scripts import Candidate, ScriptRunner
from triage.fixes.nicknames import load_nicknames
from triage.fixes.proposal import Question
from triage.fixes.strategies import propose
from triage.fixes.tree import Sources
from triage.fixes.trial import Trials
from triage.fixes.verify import Outcome, verify
from triage.fixes.vocabulary import Vocabulary, ask
from triage.knowledge.files import rules_root
from triage.knowledge.load import load_rules
from triage.knowledge.stages import Stages
from triage.lints import load_devices

pytestmark = pytest.mark.tilelang

MATMUL = '''\
"""A product with a bias, as a factory under tilelang.jit."""
import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[-1])
def matmul(M, N, K, bm=128, bn=64, bk=32, dtype="float16"):
    @T.prim_func
    def main(
        A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), bias: T.Tensor((N,), "float32"),
        C: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(T.ceildiv(N, bn), T.ceildiv(M, bm), threads=128) as (bx, by):
            a = T.alloc_shared((bm, bk), dtype)
            b = T.alloc_shared((bk, bn), dtype)
            v = T.alloc_fragment((bn,), "float32")
            c = T.alloc_fragment((bm, bn), "float32")
            T.copy(bias[bx * bn], v)
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(K, bk), num_stages=3):
                T.copy(A[by * bm, k * bk], a)
                T.copy(B[k * bk, bx * bn], b)
                T.gemm(a, b, c)
            for i, j in T.Parallel(bm, bn):
                c[i, j] += v[j]
            T.copy(c, C[by * bm, bx * bn])

    return main


x = torch.randn(256, 192, device="cuda", dtype=torch.float16)
w = torch.randn(192, 320, device="cuda", dtype=torch.float16)
bias = torch.randn(320, device="cuda", dtype=torch.float32)
y = matmul(256, 320, 192)(x, w, bias)
'''
SOFTMAX = '''\
"""A softmax over rows: a macro, a kernel in a method, and tilelang.compile."""
import tilelang
from tilelang import language as L


@L.macro
def normalize(tile, top, total, rows, cols):
    L.reduce_max(tile, top, dim=1)
    for i, j in L.Parallel(rows, cols):
        tile[i, j] = L.exp(tile[i, j] - top[i])
    L.reduce_sum(tile, total, dim=1)


class Softmax:
    def __init__(self, rows, cols):
        self.rows, self.cols = rows, cols

    def kernel(self, step=64):
        rows, cols = self.rows, self.cols

        @L.prim_func
        def main(X: L.Tensor((rows, cols), "float32"), Y: L.Tensor((rows, cols), "float32")):
            with L.Kernel(rows // step, threads=128) as block:
                tile = L.alloc_fragment((step, cols), "float32")
                top = L.alloc_fragment((step,), "float32")
                total = L.alloc_fragment((step,), "float32")
                L.copy(X[block * step, 0], tile)
                normalize(tile, top, total, step, cols)
                for i, j in L.Parallel(step, cols):
                    tile[i, j] = tile[i, j] / total[i]
                L.copy(tile, Y[block * step, 0])

        return main


program = tilelang.compile(Softmax(256, 128).kernel())
'''


class WithoutDevice(Trials):
    """The device compiler is left out: it is the dearest part, and none of these faults needs it."""

    def run(self, texts, compile=True):
        return super().run(texts, compile=False)


class Bench:
    """One warm runner for all texts of these tests."""

    def __init__(self, runner: ScriptRunner, script: Path) -> None:
        self.script = str(script)
        self.rules = load_rules()
        reference = rules_root() / "reference"
        self.nicknames = load_nicknames(reference / "nicknames.toml")

        def no_template():
            raise TemplateError("these scripts compile all that they define")

        self.trials = WithoutDevice(
            runner, Candidate(""), no_template, self.rules, Stages.load(reference / "stages.toml"),
            load_devices(reference / "devices.toml"), "0.1.15", 120.0,
        )  # fmt: skip
        self.vocabulary: Vocabulary = ask(runner)

    def repair(self, text: str, **modules: str) -> Outcome:
        """What becomes of the one fault of a script."""
        folder = str(Path(self.script).parent)
        texts = {self.script: text, **{f"{folder}/{name}.py": source for name, source in modules.items()}}
        start = self.trials.run(texts, compile=False)
        assert start.faults, f"no fault: {start}"
        fault = start.faults[0]
        rule = self.rules.get(fault.finding.rule or "")
        assert rule is not None and rule.fix.strategies, f"no strategy for {fault.finding}"
        question = Question(
            fault.finding, Sources(texts), fault.error, self.vocabulary, start.records, fields=fault.fields,
            nicknames=self.nicknames,
        )  # fmt: skip
        return verify(
            propose(rule.fix.strategies, question), question.sources, texts, fault.finding, start, self.trials,
            root=folder, compile=False, left=lambda: 300.0,
        )  # fmt: skip


@pytest.fixture(scope="module")
def bench(tmp_path_factory) -> Iterator[Bench]:
    pytest.importorskip("tilelang")
    folder = tmp_path_factory.mktemp("fixes")
    script = folder / "kernel.py"
    script.write_text(MATMUL, encoding="utf-8")
    (folder / "tiles.py").write_text("", encoding="utf-8")
    with ScriptRunner(tmp_path_factory.mktemp("runs"), script, cwd=folder) as runner:
        yield Bench(runner, script)


def same(one: str, other: str) -> bool:
    return ast.dump(ast.parse(one)) == ast.dump(ast.parse(other))


#: what is right in the script, what stands there instead, and what a fix may write besides the original
FAULTS = [
    ("T.clear(c)", "T.claer(c)", ()),
    ("T.copy(c, C[", "T.copy(cc, C[", ()),
    ("num_stages=3", "n_stages=3", ()),
    ("A[by * bm, k * bk]", "A[by * bm, k * bk, 0]", ()),
    ("T.alloc_shared((bk, bn), dtype)", "T.alloc_shared((bk, bn))", ()),
    ("T.alloc_shared((bk, bn), dtype)", "T.alloc_shared((bn, bk), dtype)", ()),
    ("T.gemm(a, b, c)", "T.gemm(a, b, c, transpose_B=True)", ("T.gemm(a, b, c, transpose_B=False)",)),
    ("T.alloc_fragment((bm, bn), ", "T.alloc_fragment((bm, bk), ", ()),
    ("c[i, j] += v[j]", "c[i, j] += v[i, j]", ()),
    ("A[by * bm, k * bk]", "A[by * bm]", ()),
    ("            T.clear(c)\n", "", ()),
    ("    return main\n", "", ()),
    ("out_idx=[-1]", "out_idx=[4]", ("out_idx=[3]",)),
    ("(out_idx=[-1])", "", ()),
    ("torch.randn(192, 320, ", "torch.randn(320, 192, ", ()),
    ("threads=128", "threads=0", ()),
    ("num_stages=3", 'num_stages="3"', ()),
    ("(x, w, bias)", "(x, w, bias, y0)", ("(x, w, bias)",)),
    ("dtype=torch.float16)\nbias", "dtype=torch.float32)\nbias", ()),
]


@pytest.mark.parametrize(
    ("right", "wrong", "also"), one_in(3, FAULTS), ids=[wrong.strip() or right.strip() for right, wrong, _ in FAULTS]
)
def test_the_verified_fix_is_the_original(bench, right, wrong, also):
    assert MATMUL.count(right) == 1
    text = MATMUL.replace(right, wrong)
    if "y0" in wrong:
        text = text.replace("y = matmul", 'y0 = torch.empty(256, 320, device="cuda")\ny = matmul')
    outcome = bench.repair(text)
    assert outcome.chosen is not None, (outcome.why, [(t.proposal.title, t.doubts) for t in outcome.passing])
    fixed = outcome.chosen.texts[bench.script].replace('y0 = torch.empty(256, 320, device="cuda")\n', "")
    assert any(same(fixed, MATMUL.replace(right, one)) for one in (right, *also)), outcome.chosen.patch


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("L.reduce_max(", "L.reduce_mx("),
        ("L.reduce_sum(tile, total, dim=1)", "L.reduce_sum(tile, total, dim=0)"),
        ("total[i]\n", "total[i, j]\n"),
        ("L.alloc_fragment((step, cols)", "L.alloc_fragment((cols, step)"),
        ("rows // step", "rows / step"),
    ],
)
def test_macros_methods_and_other_names_of_the_language(bench, right, wrong):
    assert SOFTMAX.count(right) == 1
    outcome = bench.repair(SOFTMAX.replace(right, wrong))
    assert outcome.chosen is not None, (outcome.why, [(t.proposal.title, t.doubts) for t in outcome.passing])
    assert same(outcome.chosen.texts[bench.script], SOFTMAX), outcome.chosen.patch


def test_a_kernel_in_an_imported_module_is_repaired_there(bench):
    module, _, rest = MATMUL.partition("\n\nx = ")
    main = "import torch\nfrom tiles import matmul\nx = " + rest
    outcome = bench.repair(main, tiles=module.replace("T.clear(c)", "T.clera(c)"))
    assert outcome.chosen is not None, outcome.why
    assert outcome.chosen.texts[bench.script] == main
    assert same(outcome.chosen.texts[str(Path(bench.script).parent / "tiles.py")], module)
    assert outcome.chosen.patch.startswith("--- tiles.py\n+++ tiles.py\n")


ELEMENTS = """\
import tilelang
import tilelang.language as T
scale_1, scale_2 = 2.0, 3.0
@T.prim_func
def main(A: T.Tensor((1024,), "float32"), B: T.Tensor((1024,), "float32")):
    with T.Kernel(8, threads=128) as bx:
        for i in T.Parallel(128):
            B[bx * 128 + i] = A[bx * 128 + i] * scale_1
k = tilelang.compile(main)
"""


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("scale_1\nk", "scale_3\nk"),  # two names are equally near, and with both the script builds
        ("B[bx * 128 + i]", "B[bx, i]"),  # without one of the indices it builds, and blocks or threads write the same
        ("B[bx * 128 + i]", "B[i, bx]"),
        ("A[bx * 128 + i]", "A[i, 0]"),  # without the 0 it builds, and every block reads the same
        ("threads=128)", "threads=128, unheard=3)"),  # left out it builds, and what it was to say is lost
    ],
)
def test_a_tempting_patch_is_offered_and_not_called_verified(bench, right, wrong):
    assert ELEMENTS.count(right) == 1
    outcome = bench.repair(ELEMENTS.replace(right, wrong))
    assert outcome.passing
    if outcome.chosen is not None:
        assert same(outcome.chosen.texts[bench.script], ELEMENTS), outcome.chosen.patch
    assert (outcome.chosen is None) == bool(outcome.why)


def test_exp_and_exp2_are_equally_near_and_compute_something_else(bench):
    outcome = bench.repair(SOFTMAX.replace("L.exp(", "L.expo("))
    assert outcome.chosen is None
    assert sorted(one.proposal.title.split()[1] for one in outcome.passing) == ["exp", "exp2"]


def test_several_faults_are_progress_and_no_fix(bench):
    outcome = bench.repair(MATMUL.replace("T.clear(c)", "T.claer(c)").replace("return main", "return mian"))
    assert outcome.chosen is None
    assert outcome.passing == ()


def test_the_type_of_an_accumulator_is_not_guessed(bench):
    outcome = bench.repair(MATMUL.replace('T.alloc_fragment((bm, bn), "float32")', "T.alloc_fragment((bm, bn))"))
    assert {"Allocate elements of dtype", 'Allocate elements of "float32"'} <= {
        t.proposal.title for t in outcome.passing
    }
    assert outcome.chosen is None
