"""Rules, errors and a reader for the tests of `triage.knowledge`."""

from __future__ import annotations

from pathlib import Path

from triage.knowledge.load import load_rules
from triage.knowledge.match import (
    Record,
    record_of_warning,
    records_of_error,
    records_of_output_line,
)
from triage.knowledge.rule import Rule, RuleSet
from triage.model import ErrorRecord, Frame
from triage.readers import decisive, read_output

ROOT = Path(__file__).resolve().parents[2] / "rules"

RULE = """\
code = "TLG901"
name = "tile-too-wide"
title = "The tile is too wide"
category = "generation"
stage = "dsl"
owner = "kernel"

[match]
on = "error"
text = '''tile of (?P<name>\\w+) is (?P<width>[^ ]+) wide, at most (?P<most>\\d+)'''
raised_in = ["tilelang/tile.py"]

[claim]
says = "the tile of {name} is {width} wide, and at most {most} fit"
look_at = "the allocation of {name}"

[fix]
steps = ["Make {name} narrower."]

[why]
text = "Because."
"""


def rule_file(root: Path, text: str = RULE, name: str = "TLG901-tile-too-wide", category: str = "generation") -> Path:
    path = root / category / f"{name}.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def one_rule(root: Path, text: str = RULE) -> Rule:
    rule_file(root, text)
    (rule,) = load_rules(root)
    return rule


def rules_of(root: Path, text: str = RULE) -> RuleSet:
    rule_file(root, text)
    return load_rules(root)


def user_frame(
    line: int = 7, function: str = "main", text: str = "t = T.tile(A)", file: str = "/home/user/kernels/k.py"
) -> Frame:
    return Frame(file, line, function, text, user=True, column=5)


def library_frame(file: str = "/home/user/venv/lib/python3.11/site-packages/tilelang/tile.py") -> Frame:
    return Frame(file, 83, "make_tile", "raise ValueError(…)", user=False)


def tile_error(
    *frames: Frame, message: str = "tile of A_s is 96 wide, at most 64", type: str = "ValueError"
) -> ErrorRecord:
    return ErrorRecord("exception", type, message, frames)


def is_user(file: str) -> bool | None:
    """As in the fixtures, whose paths are scrubbed to these."""
    if file.startswith("/home/user/kernels/"):
        return True
    return False if "/site-packages/" in file or file.startswith(("/project/", "/usr/lib")) else None


def read_log(text: str, name: str) -> list[Record]:
    """All records of a log, as `triage rules check` reads it."""
    reading = read_output(text, name, is_user)
    records = [r for error in reading.errors for r in records_of_error(error, decides=decisive(error))]
    records += [record_of_warning(warning) for warning in reading.warnings]
    return records + [r for line in reading.lines for r in records_of_output_line(line.raw)]
