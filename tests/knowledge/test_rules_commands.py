"""`triage rules check`, `new` and `mutate` as a user types them."""

from __future__ import annotations

import io
import os
import shutil
from pathlib import Path

import pytest
from rule_samples import ROOT, RULE, rule_file
from test_check import OWN, TRACE, fixture

from triage.cli import main
from triage.knowledge import files, new

LOG = """\
Traceback (most recent call last):
  File "/srv/ann/deep/k.py", line 7, in main
    t = T.tile(A_s)
  File "/srv/ann/env/lib/python3.11/site-packages/tilelang/tile.py", line 83, in make_tile
    raise ValueError(text)
ValueError: the tile of `A_s` is 96 wide, at most 64
"""


def test_check_of_single_rules(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "check", "tlg014", "TLG027"]) == 0
    assert capsys.readouterr().out.startswith("2 rules, ")


@pytest.mark.parametrize("command", ["check", "mutate"])
def test_a_code_without_a_rule_is_bad_usage(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", command, "TLG999"]) == 2
    assert "there is no rule TLG999" in capsys.readouterr().err


def test_mutate_of_one_rule(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "mutate", "TLG014"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("1 rules, ")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty rules folder in the place of the shipped one."""
    (tmp_path / "rules").mkdir()
    monkeypatch.setattr(new, "rules_root", lambda: tmp_path / "rules")
    return tmp_path / "rules"


def test_new_from_a_log(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "run.log"
    log.write_bytes(LOG.encode() + b"\xff\n")
    assert main(["rules", "new", "generation", "tile-too-wide", "--from", str(log)]) == 0
    said = capsys.readouterr()
    written = [Path(line) for line in said.out.splitlines()]
    assert [path.name for path in written] == ["TLG001-tile-too-wide.toml", "hit-first.log", "miss-own-raise.log"]
    assert "triage rules check --bless TLG001" in said.err
    text = written[0].read_text("utf-8")
    assert r"the tile of `(?P<tile>[^`\n]+)` is (?P<tile_2>-?\d+) wide, at most (?P<most>-?\d+)" in text
    assert 'raised_in = ["tilelang/tile.py"]' in text and 'stage = "dsl"' in text
    hit = written[1].read_text("utf-8")
    assert "/home/user/kernels/k.py" in hit and "/home/user/venv/lib/python3.11" in hit and "ann" not in hit


def test_new_from_standard_input(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(LOG.encode() + b"\xff\n")))
    assert main(["rules", "new", "generation", "tile-too-wide", "--stage", "layout", "--from", "-"]) == 0
    assert 'stage = "layout"' in Path(capsys.readouterr().out.splitlines()[0]).read_text("utf-8")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--from", "/no/such/file"], "No such file"),
        (["--from", new.__file__], "no error and no warning"),
        (["--stage", "nowhere"], "no stage"),
    ],
)
def test_new_that_cannot_be(folder: Path, words: list[str], why: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "new", "generation", "thing", *words]) == 2
    assert why in capsys.readouterr().err and list(folder.iterdir()) == []


# A rules folder in the place of the shipped one, with something broken in it: never a bug of triage.

BROKEN_RULES = [
    (b"code = [\n", ":2: not TOML"),
    (b'code = "TLG901"\n\xff', ":2: not UTF-8: byte 0xff"),
    (b"x = " + b"[" * 100_000, ": cannot be read: nested too deep"),
    (None, ": cannot be read: Is a directory"),
    (b"", ":1: code is missing"),
    (RULE.replace('"The tile is too wide"', "3").encode(), ":3: title must be a string"),
]
CODE, TEXT = ["explain", "TLG901"], ["explain", "ValueError: tile of A_s is 96 wide"]


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A rules folder with one sound rule, which every command takes for the shipped one."""
    root = tmp_path / "rules"
    shutil.copytree(ROOT / "reference", root / "reference")
    shutil.copy(ROOT / "graph.toml", root)
    (root / "reference" / "upstream.toml").unlink()  # it names the rules that are not there
    rule_file(root)
    fixture(root, "hit-plain.log", TRACE)
    fixture(root, "miss-own-raise.log", OWN)
    monkeypatch.setattr(files, "__file__", str(tmp_path / "triage" / "knowledge" / "files.py"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return root


def broken(root: Path, content: bytes | None) -> Path:
    """The rule's file with this content; a directory in its place for None."""
    path = root / "generation" / "TLG901-tile-too-wide.toml"
    path.unlink()
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)
    return path


@pytest.mark.parametrize(("content", "why"), BROKEN_RULES)
def test_a_broken_rule_is_bad_usage_that_names_the_file(
    shipped: Path, content: bytes | None, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    broken(shipped, content)
    for words in (["rules", "list"], TEXT, ["rules", "mutate", "TLG901"]):
        assert main(words) == 2
        said = capsys.readouterr()
        assert said.out == "" and f"generation/TLG901-tile-too-wide.toml{why}" in said.err.replace(
            " that can be read", ""
        )
        assert str(shipped) in said.err and "`triage rules check`" in said.err
    for words in (["rules", "check", "tlg901"], ["rules", "check"]):
        assert main(words) == 1
        assert f"TLG901-tile-too-wide.toml{why}" in capsys.readouterr().out


@pytest.mark.parametrize(("content", "why"), BROKEN_RULES[:4])
def test_the_page_of_a_rule_that_cannot_be_read_is_bad_usage(
    shipped: Path, content: bytes | None, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = broken(shipped, content)
    for words in (CODE, [*CODE, "--json"]):
        assert main(words) == 2
        assert f"{path}{why}" in capsys.readouterr().err


def test_a_broken_rule_does_not_keep_a_new_one_from_being_made(
    shipped: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken(shipped, b"code = [\n")
    assert main(["rules", "new", "generation", "strip"]) == 0
    assert "TLG902-strip.toml" in capsys.readouterr().out


def test_of_many_broken_rules_the_first_few_are_named(shipped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(10, 30):
        rule_file(shipped, "[", f"TLG9{number}-x")
    assert main(["rules", "list"]) == 2
    said = capsys.readouterr().err
    assert "TLG910-x" in said and "TLG929-x" not in said and "  and 15 more\n" in said


@pytest.mark.parametrize("name", ["stages.toml", "sites.jsonl", "symptoms.toml"])
@pytest.mark.parametrize("content", [None, b"x = [\n", b"\xff", b"passes = 3\nsymptom = 3\n", b"\n"])
def test_a_broken_table_is_bad_usage_that_names_the_file(
    shipped: Path, name: str, content: bytes | None, capsys: pytest.CaptureFixture[str]
) -> None:
    path = shipped / "reference" / name
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    assert main(TEXT) == 2
    assert f"triage: {path}:" in capsys.readouterr().err
    assert main(["rules", "check"]) == 1
    assert f"reference/{name}:" in capsys.readouterr().out
    assert main(CODE) == 0  # needs no table


def test_without_names_of_facts_only_that_is_told(shipped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (shipped / "reference" / "facts.toml").write_text("x = [\n")
    assert main(["rules", "check", "TLG901"]) == 1
    assert capsys.readouterr().out.splitlines()[0].startswith("reference/facts.toml:2: not TOML")
    assert main(["rules", "check", "TLG901"]) == 1 and capsys.readouterr().out.count("\n") < 15
    assert main(["graph"]) == 2 and "reference/facts.toml:2: not TOML" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "words"),
    [("devices.toml", ["run", "kernel.py", "--arch", "sm_90"]), ("versions.toml", ["doctor"])],
)
def test_a_broken_table_of_another_command_is_bad_usage_too(
    shipped: Path, tmp_path: Path, name: str, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "kernel.py").write_text("")
    (shipped / "reference" / name).write_text("x = [\n")
    assert main([str(tmp_path / word) if word == "kernel.py" else word for word in words]) == 2
    assert str(shipped / "reference" / name) in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["rules", "list"],
        ["rules", "check"],
        ["rules", "mutate", "TLG901"],
        ["rules", "new", "generation", "x"],
        CODE,
        TEXT,
    ],
)
def test_without_a_rules_folder_that_is_said(
    shipped: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(shipped)
    assert main(words) == 2
    assert f"there is no rules folder at {shipped}" in capsys.readouterr().err and not shipped.exists()


def test_known_issues_that_are_no_list_are_a_problem_of_their_table(
    shipped: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (shipped / "reference" / "upstream.toml").write_text("issue = 3\nreleases = 3\n")
    assert main(TEXT) in (0, 3)
    capsys.readouterr()
    assert main(["rules", "check"]) == 1
    assert "reference/upstream.toml: issue must be a list\n" in capsys.readouterr().out


# Fixtures that cannot be read, tell nothing, or would steer the terminal.


@pytest.mark.parametrize("command", ["check", "mutate"])
def test_a_binary_fixture_is_named_whoever_meets_it(
    shipped: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rule_file(shipped, RULE.replace("TLG901", "TLG902").replace("tile-too-wide", "other"), "TLG902-other")
    fixture(shipped, "hit-other.log", TRACE, "TLG902-other")
    fixture(shipped, "hit-plain.log", "").write_bytes(TRACE.encode() + b"\xff\n")
    for code in ("TLG901", "TLG902"):
        assert main(["rules", command, code]) == {"check": 1, "mutate": 2}[command]
        said = capsys.readouterr()
        assert "TLG901-tile-too-wide/hit-plain.log:8: not UTF-8: byte 0xff" in said.out + said.err


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("hit-plain.log", None, "no hit-* fixture"),
        ("hit-plain.log", "nothing of it\n", "does not match TLG901-tile-too-wide/hit-plain.log"),
        ("miss-own-raise.log", TRACE, "matches the near miss TLG901-tile-too-wide/miss-own-raise.log"),
    ],
)
def test_mutate_fails_where_the_fixtures_tell_nothing(
    shipped: Path, name: str, text: str | None, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = fixture(shipped, name, text or "")
    if text is None:
        path.unlink()
    assert main(["rules", "mutate", "TLG901"]) == 1
    said = capsys.readouterr().out
    assert why in said and "nothing was tried" in said and "\n0 rules, 0 mutants" in said


def test_a_fixture_cannot_steer_the_terminal(shipped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evil = TRACE.replace("at most 64", "at most 64 \x1b]0;owned\x07") + "::error::\x1b[2J\n"
    path = fixture(shipped, "hit-plain.log", evil)
    main(["rules", "check", "TLG901"])
    main(["rules", "check", "TLG901", "--bless"])
    assert path.read_text().splitlines()[-2].startswith("#^ TLG901") and path.read_text().endswith("\x1b[2J\n")
    main(["rules", "mutate", "TLG901"])
    main(CODE)
    said = capsys.readouterr()
    shown = said.out + said.err
    assert shown.count(r"at most 64 \x1b]0;owned\x07") == 3 and r"\::error::\x1b[2J" in shown
    assert not any(char != "\n" and not char.isprintable() for char in shown)
    assert not any(line.strip().startswith("::") for line in shown.splitlines())


def test_a_fixture_that_cannot_be_blessed_is_bad_usage(
    shipped: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(path: Path, data: bytes) -> int:
        raise PermissionError(13, os.strerror(13), str(path))

    monkeypatch.setattr(Path, "write_bytes", refuse)
    assert main(["rules", "check", "--bless"]) == 2
    assert "hit-plain.log: Permission denied" in capsys.readouterr().err
