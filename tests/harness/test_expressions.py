"""Index arithmetic: what is printed reads as Python, and ranges hold exactly the values that are taken."""

from __future__ import annotations

import importlib
import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.tilelang

SIZES = {"i": (0, 6), "j": (-2, 3), "k": (5, 5)}  # inclusive


@pytest.fixture(scope="module")
def tirx():
    importlib.import_module("tilelang")
    return importlib.import_module("tvm").tirx


LEAVES = st.one_of(st.sampled_from(sorted(SIZES)), st.integers(-9, 9))
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(["Add", "Sub", "Mul", "Min", "Max"]), inner, inner),
        st.tuples(st.sampled_from(["FloorDiv", "FloorMod"]), inner, st.integers(1, 9)),
        st.tuples(st.just("Select"), inner, inner, inner),
    ),
    max_leaves=8,
)


def build(tirx, tree, variables):
    """An expression of tvm that no constructor has folded."""
    if isinstance(tree, int):
        return tirx.IntImm("int32", tree)
    if isinstance(tree, str):
        return variables[tree]
    name, *parts = tree
    parts = [build(tirx, part, variables) for part in parts]
    if name == "Select":
        return tirx.Select(parts[0] > 0, parts[1], parts[2])
    return getattr(tirx, name)(*parts)


@pytest.fixture(scope="module")
def variables(tirx):
    return {name: tirx.Var(name, "int32") for name in SIZES}


@given(tree=TREES, values=st.fixed_dictionaries({n: st.integers(*r) for n, r in SIZES.items()}))
@settings(max_examples=150, deadline=None)
def test_evaluate_agrees_with_tvm_and_with_the_printed_text(harness, tirx, variables, tree, values):
    expressions = harness("expressions")
    expr = build(tirx, tree, variables)
    result = expressions.evaluate(expr, {variables[n]: v for n, v in values.items()})
    substituted = tirx.stmt_functor.substitute(expr, {variables[n]: tirx.IntImm("int32", v) for n, v in values.items()})
    analyzer = importlib.import_module("tvm").arith.Analyzer()
    assert int(analyzer.simplify(substituted)) == result
    text = expressions.Printer(str)(expr)
    names = {"min": min, "max": max, "select": lambda c, a, b: a if c else b, **values}
    assert eval(text, names) == result


@given(tree=TREES)
@settings(max_examples=150, deadline=None)
def test_an_exact_interval_is_attained_and_never_left(harness, tirx, variables, tree):
    expressions = harness("expressions")
    tvm = importlib.import_module("tvm")
    scope = expressions.Scope(tvm.arith.Analyzer(), tirx.stmt_functor.substitute)
    for name, (low, high) in SIZES.items():
        scope.ranges[variables[name]] = (low, high)
        scope.analyzer.bind(variables[name], tvm.ir.Range(low, high + 1))
    expr = build(tirx, tree, variables)
    low, high, exact = scope.interval(expr)
    points = itertools.product(*(range(a, b + 1) for a, b in SIZES.values()))
    taken = [expressions.evaluate(expr, dict(zip(map(variables.get, SIZES), p, strict=True))) for p in points]
    assert exact and (low, high) == (min(taken), max(taken))


def test_a_large_affine_range_needs_no_enumeration(harness, tirx):
    expressions = harness("expressions")
    tvm = importlib.import_module("tvm")
    scope = expressions.Scope(tvm.arith.Analyzer(), tirx.stmt_functor.substitute)
    a, b = tirx.Var("a", "int32"), tirx.Var("b", "int32")
    for var, extent in ((a, 100_000), (b, 4096)):
        scope.ranges[var] = (0, extent - 1)
        scope.analyzer.bind(var, tvm.ir.Range(0, extent))
    assert scope.interval(a * 16 - b + 3) == (3 - 4095, 99_999 * 16 + 3, True)
    low, high, exact = scope.interval((a * 4096 + b) // 7 % 5)
    assert (low, high, exact) == (0, 4, False)


def test_a_definition_is_seen_through(harness, tirx):
    expressions = harness("expressions")
    tvm = importlib.import_module("tvm")
    scope = expressions.Scope(tvm.arith.Analyzer(), tirx.stmt_functor.substitute)
    i, x = tirx.Var("i", "int32"), tirx.Var("x", "int32")
    scope.ranges[i] = (0, 3)
    scope.definitions[x] = i * 8
    assert scope.interval(x + i) == (0, 27, True)
    assert scope.interval(x + tirx.Var("unknown", "int32")) == (None, None, False)
