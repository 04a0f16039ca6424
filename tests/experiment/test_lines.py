from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from triage.experiment.lines import calls, line_of_annotation

SOURCE = """\
def other():
    T.annotate_layout({b: swizzled(b)})

def factory():
    def main(A, B):
        with T.Kernel(1, threads=128) as bx:
            a = T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.annotate_layout({c: rows})
            T.annotate_layout(
                {a: swizzled(a)})
            T.copy(A, a)
    return main
"""


def test_the_annotation_of_a_buffer_is_found_in_the_kernel_around() -> None:
    assert line_of_annotation(SOURCE, 6, "layout_map", ["c"]) == 9
    assert line_of_annotation(SOURCE, 6, "layout_map", ["a"]) == 10


def test_no_line_is_better_than_the_wrong_one() -> None:
    assert line_of_annotation(SOURCE, 6, "layout_map", ["unheard_of"]) is None
    assert line_of_annotation(SOURCE, 6, "safe_value_map", ["c"]) is None
    assert line_of_annotation(SOURCE, 6, "no such key", ["c"]) is None
    assert line_of_annotation("def broken(:", 1, "layout_map", ["c"]) is None


def test_a_single_annotation_needs_no_name() -> None:
    source = "def k():\n    with T.Kernel(1):\n        annotate_layout({make(): x})\n"
    assert line_of_annotation(source, 2, "layout_map", ["c"]) == 3


def test_an_annotation_written_by_a_macro_is_found_outside_the_kernel() -> None:
    source = "def helper(b):\n    T.annotate_layout({b: x})\n\ndef k():\n    with T.Kernel(1):\n        helper(c)\n"
    assert line_of_annotation(source, 5, "layout_map", ["c"]) == 2


def test_calls_know_their_names() -> None:
    found = calls(SOURCE, 12)
    assert [call.name for call in found] == [
        "alloc_shared",
        "alloc_fragment",
        "annotate_layout",
        "annotate_layout",
        "copy",
    ]
    assert {"T", "A", "a"} <= found[-1].names


@given(st.text(), st.integers(-5, 50))
def test_any_text_has_calls_or_none(text: str, line: int) -> None:
    assert isinstance(calls(text, line), tuple)
