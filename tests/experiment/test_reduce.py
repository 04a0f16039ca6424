from __future__ import annotations

import ast
import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from triage.experiment.minimal import OutOfBudget
from triage.experiment.reduce import Reducer

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


def test_what_is_left_is_what_the_fault_needs() -> None:
    reducer = Reducer(SCRIPT, shows)
    assert reducer.run() == "def build():\n    fail(n)\n"
    assert reducer.finished


def test_a_parameter_goes_with_what_every_call_passes_for_it() -> None:
    source = "def f(a, b, c=1):\n    use(b)\nf(1, 2)\nf(3, 4, c=5)\n"

    def holds(text: str) -> bool:
        calls = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Call)]
        function = next((n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef)), None)
        passed = [len(c.args) + len(c.keywords) for c in calls if ast.unparse(c.func) == "f"]
        return (
            function is not None
            and "def f(b" in text.replace("a, ", "")
            and "use(b)" in text
            and passed == [len(function.args.args)] * 2
        )

    assert Reducer(source, lambda text: holds(text) or text == source).run() == "def f(b):\n    use(b)\nf(2)\nf(4)\n"


def test_what_never_ran_goes_in_one_trial() -> None:
    tried: list[str] = []

    def holds(text: str) -> bool:
        tried.append(text)
        return shows(text)

    executed = {n for n in range(1, len(SCRIPT.splitlines()) + 1) if n != 9}
    Reducer(SCRIPT, holds, executed=executed - {8}).run()
    assert "unused" not in tried[0]


def test_the_best_so_far_is_always_kept() -> None:
    kept: list[str] = []
    left = iter(range(4))

    def holds(text: str) -> bool:
        if next(left, None) is None:
            raise OutOfBudget
        return shows(text)

    reducer = Reducer(SCRIPT, holds, kept.append)
    assert reducer.run() == kept[-1] and not reducer.finished
    assert all(len(later) <= len(earlier) for earlier, later in itertools.pairwise(kept))


@given(st.sets(st.integers(0, 19), min_size=1, max_size=4))
@settings(max_examples=40, deadline=None)
def test_any_statements_that_are_needed_together_stay(needed: set[int]) -> None:
    source = "".join(f"x{n} = y{n}\n" for n in range(20))
    text = Reducer(source, lambda text: all(f"x{n} = " in text for n in needed)).run()
    assert text == "".join(f"x{n} = y{n}\n" for n in sorted(needed))
