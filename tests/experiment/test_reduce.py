from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triage.experiment.minimal import OutOfBudget
from triage.experiment.names import Loose, loose
from triage.experiment.parts import idle_parameters, inlined, inner_calls, optional, smaller_numbers, without_parts
from triage.experiment.reduce import Found, Reducer
from triage.experiment.source import spaced

SCRIPT = '''"""A script."""
import sys
import math

SIZE = 1024


def unused(a):
    return a + 1


def build(n, block=128, extra=True):
    # the fault
    total = 0
    for i in range(3):
        total += i
    with scope():
        if extra:
            fail(n, block, flag=True)
    return total


def main():
    value = math.sqrt(SIZE)
    build(SIZE)
    print(value)


main()
'''


def shows(text: str) -> bool:
    """The stand-in of a fault: a call of `fail` inside `build`, with a first argument."""
    build = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef) and n.name == "build"]
    calls = [n for b in build for n in ast.walk(b) if isinstance(n, ast.Call) and ast.unparse(n.func) == "fail"]
    return any(call.args for call in calls)


def in_turn(holds: Callable[[str], bool], tried: list[str] | None = None) -> Callable[[Iterator[str]], Found | None]:
    """Ask one text after another, and remember which."""

    def first(texts: Iterator[str]) -> Found | None:
        for text in texts:
            if tried is not None:
                tried.append(text)
            if holds(text):
                return Found(text)
        return None

    return first


def test_what_is_left_is_what_the_fault_needs() -> None:
    reducer = Reducer(SCRIPT, in_turn(shows))
    assert reducer.run() == "def build(n):\n    fail(n)\n"
    assert reducer.finished


def test_a_parameter_goes_with_what_every_call_passes_for_it() -> None:
    source = "def f(a, b, c=1):\n    use(b)\nf(1, 2)\nf(b=3, a=4, c=5)\n"
    assert without_parts(source, idle_parameters(source)) == "def f(b):\n    use(b)\nf(2)\nf(b=3)\n"


def test_a_parameter_of_a_method_stays_since_nobody_knows_its_calls() -> None:
    source = "class A:\n    def f(self, a):\n        pass\nA().f(1)\n"
    assert idle_parameters(source) == []


def test_what_would_leave_a_name_unbound_is_not_run() -> None:
    tried: list[str] = []
    Reducer("import a\nx = a.b\ny = x\nfail(y)\n", in_turn(lambda text: "fail(" in text, tried)).run()
    assert tried and all(loose(text) is not None and not loose(text).unbound - {"fail"} for text in tried)


def test_what_is_missing_at_the_start_may_be_missing() -> None:
    source = "import a\nx = 1\nfail(misspelt)\n"
    assert Reducer(source, in_turn(lambda text: "misspelt" in text)).run() == "fail(misspelt)\n"


def test_what_never_ran_goes_in_one_trial() -> None:
    tried: list[str] = []
    executed = {n for n in range(1, len(SCRIPT.splitlines()) + 1) if n not in (8, 9)}
    Reducer(SCRIPT, in_turn(shows, tried), executed=executed).run()
    assert "unused" not in tried[0]


def test_what_the_fault_goes_through_is_not_tried_without() -> None:
    source = "def f():\n    a = 1\n    fail(a)\ndef g():\n    f()\ng()\n"
    tried: list[str] = []

    def first(texts: Iterator[str]) -> Found | None:
        found = in_turn(lambda text: "fail(" in text, tried)(texts)
        lines = found.text.splitlines() if found else []
        return found and Found(found.text, tuple(n for n, line in enumerate(lines, 1) if "fail(" in line))

    Reducer(source, first, raising=(6, 5, 3)).run()
    assert tried and all("fail(" in text for text in tried)


def test_the_best_so_far_is_always_kept() -> None:
    kept: list[str] = []
    left = iter(range(4))

    def holds(text: str) -> bool:
        if next(left, None) is None:
            raise OutOfBudget
        return shows(text)

    reducer = Reducer(SCRIPT, in_turn(holds), kept.append)
    assert reducer.run() == kept[-1] and not reducer.finished
    assert all(len(later) <= len(earlier) for earlier, later in itertools.pairwise(kept))


@given(st.sets(st.integers(0, 19), min_size=1, max_size=4))
@settings(max_examples=40, deadline=None)
def test_any_statements_that_are_needed_together_stay(needed: set[int]) -> None:
    source = "".join(f"x{n} = y{n}\n" for n in range(20))
    text = Reducer(source, in_turn(lambda text: all(f"x{n} = " in text for n in needed))).run()
    assert text == "".join(f"x{n} = y{n}\n" for n in sorted(needed))


# ------------------------------------------------------------------------------------------------------------- parts


@pytest.mark.parametrize(
    ("source", "texts"),
    [
        ("f(a, k=1)\n", {"f(a)\n", "f(k=1)\n"}),
        ("@d\ndef f():\n    pass\n", {"def f():\n    pass\n"}),
        ("x = (1, 2, 3)\n", {"x = (1,)\n", "x = (1, 2)\n"}),
        ("x = [1, 2, 3]\n", {"x = [1]\n", "x = [1, 2]\n"}),
        ("f(\n    1,\n    n,\n)\n", {"f(\n    1,\n)\n"}),
        ("f(a, b)\nb\na\n", {"f(a)\nb\na\n"}),
        ("x = (a, b)\nb\na\n", set()),
        ("x = (a, b)\nb\n", {"x = (b,)\nb\n"}),
    ],
)
def test_one_part_is_gone_with_its_comma(source: str, texts: set[str]) -> None:
    assert {without_parts(source, [part]) for part in optional(source)} == texts


def test_all_that_is_between_parentheses_may_go() -> None:
    source = "def f(\n    a,\n    b=1,\n):\n    pass\nf(1, b=2)\nf(3,)\n"
    assert spaced(without_parts(source, idle_parameters(source))) == "def f():\n    pass\n\n\nf()\nf()\n"


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_any_parts_may_go_together(data: st.DataObject) -> None:
    source = 'y = g(f(a, [1, 2, 3], k="ä"), (b, (c, 4, 5)), z=1)\n@d(1)\ndef h(p, q=(1, 2, 3)):\n    return f(q, *[p], n=2)\nh(1, q=2)\n'
    parts = [*optional(source), *idle_parameters(source)]
    gone = data.draw(st.sets(st.sampled_from(parts)))
    ast.parse(without_parts(source, gone))


def test_a_number_is_made_smaller_wherever_it_stands() -> None:
    texts = list(smaller_numbers("f(1024, x1024, 64)\ng(1024)\n"))
    assert texts[0] == "f(512, x1024, 32)\ng(512)\n"
    assert "f(16, x1024, 64)\ng(16)\n" in texts


def test_a_statement_may_be_a_call_inside_it() -> None:
    assert set(inner_calls("x = f(g(1), 2)\n")) == {"f(g(1), 2)\n", "g(1)\n"}
    assert list(inner_calls("f(1)\n")) == []


def test_a_function_called_once_may_be_its_body() -> None:
    assert list(inlined("def f():\n    a = 1\n    b(a)\nf()\nc\n")) == ["a = 1\nb(a)\nc\n"]
    assert list(inlined("def f():\n    return 1\nf()\n")) == []
    assert list(inlined("def f(x):\n    b(x)\nf(1)\n")) == []
    assert list(inlined("def f():\n    b()\nf()\nf()\n")) == []


@pytest.mark.parametrize(
    ("source", "left"),
    [
        ("import a\na.b(c)\n", Loose(frozenset({"c"}))),
        ("def f(x, y=1):\n    return x\nf()\n", Loose(miscalled=frozenset({"f"}))),
        ("def f(x, y=1):\n    return x\nf(1, z=2)\n", Loose(miscalled=frozenset({"f"}))),
        ("def f(x, *, y):\n    return x\nf(1, 2)\n", Loose(miscalled=frozenset({"f"}))),
        ("def f(x, *r, y, **k):\n    return x\nf(1, 2, y=3, z=4)\nf(*[1])\n", Loose()),
        ("from a import *\nb(c)\n", Loose()),
        ("def f():\n    global g\n    g = 1\nf()\ng\n", Loose()),
        ("try:\n    pass\nexcept E as e:\n    print(e, __file__)\n", Loose(frozenset({"E"}))),
        ("class A:\n    n = 1\n    def f(self):\n        return [n for n in self.x]\n", Loose()),
        ("x = [y for y in z]\ny\n", Loose(frozenset({"z", "y"}))),
        ("def f(:\n", None),
    ],
)
def test_what_is_loose(source: str, left: Loose | None) -> None:
    assert loose(source) == left


ACTING = '''import os, shutil


def clean(folder, unused, depth=1024):
    """Remove a folder."""
    if folder.startswith("out"):
        shutil.rmtree(folder, ignore_errors=False, onerror=None)


def main():
    os.kill(os.getppid(), 64)
    clean("out", 2, depth=2048)


for pid in [1, 2, 3]:
    os.kill(pid, 0)
print(len([1, 2, 3]), 4096)
fail(4096)
'''


def test_what_acts_on_the_world_is_never_edited() -> None:
    tried: list[str] = []
    Reducer(ACTING, in_turn(lambda text: "fail(" in text, tried)).run()
    allowed = {line.strip() for line in ACTING.splitlines()}
    acting = [line.strip() for text in tried for line in text.splitlines() if "rmtree" in line or "kill" in line]
    assert acting and set(acting) <= allowed
    for text in tried:  # with what guards it
        assert "rmtree" not in text or 'if folder.startswith("out"):\n        shutil' in text
        assert "os.kill(pid" not in text or "for pid in [1, 2, 3]:" in text
        assert "getppid" not in text or "def main():\n    os.kill" in text
