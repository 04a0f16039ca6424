from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rule_samples import RULE, library_frame, rule_file, rules_of, tile_error, user_frame

from triage.knowledge.judge import Observability, bare_function, fill, fold, judge, signature
from triage.knowledge.load import load_rules
from triage.knowledge.match import record_of_error, record_of_hazard, record_of_warning, records_of_error
from triage.knowledge.rule import RuleSet
from triage.knowledge.stages import StageGuess
from triage.model import (
    Category,
    Confidence,
    ErrorRecord,
    Finding,
    FoundBy,
    Frame,
    Location,
    Owner,
    State,
    WarningRecord,
)

SEEN = Observability("0.1.15")
#: the rule in a stage that runs none of the user's lines
AFTER_PYTHON = RULE.replace('stage = "dsl"', 'stage = "layout"')


@pytest.fixture(scope="module")
def rules(tmp_path_factory: pytest.TempPathFactory) -> RuleSet:
    return rules_of(tmp_path_factory.mktemp("rules"))


def one(error: ErrorRecord, rules: RuleSet, seen: Observability = SEEN) -> Finding:
    (finding,) = judge(records_of_error(error), {}, rules, seen)
    return finding


def test_an_error_with_its_frame_is_localized_at_the_deepest_user_line(rules: RuleSet) -> None:
    finding = one(tile_error(user_frame(20, "<module>"), user_frame(7), library_frame()), rules)
    assert (finding.state, finding.confidence, finding.owner) == (State.LOCALIZED, Confidence.CONFIRMED, Owner.KERNEL)
    assert finding.location == Location("/home/user/kernels/k.py", 7, 5, "t = T.tile(A)", "main", FoundBy.FRAME)
    assert finding.summary == "the tile of A_s is 96 wide, and at most 64 fit; look at the allocation of A_s"
    assert finding.fixes[0].title == "Make A_s narrower."
    assert finding.captures == {"name": "A_s", "width": 96, "most": 64}


def test_bare_text_is_likely_and_has_no_place(rules: RuleSet) -> None:
    finding = one(tile_error(), rules)
    assert (finding.rule, finding.state, finding.confidence) == ("TLG901", State.CLASSIFIED, Confidence.LIKELY)


def test_words_that_several_rules_read_are_only_possible_until_the_frame_is_seen(tmp_path: Path) -> None:
    rule_file(tmp_path, RULE)
    again = RULE.replace("TLG901", "TLG902").replace("tile-too-wide", "block-too-wide").replace("tile.py", "block.py")
    rule_file(tmp_path, again, name="TLG902-block-too-wide")
    rules = load_rules(tmp_path)
    findings = judge(records_of_error(tile_error()), {}, rules, SEEN)
    assert [(f.rule, f.confidence) for f in findings] == [
        ("TLG901", Confidence.POSSIBLE),
        ("TLG902", Confidence.POSSIBLE),
    ]
    seen = one(tile_error(user_frame(), library_frame()), rules)
    assert (seen.rule, seen.confidence) == ("TLG901", Confidence.CONFIRMED)


def test_the_users_own_raise_stays_unknown_and_nobody_is_blamed(rules: RuleSet) -> None:
    finding = one(tile_error(user_frame(text="raise ValueError('tile of A_s …')")), rules)
    assert (finding.rule, finding.state, finding.owner) == (None, State.UNKNOWN, Owner.UNKNOWN)
    assert "itself raised" in finding.title


@pytest.mark.parametrize(
    ("version", "confidence"),
    [
        ("0.1.15", Confidence.CONFIRMED),
        ("0.1.15+cu130.git1a2b3c", Confidence.CONFIRMED),
        ("0.1.15.post1", Confidence.CONFIRMED),
        ("0.1.9", Confidence.LIKELY),
        ("0.1.16.dev0", Confidence.LIKELY),
        ("0.1.150", Confidence.LIKELY),
        (None, Confidence.CONFIRMED),
    ],
)
def test_another_tilelang_takes_one_step_of_confidence(
    rules: RuleSet, version: str | None, confidence: Confidence
) -> None:
    error = tile_error(user_frame(), library_frame())
    assert one(error, rules, Observability(version)).confidence is confidence


def test_bare_text_on_another_tilelang_is_only_possible(rules: RuleSet) -> None:
    assert one(tile_error(), rules, Observability("0.1.9")).confidence is Confidence.POSSIBLE


def test_what_is_only_possible_is_never_localized(tmp_path: Path) -> None:
    rules = rules_of(tmp_path, 'confidence = "possible"\n' + RULE)
    finding = one(tile_error(user_frame(), library_frame()), rules)
    assert finding.state is State.CLASSIFIED and finding.location is not None


def test_a_stage_after_the_build_does_not_blame_the_call_that_compiles(tmp_path: Path) -> None:
    rules = rules_of(tmp_path, RULE.replace('"dsl"', '"layout"'))
    finding = one(tile_error(user_frame(20, "<module>", "k = tilelang.compile(main)"), library_frame()), rules)
    assert (finding.state, finding.location) == (State.CLASSIFIED, None)
    assert [(label.line, label.text) for label in finding.labels] == [(20, "the call that failed starts here")]


def test_a_line_that_the_text_mentions_is_a_label_unless_the_rule_trusts_it(tmp_path: Path) -> None:
    named = Location("/home/user/kernels/k.py", 4, found_by=FoundBy.SPAN)
    error = replace(tile_error(user_frame(20), library_frame()), named=(named,))
    late = RULE.replace('"dsl"', '"layout"')
    assert one(error, rules_of(tmp_path / "a", late)).location is None
    trusting = late.replace("look_at", 'place = "named"\nlook_at')
    finding = one(error, rules_of(tmp_path / "b", trusting))
    assert finding.location == named and finding.state is State.LOCALIZED
    assert [label.line for label in finding.labels] == [20]


def test_a_line_that_cannot_be_in_its_function_is_not_believed(rules: RuleSet) -> None:
    """Tilelang reports the header of a `for` at line 1 of the file."""
    source = "import tilelang\n\n@T.prim_func\ndef main(A):\n    for k in T.Pipelined(4):\n        pass\n"
    seen = Observability("0.1.15", lambda file: source)
    error = tile_error(
        user_frame(3, "<module>", "@T.prim_func"), user_frame(1, "main", "import tilelang"), library_frame()
    )
    assert one(error, rules, seen).state is State.CLASSIFIED
    assert one(error, rules).state is State.CLASSIFIED, "the decorator's frame alone shows it too"
    assert not one(error, rules, seen).labels, "a line that is not believed is no label either"
    good = tile_error(user_frame(3, "<module>", "@T.prim_func"), user_frame(5, "main", ""), library_frame())
    location = one(good, rules, seen).location
    assert location and location.snippet == "for k in T.Pipelined(4):"


@pytest.mark.parametrize("text", ["@T.prim_func", "@ T.prim_func(private=True)", "@script.macro  # inner"])
def test_a_decorator_that_only_starts_a_build_is_not_blamed(rules: RuleSet, text: str) -> None:
    assert one(tile_error(user_frame(3, "<module>", text), library_frame()), rules).location is None
    called = user_frame(3, "<module>", "@tilelang.jit(out_idx=[9])")
    assert one(tile_error(called, library_frame()), rules).state is State.LOCALIZED


def test_a_decorator_that_raises_itself_is_blamed(rules: RuleSet) -> None:
    source = "def make():\n    @T.prim_funk\n    def main(A):\n        pass\n\n    return main\nmake()\n"
    seen = Observability("0.1.15", lambda file: source)
    outer = user_frame(7, "<module>", "make()")
    location = one(tile_error(outer, user_frame(2, "make", "@T.prim_funk")), rules, seen).location
    assert location and location.line == 2
    assert one(tile_error(outer, user_frame(2, "make", "@T.prim_funk"), library_frame()), rules, seen).location is None
    assert one(tile_error(outer, user_frame(2, "main", "@T.prim_funk")), rules, seen).location is None, (
        "built from a copy"
    )
    assert one(tile_error(outer, user_frame(2, "make", "@T.prim_funk")), rules).location is None, (
        "no source to check it"
    )


def test_a_rule_can_point_at_an_argument_of_the_decorator(tmp_path: Path) -> None:
    source = "import tilelang\n@tilelang.jit(\n    out_idx=[3],\n)\ndef make(n):\n    return main\nk = make(4)\n"
    rules = rules_of(tmp_path, RULE.replace("look_at", 'place = "argument"\nargument = "out_idx"\nlook_at'))
    error = tile_error(user_frame(7, "<module>", "k = make(4)"), library_frame())
    finding = one(error, rules, Observability("0.1.15", lambda file: source))
    assert finding.location and (finding.location.line, finding.location.column) == (3, 5)
    assert finding.location.snippet == "out_idx=[3]," and finding.state is State.LOCALIZED
    assert one(error, rules).location is None, "without the source nobody knows"


KINDS = """\
import tilelang
def make(n, kind="fp"):
    @T.prim_func
    def main(A):
        t = T.tile(A, kind)
        u = T.tile(A, "f32")
    return main
k = make(4)
"""


@pytest.mark.parametrize(
    ("changed", "line", "found_by"),
    [
        ({}, 2, None),  # the only line
        ({"tilelang": "tilelang\nfp"}, 3, None),  # of two, the one in a function that was running
        ({'"f32"': '"fp"'}, 2, None),  # both are in one: the one that gives it a name
        ({"A, kind": 'A, "fp"'}, 5, FoundBy.FRAME),  # the line that was running
        ({'"fp"': '"f" + "p"'}, 5, FoundBy.FRAME),  # none: the line that was running
        ({'"f32"': '"fp"', 'kind="fp"': 'kind=str("fp")'}, 5, FoundBy.FRAME),  # two, and nothing tells them apart
    ],
)
def test_what_is_named_nowhere_or_often_is_looked_for_where_python_was(tmp_path: Path, changed, line, found_by) -> None:
    text = RULE.replace("look_at", 'place = "text"\nargument = "{kind}"\nlook_at').replace(
        RULE[RULE.index("text =") : RULE.index("\n", RULE.index("text ="))], "text = 'no kind (?P<kind>\\w+)'"
    )
    source = KINDS
    for old, new in changed.items():
        source = source.replace(old, new)
    moved = source.count("\n") - KINDS.count("\n")
    frames = [user_frame(8 + moved, "<module>"), user_frame(3 + moved, "make"), user_frame(5 + moved), library_frame()]
    error = tile_error(*frames, message="no kind fp")
    seen = Observability("0.1.15", lambda file: source)
    location = one(error, rules_of(tmp_path, text), seen).location
    assert location and (location.line, location.found_by) == (line, found_by)
    late = rules_of(
        tmp_path / "late", text.replace(RULE[: RULE.index("[match]")], AFTER_PYTHON[: AFTER_PYTHON.index("[match]")])
    )
    assert (one(error, late, seen).location is None) is (changed != {}), "a later stage runs none of the user's lines"


def test_columns_count_characters_and_lines_are_those_of_python(tmp_path: Path) -> None:
    source = "# a\x0cb\u2028c\nk = f('α', out_idx=[3])\n"
    rules = rules_of(tmp_path, RULE.replace("look_at", 'place = "argument"\nargument = "out_idx"\nlook_at'))
    seen = Observability("0.1.15", lambda file: source)
    location = one(tile_error(user_frame(2, "<module>", ""), library_frame()), rules, seen).location
    assert location and (location.line, location.column) == (2, 12)
    assert location.snippet and location.snippet[location.column - 1 :].startswith("out_idx")


@pytest.mark.parametrize(
    ("statement", "call", "file"),
    [
        ("from kernels import make", "make(4)", "kernels.py"),
        ("from kernels import make as build", "build(4)", "kernels.py"),
        ("import kernels", "kernels.make(4)", "kernels.py"),
        ("import lib.kernels as kk", "kk.make(4)", "lib/kernels.py"),
        ("from lib import kernels", "kernels.make(4)", "lib/kernels.py"),
        ("from . import kernels", "kernels.make(4)", "kernels.py"),
        ("from .kernels import make", "wrap(make(4))", "kernels.py"),
        ("from lib import make", "make(4)", "lib/kernels.py"),
    ],
)
def test_an_argument_is_followed_into_the_module_of_the_function(
    tmp_path: Path, statement: str, call: str, file: str
) -> None:
    kernels = "import tilelang\n@tilelang.jit(out_idx=[3])\ndef make(n):\n    return main\n"
    sources = {
        "/home/user/kernels/k.py": f"{statement}\nk = {call}\n",
        f"/home/user/kernels/{file}": kernels,
        "/home/user/kernels/lib/__init__.py": "from .kernels import make\n",
    }
    rules = rules_of(tmp_path, RULE.replace("look_at", 'place = "argument"\nargument = "out_idx"\nlook_at'))
    seen = Observability("0.1.15", lambda name: sources.get(str(Path(name))))
    location = one(tile_error(user_frame(2, "<module>", f"k = {call}"), library_frame()), rules, seen).location
    assert location and (location.file, location.line, location.column) == (f"/home/user/kernels/{file}", 2, 15)


def test_an_import_that_leads_nowhere_or_in_a_circle_gives_no_place(tmp_path: Path) -> None:
    rules = rules_of(tmp_path, RULE.replace("look_at", 'place = "argument"\nargument = "out_idx"\nlook_at'))
    error = tile_error(user_frame(2, "<module>", "make(4)"), library_frame())
    for other in (None, "from kernels import make", "def make(n): ...", "make(", ""):
        sources = {
            "/home/user/kernels/k.py": "from kernels import make\nmake(4)\n",
            "/home/user/kernels/kernels.py": other,
        }
        assert one(error, rules, Observability("0.1.15", sources.get)).location is None


def test_a_rule_can_point_at_the_assignment_of_a_captured_variable(tmp_path: Path) -> None:
    source = "def main(A):\n    A_s = 1\n    if A:\n        A_s = 2\n    A[0] = A_s\n"
    rules = rules_of(tmp_path, RULE.replace("look_at", 'place = "assigned"\nargument = "{name}"\nlook_at'))
    finding = one(tile_error(user_frame(5), library_frame()), rules, Observability("0.1.15", lambda file: source))
    assert finding.location and finding.location.line == 4
    assert [(label.line, label.text) for label in finding.labels] == [(5, "the call that failed starts here")]


def test_the_cause_of_an_error_is_placed_by_the_frames_of_the_outer_one(rules: RuleSet) -> None:
    inner = replace(tile_error(library_frame()), relation="cause")
    outer = replace(
        tile_error(user_frame(9), library_frame("/x/site-packages/torch/a.py"), message="failed"), causes=(inner,)
    )
    finding = one(outer, rules)
    assert finding.rule == "TLG901" and finding.location and finding.location.line == 9


def test_a_context_that_was_only_being_handled_does_not_stand_for_what_came_after(rules: RuleSet) -> None:
    """`try: first() except Exception: second()`, and it is the second that ends the script."""
    context = replace(tile_error(user_frame(3), library_frame()), relation="context")
    other = library_frame("/v/site-packages/torch/a.py")
    outer = replace(tile_error(user_frame(9), other, message="the second failed"), causes=(context,), stage="dsl")
    found = judge(records_of_error(outer), {}, rules, SEEN)
    assert [(f.rule, f.state, f.confidence) for f in found] == [
        ("TLG901", State.CLASSIFIED, Confidence.POSSIBLE),
        (None, State.CLASSIFIED, Confidence.POSSIBLE),
    ]
    decided = judge(records_of_error(outer, decides=context), {}, rules, SEEN)
    assert [(f.rule, f.confidence) for f in decided] == [("TLG901", Confidence.CONFIRMED)]


def test_an_endless_chain_of_causes_is_judged(rules: RuleSet) -> None:
    error = tile_error(user_frame(), library_frame())
    for _ in range(5000):
        error = ErrorRecord("exception", "ValueError", "outer", causes=(error,))
    found = judge(records_of_error(error), {}, rules, SEEN)
    assert [finding.rule for finding in found] == ["TLG901"]


def test_two_errors_are_two_findings_and_one_chain_is_one(rules: RuleSet) -> None:
    first = tile_error(user_frame(1), message="something")
    second = replace(tile_error(user_frame(2), message="else"), causes=(tile_error(message="behind it"),))
    records = [*records_of_error(first), *records_of_error(second)]
    assert [f.summary for f in judge(records, {}, rules, SEEN)] == ["something", "else"]


@pytest.mark.parametrize(
    ("stage", "state", "category"),
    [
        ("layout", State.CLASSIFIED, Category.GENERATION),
        ("target", State.CLASSIFIED, Category.ENVIRONMENT),
        ("runtime", State.UNKNOWN, None),
        (None, State.UNKNOWN, None),
    ],
)
def test_an_unexplained_error_is_classified_by_its_stage_and_owned_by_nobody(
    stage: str | None, state: State, category: Category | None
) -> None:
    error = replace(tile_error(user_frame(30), library_frame(), message="?"), stage=stage)
    finding = one(error, RuleSet())
    assert (finding.state, finding.category, finding.owner) == (state, category, Owner.UNKNOWN)
    assert finding.stage == stage
    by_table = one(replace(error, stage=None), RuleSet(), Observability("0.1.15", guess_of=guess_of(stage)))
    assert (by_table.state, by_table.stage) == (state, stage)


def guess_of(stage: str | None, owner: Owner = Owner.UNKNOWN, *candidates: str) -> Callable[[ErrorRecord], StageGuess]:
    return lambda error: StageGuess(stage, None, owner, "", candidates)


@pytest.mark.parametrize(
    ("type_", "guess", "category", "title"),
    [
        (
            "ValueError",
            guess_of(None, Owner.KERNEL, "layout", "tile-op"),
            Category.GENERATION,
            "in stage layout or tile-op",
        ),
        ("ValueError", guess_of(None, Owner.UNKNOWN, "target", "tile-op"), None, "in stage target or tile-op"),
        (
            "RuntimeError",
            guess_of("device-compile", Owner.ENVIRONMENT),
            Category.ENVIRONMENT,
            "in stage device-compile",
        ),
        ("tvm.error.InternalError", guess_of(None), Category.GENERATION, "while a kernel is built"),
        ("RuntimeError", guess_of(None), None, "of unknown cause"),
    ],
)
def test_what_the_text_of_an_unexplained_error_leaves_open(
    type_: str, guess: Callable[[ErrorRecord], StageGuess], category: Category | None, title: str
) -> None:
    """Several stages of one category tell the category; a check of the compiler is met while a kernel is built."""
    error = ErrorRecord("exception", type_, "some words")
    finding = one(error, RuleSet(), Observability("0.1.15", guess_of=guess))
    assert (finding.category, finding.owner) == (category, guess(error).owner_hint)
    assert finding.title.endswith(title)


def test_a_rule_folds_what_it_explains_about_the_same_thing(tmp_path: Path) -> None:
    rule_file(tmp_path, RULE.replace("'''tile of", "'''^ValueError: tile of"))
    outer_rule = RULE.replace("TLG901", "TLG902").replace("tile-too-wide", "outer").replace("tile of", "strip of")
    rule_file(tmp_path, outer_rule, "TLG902-outer")
    folding = 'explains = ["TLG901"]\n' + outer_rule
    inner = replace(tile_error(library_frame()), relation="cause")
    outer = replace(
        tile_error(user_frame(), library_frame(), message="strip of A_s is 96 wide, at most 64"), causes=(inner,)
    )
    assert [f.rule for f in judge(records_of_error(outer), {}, load_rules(tmp_path), SEEN)] == ["TLG902", "TLG901"]
    rule_file(tmp_path, folding, "TLG902-outer")
    rules = load_rules(tmp_path)
    assert [f.rule for f in judge(records_of_error(outer), {}, rules, SEEN)] == ["TLG902"]
    elsewhere = replace(inner, kernel="k2")
    both = judge([record_of_error(outer), record_of_error(elsewhere)], {}, rules, SEEN)
    assert [f.rule for f in both] == ["TLG902", "TLG901"], "about another kernel it says something new"


def test_advice_does_not_explain_an_error(tmp_path: Path) -> None:
    rules = rules_of(tmp_path, 'level = "advice"\n' + RULE)
    found = judge([record_of_error(tile_error(user_frame(), library_frame()))], {}, rules, SEEN)
    assert [f.level for f in found] == ["advice", "fault"]


def test_a_warning_is_at_most_likely_and_a_hazard_stands_where_the_lint_says(tmp_path: Path) -> None:
    warning = RULE.replace('on = "error"', 'on = "warning"').replace('raised_in = ["tilelang/tile.py"]\n', "")
    at = Location("k.py", 3)
    record = record_of_warning(WarningRecord("tile of A is 9 wide, at most 8", at=at))
    (finding,) = judge([record], {}, rules_of(tmp_path / "w", warning), SEEN)
    assert (finding.confidence, finding.location, finding.state) == (Confidence.LIKELY, at, State.LOCALIZED)
    text = RULE[: RULE.index("text =")] + 'when = ["hazard.kind == over", "hazard.bytes > hazard.limit"]\n'
    text += '[claim]\nsays = "{hazard.bytes} of {hazard.limit}"\n' + RULE[RULE.index("[fix]") :].replace("{name}", "it")
    hazards = rules_of(tmp_path / "h", text.replace('on = "error"', 'on = "hazard"'))
    data = {"kind": "over", "at": {"file": "k.py", "line": 4}, "fields": {"bytes": 9, "limit": 8}}
    (found,) = judge([record_of_hazard(data)], {}, hazards, SEEN)
    assert found.summary == "9 of 8" and found.location and found.location.line == 4
    assert found.confidence is Confidence.CONFIRMED
    (found,) = judge([record_of_hazard({**data, "certainty": "likely"})], {}, hazards, SEEN)
    assert found.confidence is Confidence.LIKELY
    assert judge([record_of_hazard({**data, "fields": {"bytes": 8, "limit": 8}})], {}, hazards, SEEN) == []


def test_the_signature_holds_no_operands_no_lines_and_no_user_names(rules: RuleSet) -> None:
    base = one(tile_error(user_frame(7), library_frame()), rules)
    moved = one(
        tile_error(
            user_frame(99, "other", file="/tmp/z.py"),
            replace(library_frame(), line=5),
            message="tile of B is 1 wide, at most 0",
        ),
        rules,
    )
    assert base.signature == moved.signature and len(base.signature) == 16
    assert one(tile_error(user_frame(), library_frame(), type="TypeError"), rules).signature != base.signature


@pytest.mark.parametrize(
    ("shown", "bare"),
    [
        ("void tvm::tl::Collector::Run(tvm::tl::LayoutMap&, const std::vector<int>&)", "tvm::tl::Collector::Run"),
        ("std::pair<int, std::map<int, int>> tvm::tl::{anonymous}::Split(int)", "tvm::tl::::Split"),
        ("_gemm_impl", "_gemm_impl"),
        ("", ""),
    ],
)
def test_a_function_is_named_without_types(shown: str, bare: str) -> None:
    assert bare_function(shown) == bare


def test_a_placeholder_without_a_value_says_so_and_braces_of_others_stay() -> None:
    assert fill("{a} {b.c} {d} {'arch': 1}", {"a": 1, "b.c": "x\ny"}) == "1 x y (unknown) {'arch': 1}"


texts = st.text(max_size=60)
files = st.sampled_from(
    [("/home/user/kernels/k.py", True), ("/v/site-packages/tilelang/tile.py", False), ("<unknown>", False), ("", None)]
)
frames = st.builds(
    lambda file, line, function, text: Frame(file[0], line, function, text, user=file[1]),
    files,
    st.integers(0, 99),
    st.sampled_from(["main", "<module>", "tvm::tl::Run(int)", ""]),
    texts,
)
messages = texts | st.just("tile of A_s is 96 wide, at most 64")
leaves = st.builds(
    ErrorRecord,
    st.sampled_from(["exception", "compiler", "signal"]),
    st.sampled_from(["ValueError", ""]),
    messages,
    st.lists(frames, max_size=4).map(tuple),
    stage=st.sampled_from([None, "dsl", "layout", "runtime"]),
    relation=st.sampled_from([None, "cause", "context", "inner"]),
)
errors = st.recursive(leaves, lambda some: st.builds(
    lambda outer, causes: replace(outer, causes=tuple(causes)), leaves, st.lists(some, max_size=2)), max_leaves=4)  # fmt: skip


@given(st.lists(errors, max_size=4))
def test_every_error_gets_a_finding_and_none_is_sure_without_reason(rules: RuleSet, some: list[ErrorRecord]) -> None:
    records = [record for error in some for record in records_of_error(error)]
    found = judge(records, {}, rules, SEEN)
    assert bool(found) == bool(some)
    assert found == judge(records, {}, rules, SEEN), "the same input gives the same answer"
    assert fold(found) == found
    for finding in found:
        if finding.state is State.LOCALIZED:
            assert finding.rule and finding.location and finding.confidence is not Confidence.POSSIBLE
            assert finding.location.file == "/home/user/kernels/k.py", "only a file known to be the user's is blamed"
        if finding.confidence is Confidence.CONFIRMED:
            assert any(r.error and r.error.frames for r in records)
        if finding.rule is None:
            assert finding.owner is Owner.UNKNOWN


@given(st.lists(st.tuples(st.text(), st.text()), max_size=3).map(tuple), texts)
def test_a_signature_is_16_hex_digits(parts: tuple[tuple[str, str], ...], cause: str) -> None:
    error = ErrorRecord("exception", "E", "m", tuple(Frame(file, 1, function) for file, function in parts))
    assert set(signature(cause, None, error)) <= set("0123456789abcdef") and len(signature(cause, None, error)) == 16


TEXT = "import tilelang\n# tile of A_s\nHELPER = '''\nfloat A_s = 1;\n'''\nk = make(\n    4)\n"


@pytest.mark.parametrize(
    ("source", "line"),
    [
        (TEXT, 4),
        (TEXT.replace("A_s", "A_s2"), None),
        (TEXT + "print('A_s')\n", None),
        (None, None),
    ],
)
def test_a_place_told_by_its_text_is_the_only_line_that_names_it(
    tmp_path: Path, source: str | None, line: int | None
) -> None:
    rules = rules_of(tmp_path, AFTER_PYTHON.replace("look_at", 'place = "text"\nargument = "{name}"\nlook_at'))
    error = tile_error(user_frame(6, "<module>", "k = make("), library_frame())
    location = one(error, rules, Observability("0.1.15", lambda file: source)).location
    assert (location.line if location else None) == line


def test_a_line_that_the_error_names_counts_if_its_statement_names_it_too(tmp_path: Path) -> None:
    rules = rules_of(tmp_path, AFTER_PYTHON.replace("look_at", 'place = "text"\nargument = "{name}"\nlook_at'))
    source = "x = f(\n    A_s)\ny = A_s\n"
    at = Location("/home/user/kernels/k.py", 1, found_by=FoundBy.LINE_DIRECTIVE)
    error = replace(tile_error(user_frame(9), library_frame()), named=(at,))
    seen = Observability("0.1.15", lambda file: source)
    location = one(error, rules, seen).location
    assert location and (location.line, location.found_by) == (1, FoundBy.LINE_DIRECTIVE)
    elsewhere = replace(error, named=(replace(at, line=9),))
    assert one(elsewhere, rules, seen).location is None


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("import os\nos.environ['TILE'] = 'A_s'\nk = make(4)\n", 2),
        ("import os\nos.environ['TILE'] = name\nk = make(4)\n", 2),
        ("import os\nos.environ['TILE'] = 'B_s'\nk = make(4)\n", None),
        ("import os\nos.environ['TILE'] = a\nos.environ['TILE'] = b\n", None),
        ("import os\nos.environ['OTHER'] = 'A_s'\nk = make(4)\n", None),
    ],
)
def test_a_variable_of_the_environment_is_blamed_where_the_script_alone_sets_it(
    tmp_path: Path, source: str, line: int | None
) -> None:
    rules = rules_of(tmp_path, RULE.replace("look_at", 'place = "environment"\nargument = "TILE MORE"\nlook_at'))
    error = tile_error(user_frame(3, "<module>", "k = make(4)"), library_frame())
    location = one(error, rules, Observability("0.1.15", lambda file: source)).location
    assert (location.line if location else None) == line


MODULE = ErrorRecord("exception", "AttributeError", "module 'torch' has no attribute 'softmux'", (user_frame(),))
EINSUM = ErrorRecord(
    "exception",
    "RuntimeError",
    "einsum(): subscript t has size 32 for operand 1",
    (user_frame(), library_frame("/home/user/venv/lib/python3.11/site-packages/torch/functional.py")),
)


@pytest.mark.parametrize(
    ("error", "virtual", "category"),
    [
        (MODULE, 1, Category.GENERATION),
        (EINSUM, 1, Category.GENERATION),
        (EINSUM, 0, Category.GENERATION),
        (replace(MODULE, message="'NoneType' object has no attribute 'shape'"), 1, None),
        (replace(MODULE, message="'NoneType' object has no attribute 'shape'"), 0, Category.GENERATION),
        (replace(EINSUM, message="linalg.inv: The diagonal element 1 is zero"), 1, None),
        (replace(MODULE, frames=(user_frame(text="raise AttributeError(text)"),)), 1, None),
    ],
)
def test_after_a_virtual_launch_only_what_values_cannot_bring_about_is_classified(
    rules: RuleSet, error: ErrorRecord, virtual: int, category: Category | None
) -> None:
    (finding,) = judge(records_of_error(error), {"launches.virtual": virtual}, rules, SEEN)
    assert (finding.category, finding.location and finding.location.line) == (category, 7)
    assert finding.state is (State.CLASSIFIED if category else State.UNKNOWN)


@pytest.mark.parametrize(
    ("statement", "category"),
    [
        ("assert torch.allclose(dV, dV_ref, rtol=1e-2)", Category.CORRECTNESS),
        ("assert x.shape == (4,)", None),
        ("assert config < 3", None),
        ("f()", None),
    ],
)
def test_of_a_text_an_assertion_compares_results_if_its_function_does(
    statement: str, category: Category | None
) -> None:
    frame = replace(user_frame(), text=statement)
    assert one(ErrorRecord("exception", "AssertionError", "", frames=(frame,)), RuleSet()).category == category


def test_a_failed_check_of_the_compiler_is_met_while_a_kernel_is_built() -> None:
    error = ErrorRecord("exception", "TypeError", "Check failed: (a.dtype() == b.dtype()) is false: mismatched types.")
    assert one(error, RuleSet()).category is Category.GENERATION


@pytest.mark.parametrize(
    ("type_", "message", "category"),
    [
        ("AssertionError", "not close, max err: 6.16015625", Category.CORRECTNESS),
        ("AssertionError", "outputs do not match", Category.CORRECTNESS),
        ("AssertionError", "block too small", None),
        ("TypeError", "run() takes 6 positional arguments but 7 were given", Category.GENERATION),
        ("RuntimeError", "out of luck", None),
    ],
)
def test_what_a_bare_line_of_python_can_be(type_: str, message: str, category: Category | None) -> None:
    """Without a frame, and nothing observed: possible at most."""
    finding = one(ErrorRecord("exception", type_, message), RuleSet())
    assert (finding.category, finding.confidence) == (category, Confidence.POSSIBLE)
    observed = judge([record_of_error(ErrorRecord("exception", type_, message))], {"run.status": "failed"}, RuleSet())
    assert observed[0].category is None
