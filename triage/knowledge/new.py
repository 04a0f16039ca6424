"""`triage rules new`: a rule file with a hit and a near miss beside it, to be filled in."""

from __future__ import annotations

from pathlib import Path

from triage.knowledge.files import CATEGORY_LETTERS, CODE, rules_root
from triage.knowledge.load import NAME
from triage.model import STAGES

RULE = """\
code = "{code}"
name = "{name}"
title = "TODO: the fault in one line, as the author of a kernel would say it"
category = "{category}"
stage = "{stage}"
owner = "kernel"  # kernel, compiler, environment, limitation, reference, tolerance or unknown

[match]  # the stable core of the text only; captures are typed
on = "error"
text = \'\'\'TODO: the words that every version prints (?P<value>\\d+)\'\'\'
raised_in = ["tilelang/TODO.py"]  # the innermost frame, so that nobody else's error with this text matches

[claim]  # may use the captures, and nothing that the match did not show
says = "TODO: what was seen, with {{value}}"
look_at = "TODO: what to look at in the kernel"

[fix]
steps = ["TODO: what to change"]

[why]
text = \'\'\'
TODO: why tilelang refuses this, in a paragraph.
\'\'\'

[example]
wrong = \'\'\'
TODO
\'\'\'
right = \'\'\'
TODO
\'\'\'

[check]
steps = ["TODO: how to see it for oneself"]
"""

HIT = "TODO: the complete output of a run that fails like this, then `triage rules check --bless` to mark its line\n"
MISS = "TODO: the complete output of a run that looks like this and is something else\n"


def next_code(category: str, root: Path | None = None) -> str:
    """The code after the highest one in use. Raises `ValueError` for an unknown category or if all are taken."""
    letter = CATEGORY_LETTERS.get(category)
    if letter is None:
        raise ValueError(f"no category {category!r}; there are {', '.join(CATEGORY_LETTERS)}")
    used = [int(p.name[3:6]) for p in ((root or rules_root()) / category).glob("*.toml") if CODE.match(p.name)]
    number = max(used, default=0) + 1
    if number > 999:
        raise ValueError(f"all codes TL{letter}001 to TL{letter}999 are taken")
    return f"TL{letter}{number:03d}"


def new_rule(category: str, name: str, stage: str = "dsl", root: Path | None = None) -> list[Path]:
    """Write the skeleton of a rule and its two fixtures; the paths written.

    Raises `ValueError` for a bad category, name or stage, or a name in use; `OSError` where nothing can be written.
    """
    root = root or rules_root()
    code = next_code(category, root)
    if not NAME.fullmatch(name):
        raise ValueError(f"name {name!r} is not words of small letters and digits joined by -")
    if stage not in STAGES:
        raise ValueError(f"no stage {stage!r}; there are {', '.join(STAGES)}")
    taken = [path.name for path in root.glob(f"*/TL????-{name}.toml")]
    if taken:
        raise ValueError(f"the name {name!r} is taken by {taken[0]}")
    folder = root / category / f"{code}-{name}"
    texts = {
        folder.with_name(folder.name + ".toml"): RULE.format(code=code, name=name, category=category, stage=stage),
        folder / "hit-first.log": HIT,
        folder / "miss-first.log": MISS,
    }
    folder.mkdir(parents=True)
    for path, text in texts.items():
        path.write_text(text, "utf-8")
    return list(texts)
