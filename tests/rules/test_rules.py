"""The shipped rules: their fixtures, what a script says in the same words, and wordings, paths and numbers that change."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rule_logs import ROOT, fixture_at, fixtures, hits, matching, matching_rules, read, rules

from triage.knowledge.check import check_rules
from triage.knowledge.judge import judge
from triage.knowledge.match import Outcome, try_rule
from triage.knowledge.rule import Rule
from triage.model import Confidence, State

HITS = hits()
NAMED_HITS = pytest.mark.parametrize(("rule", "path"), HITS, ids=[f"{p.parent.name}/{p.name}" for _, p in HITS])


def test_every_rule_is_sound_and_agrees_with_its_fixtures() -> None:
    done = check_rules(read, ROOT)
    assert [str(problem) for problem in done.problems] == []
    assert done.unmarked == 0


def test_there_are_hits_and_misses_for_what_users_meet_most() -> None:
    stages = {rule.stage for rule in rules()}
    assert {"install", "target", "import", "dsl", "semantic-check", "layout", "tile-op", "codegen", "call"} <= stages
    assert {rule.category for rule in rules()} >= {"generation", "environment", "correctness", "intermittent"}


@NAMED_HITS
def test_only_declared_rules_match_the_same_log(rule: Rule, path: Path) -> None:
    """A log may hold more than one thing (a warning before an error), but no second reading of the same record."""
    fixture = fixture_at(path)
    for record, _ in fixture.records:
        found = [other for other in matching_rules(record) if other.level == "fault"]
        for other in found:
            related = rule.code == other.code or other.code in rule.explains or rule.code in other.explains
            assert related or len(found) == 1, f"{fixture.name}: {[r.code for r in found]}"


@NAMED_HITS
def test_a_raise_of_the_script_with_the_same_words_is_none(rule: Rule, path: Path) -> None:
    """Whoever writes `raise ValueError("…")` with a text of tilelang is not told that tilelang said it."""
    fixture = fixture_at(path)
    for record, trial in fixture.trials(rule):
        error = record.error
        if error is None or not error.type or error.kind != "exception":
            continue
        assert trial.matched
        own = (
            "Traceback (most recent call last):\n"
            '  File "/home/user/kernels/plan.py", line 12, in <module>\n'
            "    check(plan)\n"
            '  File "/home/user/kernels/plan.py", line 8, in check\n'
            f"    raise {error.type.rsplit('.')[-1]}(plan.text)\n"
            f"{error.type}: {error.message}\n"
        )
        assert rule.code not in matching(read(own))


@NAMED_HITS
def test_the_words_alone_are_never_certain(rule: Rule, path: Path) -> None:
    """Without its traceback an error is at most likely: nobody can see who raised it."""
    fixture = fixture_at(path)
    for record, _ in fixture.trials(rule):
        error = record.error
        if error is None or error.kind != "exception" or error.type in ("SyntaxError", "IndentationError"):
            continue
        for bare in read(f"{error.type}: {error.message}\n"):
            assert try_rule(rule, bare, {}).outcome is not Outcome.MATCH


@NAMED_HITS
def test_other_paths_and_line_numbers_change_nothing(rule: Rule, path: Path) -> None:
    fixture = fixture_at(path)
    moved = re.sub(r"/home/user/venv/lib/python3\.\d+/", "/srv/conda/envs/gpu/lib/python3.12/", fixture.text)
    # the name of a file matters to a rule that is about the name
    about_names = any(condition.fact == "error.shadows" for condition in rule.match.when)
    name = r"\1" if about_names else "op"
    moved = re.sub(r"/home/user/kernels/(\w+)\.py", rf"/data/models/attention/{name}.py", moved)
    moved = re.sub(r'(\.py", line )(\d+)', lambda found: f"{found[1]}{int(found[2]) + 4711}", moved)
    moved = re.sub(r"tmp\w{8}/tvm_kernels", "tmpq1w2e3r4/tvm_kernels", moved)
    before = matching([record for record, _ in fixture.records])
    assert matching(read(moved)) == before
    assert rule.code in before


@NAMED_HITS
def test_a_log_in_the_middle_of_other_output_is_read_the_same(rule: Rule, path: Path) -> None:
    fixture = fixture_at(path)
    noise = "".join(f"step {n}: loss {1 / (n + 1):.4f}\n" for n in range(40))
    assert rule.code in matching(read(noise + fixture.text + "\ndone\n"))


#: the frame cut off, other rules read the same words
SAME_WORDS = next(n for n, (_, path) in enumerate(HITS) if path.name == "hit-source-scalar-type.log")


@given(cut=st.floats(0, 1), which=st.integers(0, len(HITS) - 1))
@example(cut=0.5, which=SAME_WORDS)
@settings(max_examples=60, deadline=None)
def test_a_cut_log_never_turns_into_another_fault(cut: float, which: int) -> None:
    """What is left of a log may match less; what the whole does not match is never more than possible."""
    fixture = fixture_at(HITS[which][1])
    whole = matching([record for record, _ in fixture.records])
    start = fixture.text[int(len(fixture.text) * cut) :]
    rest = start[start.find("\n") + 1 :]
    told = judge(read(rest), {}, rules())
    likely = {finding.rule for finding in told if finding.rule and finding.confidence is not Confidence.POSSIBLE}
    assert likely <= whole | _explained(whole)
    assert not {finding.rule for finding in told if finding.state is State.LOCALIZED} - whole - _explained(whole)


def _explained(codes: set[str]) -> set[str]:
    return {code for rule in rules() if rule.code in codes for code in rule.explains}


def test_misses_are_real_errors_or_warnings() -> None:
    """A near miss that holds nothing to judge would prove nothing."""
    for rule in rules():
        for fixture in fixtures(rule, "miss"):
            assert fixture.records, f"{fixture.name} holds no error and no warning"


def test_every_hazard_that_a_lint_or_a_tool_reports_has_a_rule() -> None:
    asked = {c.right[0] for r in rules().on("hazard") for c in r.match.when if c.fact == "hazard.kind"}
    assert _reported_kinds() == asked


def _reported_kinds() -> set[str]:
    """The kinds in the sources of lints and of the tools of the correctness chain: constants given to `Hazard`, `_hazard` or
    `of_mismatch`, assigned to `kind`, or values of a table `HAZARDS`."""
    found: set[str] = set()
    triage = ROOT.parent / "triage"
    makers = ("Hazard", "_hazard", "of_mismatch")
    for path in (*(triage / "lints").glob("*.py"), *(triage / "tools").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in makers:
                found |= _strings(node.args[0]) if node.args else set()
            elif isinstance(node, ast.Assign) and any(
                isinstance(t, ast.Name) and t.id == "HAZARDS" for t in node.targets
            ):
                found |= (
                    {text for value in node.value.values for text in _strings(value)}
                    if isinstance(node.value, ast.Dict)
                    else set()
                )
            elif isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "kind" for t in node.targets):
                found |= _strings(node.value)
    return {kind for kind in found if "-" in kind and not kind.endswith("-")}


def _strings(node: ast.AST) -> set[str]:
    return {n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str)}


def test_fixtures_tell_nothing_of_the_machine_they_come_from() -> None:
    for path in (*ROOT.rglob("*"), *(ROOT.parent / "fixtures").rglob("*")):
        if path.is_file() and path.suffix in (".log", ".json", ".jsonl", ".toml"):
            text = path.read_text("utf-8")
            assert not re.search(r"/(work|opt/v|root)/", text), path.name


def test_references_name_public_places() -> None:
    for rule in rules():
        for reference in rule.references:
            assert re.match(r"https://\S+$", reference), f"{rule.code}: {reference}"


def test_every_rule_file_is_small_enough_to_read() -> None:
    for rule in rules():
        assert isinstance(rule.path, Path)
        assert len(rule.path.read_text("utf-8").splitlines()) <= 90, rule.path.name
