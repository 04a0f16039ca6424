"""Foreign text is shown, never obeyed."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triage.report.text import GLUE, defuse, encodable, one_line, paragraphs, visible


@given(st.text())
def test_visible_text_has_no_character_that_does_something(text: str) -> None:
    for char in visible(text):
        assert char == "\n" or not unicodedata.category(char).startswith("C")
        assert char not in "\u2028\u2029"


@given(st.text())
def test_visible_is_idempotent_and_keeps_line_breaks(text: str) -> None:
    shown = visible(text)
    assert visible(shown) == shown
    assert shown.count("\n") == text.replace("\r\n", "\n").count("\n")


@given(st.text())
def test_one_line_is_one_line_without_the_glue_character(text: str) -> None:
    assert "\n" not in one_line(text)
    assert GLUE not in one_line(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("\x1b]8;;http://x\x07link\x1b]8;;\x07", "\\x1b]8;;http://x\\x07link\\x1b]8;;\\x07"),
        ("a\u202eb", "a\\u202eb"),
        ("over\rwrite", "over\\x0dwrite"),
        ("a\tb", "a   b"),
        ("é中", "é中"),
        ("\ud800", "\\ud800"),
    ],
)
def test_visible(text: str, shown: str) -> None:
    assert visible(text) == shown


@given(st.lists(st.sampled_from(["::error::x", " ::set-output", "a", "##[group]", "\x1b[1m::error", "::", " "])))
def test_defused_output_has_no_workflow_command(parts: list[str]) -> None:
    out = defuse("\n".join(parts))
    assert "##[" not in out
    for line in out.split("\n"):
        assert not line.replace("\x1b[1m", "").lstrip().startswith("::")


def test_defuse_leaves_scopes_alone() -> None:
    assert defuse("in tvm::tl::LowerTileOp") == "in tvm::tl::LowerTileOp"


def test_encodable_falls_back_to_ascii() -> None:
    assert encodable("✗ │ é", "utf-8") == "✗ │ é"
    assert encodable("✗ │ é", "ascii") == "x | \\xe9"
    assert encodable("│", "no-such-codec") == "|"


def test_paragraphs_join_wrapped_prose_and_keep_lists_and_indents() -> None:
    text = "one\ntwo\n\nthree\n- a\n  more\n1. b\n    code()\nfour\n"
    assert paragraphs(text) == ["one two", "three", "- a", "  more", "1. b", "    code()", "four"]
