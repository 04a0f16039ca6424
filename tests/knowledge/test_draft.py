from __future__ import annotations

import re
from pathlib import Path

import pytest
from rule_samples import ROOT, read_log
from test_check import TRACE, root

from triage.knowledge.check import check_rules
from triage.knowledge.draft import draft, generalized, scrubbed
from triage.knowledge.fixtures import fixture_paths, take_marks
from triage.knowledge.load import load_rules, read_file
from triage.knowledge.match import search, try_rule
from triage.knowledge.new import new_rule
from triage.knowledge.sound import complaints

__all__ = ["root"]
HITS = [
    [path for path in fixture_paths(rule) if path.name.startswith("hit-") and path.suffix == ".log"]
    for rule in load_rules(ROOT)
    if rule.match.text
]
#: of every fifth rule; the slow run takes all
FIRST_HITS = [
    pytest.param(paths[0], marks=() if number % 5 == 0 else pytest.mark.slow, id=paths[0].parent.name[:6])
    for number, paths in enumerate(HITS)
    if paths
]


@pytest.mark.parametrize(
    ("line", "pattern"),
    [
        ("K_A = 32, K_B = 128", r"K_A = (?P<k_a>-?\d+), K_B = (?P<k_b>-?\d+)"),
        ("tile of 'A_s' is 96.5 wide", r"tile of '(?P<tile>[^'\n]+)' is (?P<tile_2>-?\d+\.\d+) wide"),
        ("shape [64, 32] vs (64, 128)", r"shape (?P<shape>\[[^\]\n]*\]) vs (?P<shape_2>\([^\)\n]*\))"),
        ("float16 on sm_90a at 0x7f00aa.", r"float16 on sm_90a at 0x[0-9a-fA-F]+\."),
        ("got 3 and got -4", r"got (?P<got>-?\d+) and got (?P<got_2>-?\d+)"),
        ("tilelang==0.1.99 (of 0.1.5)", r"tilelang==(?P<tilelang>\d+(?:\.\d+)+) \(of (?P<tilelang_2>\d+(?:\.\d+)+)\)"),
        ("5 of 7 fit", r"(?P<value>-?\d+) of (?P<value_2>-?\d+) fit"),
        ("Buffer `C` (a+b)?", r"Buffer `(?P<buffer>[^`\n]+)` \(a\+b\)\?"),
    ],
)
def test_values_become_captures_and_the_rest_stays_as_it_is(line: str, pattern: str) -> None:
    found, names = generalized(line)
    assert found == pattern
    assert names == tuple(re.findall(r"\?P<(\w+)>", found))
    match = search(found, f"before {line} after")
    assert match and match[0] == line


@pytest.mark.parametrize("hit", FIRST_HITS)
def test_the_draft_of_a_log_matches_it_and_not_a_raise_of_the_same_words(hit: Path, tmp_path: Path) -> None:
    """Of every shipped hit, whatever wording, compiler or warning it is."""
    log, _ = take_marks(hit.read_text("utf-8"))
    paths = new_rule("generation", "draft", None, tmp_path, log, read_log)
    made = read_file(paths[0]).rule
    assert made and made.match.text
    for path, wanted in zip(paths[1:], (True, False), strict=True):
        records = read_log(path.read_text("utf-8"), path.name)
        assert any(try_rule(made, record, {}).matched for record in records) is wanted


def test_only_what_no_log_can_tell_is_left_to_fill_in(root: Path) -> None:
    paths = new_rule("generation", "strip", None, root, TRACE.replace("tile of", "strip of"), read_log)
    assert [path.name for path in paths[1:]] == ["hit-first.log", "miss-own-raise.log"]
    done = check_rules(read_log, root, bless=True, codes=["TLG902"])
    assert done.problems and all("is not filled in" in problem.message for problem in done.problems)
    rule = load_rules(root).get("TLG902")
    assert rule and rule.match.raised_in == ("tilelang/tile.py",)
    assert paths[1].read_text().endswith("\n#^ TLG902 a_s=96 most=64\n")


def test_the_condition_of_a_failed_check_is_left_out() -> None:
    log = "tvm.error.InternalError: Check failed: (a < b) is false: the plan of `acc` needs 9 slots, at most 4\n"
    made = draft(log, read_log(log, "log"))
    assert made.text == r"the plan of `(?P<plan>[^`\n]+)` needs (?P<needs>-?\d+) slots, at most (?P<most>-?\d+)"
    short = "tvm.error.InternalError: Check failed: (extent == 1) is false: no\n"
    assert draft(short, read_log(short, "log")).text.startswith("Check failed: ")


def test_folders_of_the_machine_do_not_get_into_a_fixture() -> None:
    log = TRACE.replace("/home/user/venv/", "/opt/ann/envs/gpu/").replace(
        "/home/user/kernels/", "/home/user/kernels/deep/er/"
    )
    assert scrubbed(log, read_log(log, "log")) == TRACE


def test_a_log_that_says_nothing_makes_no_rule(root: Path) -> None:
    before = sorted(root.rglob("*"))
    with pytest.raises(ValueError, match="no error and no warning"):
        new_rule("generation", "nothing", None, root, "step 1\nstep 2\n", read_log)
    assert sorted(root.rglob("*")) == before


def test_a_new_rule_is_found_unfinished(tmp_path: Path) -> None:
    """The words that `rules new` leaves are what the check looks for."""
    made = read_file(new_rule("generation", "blank", None, tmp_path)[0])
    assert made.rule and made.problems == ()
    unfilled = {(one.section, one.key) for one in complaints(made.rule, {}) if "is not filled in" in one.text}
    assert unfilled == {
        ("", "title"), ("claim", "says"), ("claim", "look_at"), ("fix", "steps"), ("why", "text"), ("example", "wrong"),
        ("example", "right"), ("check", "steps"), ("match", "raised_in"),
    }  # fmt: skip
