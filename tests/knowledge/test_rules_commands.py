"""`triage rules check`, `new` and `mutate` as a user types them."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from triage.cli import main
from triage.knowledge import new

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
