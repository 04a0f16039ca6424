"""What fails whatever the kernels computed: scripts are run, and their own stacks are asked about.

`k` is a kernel: what it returns is -1.0, and whatever a check makes of that counts as made up.
"""

from __future__ import annotations

import textwrap
import traceback

import pytest

from triage.knowledge.constant import Running, fails_by_itself

NAME = "/home/user/kernels/k.py"


def stack_of(script: str) -> list[Running]:
    """The stack of the error that ends a script."""
    source = textwrap.dedent(script)
    try:
        exec(compile(source, NAME, "exec"), {"__name__": "__main__", "k": lambda *given: -1.0})
    except (ArithmeticError, AssertionError, LookupError, SystemExit, ValueError) as error:
        stack = traceback.extract_tb(error.__traceback__)[1:]
    else:
        raise AssertionError("the script does not fail")
    return [
        Running(source, f.lineno or 0, f.name, (f.colno + 1, f.end_colno + 1) if f.colno is not None else None)
        for f in stack
        if f.filename == NAME and f.end_colno is not None
    ]


BY_THEMSELVES = [
    "n_heads, n_groups = 7, 2\nassert n_heads % n_groups == 0",
    "y = k(1)\nn_heads = 7\nn_groups: int = 2\nassert n_heads % n_groups == 0, f'{n_heads} heads, {y}'",
    "cfg = {'BM': 128, 'BN': 64}\ny = k(cfg['BM'])\nassert cfg['BM'] == cfg['BN'], 'tiles'",
    "cfg = dict = {'a': [1, 2], 'b': [3]}\nassert cfg['a'][0] == cfg['b'][0]",
    "cfg = {'a': 1}\ncfg['b'] = 2\nfor name, value in cfg.items():\n    print(name, value)\nassert cfg['a'] == cfg['b']",
    "configs = [(8, 4), (7, 2)]\nfor heads, groups in configs:\n    k(heads)\n    assert heads % groups == 0",
    "heads = [8, 7]\nassert all(h % 2 == 0 for h in heads)",
    "assert max([len(s) for s in ('a', 'bc')]) < 2",
    "import sys\ny = k(1)\nsys.exit(3)",
    "import sys\ny = k(1)\nsys.exit(f'got {y}')",
    "y = k(1)\nraise SystemExit(3)",
    "y = k(1)\nraise AssertionError('not ready')",
    "DEBUG = False\ny = k(1)\nif not DEBUG:\n    raise SystemExit('set DEBUG')",
    "import math\nN = 100\nassert math.ceil(N / 64) * 64 == N",
    "def main():\n    n, b = 500, 64\n    y = k(n)\n    assert n % b == 0\nif __name__ == '__main__':\n    main()",
    "N = 500\ndef check(n, block=64):\n    assert n % block == 0\ny = k(1)\ncheck(N)",
    "def check(y, n, *, block):\n    assert n % block == 0\ncheck(k(1), 500, block=64)",
    "def make():\n    n = 7\n    def inner():\n        assert n % 2 == 0\n    inner()\nmake()",
    "n = 1\nn += 6\nwhile n > 10:\n    n = n - 1\nassert n % 2 == 0",
    "i = 0\nfor i in range(4):\n    k(i)\nassert i == 4",
    "a = 5; b = 0; k(1); print(a // b)",
    "rows = (1, 2, 3)\ny = k(1)\nprint(y, rows[5])",
    "a, b = (1, 2, 3)",
    "with open('/dev/null') as f:\n    k(1)\n    assert 7 % 2 == 0",
    "n = 7\nif n % 2 == 0:\n    raise SystemExit(0)\nk(1)\nassert n % 2 == 0",
    "try:\n    k(1)\n    assert 7 % 2 == 0\nexcept AssertionError as e:\n    print(e)\n    raise",
    "class A:\n    def run(self):\n        n = 7\n        assert n % 2 == 0\nA().run()",
    "def report():\n    if k(1) > 0:\n        return True\n    print('bad')\nreport()\nassert 7 % 2 == 0",
    "cfg = {'a': 1}\ndef show(**more):\n    return more\nshow(**cfg)\nassert cfg['a'] == 2",
]

CONFIG = "from dataclasses import dataclass\n@dataclass\nclass Config:\n    heads: int = 7\n    groups: int = 2\n"
PARSED = "import argparse\np = argparse.ArgumentParser()\np.add_argument('--n', type=int, default=7)\nargs = p.parse_args([])\n"
BY_THEMSELVES += [
    CONFIG + "cfg = Config()\ny = k(cfg)\nassert cfg.heads % cfg.groups == 0",
    CONFIG + "cfg = Config(groups=4)\nassert cfg.heads % cfg.groups == 0",
    "class Sizes:\n    M = 100\nk(Sizes.M)\nassert Sizes.M % 64 == 0",
    PARSED + "k(args.n)\nassert args.n % 2 == 0",
    "import os\nif os.environ.get('TRIAGE_TEST_ABSENT', '0') == '0':\n    raise SystemExit(2)",
    "import sys\nn = len(sys.argv)\nk(n)\nassert n == 0",
    "import torch\nx = torch.randn(500, 4).half()\ny = k(x)\nM, N = x.shape\nassert M % 64 == 0",
    "import torch\nx = torch.zeros((500, 4))\nx = x.contiguous()\nassert x.size(0) % 64 == 0 or x.numel() == 1",
]

OF_VALUES = [
    "x = k(1)\nassert 1 + 1 == 3 and x > 0",  # one would have to compute it to see that the rest does not matter
    "y = k(1)\nassert y > 0",
    "y = k(1)\nassert y * 0 + 7 % 2 == 0",
    "n = 7\nn = k(n)\nassert n == 7",
    "n = 7\nif k(1) < 0:\n    n = 9\nassert n == 7",
    "ok = True\nif k(1) < 0:\n    ok = False\nassert ok",
    "bad = 0\nfor i in range(3):\n    if k(i) < 0:\n        bad += 1\nassert bad == 0",
    "bad = 0\nfor i in range(3):\n    if k(i) < 0:\n        continue\n    bad += 1\nassert bad == 3",
    "i = 0\nfor i in range(3):\n    if k(i) < 0:\n        break\nassert i == 2",
    "import sys\nif k(1) < 0:\n    sys.exit(3)",
    "import sys\nif k(1) > 0:\n    sys.exit(0)\nsys.exit(3)",
    "import sys\ny = k(1)\nsys.exit(0 if y > 0 else 1)",
    "import sys\nok = k(1) > 0\nsys.exit(not ok)",
    "import sys\ncode = 0\nif k(1) < 0: code = 1\nsys.exit(code)",
    "import sys\ndef fail():\n    sys.exit(1)\nif k(1) < 0:\n    fail()",
    "import sys\nk(1) > 0 or sys.exit(1)",
    "import sys\nsys.exit(1) if k(1) < 0 else None",
    "def main():\n    if k(1) > 0:\n        return 0\n    raise SystemExit(1)\nmain()",
    "import sys\ndef main():\n    return int(k(1) < 0)\nsys.exit(main())",
    "import sys\nwhile True:\n    if k(1) > 0:\n        break\n    sys.exit(2)",
    "import sys\nfor i in range(3):\n    if k(i) > 0:\n        break\nelse:\n    sys.exit(2)",
    "import sys\ntry:\n    assert k(1) > 0\nexcept AssertionError:\n    sys.exit(3)",
    "try:\n    assert k(1) < 0\n    raise SystemExit(3)\nexcept ValueError:\n    pass",
    "ok = False\ntry:\n    assert k(1) > 0\n    ok = True\nexcept AssertionError:\n    pass\nassert ok",
    "try:\n    1 / (k(1) + 1)\nexcept ZeroDivisionError:\n    raise AssertionError('zero')",
    "import sys\ntry:\n    assert k(1) < 0\n    raise SystemExit(3)\nexcept AssertionError:\n    sys.exit(0)",
    "def check(y, n):\n    assert y == n\ncheck(k(1), 7)",
    "def check(n):\n    assert n == 7\ncheck(k(1))",
    "def check(n, m=8):\n    assert n == m\ncheck(*[k(1)])",
    "def check(n):\n    n = n if k(1) > 0 else 2\n    assert n == 7\ncheck(7)",
    "results = []\nresults.append(k(1))\nassert results == [1.0]",
    "results = [0.0]\nresults[0] = k(1)\nassert results[0] == 1.0",
    "stats = {'err': 0.0}\ndef run():\n    stats['err'] = k(1)\nrun()\nassert stats['err'] == 0.0",
    "stats = {'err': [0.0]}\nstats['err'].append(k(1))\nassert stats['err'] == [0.0]",
    "stats = {'err': [0.0]}\nerr = stats['err']\nerr.append(k(1))\nassert stats['err'] == [0.0]",
    "stats = [0.0]\nalias = stats\nalias[0] = k(1)\nassert stats[0] == 0.0",
    "def fill(into):\n    into[0] = k(1)\nstats = [0.0]\nfill(stats)\nassert stats[0] == 0.0",
    "stats = {}\nstats.update(err=k(1))\nassert stats == {}",
    "rows = [[0.0], [0.0]]\nfor row in rows:\n    row[0] = k(1)\nassert rows[0][0] == 0.0",
    "n = 1\ndef run():\n    global n\n    n = 2\nif k(1) < 0:\n    run()\nassert n == 1",
    "def outer():\n    n = 1\n    def run():\n        nonlocal n\n        n = k(1)\n    run()\n    assert n == 1\nouter()",
    "class R:\n    err = 0.0\nR.err = k(1)\nassert R.err == 0.0",
    "class R:\n    err = 0.0\nr = R()\nr.err = k(1)\nassert r.err == 0.0",
    "def err():\n    return k(1)\nassert err() == 0.0",
    "abs = lambda x: k(1)\nassert abs(3) == 3",
    "def len(x):\n    return k(1)\nassert len([3]) == 1",
    "import math\nassert math.sqrt(k(1) + 1) > 0",
    "assert all(v > 0 for v in [k(1)])",
    "heads = [8, 7]\nassert all(h % 2 == k(h) for h in heads)",
    "if (n := k(1)) < 0:\n    pass\nassert n == 1",
    "match k(1):\n    case -1.0:\n        raise SystemExit(1)",
    "for y in [k(1)]:\n    assert y == 1",
    "y = k(1)\nprint(1 / (y + 1))",
    "y = k(1)\nprint([1, 2][int(y) + 5])",
    "from contextlib import suppress\nwith suppress(ValueError):\n    int('x' if k(1) < 0 else '1')\n    n = 1\nn = 2\nassert n == 1",
    "n = 1\nfor n in [k(1)]:\n    pass\nassert n == 1",
    "n = 1\ndel n\nn = k(1)\nassert n == 1",
    "from math import *\nassert floor(k(1)) == 0",
    "import sys\ncode = int(k(1) < 0)\nif code:\n    raise SystemExit(code)",
    "raise SystemExit(int(k(1) < 0))",
    "assert [n for n in (1, 2) if k(n) > 0] == [1, 2]",
]


OF_VALUES += [
    CONFIG + "cfg = Config(k(1))\nassert cfg.heads == 7",
    CONFIG + "cfg = Config(heads=k(1))\nassert cfg.heads == 7",
    CONFIG + "cfg = Config(**{'heads': k(1)})\nassert cfg.heads == 7",
    CONFIG + "cfg = Config()\ncfg.heads = k(1)\nassert cfg.heads == 7",
    CONFIG + "cfg = Config()\nsetattr(cfg, 'heads', k(1))\nassert cfg.heads == 7",
    CONFIG + "cfg = Config()\nif k(1) < 0:\n    cfg = Config(heads=8)\nassert cfg.heads == 7",
    "class R:\n    def __init__(self):\n        self.err = k(1)\nr = R()\nassert r.err == 0.0",
    "class R:\n    @property\n    def err(self):\n        return k(1)\nassert R().err == 0.0",
    "class R:\n    err = k(1)\nassert R.err == 0.0",
    "class B:\n    err = property(lambda self: k(1))\nclass R(B):\n    n = 0\nr = R()\nassert r.err == 0.0",
    PARSED + "args.n = k(1)\nassert args.n == 7",
    "import torch\ny = k(torch.zeros(3))\nx = torch.zeros(int(y) + 3)\nassert x.shape[0] == 3",
    "import torch\nx = torch.zeros(3)\nif k(1) < 0:\n    x = x[1:]\nassert x.shape[0] == 3",
    "import torch\nx = torch.zeros(3)\nx = x[x > k(1)][1:]\nassert x.shape[0] == 3",
    "import torch\nx = torch.zeros(3)\nassert x.sum() == 1 + k(1) * 0",
]


@pytest.mark.parametrize("script", BY_THEMSELVES)
def test_what_constants_decide_fails_by_itself(script: str) -> None:
    assert fails_by_itself(stack_of(script))


@pytest.mark.parametrize("script", OF_VALUES)
def test_what_a_launch_decides_does_not(script: str) -> None:
    assert not fails_by_itself(stack_of(script))


def test_without_columns_a_line_of_one_statement_tells_enough() -> None:
    source = "n = 7\nassert n % 2 == 0\n"
    assert fails_by_itself([Running(source, 2, "<module>")])
    assert not fails_by_itself([Running("n = 7; assert n % 2 == 0\n", 1, "<module>")])
    assert not fails_by_itself([Running(source, 2, "elsewhere")])
    assert not fails_by_itself([Running("no python(", 1, "<module>")])
    assert not fails_by_itself([])


def test_names_made_of_each_other_are_looked_at_once() -> None:
    lines = ["n0 = 1", *(f"n{i} = n{i - 1} + n{i - 1}" for i in range(1, 60)), "assert n59 == 0"]
    assert fails_by_itself(stack_of("\n".join(lines)))
    lines[0] = "n0 = k(1)"
    assert not fails_by_itself(stack_of("\n".join(lines)))
