"""The judge of fixes: what restores a script's meaning, and the tempting patches that do not."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet
from inject import KINDS, healthy_scripts, inject, injections
from judge import Judge, PatchError, apply, host_part, unlike_tensors
from rewrite import Script

needs_tilelang = pytest.mark.skipif(find_spec("tilelang") is None, reason="tilelang runs kernels on the CPU")
HEALTHY = healthy_scripts()
GEMM = HEALTHY["gemm_factory"]


def changed(script: Script, *changes: tuple[str, str]) -> Script:
    """The script with texts replaced, each of which stands in it once."""
    files = dict(script.files)
    for old, new in changes:
        (name,) = [n for n, text in files.items() if old in text]
        assert files[name].count(old) == 1, old
        files[name] = files[name].replace(old, new)
    return Script(script.main, files)


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Judge:
    return Judge(tmp_path_factory.mktemp("judged"))


RESTORED = {
    "comment": ("same-syntax", [("T.clear(C_local)", "T.clear(C_local)  # zero")]),
    "threads-and-stages": ("same-kernels", [("threads=128", "threads=256"), ("num_stages=3", "num_stages=2")]),
    "smaller-tile": ("same-results", [("block_K=32", "block_K=16")]),
}

#: what a search for a passing run is tempted to do; none of it is what the author meant
NOT_RESTORED = {
    "work-deleted": [("                T.gemm(A_shared, B_shared, C_local)\n", "")],
    "clear-deleted": [("            T.clear(C_local)\n", "")],
    "loop-shortened": [("T.ceildiv(K, block_K), num", "T.ceildiv(K, block_K) - 1, num")],
    "operand-of-the-other": [("A[by * block_M, ko * block_K], A_shared", "A[bx * block_M, ko * block_K], A_shared")],
    "narrow-accumulator": [('accum_dtype="float32"', 'accum_dtype="float16"')],
    "output-dtype": [("C: T.Tensor((M, N), dtype)", "C: T.Tensor((M, N), accum_dtype)")],
    "reference-changed": [("a @ b, rtol", "c, rtol")],
    "comparison-dropped": [("    torch.testing.assert_close(c, a @ b, rtol=1e-2, atol=1e-1)\n", "")],
    "tolerance-widened": [("atol=1e-1", "atol=1e3")],
    "problem-shrunk": [('"--k", type=int, default=512', '"--k", type=int, default=32')],
    "inputs-made-zero": [("a = torch.randn(m, k,", "a = torch.zeros(m, k,")],
    "launch-dropped": [("    c = kernel(a, b)\n", "    c = a @ b\n")],
    "error-hidden": [("    check(128, 64, 64)\n", "    raise SystemExit(0)\n")],
}
#: the others are run with the slow tests
QUICK = {"comment", "clear-deleted"}


def cases(names: Iterable[str]) -> list[ParameterSet]:
    return [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in names]


@pytest.mark.tilelang
@needs_tilelang
@pytest.mark.parametrize("name", cases(RESTORED))
def test_what_keeps_the_meaning_is_acquitted(name: str, judge: Judge) -> None:
    how, changes = RESTORED[name]
    assert judge.judge(GEMM, changed(GEMM, *changes)).how == how


@pytest.mark.tilelang
@needs_tilelang
@pytest.mark.parametrize("name", cases(NOT_RESTORED))
def test_what_only_passes_is_not_restored(name: str, judge: Judge) -> None:
    assert not judge.judge(GEMM, changed(GEMM, *NOT_RESTORED[name])).restored


def test_a_text_that_is_no_python_is_not_restored(judge: Judge) -> None:
    assert not judge.judge(GEMM, changed(GEMM, ("T.clear(C_local)", "T.clear(C_local"))).restored


def test_the_host_part_keeps_calls_and_not_what_shows_in_kernels() -> None:
    same = changed(GEMM, ("T.clear(C_local)", "pass"), ("block_K=32", "block_K=64"))
    assert host_part(same) == host_part(GEMM)
    assert host_part(changed(GEMM, ("out_idx=[2]", "out_idx=[1]"))) != host_part(GEMM)


def test_tensors_may_differ_by_rounding_and_by_no_element() -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(1)
    x = torch.randn(512, 512)
    assert unlike_tensors(x, x * (1 + 2e-7)) == ""
    assert unlike_tensors(x.half(), (x * (1 + 1e-5)).half()) == ""
    wrong = x.half()
    wrong[3, 5] = 1.0
    assert unlike_tensors(x.half(), wrong) != ""
    holed = x.clone()
    holed[0, 0] = torch.nan
    assert unlike_tensors(x, holed) != ""
    assert unlike_tensors(x, x.double()) != ""
    assert unlike_tensors(x, x.reshape(256, 1024)) != ""
    assert unlike_tensors(torch.zeros(4), torch.full((4,), 1e-9)) != ""
    integers = torch.arange(6)
    assert unlike_tensors(integers, integers.clone()) == "" and unlike_tensors(integers, integers + 1) != ""


def test_a_patch_must_apply_and_change_something(tmp_path: Path) -> None:
    script = Script("k.py", {"k.py": "a = 1\nb = 2\n"})
    good = "--- k.py\n+++ k.py\n@@ -1,2 +1,2 @@\n-a = 1\n+a = 3\n b = 2\n"
    assert apply(good, script, tmp_path / "0").files["k.py"] == "a = 3\nb = 2\n"
    git = good.replace("--- k.py", "--- a/k.py").replace("+++ k.py", "+++ b/k.py")
    assert apply(git, script, tmp_path / "1").files["k.py"] == "a = 3\nb = 2\n"
    for bad in (good.replace("-a = 1", "-a = 7"), "no patch at all\n"):
        with pytest.raises(PatchError):
            apply(bad, script, tmp_path / f"bad{len(bad)}")


@pytest.mark.parametrize("kind", KINDS)
def test_an_injection_changes_one_place_and_can_be_repeated(kind: str) -> None:
    made = {name: inject(kind, name, script, 5) for name, script in HEALTHY.items()}
    assert any(made.values())
    for name, injection in made.items():
        assert injection == inject(kind, name, HEALTHY[name], 5)
        if injection is None:
            continue
        file, line = injection.place
        before, after = injection.healthy.files[file], injection.broken.files[file]
        assert [f for f in HEALTHY[name].files if injection.broken.files[f] != HEALTHY[name].files[f]] == [file]
        rows = before.splitlines()
        last = line + injection.was.count("\n")
        assert after.splitlines()[: line - 1] == rows[: line - 1]
        assert after.splitlines()[len(after.splitlines()) - (len(rows) - last) :] == rows[last:]


def test_every_script_gets_faults_of_twelve_kinds() -> None:
    kinds: dict[str, set[str]] = {name: set() for name in HEALTHY}
    for injection in injections(1):
        kinds[injection.name].add(injection.kind)
    assert len(kinds) >= 10 and all(len(found) >= 12 for found in kinds.values()), kinds
