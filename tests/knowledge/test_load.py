from __future__ import annotations

from pathlib import Path

import pytest
from rule_samples import ROOT, RULE, one_rule, rule_file

from triage.knowledge.files import NoRulesError, file_of, rule_files, rules_root
from triage.knowledge.load import load_rules, read_all
from triage.knowledge.rule import RuleErrors


def problems(root: Path) -> list[str]:
    with pytest.raises(RuleErrors) as raised:
        load_rules(root)
    return [str(problem) for problem in raised.value.problems]


def test_the_shipped_rules_load_in_the_order_of_their_codes() -> None:
    rules = load_rules()
    codes = [rule.code for rule in rules]
    assert codes == sorted(codes) and len(codes) == len(rule_files(ROOT))
    assert rules_root() == ROOT


def test_a_rule_is_read_with_its_defaults(tmp_path: Path) -> None:
    rule = one_rule(tmp_path)
    assert (rule.level, rule.confidence, rule.checked_with, rule.claim.place) == (
        "fault",
        "confirmed",
        ("0.1.15",),
        "frame",
    )
    assert rule.fixtures == tmp_path / "generation" / "TLG901-tile-too-wide"


@pytest.mark.parametrize(
    ("stage", "place"), [("layout", "none"), ("launch", "none"), ("codegen", "named"), ("call", "frame")]
)
def test_only_a_stage_that_runs_the_users_lines_blames_the_frame(tmp_path: Path, stage: str, place: str) -> None:
    assert one_rule(tmp_path, RULE.replace('stage = "dsl"', f'stage = "{stage}"')).claim.place == place


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ('owner = "kernel"', 'owner = "kernel"\nsevrity = 3', 7, "unknown key 'sevrity'"),
        ('owner = "kernel"', 'owner = "nobody"', 6, "owner 'nobody' is none of"),
        ('stage = "dsl"', 'stage = "lowering"', 5, "stage 'lowering' is none of"),
        ('category = "generation"', 'category = "correctness"', 4, "correctness"),
        ('code = "TLG901"', 'code = "TLG9"', 1, "is not TL"),
        ('name = "tile-too-wide"', 'name = "Tile"', 2, "small letters"),
        ('on = "error"', 'on = "errors"', 9, "on 'errors' is none of"),
        ('on = "error"', 'on = "warning"', 11, "only an error has a raising frame"),
        ('raised_in = ["tilelang/tile.py"]', "raised_in = [3]", 11, "strings only"),
        ('raised_in = ["tilelang/tile.py"]', 'when = ["width is broad"]', 11, "after `is` only known or unknown"),
        ('look_at = "the allocation of {name}"', 'place = "argument"', 15, "belong together"),
        ("[fix]", "[fixes]", 17, "unknown key 'fixes'"),
        ("[fix]", "[fixes]", 1, "[fix] steps is missing"),
        ('steps = ["Make {name} narrower."]', "", 17, "[fix] steps is missing"),
        ("(?P<most>\\d+)", "(?P<most>\\d+", 10, "text is not a regular expression: missing )"),
        ("(?P<most>\\d+)", "(?P<most>\\p{N}+)", 10, "text is not a regular expression: bad escape"),
        ('text = "Because."', 'text = "Because."\n[example]\nwrongs = "2"', 23, "unknown key 'wrongs'"),
        ('title = "The tile is too wide"', "", 1, "title is missing"),
        ('title = "The tile is too wide"', "title = ", 3, "not TOML"),
    ],
)
def test_a_mistake_is_named_with_its_line(tmp_path: Path, old: str, new: str, line: int | None, words: str) -> None:
    rule_file(tmp_path, RULE.replace(old, new, 1))
    found = problems(tmp_path)
    file = "generation/TLG901-tile-too-wide.toml"
    assert any(words in text and text.startswith(f"{file}:{line}:" if line else file) for text in found), found


def test_all_mistakes_of_all_files_are_told_at_once(tmp_path: Path) -> None:
    """Of every kind, too: a wrong type does not hide a wrong value, nor an unknown key a broken expression."""
    wrong = RULE.replace('"dsl"', '"x"').replace('"kernel"', '"y"\nextra = 1').replace("(?P<most>", "(?P<most")
    rule_file(
        tmp_path,
        wrong.replace("[fix]\n", "[fix]\nstrategy = 3\n").replace('on = "error"', 'on = "error"\nwhen = ["a b"]'),
    )
    rule_file(tmp_path, "code = 3", "TLG902-other")
    found = problems(tmp_path)
    assert {text.split(":")[0].split("/")[1][:6] for text in found} == {"TLG901", "TLG902"}
    mine = [text.partition(".toml:")[2] for text in found if "TLG901" in text]
    assert [text.partition(":")[0] for text in mine] == ["7", "20", "5", "6", "12", "11"], mine


def test_a_key_is_not_taken_for_one_inside_a_text(tmp_path: Path) -> None:
    """`[fix]` and `says =` in an example or an explanation are words."""
    text = RULE.replace('text = "Because."', "text = '''\n[claim]\nsays = 3\nstage = 4\n'''\nreferences = 5")
    rule_file(tmp_path, text.replace('stage = "dsl"', "stage = \"dsl\"  # ''' is no quote here"))
    assert problems(tmp_path)[0].startswith("generation/TLG901-tile-too-wide.toml:26: references must be a list")


def test_a_condition_is_named_with_its_own_line(tmp_path: Path) -> None:
    listed = 'when = [\n  "width > most",\n  "width is broad",\n]\nraised_in'
    rule_file(tmp_path, RULE.replace("raised_in", listed))
    assert [text.split(":")[1] for text in problems(tmp_path)] == ["13"]


def test_a_faulty_rule_is_not_used(tmp_path: Path) -> None:
    rule_file(tmp_path, RULE.replace('owner = "kernel"', 'owner = "kernel"\nsevrity = 3'))
    rules, wrong = read_all(tmp_path)
    assert rules == [] and len(wrong) == 1


def test_two_files_cannot_share_a_code_or_a_name(tmp_path: Path) -> None:
    rule_file(tmp_path)
    rule_file(tmp_path, RULE.replace("tile-too-wide", "second"), "TLG901-second")
    rule_file(tmp_path, RULE.replace("TLG901", "TLG902"), "TLG902-tile-too-wide")
    found = problems(tmp_path)
    assert any("code 'TLG901' is taken" in text for text in found)
    assert any("name 'tile-too-wide' is taken" in text for text in found)


def test_what_a_rule_explains_must_exist(tmp_path: Path) -> None:
    rule_file(tmp_path, 'explains = ["TLG777"]\n' + RULE)
    assert problems(tmp_path) == ["generation/TLG901-tile-too-wide.toml:1: explains TLG777, which is no rule"]


def test_a_broken_file_does_not_hide_the_sound_ones(tmp_path: Path) -> None:
    rule_file(tmp_path)
    rule_file(tmp_path, "\xff\xfe", "TLG902-binary").write_bytes(b"\xff\xfe\x00")
    rules, wrong = read_all(tmp_path)
    assert [rule.code for rule in rules] == ["TLG901"] and str(wrong[0]).startswith(
        "generation/TLG902-binary.toml:1: not UTF-8: byte 0xff"
    )


def test_no_folder_is_said_plainly(tmp_path: Path) -> None:
    with pytest.raises(NoRulesError, match="no rules folder"):
        load_rules(tmp_path / "nothing")


@pytest.mark.parametrize("code", ["", "TLG", "TLX001", "../TLG014", "TLG014-gemm", "tlg014*"])
def test_what_is_no_code_has_no_file(code: str) -> None:
    assert file_of(code, ROOT) is None
