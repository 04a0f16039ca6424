"""Known issues: which release has them, what is said of them, and how they join the findings of one root cause."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet
from packaging.version import Version
from rule_samples import ROOT, read_log, rule_file

from triage import conditions
from triage.explaining import explain_text, load_knowledge
from triage.knowledge.check import check_rules
from triage.knowledge.issue_page import known_issues_of, shown, table
from triage.knowledge.judge import Observability, judge
from triage.knowledge.known_issues import signature_of
from triage.knowledge.load import load_rules
from triage.knowledge.match import Record, record_of_error, search
from triage.knowledge.rule import RuleErrors, RuleSet
from triage.knowledge.stages import StageGuess
from triage.knowledge.switches import load_switches
from triage.knowledge.upstream import (
    Issue,
    Issues,
    Standing,
    dangling,
    entry,
    impossible,
    load_issues,
    read_issues,
    remedies,
    sentence,
    table_problems,
)
from triage.model import Confidence, ErrorRecord, Finding, Frame, Owner, Quote

RULES = load_rules()
ISSUES = load_issues(ROOT)
KNOWLEDGE = load_knowledge(ROOT)
SWITCHES = frozenset(switch.name for switch in load_switches(ROOT / "reference" / "switches.toml"))
FIXED = Issue(
    "o/r#1", "it breaks", "broken", ("<0.1.9",), ("thread",), fixed_in="0.1.9", rules=("TLG051",),
    switches=(("tl.disable_tma_lower", True),), change="make the tile smaller",
)  # fmt: skip
OPEN = Issue(
    "o/r#2", "it breaks", "broken", (">=0",), ("run",), reported="0.1.15", change="do without", rules=("TLG051",)
)
REGRESSION = replace(FIXED, affected=(">=0.1.10,<0.1.12", "==0.1.14"), fixed_in="0.1.15")


# --- versions ---


@pytest.mark.parametrize(
    ("issue", "installed", "standing"),
    [
        (FIXED, "0.1.8", Standing.AFFECTED),
        (FIXED, "0.1.8.post1", Standing.AFFECTED),
        (FIXED, "0.1.8+cuda.git4ff81c7d", Standing.AFFECTED),
        (FIXED, "0.1.9", Standing.NOT_AFFECTED),
        (FIXED, "0.1.9+cu128", Standing.NOT_AFFECTED),
        (FIXED, "0.1.9.post1", Standing.NOT_AFFECTED),
        (FIXED, "0.1.13", Standing.NOT_AFFECTED),  # as text it is below 0.1.9
        (FIXED, "0.1.9.dev3", Standing.UNSURE),
        (FIXED, "0.1.9rc1", Standing.UNSURE),
        (FIXED, "0.1.9.post1.dev2", Standing.NOT_AFFECTED),
        (FIXED, None, Standing.UNSEEN),
        (FIXED, "unknown", Standing.UNSEEN),
        (FIXED, "", Standing.UNSEEN),
        (OPEN, "0.1.15", Standing.AFFECTED),
        (OPEN, "0.2", Standing.AFFECTED),
        (REGRESSION, "0.1.9", Standing.NOT_AFFECTED),
        (REGRESSION, "0.1.10", Standing.AFFECTED),
        (REGRESSION, "0.1.12", Standing.NOT_AFFECTED),
        (REGRESSION, "0.1.14", Standing.AFFECTED),
        (REGRESSION, "0.1.15", Standing.NOT_AFFECTED),
    ],
)
def test_what_the_installed_release_has_to_do_with_an_issue(
    issue: Issue, installed: str | None, standing: Standing
) -> None:
    assert issue.standing(installed) is standing


SUFFIX = st.sampled_from(["", ".post1", ".dev2", "rc1", "+cu128", "+cuda.gitabc"])
RELEASE = st.builds(lambda n, suffix: f"0.1.{n}{suffix}", st.integers(0, 20), SUFFIX)


@given(st.sampled_from(ISSUES.entries), RELEASE)
def test_releases_are_those_that_packaging_names(issue: Issue, installed: str) -> None:
    affected = any(SpecifierSet(text).contains(installed, prereleases=True) for text in issue.affected)
    assert (issue.standing(installed) is Standing.AFFECTED) == affected
    if issue.fixed_in and Version(installed) >= Version(issue.fixed_in):
        assert issue.standing(installed) is Standing.NOT_AFFECTED


# --- wording ---


def test_to_upgrade_is_said_where_the_installed_release_has_the_fault() -> None:
    said = sentence(FIXED, "0.1.8")
    assert said == (
        "Known issue o/r#1: it breaks. The installed 0.1.8 has it. "
        "Upgrade to 0.1.9 or later, or set tl.disable_tma_lower=True, or make the tile smaller."
    )


def test_without_a_version_it_is_said_that_none_was_seen() -> None:
    said = sentence(FIXED, None)
    assert "It is fixed in 0.1.9; which version is installed was not seen. Set tl.disable_tma_lower=True" in said
    assert "pgrade" not in said


@pytest.mark.parametrize("installed", ["0.1.13", "0.1.15", "0.1.9+cu128"])
def test_a_release_with_the_fix_is_told_that_it_is_not_this(installed: str) -> None:
    said = sentence(FIXED, installed)
    assert said.startswith("Not o/r#1") and f"fixed since 0.1.9, and {installed} is installed" in said
    assert "pgrade" not in said and "et tl." not in said


def test_a_release_that_never_had_it_is_not_called_fixed() -> None:
    assert "0.1.9 is installed, which does not have it" in sentence(REGRESSION, "0.1.9")


def test_a_development_version_is_left_open() -> None:
    said = sentence(FIXED, "0.1.9.dev3")
    assert "whether the installed 0.1.9.dev3 has the fix, its number does not tell" in said and "pgrade" not in said


def test_what_no_release_fixes_asks_for_no_upgrade() -> None:
    for installed in ("0.1.15", None):
        said = sentence(OPEN, installed)
        assert "0.1.15 has it, and no release is known to fix it. Do without." in said and "pgrade" not in said


@pytest.mark.parametrize(
    ("outcome", "words"), [("rejected", "which refuses such a kernel"), ("explained", "which says what is wrong")]
)
def test_what_the_fix_makes_of_the_kernel_is_said(outcome: str, words: str) -> None:
    issue = replace(FIXED, outcome=outcome)
    assert f"Upgrade to 0.1.9 or later, {words}" in sentence(issue, "0.1.8")
    assert f"fixed in 0.1.9, {words}" in sentence(issue, None)


def test_what_the_reader_must_look_at_makes_no_step_of_its_own() -> None:
    issue = replace(FIXED, provided="the tile is wide")
    assert sentence(issue, "0.1.8").startswith("Known issue o/r#1, if the tile is wide: it breaks.")
    assert remedies(issue, "0.1.8") == []
    assert remedies(FIXED, "0.1.8")[0] == "Upgrade to 0.1.9 or later (o/r#1)"
    assert remedies(FIXED, "0.1.13") == []


@given(st.sampled_from(ISSUES.entries), st.one_of(st.none(), st.sampled_from(["", "dev", "1..2"]), RELEASE))
def test_an_upgrade_is_advised_only_from_a_release_with_the_fault_to_one_without(
    issue: Issue, installed: str | None
) -> None:
    upgrades = re.findall(
        r"[Uu]pgrade to (\S+?) or later", sentence(issue, installed) + str(remedies(issue, installed))
    )
    may = issue.standing(installed) is Standing.AFFECTED and issue.fixed_in is not None
    assert bool(upgrades) == may
    assert all(not issue.affects(release) for release in upgrades)


# --- the table ---


def test_the_table_is_sound() -> None:
    assert table_problems(ROOT) == []
    assert len(ISSUES.entries) >= 60


def test_the_document_is_the_table() -> None:
    assert (ROOT.parent / "docs" / "known-issues.md").read_text("utf-8") == table(ROOT)


def test_titles_read_as_the_middle_of_a_sentence_and_show_nobody() -> None:
    for issue in ISSUES.entries:
        for text in (issue.title, issue.change or "", issue.provided or ""):
            assert not text.endswith("."), issue.id
            assert "@" not in text and "/home" not in text, issue.id


def test_own_texts_are_searched_in_linear_time() -> None:
    for issue in ISSUES.entries:
        if issue.text:
            assert search(issue.text, "Check failed: " * 20_000) is None, issue.id


BROKEN = """\
schema = "triage.upstream/1"
releases = ["0.1.8", "0.1.9", "0.1.10"]

[[issue]]
id = "o/r#1"
title = "a"
cause = "Not A Slug"
affected = ["<0.1.x"]
evidence = ["rumour"]
colour = "red"

[[issue]]
id = "o/r#2"
title = "a"
cause = "a"
affected = ["<0.1.9"]
evidence = ["thread"]
fixed_in = "0.1.8"
rules = ["TLG051"]

[[issue]]
id = "o/r#3"
title = "a"
cause = "a"
affected = ["<0.1.8"]
evidence = ["thread"]
fixed_in = "0.1.9"
text = "(unclosed"

[[issue]]
id = "o/r#4"
title = "a"
affected = "<0.1.8"
evidence = ["thread"]
fixed_in = "0.1.9"

[[issue]]
id = "o/r#5"
title = "a"
cause = "Not A Slug"
affected = [">=0"]
evidence = ["rumour"]
reported = "0.1.9"
specific = true
owner = "somebody"
provided = "b"
rules = ["TLG051"]

[[issue]]
id = "o/r#6"
title = "a"
cause = "a"
affected = ["<0.1.8"]
evidence = ["thread"]
fixed_in = "0.1.9"
rules = ["TLG051"]
"""


def test_everything_wrong_is_said_at_once_with_the_entry(tmp_path: Path) -> None:
    (tmp_path / "reference").mkdir()
    (tmp_path / "reference" / "upstream.toml").write_text(BROKEN, "utf-8")
    with pytest.raises(RuleErrors) as caught:
        load_issues(tmp_path)
    said = str(caught.value)
    for expected in (
        "reference/upstream.toml:5: o/r#1: unknown key 'colour'",
        "o/r#2: 0.1.8 is affected, and 0.1.8 should have the fix",
        "o/r#3: text is no regular expression",
        "o/r#6: affected ['<0.1.8'] holds for no release",
        "o/r#4: affected has the wrong type",
        "o/r#4: cause is missing",
        "o/r#5: cause 'Not A Slug'",
        "o/r#5: evidence 'rumour'",
        "o/r#5: owner 'somebody'",
        "o/r#5: what only holds if something else does is not specific",
        "o/r#5: it must say one of fixed_in, switches and change",
    ):
        assert expected in said or re.sub(r":\d+:", ":", expected) in said, expected


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"fixed_in": None, "change": '"b"'}, "needs either fixed_in or reported"),
        (
            {"fixed_in": None, "change": '"b"', "affected": '["<0.1.9"]', "reported": '"0.1.8"'},
            "0.1.10 is not affected",
        ),
        ({"affected": '["<0.1.11"]'}, "0.1.10 is affected, and 0.1.9 should have the fix"),
        ({"fixed_in": '"0.1.7"', "affected": '["<0.1.8"]'}, "holds for no release"),
        ({"rules": None}, "no fingerprint"),
        ({"raised_in": '["a.cc"]'}, "raised_in goes with text"),
        ({"arch": "[90]"}, "arch is [first, last]"),
        ({"now": '["TLG001"]'}, "now is what a release that rejects"),
        ({"when": '["a ==="]'}, "when: "),
        ({"id": '"number 5"'}, "is not owner/repository#number"),
        ({"specific": "true", "owner": '"compiler"'}, "a rule alone is not specific"),
        ({"specific": "true", "when": '["a == 1"]'}, "specific and owner belong together"),
        ({"outcome": '"gone"'}, "outcome 'gone' is none of"),
    ],
)
def test_an_entry_that_cannot_be_is_refused(tmp_path: Path, entry: dict[str, str | None], said: str) -> None:
    good: dict[str, str | None] = {
        "id": '"o/r#9"', "title": '"a"', "cause": '"a"', "affected": '["<0.1.9"]', "evidence": '["thread"]',
        "fixed_in": '"0.1.9"', "rules": '["TLG051"]',
    }  # fmt: skip
    assert written(tmp_path, good)[1] == []
    _, problems = written(tmp_path, good | entry)
    assert any(said in str(problem) for problem in problems), problems


def written(root: Path, row: dict[str, str | None]) -> tuple[Issues, list[object]]:
    (root / "reference").mkdir(exist_ok=True)
    lines = "\n".join(f"{name} = {value}" for name, value in row.items() if value is not None)
    head = 'schema = "triage.upstream/1"\nreleases = ["0.1.8", "0.1.9", "0.1.10"]\n[[issue]]\n'
    (root / "reference" / "upstream.toml").write_text(head + lines, "utf-8")
    issues, problems = read_issues(root)
    return issues, [*problems, *impossible(issues)]


def test_a_rule_or_a_switch_that_does_not_exist_is_named() -> None:
    wrong = replace(FIXED, rules=("TLG999",), switches=(("tl.no_such", True),))
    assert [str(p) for p in dangling(Issues((wrong,)), ROOT, SWITCHES)] == [
        "reference/upstream.toml: o/r#1: there is no rule TLG999",
        "reference/upstream.toml: o/r#1: there is no switch 'tl.no_such'",
    ]


def test_the_check_of_the_rules_reads_the_table_too(tmp_path: Path) -> None:
    rule_file(tmp_path)
    row = {"id": '"o/r#1"', "title": '"a"', "cause": '"a"', "affected": '["<0.1.9"]', "evidence": '["thread"]'}
    written(tmp_path, row | {"fixed_in": '"0.1.9"', "rules": '["TLG902"]', "colour": '"red"'})
    (tmp_path / "reference" / "facts.toml").write_bytes((ROOT / "reference" / "facts.toml").read_bytes())
    said = [str(problem) for problem in check_rules(read_log, tmp_path).problems]
    assert any("upstream.toml:4: o/r#1: unknown key 'colour'" in one for one in said), said


def test_the_page_of_a_rule_shows_what_it_may_be_and_what_was_there_before_it() -> None:
    (old,) = [row for row in known_issues_of("TLG038", ROOT) if row["id"].endswith("#2542")]
    assert "before 0.1.13" in shown(old, "TLG038") and "nothing was said" in shown(old, "TLG038")
    now = {row["id"]: shown(row, "TLG051") for row in known_issues_of("TLG051", ROOT)}
    assert "fixed in 0.1.9" in now["tile-ai/tilelang#1648"]
    assert known_issues_of("TLG051", ROOT.parent) == []


# --- findings ---


def nvcc(message: str) -> ErrorRecord:
    return ErrorRecord("compiler", "error", message, phase="device", stage="device-compile", quote=Quote(message))


def compiler_check(message: str, function: str, file: str = "<unknown>") -> ErrorRecord:
    frames = (
        Frame("/home/user/kernels/k.py", 9, "<module>", "k = make()", user=True),
        Frame(file, 0, function, lang="cxx", user=False),
        Frame("<unknown>", 0, "tvm::runtime::detail::LogFatal::~LogFatal()", lang="cxx", user=False),
    )
    return ErrorRecord("exception", "tvm.error.InternalError", message, frames=frames, phase="lower", origin="event")


MBARRIER = nvcc('kernel.cu(29): error: identifier "mbarrier" is undefined')
REDUCER = compiler_check(
    "bad_optional_access while inferring layout for op 9 (tl.FinalizeReducerOp) at level Strict",
    "tvm::tl::BufferUseDefCollector::RunInferStep(int, tvm::tl::InferLevel)",
)


def found(
    error: ErrorRecord, installed: str | None, facts: dict[str, object] | None = None, rules: RuleSet = RULES
) -> Finding:
    """What the judge makes of one error; the surest finding where several rules read it."""
    return judge([record_of_error(error)], facts or {}, rules, Observability(installed, issues=ISSUES))[0]


def ids(finding: Finding) -> list[str]:
    return [issue["id"].rpartition("#")[2] for issue in finding.known_issues]


def test_an_affected_release_names_the_compiler_and_the_upgrade_first() -> None:
    finding = found(MBARRIER, "0.1.8")
    assert (finding.rule, finding.owner) == ("TLG051", Owner.COMPILER)
    assert finding.fixes[0].title.startswith("Upgrade to 0.1.9 or later")
    assert finding.cause == "barriers-only-with-warp-specialization"


def test_an_unseen_release_names_no_owner_and_no_upgrade() -> None:
    finding = found(MBARRIER, None)
    assert finding.owner is Owner.UNKNOWN and "1648" in ids(finding)
    assert not any("pgrade" in fix.title for fix in finding.fixes)


@pytest.mark.parametrize("installed", ["0.1.13", "0.1.15"])
def test_a_release_with_the_fix_has_another_fault(installed: str) -> None:
    finding = found(MBARRIER, installed)
    assert finding.owner is Owner.UNKNOWN and finding.cause == "undefined-device-identifier"
    (told,) = [issue for issue in finding.known_issues if issue["id"].endswith("#1648")]
    assert told["standing"] == "not-affected" and told["says"].startswith("Not tile-ai/tilelang#1648")
    assert not any("1648" in fix.title for fix in finding.fixes)


def test_an_own_text_without_a_rule_gets_its_name_from_the_issue() -> None:
    finding = found(REDUCER, "0.1.13", rules=RuleSet())
    assert (finding.rule, finding.owner, finding.confidence) == (None, Owner.COMPILER, Confidence.LIKELY)
    assert finding.title.startswith("T.finalize_reducer")
    assert finding.summary.startswith("bad_optional_access")
    later = found(REDUCER, "0.1.15", rules=RuleSet())
    assert later.owner is Owner.UNKNOWN and not later.title.startswith("T.finalize_reducer")


def test_a_release_that_is_known_to_have_the_fault_makes_it_likely_where_no_rule_was_checked() -> None:
    rule = RULES.get("TLG051")
    assert rule is not None
    elsewhere = RuleSet((replace(rule, checked_with=("0.1.15",), confidence="likely"),))
    assert found(MBARRIER, "0.1.8", rules=elsewhere).confidence is Confidence.LIKELY
    assert found(MBARRIER, "0.1.12", rules=elsewhere).confidence is Confidence.POSSIBLE


def test_two_layouts_of_one_accumulator_are_the_issue_only_if_their_threads_differ() -> None:
    def layouts(first: int, second: int) -> ErrorRecord:
        text = "Get different layout for acc\n current layout: Fragment((64, 64) -> (32,), thread_range: I.Range({}, 256))\n"
        text += " previous layout: Fragment((64, 64) -> (16,), thread_range: I.Range({}, 256))"
        return compiler_check(text.format(first, second), "tvm::tl::BufferUseDefCollector::RunInferStep(int)")

    assert "2547" in ids(found(layouts(128, 0), "0.1.11"))
    assert ids(found(layouts(0, 0), "0.1.11")) == []


def test_what_looks_like_an_internal_error_is_the_kernels_where_the_later_release_says_so() -> None:
    error = compiler_check(
        "bad_optional_access while parsing tile op call: T.gemm(T.region(a[0, 0], 1, 64, K))",
        "tvm::tl::ParseOperator()",
    )
    suspected = StageGuess("layout", None, Owner.COMPILER, "by its frame")
    seen = Observability("0.1.13", issues=ISSUES, guess_of=lambda error: suspected)
    (finding,) = judge([record_of_error(error)], {}, RuleSet(), seen)
    assert (finding.owner, finding.title) == (Owner.KERNEL, "A tile of T.gemm has a symbolic extent")
    (later,) = judge([record_of_error(error)], {}, RuleSet(), replace(seen, tilelang="0.1.15"))
    assert later.owner is Owner.COMPILER


def test_without_the_frame_that_raised_it_an_own_text_proves_nothing() -> None:
    finding = found(replace(REDUCER, frames=()), "0.1.13", rules=RuleSet())
    assert ids(finding) == ["3033"]
    assert finding.owner is Owner.UNKNOWN and finding.cause is None


def test_the_same_check_of_another_backend_is_another_fault() -> None:
    text = "Check failed: (m_warp * n_warp == num_warps) is false: m_warp * n_warp must equal num_warps, m_warp: 1"
    assert ids(found(compiler_check(text, "f", "/project/src/metal/op/gemm.cc"), "0.1.11")) == []
    assert ids(found(compiler_check(text, "f", "/project/src/cuda/op/gemm.cc"), "0.1.11")) == ["2724"]


def test_words_of_the_script_itself_are_no_issue() -> None:
    raised = Frame("/home/user/kernels/k.py", 9, "<module>", "raise RuntimeError(text)", user=True)
    error = replace(REDUCER, frames=(raised,))
    assert ids(found(error, "0.1.13")) == []


def test_the_same_words_out_of_another_function_are_no_issue() -> None:
    error = compiler_check(REDUCER.message, "tvm::tl::SomethingElse::Run()", "/project/src/other.cc")
    assert ids(found(error, "0.1.13")) == []


def test_two_triggers_of_one_cause_are_one_group_and_others_are_not() -> None:
    small = compiler_check(
        "Check failed: (warp_m % 16 == 0) is false: warp_m=4", "tvm::tl::A()", "/project/src/layout/gemm_layouts.cc"
    )
    uncovered = compiler_check(
        "Check failed: (m_warp * n_warp == num_warps) is false: m_warp * n_warp must equal num_warps, m_warp: 1",
        "tvm::tl::B()", "/project/src/op/gemm.cc",
    )  # fmt: skip
    pair = [found(error, "0.1.11") for error in (small, uncovered)]
    assert {finding.signature for finding in pair} == {signature_of("gemm-warp-partition")}
    assert pair[0].owner is Owner.KERNEL, "the later release says what is wrong with the kernel"
    assert found(MBARRIER, "0.1.8").signature == signature_of("barriers-only-with-warp-specialization")
    plain = [replace(Observability("0.1.11"), issues=Issues())]
    (one,), (two,) = (judge([record_of_error(e)], {}, RULES, plain[0]) for e in (small, uncovered))
    assert one.signature != two.signature, "without the table they are two faults"


@pytest.mark.parametrize(
    ("text", "installed"),
    [
        ("### What version of TileLang are you using?\n\n0.1.8", "0.1.8"),
        ("tilelang==0.1.8\ntorch==2.9.1", "0.1.8"),
        ("- `tilelang.__version__`: `0.1.7.post3+cuda.git1f16d9a5`", "0.1.7.post3"),
        ("it works with tilelang 0.1.7 and fails with tilelang 0.1.8", None),
        ("tilelang needs torch 2.4.0", None),
    ],
)
def test_the_release_is_read_out_of_a_report_that_names_one(text: str, installed: str | None) -> None:
    explained = explain_text(f'{text}\n\nkernel.cu(29): error: identifier "mbarrier" is undefined\n', KNOWLEDGE)
    assert explained.tilelang == installed
    said = str(explained.finding and explained.finding.known_issues)
    assert ("Upgrade to 0.1.9" in said) == (installed is not None)
    assert ("which version is installed was not seen" in said) == (installed is None)


def test_triggers_that_a_reader_cannot_tell_apart_are_told_once() -> None:
    told = [issue for issue in found(MBARRIER, "0.1.8").known_issues if issue["cause"].startswith("barriers-only")]
    assert [(issue["id"], issue["also"]) for issue in told] == [("tile-ai/tilelang#1648", ["tile-ai/tilelang#737"])]
    assert "tile-ai/tilelang#1648 (and tile-ai/tilelang#737)" in told[0]["says"]


def test_beside_a_proven_cause_nothing_else_is_suspected() -> None:
    assert ids(found(MBARRIER, "0.1.8")) == ["1648"]
    assert "2395" in ids(found(nvcc('kernel.cu(29): error: identifier "i" is undefined'), "0.1.8"))


def test_the_group_is_the_same_whether_or_not_the_release_was_seen() -> None:
    assert found(MBARRIER, None).signature == found(MBARRIER, "0.1.8").signature
    assert found(MBARRIER, "0.1.15").signature != found(MBARRIER, "0.1.8").signature


def test_a_kernel_fault_stays_the_kernels() -> None:
    """An entry without `specific` adds a sentence, and neither the owner nor the cause."""
    error = compiler_check(
        "The layout for fragment acc can not be inferred correctly.", "f", "/project/src/transform/layout_inference.cc"
    )
    with_table, without = (
        judge([record_of_error(error)], {}, RULES, Observability("0.1.8", issues=issues))[0]
        for issues in (ISSUES, Issues())
    )
    assert ids(with_table) == ["40"] and ids(without) == []
    assert with_table.owner is without.owner is Owner.KERNEL
    assert (with_table.cause, with_table.signature) == (without.cause, without.signature)
    assert with_table.fixes == without.fixes


WRONG_VALUES = ErrorRecord(
    "exception", "AssertionError", "Tensor-likes are not close!\n\nMismatched elements: 3 / 4",
    frames=(
        Frame("/home/user/kernels/k.py", 9, "<module>", "torch.testing.assert_close(a, b)", user=True),
        Frame("/home/user/venv/lib/python3.11/site-packages/torch/testing/_comparison.py", 1, "f", user=False),
    ),
    phase="call",
)  # fmt: skip


def test_what_the_kernel_is_rules_out_issues_of_other_kernels() -> None:
    assert {"2699", "2593", "2542", "2199"} <= set(ids(found(WRONG_VALUES, "0.1.10")))
    gemm = {"kernels.ops": "copy gemm fill", "kernels.target": "cuda", "kernels.arch": "sm_90a", "kernels.configs": ""}
    on_hopper = set(ids(found(WRONG_VALUES, "0.1.10", gemm)))
    assert "2593" in on_hopper and not {"2699", "2542", "2199"} & on_hopper
    blackwell = gemm | {"kernels.arch": "sm_120a"}
    on_blackwell = set(ids(found(WRONG_VALUES, "0.1.10", blackwell)))
    assert "2699" in on_blackwell and "2593" not in on_blackwell
    merged = gemm | {"kernels.configs": "tl.enable_aggressive_shared_memory_merge"}
    assert "2199" in ids(found(WRONG_VALUES, "0.1.10", merged))


def test_what_is_installed_beside_rules_out_issues_of_other_pairs() -> None:
    error = ErrorRecord(
        "exception", "AttributeError", "'_NestedLoopCheckVisitor' object has no attribute '_inst'", phase="lower"
    )

    def beside(version: str) -> list[str]:
        return ids(found(error, "0.1.8", {"installed.versions": {"apache-tvm-ffi": version}}))

    assert ids(found(error, "0.1.8")) == beside("0.1.11") == beside("unreadable") == ["2040"]
    assert beside("0.1.9") == []


def test_both_ways_in_which_a_newer_ffi_stops_the_import_are_one_group() -> None:
    aborted = ErrorRecord(
        "signal", "SIGABRT", "what(): TypeAttr `__ffi_repr__` is already registered for type index 130."
    )
    registry = Frame(
        "/home/user/venv/lib/python3.11/site-packages/tvm_ffi/registry.py", 403, "_add_class_attrs", user=False
    )
    raised = ErrorRecord(
        "exception", "AttributeError", "attribute '__dict__' of 'type' objects is not writable", frames=(registry,)
    )
    one, two = (found(error, "0.1.9", rules=RuleSet()) for error in (aborted, raised))
    assert one.signature == two.signature == signature_of("tvm-ffi-0-1-12")
    assert one.owner is two.owner is Owner.ENVIRONMENT


def test_wrong_values_stay_nobodys_fault_with_any_number_of_known_issues() -> None:
    finding = found(WRONG_VALUES, "0.1.10")
    assert finding.owner is Owner.UNKNOWN and not any("pgrade" in fix.title for fix in finding.fixes)


def test_conditions_read_captures_of_the_rule_and_of_the_own_text() -> None:
    record = Record(
        "error", {}, "RuntimeError: size 7 of X", error=ErrorRecord("exception", "RuntimeError", "size 7 of X")
    )
    issue = replace(
        FIXED,
        rules=(),
        text=r"size (?P<size>\d+) of",
        when=(conditions.parse("size > 5"),),
        specific=True,
        owner="compiler",
    )
    seen = Observability("0.1.8", issues=Issues((issue,)))
    assert ids(judge([record], {}, RULES, seen)[0]) == ["1"]
    seven = replace(issue, when=(conditions.parse("size > 7"),))
    assert ids(judge([record], {}, RULES, replace(seen, issues=Issues((seven,))))[0]) == []


def test_an_entry_is_plain_data() -> None:
    assert entry(FIXED, "0.1.8") == {
        "id": "o/r#1", "url": "https://github.com/o/r/issues/1", "also": [], "title": "it breaks", "cause": "broken",
        "standing": "affected", "affected": ["<0.1.9"], "fixed_in": "0.1.9", "provided": None,
        "switches": {"tl.disable_tma_lower": True}, "change": "make the tile smaller", "evidence": ["thread"],
        "says": sentence(FIXED, "0.1.8"),
    }  # fmt: skip
