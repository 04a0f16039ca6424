"""How scripts find out that a result is wrong: each way is told as a failed comparison of what the kernel wrote."""

from __future__ import annotations

import pytest
from sampling import one_in

from triage.experiment.errors import read_events
from triage.experiment.scripts import Candidate, ScriptRunner, Shown
from triage.experiment.twin import read
from triage.model import Mismatch, from_json
from triage.numerics.pattern import pattern_of

pytestmark = pytest.mark.tilelang

HEAD = """import sys
import unittest
import numpy as np
import tilelang
import tilelang.language as T
import torch


def doubled(rows, columns, block=16):
    @T.prim_func
    def main(A: T.Tensor((rows, columns), "float32"), B: T.Tensor((rows, columns), "float32")):
        with T.Kernel(T.ceildiv(rows, block)) as bx:
            for i in T.serial(block):
                for j in T.serial(columns):
                    B[bx * block + i, j] = A[bx * block + i, j] * T.if_then_else(j < columns - 16, 2.0, 6.0)

    return main


a = torch.rand(64, 48) + 1
ref = a + a
"""
RETURNED = HEAD + 'kernel = tilelang.compile(doubled(64, 48), out_idx=[-1], target="c")\nb = kernel(a)\n'
FILLED = HEAD + 'kernel = tilelang.compile(doubled(64, 48), target="c")\nb = torch.empty_like(a)\nkernel(a, b)\n'
FAILS = {
    "assert_close": ("torch.testing.assert_close(b, ref)", "torch.testing.assert_close"),
    "the other way round": ("torch.testing.assert_close(ref, b)", "torch.testing.assert_close"),
    "several at once": ("torch.testing.assert_close([a, b], [a, ref])", "torch.testing.assert_close"),
    "a copy": ("torch.testing.assert_close(b.double().clone(), ref.double())", "torch.testing.assert_close"),
    "tilelang": ("import tilelang.testing\ntilelang.testing.torch_assert_close(b, ref, rtol=1e-2)", "tilelang.utils.tensor.torch_assert_close"),
    "numpy": ("np.testing.assert_allclose(b.numpy(), ref.numpy(), rtol=1e-3)", "numpy.testing.assert_allclose"),
    "np.allclose": ("assert np.allclose(b.numpy(), ref.numpy())", "numpy.allclose"),
    "allclose": ("assert torch.allclose(b, ref, rtol=1e-3)", "torch.allclose"),
    "a method": ("assert b.allclose(ref)", "torch.allclose"),
    "equal": ("assert torch.equal(b, ref), 'not equal'", "torch.equal"),
    "a name": ("ok = torch.allclose(b, ref)\nprint(ok)\nif not ok:\n    raise RuntimeError('wrong')", "torch.allclose"),
    "an exit": ("if not torch.allclose(b, ref):\n    print('FAILED')\n    sys.exit(1)", "torch.allclose"),
    "an early return": (
        "def check():\n    if torch.allclose(b, ref):\n        return\n    raise ValueError('wrong')\n\ncheck()",
        "torch.allclose",
    ),
    "a function": ("def same(x, y):\n    return torch.allclose(x, y)\n\nassert same(b, ref)", "torch.allclose"),
    "one of several": (
        "ok = True\nfor x in (b, ref, b, ref):\n    ok &= torch.allclose(x, ref)\nif not ok:\n    sys.exit(1)", "torch.allclose"
    ),
    "a main function": (
        "def main():\n    if not torch.allclose(b, ref):\n        print('FAILED')\n        return 1\n    return 0\n\nsys.exit(main())",
        "torch.allclose",
    ),
    "an argument": (
        "def expect(flag, text='wrong'):\n    if not flag:\n        raise RuntimeError(text)\n\nexpect(torch.allclose(b, ref))",
        "torch.allclose",
    ),
    "NumPy in both": (
        "import numpy.testing\nif not np.allclose(b.numpy(), ref.numpy()):\n    raise ValueError", "numpy.allclose"
    ),
    "a list": ("ok = []\nfor i in range(4):\n    ok.append(torch.equal(b, ref))\nassert all(ok)", "torch.equal"),
    "caught": (
        "try:\n    torch.testing.assert_close(b, ref)\nexcept AssertionError as error:\n    raise RuntimeError('wrong') from error",
        "torch.testing.assert_close",
    ),
    "caught and left": (
        "try:\n    torch.testing.assert_close(b, ref)\nexcept AssertionError as error:\n    sys.exit(str(error))",
        "torch.testing.assert_close",
    ),
    "unittest": ("unittest.TestCase().assertTrue(torch.allclose(b, ref))", "torch.allclose"),
    "a maximum": ("assert (b - ref).abs().max() < 1e-3", "assert"),
    "a number": ("e = (b.double() - ref).abs().max().item()\nprint(e)\nif e > 1e-3:\n    raise ValueError(e)", "raise"),
    "a relative norm": ("assert (ref - b).norm() / ref.norm() < 1e-3, 'too far'", "assert"),
    "torch.sub": ("assert torch.sub(b, ref).abs().sum() == 0", "assert"),
    "isclose": ("assert torch.isclose(b, ref).all()", "assert"),
    "elements": ("for j in range(48):\n    for i in range(64):\n        assert b[i, j] == ref[i, j]", "assert"),
    "numpy of its own": ("d = np.abs(b.numpy() - ref.numpy())\nif d.max() > 1:\n    sys.exit('wrong')", "exit"),
    "a helper": (
        "def error(x, y):\n    return (x - y).abs().max().item()\n\ndef check(e, bound=1e-3):\n    if e > bound:\n        raise ValueError(e)\n\ncheck(error(b, ref))",
        "raise",
    ),
    "collected": (
        "bad = []\ne = (b - ref).abs().max().item()\nif e > 1e-3:\n    bad.append('doubled')\nif bad:\n    sys.exit(f'wrong: {bad}')",
        "exit",
    ),
    "collected beside": ("bad = []\ntorch.equal(b, ref) or bad.append(1)\nassert len(bad) == 0", "torch.equal"),
    "counted": ("n = 0\nif not torch.allclose(b, ref):\n    n += 1\nif n > 0:\n    raise ValueError(n)", "torch.allclose"),
    "a flag": ("ok = True\nif (b - ref).abs().max() > 1e-3:\n    ok = False\nassert ok", "assert"),
    "a flag in the other case": (
        "ok = True\nif (b - ref).abs().max() < 1e-3:\n    print('fine')\nelse:\n    ok = False\nassert ok", "assert"
    ),
    "a table": ("t = {}\nfor n in 'x', 'y':\n    t[n] = (b - ref).norm()\nfor n, e in t.items():\n    assert e < 1e-3, n", "assert"),
    "a helper that collects": (
        "bad = []\ndef note(to, e):\n    if e > 1e-3:\n        to.append(e)\n\nnote(bad, (b - ref).abs().max())\nassert not bad",
        "assert",
    ),
    "caught and counted": (
        "n = 0\ntry:\n    torch.testing.assert_close(b, ref)\nexcept AssertionError as error:\n    n += 1\nsys.exit(n)",
        "torch.testing.assert_close",
    ),
    "a reference in the check": ("assert (b - torch.add(a, a)).abs().max() < 1e-3", "assert"),
    "a method in the check": (
        "e = (b - a.mul(2).sum(0, keepdim=True).expand(64, -1) - a.mul(2) + a.mul(2).sum(0, keepdim=True)).abs().max()\nassert (b - a.mul(2.0)).norm() < 1e-3, e",
        "assert",
    ),
    "a title and a scale": (
        "def check(name, scale, got, want):\n    d = ((got - want) / scale).abs().max()\n    print(name, d)\n    return bool(d < 1e-3)\n\n"
        "bad = [] if check('x', 2.0, b, ref) else ['x']\nif bad:\n    sys.exit(1)",
        "exit",
    ),
    "the worse of two": (
        "bad = []\nnear = ref[:, :32] * 1.0000001\ne = (b[:, :32] - near).abs().max().item()\nif e > 1e-3:\n    bad.append('left')\n"
        "d = (b - ref).abs().max().item()\nif d > 1e-3:\n    bad.append('all')\nassert not bad",
        "assert",
    ),
    "the worse of two at once": (
        "bad = []\nnear = ref[:, :32] * 1.0000001\nif (b[:, :32] - near).abs().max() > 1e-3:\n    bad.append('left')\n"
        "if (b - ref).abs().max().item() > 1e-3:\n    bad.append('all')\nif bad:\n    sys.exit(str(bad))",
        "exit",
    ),
}  # fmt: skip
#: ends that have nothing to do with wrong values
UNRELATED = {
    "a raise on something else": "print(torch.allclose(b, ref))\nif len(sys.argv) < 5:\n    raise ValueError('too few')",
    "a raise on nothing": "torch.allclose(b, ref)\nraise ValueError('not yet')",
    "no kernel": "assert torch.rand(64, 48).sub(ref).abs().max() < 1e-3",
    "an error of a package": "if not torch.allclose(b, ref):\n    torch.zeros(2) @ torch.zeros(3)",
    "a comparison that holds": "ok = torch.allclose(b, b + 0)\nassert ok and len(sys.argv) > 5",
    "a raise on a parameter": "def main(n):\n    print(torch.allclose(b, ref))\n    if n < 5:\n        raise ValueError('few')\n\nmain(4)",
    "a parameter beside tensors": "def main(x, y, n):\n    if n < 5:\n        raise ValueError('few')\n\nmain(b, ref, n=4)",
    "a condition after one that left": "def main(n=4):\n    if torch.equal(b, ref):\n        return\n    if n < 5:\n        raise ValueError\n\nmain()",
    "a missing name": "tilelang.testing.torch_assert_close(b, ref)",
    "a shape": "torch.testing.assert_close(b[0], ref)",
}
#: ends that no value of a kernel can be part of
REGARDLESS = {
    "a shape": "assert b.shape == (48, 64), f'shape {tuple(b.shape)}'\ntorch.testing.assert_close(b, ref)",
    "a size in a function": "def check(t):\n    assert t.size(0) == 5 and t.dim() == 2\n\ncheck(b)",
    "a type": "def check(t):\n    assert t.dtype == torch.float16, t.dtype\n\ncheck(b)",
    "devices": "if not torch.cuda.is_available() or torch.cuda.device_count() < 99:\n    sys.exit('needs 99 GPUs')",
    "files": "import os\nfiles = os.listdir('.')\nassert len(files) > 500, 'no data'",
    "an argument": "count = len(sys.argv)\nif count < 3:\n    raise SystemExit('usage: kernel.py A B')",
    "what was collected on shapes": "bad = []\nfor t in (a, b):\n    if t.shape != (48, 64):\n        bad.append('shape')\nassert not bad",
    "the time": "import time\nstart = time.perf_counter()\nkernel(a)\nassert time.perf_counter() - start < 1e-9",
}
#: ends of which nobody can tell
PERHAPS = {
    "a flag that a function sets": "bad = 0\ndef check():\n    global bad\n    bad += any(v != 0 for v in (b - ref).flatten().tolist())\ncheck()\nsys.exit(bad)",
    "a list that a function fills": "bad = []\ndef check():\n    bad.append(1)\ncheck()\nassert not bad",
    "a call that says why": "def fail(text):\n    sys.exit(text)\n\nif b.double().sum().item() > 1:\n    fail('wrong')",
    "a function's answer": "def main():\n    return int(b.double().sum().item() > 1)\n\nraise SystemExit(main())",
    "a caught error": "try:\n    print(1 // int(b.sum() * 0))\nexcept ZeroDivisionError:\n    sys.exit('wrong')",
    "what was collected on values": "bad = []\nif b.double().sum().item() > 1:\n    bad.append('sum')\nif bad:\n    sys.exit(str(bad))",
    "what was counted on values": "n = 0\nfor v in b.flatten().tolist():\n    if v > 1:\n        n += 1\nsys.exit(n > 0)",
    "a flag that values set": "ok = True\nif b.double().sum().item() > 1:\n    ok = False\nassert ok",
    "an error that was caught and noted": "n = []\ntry:\n    print(1 // int(b.sum() * 0))\nexcept ZeroDivisionError:\n    n.append(1)\nassert not n",
    "a loop over what is wrong": "for v in [v for v in b.flatten().tolist() if v > 1]:\n    raise ValueError('wrong')",
    "what the kernel's function answers": "best = max(kernel(a).flatten().tolist())\nassert best < 1",
}


@pytest.fixture(scope="module")
def runner(tmp_path_factory):
    pytest.importorskip("tilelang")
    folder = tmp_path_factory.mktemp("user")
    (folder / "kernel.py").write_text(RETURNED)
    with ScriptRunner(tmp_path_factory.mktemp("runner"), folder / "kernel.py", cwd=folder) as running:
        yield running


def run(runner: ScriptRunner, text: str) -> Shown:
    shown = runner.run(Candidate(text), 120.0)
    assert shown.status == "failed", shown
    troubles = [e["text"] for e in read_events(shown.directory) if e["type"] == "warning" and e["origin"] == "triage"]
    assert troubles == []
    return shown


@pytest.mark.parametrize("way", one_in(3, FAILS))
def test_a_failed_comparison_is_told_with_the_kernels_output(way: str, runner) -> None:
    text, function = FAILS[way]
    error = run(runner, f"{RETURNED}{text}\n").errors[-1]
    compared = error.comparison
    assert compared is not None and compared.pattern is not None and not error.regardless
    assert (compared.function, compared.vacuous) == (function, "")
    assert [(output.name, output.argument) for output in compared.written] == [("doubled.main", "B")]
    found = pattern_of(compared.pattern)
    assert (found.where, found.values) == (("tail-columns",), "scaled")
    assert found.ratio == pytest.approx(3.0, rel=1e-3)


@pytest.mark.parametrize("way", UNRELATED)
def test_another_end_rests_on_no_comparison(way: str, runner) -> None:
    compared = run(runner, f"{RETURNED}{UNRELATED[way]}\n").errors[-1].comparison
    assert compared is None or compared.pattern is None


@pytest.mark.parametrize("way", REGARDLESS)
def test_an_end_that_no_value_decides_is_told_as_such(way: str, runner) -> None:
    error = run(runner, f"{RETURNED}{REGARDLESS[way]}\n").errors[-1]
    assert error.regardless and error.comparison is None


@pytest.mark.parametrize("way", PERHAPS)
def test_an_end_that_values_may_decide_is_not(way: str, runner) -> None:
    assert not run(runner, f"{RETURNED}{PERHAPS[way]}\n").errors[-1].regardless


def test_an_argument_that_a_kernel_filled_is_its_output(runner) -> None:
    compared = run(runner, f"{FILLED}torch.testing.assert_close(b, ref)\n").errors[-1].comparison
    assert compared is not None
    assert [(output.name, output.argument) for output in compared.written] == [("doubled.main", "B")]
    assert compared.tolerance == "atol=1e-05 rtol=1.3e-06" and (compared.shape, compared.dtype) == ((64, 48), "float32")


def test_the_script_sees_what_it_would_see_unobserved(runner) -> None:
    text = """
state = torch.get_rng_state()
try:
    torch.testing.assert_close(b, ref)
except AssertionError as error:
    frames = []
    while (trace := (error.__traceback__ if not frames else trace.tb_next)) is not None:
        frames.append(trace.tb_frame.f_code.co_name)
    print("frames", frames[0], frames[-1])
    assert str(error).startswith("Tensor-likes are not close!") and type(error) is AssertionError
assert torch.allclose(b, b) is True and np.allclose(b.numpy(), ref.numpy()) is False
assert torch.equal(state, torch.get_rng_state())
assert torch.allclose.__name__ == "allclose"
sys.exit(7)
"""
    shown = run(runner, RETURNED + text)
    assert "frames <module> assert_close" in (shown.directory / "stdout").read_text()
    assert [e["code"] for e in read_events(shown.directory) if e["type"] == "bye"] == [7]


def test_what_a_loop_compares_is_told_once_while_it_agrees(runner) -> None:
    text = f"{RETURNED}for _ in range(1000):\n    torch.allclose(b, b.clone())\n    _ = torch.allclose(b, ref)\nraise ValueError\n"
    compares = [e for e in read_events(run(runner, text).directory) if e["type"] == "compare"]
    assert sum(e["matched"] for e in compares) == 1 and 1 < len(compares) < 50
    assert all(e["virtual"] is False for e in compares)


def test_what_a_share_of_the_elements_lets_through_is_told_of_every_round(runner) -> None:
    text = f"""{RETURNED}
from tilelang.utils.tensor import torch_assert_close
for actual in (ref.clone(), ref.clone(), b, b):
    torch_assert_close(actual, ref, max_mismatched_ratio=0.4)
torch.testing.assert_close(b, b.clone())
sys.exit(3)
"""
    compares = [e for e in read_events(run(runner, text).directory) if e["type"] == "compare"]
    assert [e["matched"] for e in compares] == [True] * 4
    told = [from_json(Mismatch, e["summary"]["let_through"]) for e in compares if "let_through" in e["summary"]]
    assert [pattern_of(one).where for one in told] == [("tail-columns",)] * 2
    assert told[0].differences is not None and told[0].wrong == 64 * 16


#: what a script does with a no, and goes on: whether people are told that a result is wrong, and nothing else
TOLD = {
    "a print": ("print('equal:', torch.allclose(b, ref))", 'told'),
    "a name": ("ok = torch.allclose(b, ref)\nprint('ok' if ok else 'WRONG')", 'wrong'),
    "a text": ("same = bool(b.allclose(ref))\ntext = f'same: {same}'\nprint(text)", 'told'),
    "a choice of prints": ("if torch.allclose(b, ref):\n    print('ok')\nelse:\n    print('FAILED')", 'wrong'),
    "nothing": ("torch.allclose(b, ref)", 'told'),
    "NumPy": ("print(np.allclose(b.numpy(), ref.numpy()))", 'told'),
    "a function": ("def main():\n    good = torch.allclose(b, ref)\n    print(good)\n\nmain()", 'told'),
    "one that expects it": ("print('differs:', not torch.allclose(b, ref))", ''),
    "one that demands it": ("assert not torch.allclose(b, ref)", ''),
    "one that does something": ("ok = torch.allclose(b, ref)\nprint(ok)\nif not ok:\n    ref = b.clone()", ''),
    "an answer given back": ("def same(x, y):\n    return torch.allclose(x, y)\n\nsame(b, ref)", ''),
    "a runner that goes on": (
        "def case():\n    torch.testing.assert_close(b, ref)\n\nfor test in (case,):\n    try:\n        test()\n    except AssertionError as error:\n"
        "        print(f'{test.__name__} FAILED: {error}')", 'wrong'),
    "a check that has to fail": (
        "try:\n    torch.testing.assert_close(b, ref)\nexcept AssertionError:\n    print('differs, as it should')\nelse:\n    raise SystemExit('failed to fail')", ''),
    "a failure that is only caught": ("try:\n    torch.testing.assert_close(b, ref)\nexcept AssertionError:\n    pass", ''),
    "a wider tolerance": ("print(torch.allclose(b, ref))\ntorch.testing.assert_close(b, ref, rtol=9, atol=9)", ''),
    "a wider tolerance before": ("torch.testing.assert_close(b, ref, rtol=9, atol=9)\nprint(torch.allclose(b, ref))", ''),
    "two results": ("print(torch.allclose(b, kernel(a + 1)))", ''),
    "something that was made of it": ("print(torch.allclose(b.roll(1, 0), ref))", ''),
}  # fmt: skip


@pytest.mark.parametrize("way", one_in(2, TOLD))
def test_who_only_prints_a_no_has_a_wrong_result(way: str, runner) -> None:
    text, told = TOLD[way]
    shown = runner.run(Candidate(f"{RETURNED}{text}\n"), 120.0)
    assert shown.status == "succeeded", shown
    seen = read(read_events(shown.directory), shown.status, runner.blob)
    assert [c.matched for c in seen.comparisons][:1] == [way == "a wider tolerance before"]
    assert seen.verdict == ("mismatched" if told else "unknown")
    assert not told or seen.perhaps_meant is (told == "told")
