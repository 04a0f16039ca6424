"""Which lines of a source name something."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from triage.knowledge.text import lines_with

SOURCE = '''\
# tanh_fast is slow
HELPER = r"""
float f(float x) { return tanh_fast(x); }  // tanh_fast2
"""
y = g("my_tanh_fast")  # tanh_fast
'''


def test_a_name_counts_in_code_and_in_strings_but_not_in_comments_and_not_as_a_part() -> None:
    assert lines_with(SOURCE, "tanh_fast") == [3]
    assert lines_with(SOURCE, "g") == [5] and lines_with(SOURCE, "") == [] and lines_with(SOURCE, "none") == []


def test_docstrings_name_nothing() -> None:
    source = (
        '"""Takes fp.\n\nfp"""  # fp\ndef f():\n    # fp\n    "fp"; "fp".join(())\n    return g("""\nfp""")\n"fp"\n'
    )
    assert lines_with(source, "fp") == [6, 8]


def test_a_text_that_is_no_python_is_searched_as_it_is() -> None:
    assert lines_with("def f(:\n  tanh_fast(", "tanh_fast") == [2]


@given(st.text(max_size=200), st.text(max_size=5))
def test_any_text_is_taken(source: str, word: str) -> None:
    assert all(line >= 1 for line in lines_with(source, word))
