from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rule_samples import ROOT, one_rule, read_log

from triage.knowledge import scan, words
from triage.knowledge.fixtures import Fixture, fixture_paths, read_fixture
from triage.knowledge.judge import judge
from triage.knowledge.load import load_rules
from triage.knowledge.match import compiled, ends, search
from triage.knowledge.pattern import anchors, crosses_lines
from triage.knowledge.rule import Rule, RuleSet
from triage.knowledge.scan import SPAN, Scanner, Source

RULES = load_rules(ROOT)
TEXTS = [rule for rule in RULES if rule.match.text]
SCANNER = Scanner(RULES)
LOGS = [path.read_text("utf-8") for rule in TEXTS for path in fixture_paths(rule) if path.suffix == ".log"]
NOISE = ["step 12: loss 0.3141, expected 0.3", "ptxas info    : Used 128 registers", "  3%|█▏  | 3/99", "", "Error: '"]

Found = tuple[str, int, int, int]


def rule_of(pattern: str, code: str = "TLG901") -> Rule:
    return replace(TEXTS[0], code=code, match=replace(TEXTS[0].match, text=pattern))


def one_by_one(rules: list[Rule], text: str) -> list[Found]:
    """What `finditer` of every rule finds, in characters."""
    found = [
        (rule.code, *match.span(), text.count("\n", 0, match.start()) + 1)
        for rule in rules
        for match in compiled(rule.match.text or "").finditer(text)
    ]
    return sorted(found, key=lambda place: place[1:2])


def scanned(scanner: Scanner, source: Source, block: int = scan.BLOCK) -> list[Found]:
    return [(hit.rule.code, hit.start, hit.end, hit.line) for hit in scanner.scan(source, block)]


@st.composite
def logs(draw: st.DrawFn) -> str:
    """Pieces of the fixtures among other lines."""
    parts = []
    for log in draw(st.lists(st.sampled_from(LOGS), max_size=4)):
        lines = log.splitlines(keepends=True)
        start = draw(st.integers(0, len(lines)))
        parts += lines[start : start + draw(st.integers(1, 20))]
        parts += [line + "\n" for line in draw(st.lists(st.sampled_from(NOISE), max_size=4))]
    return "".join(parts)


def cut(text: str, at: list[int]) -> list[str]:
    return [text[low:high] for low, high in pairwise(sorted({0, len(text), *(min(n, len(text)) for n in at)}))]


@given(logs(), st.lists(st.integers(0, 6000), max_size=6), st.integers(1, 3000))
@settings(max_examples=80, deadline=None)
def test_the_scan_finds_what_every_rule_finds_alone(text: str, at: list[int], block: int) -> None:
    wanted = one_by_one(TEXTS, text)
    assert sorted(scanned(SCANNER, text)) == sorted(wanted)
    found = scanned(SCANNER, cut(text, at), block)
    assert sorted(found) == sorted(wanted)
    assert [start for _, start, _, _ in found] == sorted(start for _, start, _, _ in wanted)


@given(logs(), st.lists(st.integers(0, 6000), max_size=6), st.integers(1, 3000))
@settings(max_examples=50, deadline=None)
def test_of_bytes_the_positions_are_in_bytes(text: str, at: list[int], block: int) -> None:
    raw = text.encode()
    for _, start, end, line in (found := scanned(SCANNER, [p.encode() for p in cut(text, at)], block)):
        assert raw.count(b"\n", 0, start) + 1 == line and raw[start:end].decode()
    as_text = scanned(SCANNER, text)
    assert [raw[s:e].decode() for _, s, e, _ in found] == [text[s:e] for _, s, e, _ in as_text]


def test_bytes_that_are_no_text_do_no_harm() -> None:
    line = b"\xff\xfe AssertionError: T.gemm K shape check failed: K_A = 32, K_B = 128 \xe2\x96\n"
    (hit,) = SCANNER.scan(b"\xe2\x96\x88\n" * 3 + line)
    assert (hit.rule.code, hit.line) == ("TLG014", 4)
    assert (b"\xe2\x96\x88\n" * 3 + line)[hit.start : hit.end].startswith(b"T.gemm K shape")
    assert [h.rule.code for h in SCANNER.scan("\ud800" + line.decode("utf-8", "surrogateescape"))] == ["TLG014"]


# Expressions nobody wrote, so that what holds of the shipped rules holds of the next one.

pieces = st.sampled_from(
    ["ab", "c ", r"\d+", r"\w*", "(?:x|yz)", "(?:q)?", r"[^,]+", "(?P<n>k+)", r"\.", "(?:m|n\\d)?", "[xy]", "(?!a)",
     "(?:a|\\d)(?:b|c)", "\\s+", "(?:ab){2}", "(?:ab\\d|c)", "(?:\\dz|q\\w)+", "(?:\\d|(?:x\\w|y))", "^", "$", "(?=.x)", "(?<!k)", "[^\\n]*", "(?i:K)", "\\b", "é"]
)  # fmt: skip
patterns = st.lists(pieces, min_size=1, max_size=6).map("".join).filter(lambda p: p.count("<n>") < 2)
texts = st.text("abcxyzqkmnK. 01,\né", max_size=60)


@given(st.lists(patterns, min_size=1, max_size=4, unique=True), texts, st.integers(1, 70))
@settings(max_examples=250, deadline=None)
def test_no_expression_finds_what_its_anchors_let_go(some: list[str], text: str, block: int) -> None:
    rules = [rule_of(pattern, f"TLG{900 + n}") for n, pattern in enumerate(some)]
    scanner = Scanner(rules)
    for rule in rules:
        pattern = rule.match.text or ""
        found = compiled(pattern).search(text)
        if found:
            words = anchors(pattern)
            assert rule.code in scanner.possible(text)
            assert not words or any(word in found[0] for word in words)
            assert crosses_lines(pattern) or "\n" not in found[0]


@given(st.lists(patterns, min_size=1, max_size=3, unique=True), texts, st.integers(1, 70))
@settings(max_examples=250, deadline=None)
def test_a_scan_in_small_blocks_finds_the_same(some: list[str], text: str, block: int) -> None:
    rules = [rule_of(pattern, f"TLG{900 + n}") for n, pattern in enumerate(some)]
    wanted = [found for found in one_by_one(rules, text) if found[1] < found[2]]
    found = [place for place in scanned(Scanner(rules), text, block) if place[1] < place[2]]
    assert sorted(found) == sorted(wanted)


@given(st.data())
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
def test_whatever_a_shipped_expression_matches_is_let_through(data: st.DataObject) -> None:
    rule = data.draw(st.sampled_from(TEXTS))
    pattern = rule.match.text or ""
    unnamed = re.sub(r"\(\?P<\w+>", "(", pattern)
    text = data.draw(st.from_regex(re.compile(unnamed, re.MULTILINE)))
    if search(pattern, text):
        assert rule.code in SCANNER.possible(text)


@pytest.mark.parametrize(
    ("pattern", "texts"),
    [
        ("plain text", {"plain text"}),
        (r"K_A = (?P<k>\d+), K_B", {"K_A = "}),
        (r"(?:left|right) side", {"left side", "right side"}),
        (r"shape(?: \(wo sparse\))? of", {"shape of", "shape (wo sparse) of"}),
        (r"(?P<op>T\.\w*gemm) (?P<axis>[MN]) shape: \d", {"gemm M shape: ", "gemm N shape: "}),
        (r"\d+ inputs?, got (?:\d+|many more)", {" input, got ", " inputs, got "}),
        (r"(?:\w+ is small|\w+ is large)", {" is small", " is large"}),
        (r"(?:\w+ is small|\w+)", set()),
        (r"error: (?:expected \w+|invalid \d+|end)", {"error: expected ", "error: invalid ", "error: end"}),
        (r"(?:\w+ has|\d+ are) too many", {" has too many", " are too many"}),
        (r"got (?:ab\d){2} of", {"got ab"}),
        (r"(?:\dab)+ of (?:\w|\d)", {"ab of "}),
        (r"(?i)any case", set()),
        (r"a (?i:any) case", {" case"}),
        (r"(?:abc)+d", {"abcd"}),
        (r"(?:abc)*d", {"d"}),
        (r"\d+", set()),
    ],
)
def test_anchors_are_the_longest_texts_that_every_match_holds(pattern: str, texts: set[str]) -> None:
    assert anchors(pattern) == texts


@pytest.mark.parametrize(
    ("pattern", "crosses"),
    [
        (r"a[^\n]*b", False), (r"a.*b", False), ("a$", False), (r"a[^,]*b", True), (r"a\s+b", True), ("a\nb", True),
        (r"a(?s:.)b", True), (r"(?s)a.b", True), (r"(?s)a(?-s:.)b", False), (r"a[\t-\r]b", True), (r"a\W", True),
        (r"a(?=\n)", True), (r"(?:a|(?:b\s)+)", True), (r"\w\S[a-z]", False), (r"[^\s]", False), (r"[^\S]", True),
    ],
)  # fmt: skip
def test_an_expression_knows_whether_it_can_leave_its_line(pattern: str, crosses: bool) -> None:
    assert crosses_lines(pattern) is crosses


def test_a_rule_without_fixed_words_is_tried_everywhere() -> None:
    rule = rule_of(r"\d{4}-[a-f]{2}")
    assert scanned(Scanner([rule]), "x\n1234-ab\n\n77-ab 1111-cd\n", block=4) == [
        ("TLG901", 2, 9, 2),
        ("TLG901", 17, 24, 4),
    ]


def test_a_line_longer_than_a_block_is_seen_around_every_cut() -> None:
    scanner = Scanner([rule_of(r"^begin (?P<x>\w+) ends"), rule_of(r"\bmiddle (?P<x>\w+) ends", "TLG902")])
    text = (
        "begin a ends "
        + "x " * 40_000
        + "begin a ends middle b ends "
        + "y " * 30_000
        + "\nmiddle c ends\nbegin d ends"
    )
    rules = [rule_of(r"^begin (?P<x>\w+) ends"), rule_of(r"\bmiddle (?P<x>\w+) ends", "TLG902")]
    for block in (100, 997, 4096, 100_000):
        assert scanned(scanner, text, block) == one_by_one(rules, text)


def test_memory_follows_the_block_and_not_the_text() -> None:
    """Nothing is asked of the source before what came earlier was given back."""
    asked = 0

    def source() -> Iterator[str]:
        nonlocal asked
        for _ in range(1000):
            asked += 1
            yield "a line of no interest\n" * 50
            yield "T.gemm K shape check failed: K_A = 32, K_B = 128\n"

    first = next(SCANNER.scan(source(), block=4096))
    assert first.line == 51 and asked * 1150 < 4 * (4096 + SPAN)


def test_without_the_library_the_words_are_found_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "ahocorasick_rs", None)
    plain = Scanner(RULES)
    for log in LOGS[::9]:
        assert scanned(plain, log) == scanned(SCANNER, log)
        assert plain.possible(log) == SCANNER.possible(log)


def test_a_search_that_takes_too_long_is_no_match_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "SEARCH_TIMEOUT", 0.05)
    slow = rule_of(r"begin (?:x+x+)+y")
    other = rule_of(r"begin x", "TLG902")
    assert scanned(Scanner([slow, other]), "begin " + "x" * 60 + "\n") == [("TLG902", 0, 7, 1)]


# The judge looks at a text before it tries rules on it. That must not change what it finds.


def fixtures() -> list[Fixture]:
    return [read_fixture(path, read_log) for rule in RULES for path in fixture_paths(rule)]


def test_the_judge_finds_the_same_with_and_without_the_glance(monkeypatch: pytest.MonkeyPatch) -> None:
    loads = [([record for record, _ in f.records], f.records[0][1] if f.records else {}) for f in fixtures()[::3]]
    glanced = [judge(records, facts, RULES) for records, facts in loads]
    monkeypatch.setattr(RuleSet, "possible", lambda self, kind, text: self.on(kind))
    assert [judge(records, facts, RULES) for records, facts in loads] == glanced
    assert sum(map(len, glanced)) >= len(loads) / 2


def test_the_glance_leaves_few_rules() -> None:
    records = [record for fixture in fixtures() for record, _ in fixture.records if record.on == "error"]
    left = [len([r for r in RULES.possible("error", record.text) if r.match.text]) for record in records]
    assert sum(left) / len(left) < 5


def test_a_long_text_is_glanced_at_as_it_is_searched() -> None:
    inside = "x" * 150_000 + "T.gemm K shape check failed: K_A = 32, K_B = 128" + "x" * 150_000
    assert "TLG014" not in SCANNER.possible(inside)
    assert search("K_A", inside) is None and len(ends(inside)) < len(inside)


def test_a_record_without_text_keeps_the_rules_that_ask_for_none(tmp_path: Path) -> None:
    rule = one_rule(tmp_path)
    rules = RuleSet((rule, replace(rule, code="TLG902", match=replace(rule.match, text=None))))
    assert [r.code for r in rules.possible("error", None)] == ["TLG902"]
    assert [r.code for r in rules.possible("error", "tile of A is 3 wide, at most 2")] == ["TLG901", "TLG902"]
    assert rules.possible("warning", None) == ()
