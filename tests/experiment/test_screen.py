"""Looking at many changes in one run: it says of each what a run of the changed script says."""

from __future__ import annotations

from pathlib import Path

import pytest
from sampling import one_in

from triage.experiment.errors import read_events
from triage.experiment.repairs import edits
from triage.experiment.repairs.edit import Edit
from triage.experiment.screen import Screened, screened
from triage.experiment.scripts import Candidate, ScriptRunner
from triage.experiment.twin import read

pytestmark = pytest.mark.tilelang

SCRIPT = """
import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[-1])
def scaled(M, N, block):
    @T.prim_func
    def main(A: T.Tensor((M, N), "float32"), S: T.Tensor((N,), "float32"), C: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(M, block), threads=64) as bx:
            row = T.alloc_fragment((block, N), "float32")
            total = T.alloc_fragment((block,), "float32")
            T.copy(A[bx * block, 0], row)
            T.reduce_sum(row, total, dim=1)
            for i, j in T.Parallel(block, N):
                row[i, j] = row[i, j] * S[i] / total[i]
            T.copy(row, C[bx * block, 0])

    return main


def main():
    torch.manual_seed(0)
    a, s = torch.rand(24, 32, device="cuda"), torch.rand(32, device="cuda")
    {run}


main()
"""
WANT = "a * s / a.sum(1, keepdim=True)"
ONE = f"c = scaled(24, 32, 8)(a, s)\n    torch.testing.assert_close(c, {WANT})"
OWN = f"c = scaled(24, 32, 8)(a, s)\n    error = (c - {WANT}).abs().mean().item()\n    assert error < 1e-5, error"
LOOP = (
    f"want = {WANT}\n    for rows in (8, 24):\n        c = scaled(rows, 32, 8)(a[:rows], s)\n        error = (c - want[:rows]).abs().max()\n"
    "        if error > 1e-5:\n            raise SystemExit(1)"
)
IN_PLACE = (
    "for step in range(2):\n        a = scaled(24, 32, 8)(a, s)\n    want = torch.rand(24, 32, device='cuda') * 0\n"
    f"    torch.manual_seed(0)\n    b = torch.rand(24, 32, device='cuda')\n    for step in range(2):\n        b = {WANT.replace('a', 'b', 1).replace('a.sum', 'b.sum')}\n"
    "    torch.testing.assert_close(a, b + want)"
)
CASES = (
    "for rows in (8, 24):\n        c = scaled(rows, 32, 8)(a[:rows], s if rows > 8 else s * 0 + 1)\n"
    f"        torch.testing.assert_close(c, ({WANT.replace('* s', '* (s if rows > 8 else s * 0 + 1)')})[:rows])"
)
HELPER = (
    "def check(name, got, want):\n        error = (got - want).abs().max().item()\n        print(name, error)\n        return error < 1e-5\n"
    f"    good = True\n    for rows in (8, 24):\n        good &= check('case', scaled(rows, 32, 8)(a[:rows], s), ({WANT})[:rows])\n"
    "    assert good, 'differs'"
)
EARLY = (
    "def wrong(got, want):\n        return ((got - want).abs() > 1e-5).sum().item()\n    bad = []\n"
    "    for rows in (8, 24, 16):\n        some = s if rows == 24 else s * 0 + 1\n"
    f"        if wrong(scaled(rows, 32, 8)(a[:rows], some), ({WANT.replace('* s', '* some')})[:rows]):\n            bad.append(rows)\n"
    "    assert not bad, bad"
)
CHAIN = f"b = scaled(24, 32, 8)(torch.rand(24, 32, device='cuda'), s * 0 + 1)\n    c = scaled(24, 32, 8)(a + b * 0, s)\n    torch.testing.assert_close(c, {WANT})"
STAGES = (
    "steps = [scaled(24, 32, 8), scaled(24, 32, 12)]\n    x, y = torch.empty_like(a), a.clone()\n"
    "    for step in steps * 2:\n        x = step(y, s)\n        x, y = y, x\n"
    f"    want = a\n    for _ in range(4):\n        want = {WANT.replace('a', 'want')}\n    torch.testing.assert_close(y, want)"
)
NUMPY = (
    "def off():\n        c = scaled(24, 32, 8)(a, s).cpu().numpy()\n"
    "        x, f = a.cpu().numpy().astype('float64'), s.cpu().numpy()\n        want = x * f / x.sum(1, keepdims=True)\n"
    "        return abs(c - want).max() > 1e-5\n    import sys\n    sys.exit(1 if off() else 0)"
)
ASSERTS = (
    f"c = scaled(24, 32, 8)(a, s * (s > 0.5))\n    want = {WANT.replace('* s', '* (s * (s > 0.5))')}\n"
    "    for row in range(24):\n        for column in range(2):\n"
    "            assert (c[row, column::2] - want[row, column::2]).norm().item() < 1e-5"
)
ARITHMETIC = (
    f"c = scaled(24, 32, 8)(a, s)\n    c[3:5] += 1.0\n    want = {WANT}\n    want[3:5] += 1.0\n"
    "    torch.testing.assert_close(torch.complex(2 * c.cpu(), c.cpu() + 1), torch.complex(want * 2, want + 1).cpu())"
)
JOINED = (
    "whole = torch.zeros(24, 32, device='cuda')\n    for row in (8, 16):\n        whole[row : row + 8] = scaled(8, 32, 8)(a[row : row + 8], s)\n"
    "    whole = torch.cat([scaled(8, 32, 8)(a[:8].contiguous(), s), whole[8:]])\n"
    f"    want = {WANT}\n    assert ((whole - want) / want).abs().max() < 1e-4"
)
#: the script comes to a number, and goes on with that
NUMBER = CHAIN.replace("b * 0", "float(b[0, 0]) * 1e-5")
WAYS = {
    "arithmetic": ARITHMETIC,
    "joined": JOINED,
    "number": NUMBER,
    "stages": STAGES,
    "numpy": NUMPY,
    "asserts": ASSERTS,
    "one": ONE,
    "own": OWN,
    "loop": LOOP,
    "in-place": IN_PLACE,
    "cases": CASES,
    "helper": HELPER,
    "early": EARLY,
    "chain": CHAIN,
}
#: ways in which the launch that is found wrong is computed alone, though others came before it
ALONE = ("early", "stages", "numpy", "asserts", "arithmetic", "joined", "chain")


@pytest.fixture
def look(tmp_path: Path):  # type: ignore[no-untyped-def]
    def look(source: str, some: list[Edit], seconds: float = 60.0) -> tuple[Screened, dict[Edit, bool]]:
        """What is said of edits in one run, and what runs of the changed scripts say."""
        script = tmp_path / "kernel.py"
        script.write_text(source, encoding="utf-8")
        with ScriptRunner(tmp_path / "runs", script, cwd=tmp_path, jobs=1) as runner:
            found = screened(runner, Candidate(source, twin=()), some, seconds, 20.0)
            runs = {edit: runner.run(Candidate(edit.apply(source), twin=())) for edit in found.known}
            said = {e: read(read_events(s.directory), s.status, runner.blob) for e, s in runs.items()}
            # NaN passes a check such as `if error > 1e-5: raise`, and is no agreement
            return found, {e: run.passes and not run.nan for e, run in said.items()}

    return look


@pytest.fixture
def look_at(tmp_path: Path):  # type: ignore[no-untyped-def]
    def look_at(source: str, some: list[Edit]) -> list[dict[str, object]]:
        """What the runs say that look at edits."""
        script = tmp_path / "kernel.py"
        script.write_text(source, encoding="utf-8")
        with ScriptRunner(tmp_path / "runs", script, cwd=tmp_path, jobs=1) as runner:
            screened(runner, Candidate(source, twin=()), some, 60.0, 20.0)
        folders = sorted((tmp_path / "runs").glob("*/result.json"), key=lambda path: path.stat().st_mtime)
        return [dict(e) for path in folders for e in read_events(path.parent) if e["type"] == "screen"]

    return look_at


@pytest.mark.parametrize("way", one_in(5, WAYS))
def test_what_is_said_of_a_change_is_what_the_changed_script_does(look, way: str) -> None:  # type: ignore[no-untyped-def]
    source = SCRIPT.replace("{run}", WAYS[way])
    usual = [edit for edit in edits(source, range(8, 20)) if edit.line in (14, 15, 16, 17)]
    right = [edit for edit in usual if edit.line == 17 and edit.says == "`i` as `j`"]
    found, runs = look(source, [*right, *usual[::24]])
    assert found.all and len(found.known) > 3
    assert found.known == runs
    assert any(runs.values()) and not all(runs.values())


@pytest.mark.parametrize("way", one_in(2, ALONE))
def test_of_several_cases_the_launch_that_is_wrong_is_computed_alone(look_at, way: str) -> None:  # type: ignore[no-untyped-def]
    """All but its own statements, and those of launches that lead to it, may be wrong then: nobody runs the script to its end."""
    source = SCRIPT.replace("{run}", WAYS[way])
    (told,) = look_at(source, [an_edit_of(source, "S[i]", "S[j]"), an_edit_of(source, "S[i]", "S[0]")])
    assert (told["seen"], len(told["agrees"]), len(told["differs"])) == (2, 1, 1) and "why" not in told


HANDED = (
    "def expected(x, f):\n        return x * f / x.sum(1, keepdims=True)\n    c = torch.zeros_like(a)\n    scaled(24, 32, 8)(s, a, c)\n"
    "    wrong = int((abs(c.cpu().numpy() - expected(a.cpu().numpy(), s.cpu().numpy())) > 1e-4).sum())\n"
    "    if wrong:\n        raise SystemExit(f'{wrong} wrong')"
)


def test_what_a_launch_is_given_beside_its_output_is_not_what_is_expected(look_at) -> None:  # type: ignore[no-untyped-def]
    """Both have the same shape, and were handed to one function, but it is the subtraction that decides."""
    source = SCRIPT.replace("{run}", HANDED).replace("out_idx=[-1]", "")
    rows, row = 'A: T.Tensor((M, N), "float32")', 'S: T.Tensor((N,), "float32")'
    assert f"{rows}, {row}" in source
    source = source.replace(f"{rows}, {row}", f"{row}, {rows}")
    (told,) = look_at(source, [an_edit_of(source, "S[i]", "S[j]"), an_edit_of(source, "S[i]", "S[0]")])
    assert (told["seen"], len(told["agrees"]), len(told["differs"])) == (2, 1, 1) and "why" not in told


STRAYING = """
import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[-1])
def copied(N, block):
    whole = N // block

    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), C: T.Tensor((N,), "float32")):
        with T.Kernel(whole + 1, threads=32) as bx:
            if bx < whole:
                for i in T.Parallel(block):
                    C[bx * block + i] = A[bx * block + i]
            else:
                for i in T.Parallel(block):
                    if bx * block + i < N:
                        C[bx * block + i] = A[i]

    return main


torch.manual_seed(0)
a = torch.rand(50, device="cuda")
torch.testing.assert_close(copied(50, 16)(a), a)
"""


def test_a_change_with_which_a_kernel_goes_beyond_the_ends_of_a_buffer_is_told_apart(look) -> None:  # type: ignore[no-untyped-def]
    straying, right = (
        an_edit_of(STRAYING, "bx < whole", "bx <= whole"),
        an_edit_of(STRAYING, "A[i]", "A[bx * block + i]"),
    )
    found, runs = look(STRAYING, [straying, right])
    assert found.known == runs == {straying: True, right: True} and found.straying == {straying}


def test_a_launch_that_is_given_what_python_computed_from_a_result_is_left_to_whole_runs(look_at) -> None:  # type: ignore[no-untyped-def]
    source = SCRIPT.replace("{run}", NUMBER)
    first, second = look_at(source, [an_edit_of(source, "S[i]", "S[j]")])
    assert "computed from a result" in first["why"] and second["seen"] == 1


MACRO = """
import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[-1])
def clipped(N):
    @T.macro
    def put(value, to, i):
        if value > 0.5:
            to[i] = value
        else:
            to[i] = value * 2.0

    @T.prim_func
    def main(A: T.Tensor((2, N), "float32"), C: T.Tensor((2, N), "float32")):
        with T.Kernel(1, threads=32) as bx:
            one = T.alloc_fragment((N,), "float32")
            two = T.alloc_fragment((N,), "float32")
            for i in T.Parallel(N):
                put(A[0, i], one, i)
                put(A[1, i], two, i)
            for i in T.Parallel(N):
                C[0, i] = one[i]
                C[1, i] = two[i]

    return main


torch.manual_seed(0)
a = torch.rand(2, 32, device="cuda")
torch.testing.assert_close(clipped(32)(a), torch.where(a > 0.25, a, a * 3))
"""


def test_a_statement_that_every_call_of_a_macro_builds_is_changed_in_all(look) -> None:  # type: ignore[no-untyped-def]
    some = [an_edit_of(MACRO, "value * 2.0", "value * 3.0"), an_edit_of(MACRO, "value > 0.5", "value > 0.25")]
    found, runs = look(MACRO, some)
    assert found.known == runs and not any(runs.values()) and len(runs) == 2
    mended = MACRO.replace("value * 2.0", "value * 3.0")
    found, runs = look(mended, [an_edit_of(mended, "value > 0.5", "value > 0.25")])
    assert found.known == runs and all(runs.values()) and runs


def test_a_change_that_kills_the_process_hinders_no_other(look) -> None:  # type: ignore[no-untyped-def]
    source = SCRIPT.replace("{run}", ONE)
    start = source.index("row[i, j] * S[i]")
    deadly = Edit(17, 17, "term", "deadly", ((start, start + 16, "__import__('os').abort()"),))
    right = an_edit_of(source, "S[i]", "S[j]")
    found, runs = look(source, [deadly, right, deadly, an_edit_of(source, "S[i]", "S[0]")])
    assert found.seen == 4 and found.known[right] and runs[right] and deadly not in found.known
    assert len(found.known) == 2


def test_a_statement_that_is_in_no_launched_kernel_is_left_to_others(look) -> None:  # type: ignore[no-untyped-def]
    source = SCRIPT.replace("{run}", ONE)
    found, _ = look(source, [an_edit_of(source, "torch.rand(32", "torch.ones(32")])
    assert found.known == {} and found.seen == 1


PARTLY = (
    f"c = scaled(24, 32, 8)(a, s)\n    want = {WANT}\n    for row in range(16, 24):\n"
    "        error = ((c[row] - want[row]).norm() / want[row].norm()).item()\n        assert error < 0.1, row"
)


def test_what_is_compared_may_be_a_part_that_other_blocks_do_not_write(look) -> None:  # type: ignore[no-untyped-def]
    """And what is nearly right is measured as the script does it: by its bound, and not by how much better it has become."""
    source = SCRIPT.replace("{run}", PARTLY)
    right, nearly = an_edit_of(source, "S[i]", "S[j]"), an_edit_of(source, "S[i]", "(S[j] + (S[i] - S[j]) * 0.09)")
    found, runs = look(source, [right, nearly, an_edit_of(source, "S[i]", "S[0]")])
    assert found.known == runs and list(runs.values()) == [True, True, False]


def test_where_nothing_is_wrong_nothing_is_said(look) -> None:  # type: ignore[no-untyped-def]
    source = SCRIPT.replace("{run}", ONE).replace("S[i]", "S[j]")
    found, _ = look(source, [an_edit_of(source, "S[j]", "S[i]")])
    assert found.known == {} and found.seen == 0


def an_edit_of(source: str, old: str, new: str) -> Edit:
    start = source.index(old)
    line = source.count("\n", 0, start) + 1
    return Edit(line, line, "term", f"`{old}` as `{new}`", ((start, start + len(old), new),))


TWO = """
import tilelang
import tilelang.language as T
import torch

SCALES = []


@tilelang.jit(out_idx=[1, 2])
def split(M, N):
    SCALES.append(3.0)

    @T.prim_func
    def main(A: T.Tensor((M, N), "float32"), Q: T.Tensor((M, N), "float32"), S: T.Tensor((M,), "float32")):
        with T.Kernel(M, threads=32) as bx:
            for i in T.Parallel(1):
                S[bx + i] = 64.0
            for j in T.Parallel(N):
                Q[bx, j] = A[bx, j] / 127.0 * SCALES[-1]

    SCALES.append(1.0)
    return main


torch.manual_seed(0)
a = torch.rand(4, 32, device="cuda")
{run}
"""
#: what is expected depends on another result; zeros are no proof of where they come from; a file is read once
ODD = {
    "other-output": "q, s = split(4, 32)(a)\ntorch.testing.assert_close(q, a * 3 / s[:, None])",
    "zeros": "a *= 0\nq, s = split(4, 32)(a)\ntorch.testing.assert_close(q * 2 + 1, a + 2)",
    "thread": "from concurrent.futures import ThreadPoolExecutor as Pool\nwith Pool(1) as pool:\n    q, s = pool.submit(split(4, 32), a).result()\n"
    "torch.testing.assert_close(s, s * 0 + 127)",
    "file": "with open('want.txt', 'w') as file:\n    file.write('127.0')\nfile = open('want.txt', 'rb', buffering=0)\n"
    "q, s = split(4, 32)(a)\nassert (s.cpu().numpy() == float(file.read() or 0)).all()",
}


@pytest.mark.parametrize("odd", ODD)
def test_of_odd_scripts_nothing_is_said_that_a_run_denies(look, odd: str) -> None:  # type: ignore[no-untyped-def]
    source = TWO.replace("{run}", ODD[odd])
    some = [
        an_edit_of(source, "64.0", "127.0"),
        an_edit_of(source, "64.0", "32.0"),
        an_edit_of(source, "127.0", "64.0"),
    ]
    found, runs = look(source, some)
    assert found.known == {edit: runs[edit] for edit in found.known}
    assert bool(found.known) is (odd not in ("thread",))


def test_a_statement_whose_names_have_changed_since_is_not_built_again(look) -> None:  # type: ignore[no-untyped-def]
    """The list that the statement read had another end then."""
    source = TWO.replace("{run}", "q, s = split(4, 32)(a)\ntorch.testing.assert_close(q, a / 127)")
    found, _ = look(
        source, [an_edit_of(source, "* SCALES[-1]", "* SCALES[-1] / 3.0"), an_edit_of(source, "64.0", "1.0")]
    )
    assert [edit.line for edit in found.known] == [17] and not any(found.known.values())


ADDED = """
import tilelang
import tilelang.language as T
import torch


@tilelang.jit
def added(N, parts):
    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), C: T.Tensor((parts,), "float32")):
        with T.Kernel(N, threads=32) as bx:
            for i in T.Parallel(1):
                T.atomic_add(C[bx % parts], A[bx + i])

    return main


a, c = torch.rand(8, device="cuda"), torch.zeros(2, device="cuda")
added(8, 2)(a, c)
torch.testing.assert_close(c, a.reshape(2, 4).sum(1))
"""


def test_blocks_that_add_up_are_computed_together(look) -> None:  # type: ignore[no-untyped-def]
    found, runs = look(ADDED, [an_edit_of(ADDED, "bx % parts", "bx // 4"), an_edit_of(ADDED, "bx % parts", "bx // 8")])
    assert found.known == runs and list(runs.values()) == [True, False]


PAIRED = """
import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[-1])
def banded(N):
    @T.prim_func
    def main(A: T.Tensor((N, N), "float32"), C: T.Tensor((N, N), "float32")):
        with T.Kernel(N, threads=32) as bx:
            for j in T.Parallel(N):
                low, high = bx - 2, bx + 3
                C[bx, j] = T.if_then_else(j < low or j > high, 0.0, A[bx, j])

    return main


torch.manual_seed(0)
a = torch.rand(16, 16, device="cuda")
torch.testing.assert_close(banded(16)(a), a.triu(-2).tril(2))
"""


def test_statements_of_a_line_and_parts_of_a_statement_are_built_again(look) -> None:  # type: ignore[no-untyped-def]
    some = [an_edit_of(PAIRED, *to) for to in (("bx + 3", "bx + 2"), ("j > high", "j >= high"), ("bx - 2", "bx - 1"))]
    found, runs = look(PAIRED, some)
    assert found.known == runs and list(runs.values()) == [True, True, False]


TILED = """
import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[-1])
def summed(M, N, B):
    @T.prim_func
    def main(A: T.Tensor((M, N), "float32"), W: T.Tensor((B,), "float32"), C: T.Tensor((M, B), "float32")):
        with T.Kernel(M // B, threads=32) as bx:
            acc = T.alloc_fragment((B, B), "float32")
            T.clear(acc)
            for k in T.serial(N // B):
                for i, j in T.Parallel(B, B):
                    acc[i, j] += A[bx * B + i, k * B + j]
                for i, j in T.Parallel(B, B):
                    acc[i, j] += W[j]
            # once
            for i, j in T.Parallel(B, B):
                acc[i, j] = acc[i, j] * 2.0
            T.copy(acc, C[bx * B, 0])

    return main


torch.manual_seed(0)
a, w = torch.rand(16, 16, device="cuda"), torch.rand(8, device="cuda")
torch.testing.assert_close(summed(16, 16, 8)(a, w), (a.reshape(16, 2, 8).sum(1) + w) * 2)
"""


def test_loops_over_a_tile_are_moved_and_left_out(look) -> None:  # type: ignore[no-untyped-def]
    some = [edit for edit in edits(TILED, range(11, 23)) if edit.family == "block"]
    found, runs = look(TILED, some)
    assert found.known == runs and found.all and len(runs) > 4
    assert [(edit.line, edit.says) for edit, right in runs.items() if right] == [
        (17, "behind the loop of line 14 instead of in it")
    ]
