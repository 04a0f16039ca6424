"""Printed expressions against Python itself, and their linear form against their value."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triage.lints import arithmetic

NUMBERS = st.integers(-50, 50)
NAMES = st.sampled_from(["bx", "i", "k_1"])
LEAVES = st.one_of(NUMBERS.map(str), NAMES)
LINEAR = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda p: f"({p[0]} + {p[1]})"),
        st.tuples(inner, inner).map(lambda p: f"({p[0]} - {p[1]})"),
        st.tuples(inner, NUMBERS).map(lambda p: f"({p[0]} * {p[1]})"),
    ),
    max_leaves=8,
)
CONDITIONS = st.recursive(
    st.tuples(LINEAR, st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), LINEAR).map(" ".join),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(lambda p: f"({p[0]} {p[1]} {p[2]})"),
        inner.map(lambda c: f"not ({c})"),
    ),
    max_leaves=4,
)
VALUES = st.fixed_dictionaries({"bx": NUMBERS, "i": NUMBERS, "k_1": NUMBERS})


@given(CONDITIONS, VALUES)
def test_conditions_have_the_value_python_gives_them(text: str, values: dict[str, int]) -> None:
    expr = arithmetic.parse(text)
    assert expr is not None and arithmetic.value(expr, values) == eval(text, {}, values)


@given(LINEAR, VALUES)
def test_a_linear_form_has_the_value_of_its_expression(text: str, values: dict[str, int]) -> None:
    expr = arithmetic.parse(text)
    assert expr is not None
    form = arithmetic.linear(expr)
    assert form is not None and 0 not in form.values()
    assert sum(factor * (values[name] if name else 1) for name, factor in form.items()) == eval(text, {}, values)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("max(i, 3) + min(i, 3)", 10),
        ("shift_left(1, i) + shift_right(256, 4)", 144),
        ("bitwise_xor(i, 1)", 6),
        ("int32(i) // 2 % 2", 1),
    ],
)
def test_calls_that_are_arithmetic(text: str, value: int) -> None:
    expr = arithmetic.parse(text)
    assert expr is not None and arithmetic.value(expr, {"i": 7}) == value


@pytest.mark.parametrize(
    "text",
    ["A[i]", "f(i)", "n + 1", "i / 2", "1 // (i - 7)", "shift_left(1, 1000000000)", "2 ** i", "0.5", "i < 1 < 2"],
)
def test_what_has_no_value(text: str) -> None:
    expr = arithmetic.parse(text)
    assert expr is not None
    with pytest.raises(arithmetic.Unknown):
        arithmetic.value(expr, {"i": 7})


@pytest.mark.parametrize("text", ["", "0:64 + 3 * 2", "a b", "x[\0", "(" * 500])
def test_what_is_no_expression(text: str) -> None:
    assert arithmetic.parse(text) is None


@pytest.mark.parametrize("text", ["i * bx", "i // 2", "A[i]", "min(i, 3)", "-(i % 4)"])
def test_what_is_not_linear(text: str) -> None:
    expr = arithmetic.parse(text)
    assert expr is not None and arithmetic.linear(expr) is None


def test_names_are_those_that_are_not_called() -> None:
    expr = arithmetic.parse("if_then_else(bx * 64 + i < m, A[j], 0)")
    assert expr is not None and arithmetic.names(expr) == {"bx", "i", "m", "A", "j"}
    assert [len(arithmetic.conjuncts(e)) for t in ("a and (b and c)", "a or b") if (e := arithmetic.parse(t))] == [3, 1]
