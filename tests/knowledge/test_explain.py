from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rule_samples import ROOT, RULE, library_frame, rule_file, tile_error, user_frame

from triage.knowledge.explain import UnknownCodeError, explain_code, means_rule
from triage.knowledge.files import PLACEHOLDER
from triage.knowledge.fits import find_fits, show_fits
from triage.knowledge.load import load_rules
from triage.knowledge.match import records_of_error
from triage.knowledge.rule import Rule

RULES = load_rules(ROOT)


def test_a_page_says_what_why_how_and_shows_both_examples() -> None:
    page = explain_code("TLG014")
    assert page.startswith("TLG014 gemm-k-mismatch: T.gemm operands disagree on K\n")
    rule = RULES.get("TLG014")
    assert rule and rule.wrong and rule.right
    for title in ("What", "Look at", "Why", "Wrong", "Right", "What to change", "How to check"):
        assert f"\n{title}\n" in page
    assert rule.wrong.strip().splitlines()[0] in page and rule.fix.steps[0].split(":")[0] in page
    assert "is <k_a>, that of" in page


@pytest.mark.parametrize("rule", RULES.rules, ids=lambda rule: rule.code)
def test_every_rule_has_a_page(rule: Rule) -> None:
    page = explain_code(rule.code.lower())
    flat = " ".join(page.split())
    assert " ".join(rule.title.split()) in flat
    for text in (rule.why, *rule.check_steps, *rule.references):
        assert " ".join(PLACEHOLDER.sub(lambda m: f"<{m[1].split('.')[-1]}>", text).split()) in flat
    ours = re.sub(r"\n(Seen as|Wrong|Right)\n(  .*\n|\n(?=  ))*", "\n", page)
    assert not PLACEHOLDER.search(ours) and "?.\n" not in page
    assert page == explain_code(rule.name) == explain_code(f"{rule.code}-{rule.name}")


@pytest.mark.parametrize("rule", RULES.rules, ids=lambda rule: rule.code)
def test_a_page_shows_real_output_where_the_rule_reads_text(rule: Rule) -> None:
    page = explain_code(rule.code)
    logs = rule.fixtures.glob("hit-*.log") if rule.fixtures else []
    marked = [log for log in logs if "\n#^ " in log.read_text("utf-8")]
    assert ("\nSeen as\n" in page) == bool(marked)


@pytest.mark.parametrize("rule", RULES.rules, ids=lambda rule: rule.code)
def test_a_page_says_how_to_check(rule: Rule) -> None:
    shown = explain_code(rule.code).partition("\nHow to check\n")[2].partition("\n\n")[0]
    assert len(shown.split("- ")) >= len(rule.check_steps) + 2
    assert ("triage doctor" in shown) == (rule.category == "environment") or "triage run kernel.py" in shown


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("TLG14", "TLG014"),
        ("tlg-014", "TLG014"),
        ("TLX014", "TLG014"),
        ("TLG014-copy-shape-mismatch", "TLG014"),
        ("gemm-k-mismach", "gemm-k-mismatch"),
        ("gem-k-mismatch", "gemm-k-mismatch"),
    ],
)
def test_a_misspelt_code_or_name_is_answered_with_the_likely_ones(word: str, meant: str) -> None:
    assert means_rule(word)
    with pytest.raises(UnknownCodeError, match=rf"did you mean .*{meant}"):
        explain_code(word)


@pytest.mark.parametrize(
    "word", ["hang", "out-of-memory error", "warp-specialization", "std::bad_alloc", "K_A = 32", ""]
)
def test_other_words_are_texts(word: str) -> None:
    assert not means_rule(word)


@pytest.mark.parametrize("code", ["TLG999", "XYZ", "", "../../x", "TLG014*"])
def test_what_is_no_rule_is_said_so(code: str) -> None:
    with pytest.raises(UnknownCodeError):
        explain_code(code)


def test_placeholders_are_shown_as_such_and_other_braces_as_they_are(tmp_path: Path) -> None:
    text = RULE.replace("Make {name} narrower.", "Make {name} narrower: {'arch': 'sm_90a'}").replace(
        "Because.", "a\\n  b"
    )
    rule_file(tmp_path, text)
    page = explain_code("TLG901", tmp_path)
    assert "- Make <name> narrower: {'arch': 'sm_90a'}" in page and "  a\n    b\n" in page


def test_a_broken_file_is_named_and_does_not_break_the_others(tmp_path: Path) -> None:
    rule_file(tmp_path, "code = [", "TLG902-broken")
    rule_file(tmp_path, 'code = "TLG903"', "TLG903-short")
    rule_file(tmp_path)
    assert "The tile is too wide" in explain_code("TLG901", tmp_path)
    for code in ("TLG902", "TLG903"):
        with pytest.raises(ValueError, match=code):
            explain_code(code, tmp_path)


def test_explaining_a_code_imports_nothing_heavy() -> None:
    heavy = {"regex", "rich", "networkx", "triage.model", "triage.knowledge.rule", "dataclasses", "argparse", "torch"}
    script = (
        "import sys; from triage.knowledge.explain import explain_code; explain_code('TLG014'); "
        f"print(sorted({heavy!r} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT.parent, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


def test_rules_are_found_when_installed_too(tmp_path: Path) -> None:
    package = tmp_path / "site" / "triage"
    ignore = shutil.ignore_patterns("__pycache__", "harness", "_rules")
    shutil.copytree(ROOT.parent / "triage" / "knowledge", package / "knowledge", ignore=ignore)
    for name in ("__init__.py", "model.py", "conditions.py"):
        shutil.copy(ROOT.parent / "triage" / name, package / name)
    shutil.copytree(ROOT, package / "_rules")
    script = "from triage.knowledge.load import load_rules, rules_root; print(len(load_rules()), rules_root())"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=package.parent, timeout=60
    )
    assert done.stdout.split() == [str(len(RULES)), str(package / "_rules")], done.stderr


def test_a_fit_is_marked_where_it_matched_and_says_what_was_not_seen() -> None:
    text = "noise\nAssertionError: T.gemm K shape check failed: K_A = 32, K_B = 128\n"
    found = find_fits(text, RULES)
    fit = found.fits[0]
    assert fit.rule.code == "TLG014" and text[fit.start : fit.end].startswith("T.gemm K shape") and fit.line == 2
    assert fit.captures["k_b"] == 128 and len(fit.open) == 1 and "tilelang/language/gemm_op.py" in fit.open[0]
    shown = show_fits(found).splitlines()
    at = next(number for number, line in enumerate(shown) if "2 | AssertionError" in line)
    marked = shown[at][shown[at + 1].index("^") : shown[at + 1].rindex("^") + 1]
    assert marked == text[fit.start : fit.end]


def test_records_speak_against_a_forged_text() -> None:
    text = "ValueError: T.gemm K shape check failed: K_A = 1, K_B = 2"
    forged = tile_error(user_frame(text="raise ValueError(…)"), message=text.removeprefix("ValueError: "))
    fit = find_fits(text, RULES, records_of_error(forged)).fits[0]
    assert fit.against and "user's own statement" in fit.against
    assert "but it is not this rule" in show_fits(find_fits(text, RULES, records_of_error(forged)))
    true = tile_error(library_frame("/v/site-packages/tilelang/language/gemm_op.py"), message=forged.message)
    fit = find_fits(text, RULES, records_of_error(true)).fits[0]
    assert not fit.against and not fit.open


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("T.gemm: the K shapes differ, check failed with K_A being 32 and K_B being 64", "TLG014"),
        ("T.gemm K dimension check did not hold: K_A=32 vs K_B=64", "TLG014"),
        ("no layout found that is available for buffer acc", "TLG001"),
        ("Semantic check (Tilelang): a pipelined loop must not be nested in a parallel loop", "TLG002"),
    ],
)
def test_a_changed_wording_is_the_nearest_miss(text: str, code: str) -> None:
    found = find_fits(text, RULES)
    assert code not in [fit.rule.code for fit in found.fits]
    assert found.near[0].rule.code == code and found.near[0].missing


@pytest.mark.parametrize("text", ["", "hello world", "the check failed", "ValueError: bad value", "1 | 2"])
def test_a_text_about_something_else_is_near_nothing(text: str) -> None:
    found = find_fits(text, RULES)
    assert not found.fits and not found.near
    assert show_fits(found) == "No rule fits this text.\n"


def test_control_characters_do_not_reach_the_terminal() -> None:
    text = "\x1b]0;x\x07no available layout found\x1b[2J\r"
    shown = show_fits(find_fits(text, RULES))
    assert "TLG001" in shown and not [c for c in shown if c != "\n" and not c.isprintable()]


def test_conditions_on_captures_are_asked_of_the_text(tmp_path: Path) -> None:
    rule_file(tmp_path, RULE.replace("raised_in", 'when = ["width > most", "error.phase == build"]\nraised_in'))
    rules = load_rules(tmp_path)
    (fit,) = find_fits("tile of A is 9 wide, at most 8", rules).fits
    assert fit.open == ("error.phase == build", "raised in tilelang/tile.py")
    (fit,) = find_fits("tile of A is 7 wide, at most 8", rules).fits
    assert fit.against == "width > most: width = 7, most = 8"


@given(st.text(max_size=400))
def test_any_text_can_be_explained(text: str) -> None:
    found = find_fits(text, RULES)
    shown = show_fits(found)
    assert shown.endswith("\n") and all(c == "\n" or c.isprintable() for c in shown)
    assert all(0 <= fit.start <= fit.end <= len(text) for fit in found.fits)
