from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from rule_samples import ROOT, RULE, read_log, rule_file, tile_error

from triage.knowledge.check import Checked, check_rules, show_checked
from triage.knowledge.fits import find_fits
from triage.knowledge.fixtures import FixtureError, fixture_paths, read_fixture, take_marks
from triage.knowledge.load import load_rules, read_all
from triage.knowledge.match import Record, records_of_error, search, try_rule
from triage.knowledge.new import new_rule, next_code
from triage.knowledge.pattern import alternatives
from triage.knowledge.rule import Rule
from triage.model import to_json

TRACE = """\
Traceback (most recent call last):
  File "/home/user/kernels/k.py", line 7, in main
    t = T.tile(A_s)
        ^^^^^^^^^^^
  File "/home/user/venv/lib/python3.11/site-packages/tilelang/tile.py", line 83, in make_tile
    raise ValueError(text)
ValueError: tile of A_s is 96 wide, at most 64
"""
OWN = """\
Traceback (most recent call last):
  File "/home/user/kernels/k.py", line 7, in main
    raise ValueError(text)
ValueError: tile of A_s is 96 wide, at most 64
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A rules folder with one sound rule."""
    (tmp_path / "reference").mkdir()
    for name in ("facts.toml", "symptoms.toml"):
        (tmp_path / "reference" / name).write_text((ROOT / "reference" / name).read_text("utf-8"), "utf-8")
    rule_file(tmp_path)
    fixture(tmp_path, "hit-plain.log", TRACE)
    fixture(tmp_path, "miss-own-raise.log", OWN)
    return tmp_path


def fixture(root: Path, name: str, text: str, rule: str = "TLG901-tile-too-wide") -> Path:
    path = root / "generation" / rule / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def texts(done: Checked) -> list[str]:
    return [str(problem) for problem in done.problems]


def test_a_sound_rule_passes(root: Path) -> None:
    done = check_rules(read_log, root)
    assert texts(done) == [] and (done.rules, done.hits, done.misses, done.unmarked) == (1, 1, 1, 1)
    assert show_checked(done).endswith("\n1 rules, 1 hits (1 without a mark), 1 near misses: no problems\n")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            "(?P<most>\\d+)",
            "(?P<most>\\d+",
            "generation/TLG901-tile-too-wide.toml:10: text is not a regular expression",
        ),
        ("(?P<most>\\d+)", "(?P<most>\\d+)(?:(?:a)\\Z){0}{0}", "text is not a regular expression"),
        ("(?P<most>\\d+)", "(?P<most>(?:\\d+)+)x", ".toml:10: text repeats a repeat"),
        ("(?P<most>\\d+)", "(?P<most>\\d+)\\Z", ".toml:10: text asks for the begin or end of the text"),
        ("tile of", "(?i)tile of", ".toml:10: text demands no fixed words"),
        ("at most (?P<most>\\d+)", "at most(?: (?P<most>\\d+))?", "says: {most} is captured by some alternatives only"),
        ("tile of (?P<name>\\w+) is", "(?P<name>.*).*.*x*.* is", "text is slow"),
        (
            "tile of (?P<name>\\w+) is (?P<width>[^ ]+) wide, at most (?P<most>\\d+)",
            "(?P<name>x)?",
            "matches the empty text",
        ),
        (
            "tile of (?P<name>\\w+) is (?P<width>[^ ]+) wide, at most (?P<most>\\d+)",
            "wide(?P<name>)",
            "4 literal characters",
        ),
        ('raised_in = ["tilelang/tile.py"]\n', "", ".toml:8: any script can raise"),
        ("raised_in", 'when = ["error.tpye == ValueError"]\nraised_in', "error.tpye is neither a declared fact nor"),
        ("raised_in", 'when = ["error.kind == exeption"]\nraised_in', "error.kind is never exeption"),
        ("raised_in", 'same_fault = ["height > 1"]\nraised_in', "height is neither"),
        ("{width} wide", "{height} wide", ".toml:14: says: {height} is neither captured nor a field"),
        ("and at most {most} fit", "and at most 64 fit", "claims 64, which the match does not show"),
        ('["Make {name} narrower."]', '[\n  "Ask.",\n  "Make {nmae} narrower.",\n]', ".toml:20: fix step: {nmae}"),
        ('"Because."', '"TODO: say why."', ".toml:21: text is not filled in"),
        ("[fix]", '[fix]\nstrategy = "prayer"', ".toml:18: [fix] strategy: there is no strategy 'prayer'"),
        ("raised_in", 'unless = ["hieght > 3"]\nraised_in', ".toml:11: hieght > 3: hieght is neither"),
    ],
)
def test_a_careless_rule_is_told(root: Path, old: str, new: str, words: str) -> None:
    assert old in RULE
    rule_file(root, RULE.replace(old, new))
    found = texts(check_rules(read_log, root, strategies=["swap-tile-dims"]))
    assert any(words in text for text in found), found


def test_what_is_wrong_at_different_depths_is_told_at_once(root: Path) -> None:
    """Schema, expression, claim, fixtures and company: nobody has to check again to learn of the next mistake."""
    rule_file(root, RULE.replace("at most {most}", "at most {least}").replace('"kernel"', '"kernel"\nsevrity = 3'))
    rule_file(root, RULE.replace("tile-too-wide", "twin"), "TLG901-twin")
    fixture(root, "miss-true.log", TRACE)
    fixture(root, "note.txt", "")
    found = "\n".join(texts(check_rules(read_log, root)))
    for words in (
        "too-wide.toml:7: unknown key 'sevrity'",
        "too-wide.toml:15: says: {least}",
        "twin.toml:1: code 'TLG901' is taken by TLG901-tile-too-wide",
        "twin.toml:10: no hit-* fixture",
        "miss-true.log: TLG901 matches a near miss",
        "note.txt: neither",
    ):
        assert words in found, found


def test_a_broken_name_of_a_fact_does_not_hide_what_is_wrong_with_the_rules(root: Path) -> None:
    facts = root / "reference" / "facts.toml"
    facts.write_text('[extra]\nsize = {type = "number", what = "x"}\n' + facts.read_text("utf-8"), "utf-8")
    rule_file(root, RULE.replace("at most {most}", "at most {least}"))
    found = texts(check_rules(read_log, root))
    assert found[0].startswith("reference/facts.toml:2: extra.size: type must be one of")
    assert len(found) == 2 and "says: {least}" in found[1]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("tile of", "(tile of", ".toml:10: text is not a regular expression"),
        ("raised_in", 'when = ["error.type ~~ x"]\nraised_in', ".toml:11: when: 'error.type ~~ x'"),
        ("raised_in", "raised_ni", ".toml:11: unknown key 'raised_ni'"),
        ("[match]", "[mtach]", ".toml:8: unknown key 'mtach'"),
        ('raised_in = ["tilelang/tile.py"]', "raised_in = 3", ".toml:11: raised_in must be a list"),
        ('code = "TLG901"', 'code = "TLG904"', ".toml:1: the file should be called TLG904-"),
        ("{width} wide", "{height} wide", ".toml:14: says: {height} is neither"),
        ("raised_in", 'when = ["error.tpye == ValueError"]\nraised_in', "error.tpye is neither a declared fact nor"),
        ('raised_in = ["tilelang/tile.py"]\n', "", ".toml:8: any script can raise"),
    ],
)
def test_one_mistake_is_told_once_however_much_follows_from_it(root: Path, old: str, new: str, words: str) -> None:
    """The rule has many hits, another rule explains it, and a third has hits that the broken one would take."""
    check_rules(read_log, root, bless=True)
    for number in range(3):
        shutil.copy(
            root / "generation/TLG901-tile-too-wide/hit-plain.log",
            root / f"generation/TLG901-tile-too-wide/hit-{number}.log",
        )
    for code, name, verb in (("TLG902", "strip", "strip of"), ("TLG903", "slab", "slab of")):
        text = RULE.replace("TLG901", code).replace("tile-too-wide", name).replace("tile of", verb)
        rule_file(root, ('explains = ["TLG901"]\n' if code == "TLG902" else "") + text, f"{code}-{name}")
        fixture(root, "hit-a.log", TRACE.replace("tile of", verb), f"{code}-{name}")
        fixture(root, "miss-own.log", OWN.replace("tile of", verb), f"{code}-{name}")
    assert texts(check_rules(read_log, root)) == []
    assert old in RULE
    rule_file(root, RULE.replace(old, new, 1))
    found = [text for text in texts(check_rules(read_log, root)) if "is missing" not in text]
    assert len(found) == 1 and words in found[0], found
    rules, _ = read_all(root)
    assert [rule.code for rule in rules][-2:] == ["TLG902", "TLG903"]


def test_a_code_asks_for_the_file_of_its_name_too(root: Path) -> None:
    rule_file(root, RULE.replace('code = "TLG901"', 'code = "TLG904"'))
    for code in ("TLG901", "TLG904"):
        done = check_rules(read_log, root, codes=[code])
        assert len(done.problems) == 1 and "should be called TLG904-" in texts(done)[0]
    assert show_checked(done).endswith("1 problem; 1 not tried against fixtures for what is wrong with them\n")


def test_blessing_leaves_every_other_byte_of_a_log_as_it_is(root: Path) -> None:
    """A progress bar returns to the begin of its line, a form feed or a separator of Unicode ends none."""
    raw = ("10%\r 50%\r100%\nfine\x0c\u2028still fine\r\n" + TRACE).encode()
    path = fixture(root, "hit-plain.log", "")
    path.write_bytes(raw)
    check_rules(read_log, root, bless=True)
    *above, mark = path.read_bytes().splitlines(keepends=True)
    assert b"".join(above) == raw and mark == b"#^ TLG901 name=A_s width=96 most=64\n"
    assert texts(check_rules(read_log, root)) == []


def test_a_rule_needs_a_hit_and_a_miss_that_is_near(root: Path) -> None:
    (root / "generation/TLG901-tile-too-wide/hit-plain.log").unlink()
    fixture(root, "miss-own-raise.log", "ValueError: quite another thing\n")
    found = texts(check_rules(read_log, root))
    assert {text.split(": ", 1)[0] for text in found} == {"generation/TLG901-tile-too-wide.toml:10"}
    assert [text.split(": ", 1)[1] for text in found] == [
        "no hit-* fixture beside it",
        "no miss is near: none has half of the words that the rule demands",
    ]


def test_a_hit_that_misses_and_a_miss_that_hits_are_told_with_the_reason(root: Path) -> None:
    fixture(root, "hit-own.log", OWN)
    fixture(root, "miss-true.log", TRACE)
    found = texts(check_rules(read_log, root))
    assert found[0].startswith("TLG901-tile-too-wide/hit-own.log: TLG901 does not match: raised by the user's own")
    assert found[1].startswith("TLG901-tile-too-wide/miss-true.log: TLG901 matches a near miss: the text fits")


def test_a_rule_that_takes_another_ones_hits_is_told_unless_one_explains_the_other(root: Path) -> None:
    wide = RULE.replace("TLG901", "TLG902").replace("tile-too-wide", "wide").replace("tile of", "of")
    rule_file(root, wide, "TLG902-wide")
    fixture(root, "hit-strip.log", TRACE.replace("tile of A_s", "large tile of A_s"), "TLG902-wide")
    fixture(root, "miss-own.log", OWN, "TLG902-wide")
    assert any("TLG902 matches the same record of hit-plain.log" in text for text in texts(check_rules(read_log, root)))
    alone = texts(check_rules(read_log, root, codes=["TLG902"]))
    assert alone == [
        "generation/TLG902-wide.toml:10: TLG901 matches the same record of hit-strip.log; let one of them explain the other",
        "generation/TLG902-wide.toml:10: matches the record of TLG901-tile-too-wide/hit-plain.log; let one of them explain the other",
    ]
    rule_file(root, 'explains = ["TLG902"]\n' + RULE)
    assert texts(check_rules(read_log, root)) == []


def test_blessing_marks_the_decisive_line_and_checks_hold_it(root: Path) -> None:
    check_rules(read_log, root, bless=True)
    path = root / "generation/TLG901-tile-too-wide/hit-plain.log"
    assert path.read_text().splitlines()[-2:] == [TRACE.splitlines()[-1], "#^ TLG901 name=A_s width=96 most=64"]
    done = check_rules(read_log, root)
    assert texts(done) == [] and done.unmarked == 0
    fixture(root, "hit-plain.log", path.read_text().replace("most=64", "most=63"))
    wrong = check_rules(read_log, root)
    assert texts(wrong) == ["TLG901-tile-too-wide/hit-plain.log:8: most is marked 63, but captured was 64"]
    shown = show_checked(wrong)
    assert "--bless` would change" in shown
    assert "\n-#^ TLG901 name=A_s width=96 most=63\n+#^ TLG901 name=A_s width=96 most=64\n" in shown
    blessed = check_rules(read_log, root, bless=True)
    assert texts(blessed) == [] and show_checked(blessed, blessed=True).startswith("changed:\n--- ")
    assert path.read_text().endswith("most=64\n")
    moved = TRACE.splitlines(keepends=True)
    fixture(root, "hit-plain.log", "".join([moved[0], "#^ TLG901\n", *moved[1:]]))
    assert texts(check_rules(read_log, root)) == [
        "TLG901-tile-too-wide/hit-plain.log:2: line 1 is marked, but the match lies elsewhere"
    ]


def test_every_match_of_a_log_is_marked_by_its_own_line(root: Path) -> None:
    fixture(root, "hit-plain.log", TRACE + "retry\n" + TRACE.replace("96", "128") + TRACE)
    check_rules(read_log, root, bless=True)
    lines = (root / "generation/TLG901-tile-too-wide/hit-plain.log").read_text().splitlines()
    marked = [(above, line) for above, line in pairwise(lines) if line.startswith("#^")]
    assert [above.split(" is ")[1] for above, _ in marked] == [
        "96 wide, at most 64", "128 wide, at most 64", "96 wide, at most 64",
    ]  # fmt: skip
    assert [line.split()[3] for _, line in marked] == ["width=96", "width=128", "width=96"]


def test_an_error_that_a_reader_names_itself_is_marked_where_it_was_read(root: Path) -> None:
    """A shell says `Killed`; the reader says which signal that was."""
    killed = RULE.replace("TLG901", "TLG902").replace("tile-too-wide", "killed").replace("{width} wide", "{what}")
    killed = re.sub(
        r"text = \'\'\'.*", "text = '''SIGKILL: (?P<what>Killed)'''\nwhen = [\"error.kind == signal\"]", killed
    )
    killed = re.sub(r"raised_in.*\n", "", killed).replace("{name}", "it").replace("{most}", "none")
    rule_file(root, killed, "TLG902-killed")
    path = fixture(
        root, "hit-shell.log", "start\nrun.sh: line 3:  771 Killed                  python kernel.py\n", "TLG902-killed"
    )
    fixture(root, "miss-own.log", OWN.replace("ValueError: tile", "ValueError: SIGKILL: Killed"), "TLG902-killed")
    check_rules(read_log, root, bless=True, codes=["TLG902"])
    assert path.read_text().splitlines()[2] == "#^ TLG902 what=Killed"
    assert texts(check_rules(read_log, root, codes=["TLG902"])) == []


def test_a_captured_word_that_python_reads_as_a_number_is_a_word(root: Path) -> None:
    fixture(root, "hit-plain.log", TRACE.replace("A_s", "infinity"))
    check_rules(read_log, root, bless=True)
    assert texts(check_rules(read_log, root)) == []


def test_a_mark_that_is_none_is_named_with_its_line(root: Path) -> None:
    fixture(root, "hit-plain.log", TRACE + "#^ 'TLG901\n")
    assert texts(check_rules(read_log, root))[0].startswith("TLG901-tile-too-wide/hit-plain.log:8: not a mark")


def test_words_of_another_library_must_not_match(root: Path) -> None:
    """A rule that names too little of the raising file takes anybody's words."""
    rule_file(root, RULE.replace('"tilelang/tile.py"', '"tilelang/tile.py", "verify.py"'))
    assert "TLG901-tile-too-wide/hit-plain.log: TLG901 matches when another library says the same words" in texts(
        check_rules(read_log, root)
    )


def test_hits_written_from_source_are_counted_apart(root: Path) -> None:
    fixture(root, "hit-source-bare.log", TRACE.splitlines()[-1] + "\n")
    done = check_rules(read_log, root, bless=True)
    assert (done.hits, done.from_source) == (2, 1)
    assert "2 hits (1 of them from source, 0 without a mark)" in show_checked(done, blessed=True)


def test_single_rules_can_be_checked(root: Path) -> None:
    other = RULE.replace("TLG901", "TLG902").replace("tile-too-wide", "strip").replace("tile of", "strip of")
    rule_file(root, other, "TLG902-strip")
    done = check_rules(read_log, root, codes=["TLG901"])
    assert texts(done) == [] and (done.rules, done.hits) == (1, 1)
    with pytest.raises(KeyError, match="TLG999"):
        check_rules(read_log, root, codes=["TLG999"])


def test_marks_are_taken_out_and_know_their_line() -> None:
    text, marks = take_marks("a\nb\n#^ TLG001 x=1 'y=b c'\nc")
    assert text == "a\nb\nc" and (marks[0].line, marks[0].captures) == (2, {"x": 1, "y": "b c"})
    for wrong in ("#^ TLG001\n", "a\n#^ TLG001 x\n", "a\n#^ 'TLG001\n"):
        with pytest.raises(ValueError, match="mark"):
            take_marks(wrong)


def test_recorded_records_are_fixtures_too(root: Path) -> None:
    error = to_json(tile_error(message="tile of A_s is 96 wide, at most 64"))
    fixture(root, "hit-recorded.json", json.dumps({"on": "error", "data": error}))
    assert texts(check_rules(read_log, root)) == []
    for wrong in (
        "[",
        "{}",
        '{"on": "error", "data": 3}',
        '{"on": "sound", "data": {}}',
        '[{"on": "hazard", "data": {}}]',
        '{"on": "log", "data": "tile", "facts": 3}',
        "[" * 100_000,
        "3",
    ):
        path = fixture(root, "hit-recorded.json", wrong)
        with pytest.raises(FixtureError):
            read_fixture(path, read_log)
        assert any("hit-recorded.json" in text for text in texts(check_rules(read_log, root)))


def test_files_that_nobody_reads_are_told(root: Path) -> None:
    fixture(root, "hit-plain.txt", TRACE)
    fixture(root, "hit-x.log", TRACE, "TLG909-gone")
    found = texts(check_rules(read_log, root))
    assert any("hit-plain.txt" in text for text in found) and any("TLG909-gone: a folder" in text for text in found)


def test_a_new_rule_is_a_skeleton_that_check_asks_to_fill_in(root: Path) -> None:
    paths = new_rule("generation", "strip-too-long", "layout", root)
    assert next_code("generation", root) == "TLG903" and paths[0].name == "TLG902-strip-too-long.toml"
    rule = next(rule for rule in load_rules(root) if rule.code == "TLG902")
    assert [path.name for path in fixture_paths(rule)] == ["hit-first.log", "miss-first.log"]
    assert any("TLG902 does not match" in text for text in texts(check_rules(read_log, root)))


@pytest.mark.parametrize(
    ("category", "name", "stage", "words"),
    [
        ("fast", "x", "dsl", "no category"),
        ("generation", "Bad Name", "dsl", "small letters"),
        ("generation", "ok", "nowhere", "no stage"),
        ("generation", "tile-too-wide", "dsl", "taken by TLG901"),
        ("environment", "../x", "import", "small letters"),
    ],
)
def test_a_new_rule_is_refused_with_the_reason(root: Path, category: str, name: str, stage: str, words: str) -> None:
    before = sorted(root.rglob("*"))
    with pytest.raises(ValueError, match=words):
        new_rule(category, name, stage, root)
    assert sorted(root.rglob("*")) == before


# Every shipped hit, changed so that it is somebody else's error: then its rule must let go of it.

RULES = load_rules(ROOT)


def hits(rule: Rule) -> list[Record]:
    logs = [path for path in fixture_paths(rule) if path.name.startswith("hit-")]
    return [record for path in logs for record, _ in read_fixture(path, read_log).trials(rule)]


BY_FRAME = [rule for rule in RULES if rule.match.raised_in]


@pytest.mark.parametrize("rule", BY_FRAME, ids=lambda rule: rule.code)
def test_a_hit_raised_by_the_user_is_let_go(rule: Rule) -> None:
    records = hits(rule)
    assert records
    for record in records:
        assert record.error
        frames = record.error.frames
        if not frames:
            continue
        own = replace(frames[-1], file="/home/user/kernels/own.py", user=True, text="raise error", function="check")
        forged = replace(record.error, frames=(*frames, own))
        for one in records_of_error(forged)[:1]:
            assert not try_rule(rule, one, {}).matched


ONE_WAY = [rule for rule in RULES if rule.match.text and len(alternatives(rule.match.text)) == 1]


@pytest.mark.parametrize("rule", ONE_WAY, ids=lambda rule: rule.code)
def test_a_hit_that_lacks_a_demanded_fragment_is_let_go(rule: Rule) -> None:
    records = hits(rule)
    assert records
    for record in records:
        for fragment in alternatives(rule.match.text or "")[0]:
            assert record.text and fragment in record.text
            assert not try_rule(rule, replace(record, text=record.text.replace(fragment, "")), {}).matched


def test_a_hit_with_one_word_changed_is_still_found_near() -> None:
    """Texts drift between versions: the rule of a changed text must be among the few nearest. Every third rule is asked."""
    tried = found = 0
    for rule in ONE_WAY[::3]:
        words = [word for word in " ".join(alternatives(rule.match.text or "")[0]).split() if word.isalpha()]
        for record in hits(rule)[:1] if len(words) >= 3 else ():
            match = search(rule.match.text or "", record.text or "")
            assert match
            for word in words[:4]:
                changed = match[0].replace(word, "other", 1)
                fits = find_fits(changed, RULES)
                codes = [fit.rule.code for fit in fits.fits] + [miss.rule.code for miss in fits.near]
                tried += 1
                found += rule.code in codes
    assert tried > 100
    assert found / tried >= 0.95
