"""`triage rules new`: a rule file with a hit and a near miss beside it, to be filled in."""

from __future__ import annotations

import json
from pathlib import Path

from triage.knowledge.draft import Draft, draft
from triage.knowledge.files import CATEGORY_LETTERS, CODE, require, rules_root
from triage.knowledge.fixtures import Read
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
on = "{on}"
text = {text}
{further}
[claim]  # may use the captures, and nothing that the match did not show
says = "TODO: what was seen{values}"
look_at = "TODO: what to look at in the kernel"

[fix]
steps = ["TODO: what to change"]

[why]
text = \'\'\'
TODO: why tilelang refuses this, in a paragraph.
\'\'\'

[example]
wrong = \'\'\'
TODO: the lines that fail
\'\'\'
right = \'\'\'
TODO: the same lines as they should be
\'\'\'

[check]
steps = ["TODO: how to see it for oneself"]
"""

RAISED_IN = "  # the innermost frame, so that nobody else's error with this text matches"
#: What stands in a new rule that no log was given for.
BLANK = Draft(
    on="error",
    text=r"TODO: the words that every version prints (?P<value>\d+)",
    captures=("value",),
    raised_in=("tilelang/TODO.py",),
    when=(),
    stage="dsl",
    hit="TODO: the complete output of a run that fails like this, then `triage rules check --bless` to mark its line\n",
    miss="TODO: the complete output of a run that looks like this and is something else\n",
)


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


def new_rule(
    category: str,
    name: str,
    stage: str | None = None,
    root: Path | None = None,
    log: str | None = None,
    read: Read | None = None,
) -> list[Path]:
    """Write the skeleton of a rule and its two fixtures; the paths written.

    With a log, which `read` turns into records, its decisive line becomes the expression, the log the hit, and a script's own
    raise of the same words the miss; what no log can tell is left to fill in. Without a `stage` it is the log's, else `dsl`.

    Raises `ValueError` for a bad category, name or stage, a name in use, or a log without error and warning; `NoRulesError`
    without a rules folder, `OSError` where nothing can be written.
    """
    root = root or rules_root()
    require(root)
    code = next_code(category, root)
    if not NAME.fullmatch(name):
        raise ValueError(f"name {name!r} is not words of small letters and digits joined by -")
    if stage is not None and stage not in STAGES:
        raise ValueError(f"no stage {stage!r}; there are {', '.join(STAGES)}")
    taken = [path.name for path in root.glob(f"*/TL????-{name}.toml")]
    if taken:
        raise ValueError(f"the name {name!r} is taken by {taken[0]}")
    made = BLANK if log is None or read is None else draft(log, read(log, "log"))
    folder = root / category / f"{code}-{name}"
    rule = RULE.format(
        code=code,
        name=name,
        category=category,
        stage=stage or made.stage or "dsl",
        on=made.on,
        text=_quoted(made.text),
        further=_further(made),
        values="".join(f", {{{capture}}}" for capture in made.captures),
    )
    texts = {
        folder.with_name(folder.name + ".toml"): rule,
        folder / "hit-first.log": made.hit,
        folder / ("miss-first.log" if made is BLANK else "miss-own-raise.log"): made.miss,
    }
    folder.mkdir(parents=True)
    for path, text in texts.items():
        path.write_text(text, "utf-8")
    return list(texts)


def _further(made: Draft) -> str:
    lines = []
    if made.when:
        lines.append(f"when = {json.dumps(list(made.when))}\n")
    if made.raised_in:
        lines.append(f"raised_in = {json.dumps(list(made.raised_in))}{RAISED_IN}\n")
    elif made.on == "error" and not made.when:
        lines.append('raised_in = ["TODO/no/frame/in/the/log.py"]\n')
    return "".join(lines)


def _quoted(text: str) -> str:
    """An expression as a TOML string: as it is, if that can be."""
    return json.dumps(text, ensure_ascii=False) if "'''" in text or text.endswith("'") else f"'''{text}'''"
