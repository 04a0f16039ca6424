"""Which source lines are kept, and which columns can be believed."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triage.model import Label, Location
from triage.report.excerpt import AROUND, JOIN_GAP, checked, cut

TEXT = "\n".join(f"line {n}" for n in range(1, 101))


def shown(location: Location | None, labels: tuple[Label, ...] = ()) -> list[tuple[str, int, int]]:
    sources = {"a.py": TEXT, "b.py": TEXT}
    return [(e["file"], e["first"], e["first"] + len(e["lines"]) - 1) for e in cut(location, labels, sources)]


def test_lines_around_a_location() -> None:
    assert shown(Location("a.py", 50)) == [("a.py", 50 - AROUND, 50 + AROUND)]
    assert shown(Location("a.py", 1)) == [("a.py", 1, 1 + AROUND)]
    assert shown(Location("a.py", 100)) == [("a.py", 100 - AROUND, 100)]
    assert shown(None) == []


def test_near_labels_are_joined_far_ones_are_not() -> None:
    near = 50 - AROUND - JOIN_GAP - 1
    assert shown(Location("a.py", 50), (Label("a.py", near, "x"),)) == [("a.py", near, 50 + AROUND)]
    far = shown(Location("a.py", 50), (Label("a.py", near - 1, "x"), Label("b.py", 3, "y")))
    assert far == [("a.py", near - 1, near - 1), ("a.py", 50 - AROUND, 50 + AROUND), ("b.py", 3, 3)]


def test_blank_lines_at_the_ends_are_left_out() -> None:
    (excerpt,) = cut(Location("a.py", 3), (), {"a.py": "\n\nx = 1\n\n\n"})
    assert (excerpt["first"], excerpt["lines"]) == (3, ["x = 1"])


@given(st.integers(-5, 120), st.lists(st.integers(-5, 120), max_size=6))
def test_excerpts_are_in_order_apart_and_hold_every_line_that_exists(line: int, labels: list[int]) -> None:
    pieces = shown(Location("a.py", line), tuple(Label("a.py", n, "") for n in labels))
    for (_, _, last), (_, first, _) in pairwise(pieces):
        assert first - last > JOIN_GAP + 1
    for wanted in (line, *labels):
        if 1 <= wanted <= 100:
            assert any(first <= wanted <= last for _, first, last in pieces)


@pytest.mark.parametrize(
    ("text", "column", "kept"),
    [
        ("    T.gemm(A, B)", 5, True),
        ("    T.gemm(A, B)", 1, False),  # blank space
        ("    T.gemm(A, B)", 8, False),  # inside a word
        ("    T.gemm(A, B)", 7, False),  # behind a dot
        ("    T.gemm(A, B)", 12, True),
        ("    T.gemm(A, B)", 99, False),
        ("    T.gemm(A, B)", 0, False),
        ("x = 'a'", 5, True),
        ("größe = f(x)", 9, True),
        ("größe = f(x)", 3, False),
    ],
)
def test_a_column_where_no_expression_can_begin_is_dropped(text: str, column: int, kept: bool) -> None:
    found = checked(Location("a.py", 1, column), {"a.py": text})
    assert found is not None
    assert (found.column == column) is kept


def test_without_the_source_a_column_is_taken_as_it_is() -> None:
    assert checked(Location("a.py", 1, 3), {}) == Location("a.py", 1, 3)
    assert checked(None, {}) is None
