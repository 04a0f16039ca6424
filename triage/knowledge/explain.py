"""What a rule means, as text: the rule file is the user's documentation.

Works on the raw TOML of one file and imports almost nothing, because `triage explain CODE` must answer at once and must
answer even if another rule file is broken. `fits` answers the other question, which rules fit a text.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from triage.knowledge.files import CODE, PLACEHOLDER, file_of, read_table, rule_files, rules_root, taken_apart
from triage.knowledge.issue_page import FILE as ISSUES
from triage.knowledge.issue_page import known_issues_of, shown

WIDTH = 96
#: What is meant for a code, though it may be none: `TLG14`, `tlx001`, `TLG-014`, a code with the rule's name behind it.
LIKE_A_CODE = re.compile(r"TL[A-Z][-_ ]?\d{1,4}(?:-[a-z0-9-]+)?(?:\.toml)?", re.IGNORECASE)
#: What may be meant for a name; a single word without a hyphen is rather a text.
LIKE_A_NAME = re.compile(r"[a-z0-9]+(?:[-_][a-z0-9]+)+", re.IGNORECASE)
#: A misspelt word is this similar to the one that is meant; less, and it is another word.
SIMILAR = 0.75
#: Sections of a page, in their order; the headings stand alone on their lines.
HEADINGS = (
    "What", "Look at", "Seen as", "Why", "Wrong", "Right", "What to change", "How to check", "Known issues", "References",
)  # fmt: skip
MARK = "#^ "
#: Stages that only a real device reaches; all before them are run on the virtual one, too.
ON_DEVICE = frozenset({"launch", "runtime", "numerics"})


class UnknownCodeError(LookupError):
    """No rule has this code or name; the message names the likeliest ones."""


def means_rule(word: str, root: Path | None = None) -> bool:
    """Whether a word asks for a rule, and not for a text to be explained: a code, a name, or a misspelling of one."""
    word = word.strip()
    if LIKE_A_CODE.fullmatch(word):
        return True
    return LIKE_A_NAME.fullmatch(word) is not None and bool(_meant(word, root or rules_root()))


def explain_code(code: str, root: Path | None = None) -> str:
    """The page of one rule, by its code or its name.

    Raises `UnknownCodeError`; `KnowledgeError` with file and reason if its file is broken.
    """
    root = root or rules_root()
    data, path = _read(code, root)
    with taken_apart(path):
        code = data["code"]
    issues = known_issues_of(code, root)
    with taken_apart(root / ISSUES):
        known = [shown(issue, code) for issue in issues]
    with taken_apart(path):
        return page(data, _seen_as(path), known)


def rule_data(code: str, root: Path | None = None) -> dict[str, Any]:
    """The rule's own file as plain data. Raises as `explain_code` does."""
    return _read(code, root or rules_root())[0]


def _read(word: str, root: Path) -> tuple[dict[str, Any], Path]:
    path = find_rule(word, root)
    if path is None:
        meant = " or ".join(_meant(word.strip(), root))
        hint = f"did you mean {meant}?" if meant else "`triage rules list` names them all"
        raise UnknownCodeError(f"there is no rule {word.strip()!r}; {hint}")
    return read_table(path), path


def find_rule(word: str, root: Path) -> Path | None:
    """The file of a rule by its code, its name, or both as the file has them; letters may be large or small."""
    word = word.strip().removesuffix(".toml")
    code, _, name = word.partition("-")
    if CODE.fullmatch(code.upper()):
        path = file_of(code.upper(), root)
        return path if path and name.lower() in ("", _name(path)) else None
    wanted = word.lower().replace("_", "-")
    return next((path for path in rule_files(root) if _name(path) == wanted), None)


def _meant(word: str, root: Path) -> list[str]:
    """The codes or names that a misspelt word is likely to mean, the likeliest first, at most three."""
    paths = {path.stem[: len("TLG000")]: path for path in rule_files(root)}
    number = re.search(r"\d+", word)
    if LIKE_A_CODE.fullmatch(word) and number:
        padded = f"{int(number[0]):03}"
        same = [code for code in paths if code.endswith(padded)]
        own = [code for code in same if code.startswith(word[:3].upper())]
        return [f"{code} ({_name(paths[code])})" for code in (own or same)[:3]]
    import difflib  # only a misspelt name needs it, and the command is to answer at once

    names = [_name(path) for path in paths.values()]
    return difflib.get_close_matches(word.lower().replace("_", "-"), names, n=3, cutoff=SIMILAR)


def _name(path: Path) -> str:
    """The name of the rule in a file, as the file's own name has it."""
    return path.stem[len("TLG000-") :]


def _seen_as(path: Path) -> str | None:
    """The line of real output that the rule recognizes in its first hit; None where its hits are no text."""
    for log in sorted(path.with_suffix("").glob("hit-*.log")):
        if not log.is_file():
            continue
        lines = log.read_text("utf-8", errors="replace").splitlines()
        for above, line in pairwise(lines):
            if line.startswith(MARK):
                return above.strip()
    return None


def page(data: Mapping[str, Any], seen_as: str | None = None, known_issues: Sequence[str] = ()) -> str:
    """A rule as plain text: what, where to look, why, an example, how to check, how to fix, references."""
    title = f"{data['code']} {data['name']}: {data['title']}"
    facts = f"{data['category']}, stage {data['stage']}, owner: {data['owner']}"
    if data.get("level") == "advice":
        facts += ", advice only"
    parts = [f"{_filled(title, '  ')}\n{facts}"]
    parts.append(_section("What", _wrapped(_sentence(data["claim"]["says"]))))
    if look_at := data["claim"].get("look_at"):
        parts.append(_section("Look at", _wrapped(_sentence(look_at))))
    if seen_as:
        parts.append(_section("Seen as", _filled(seen_as)))
    parts.append(_section("Why", _wrapped(_shown(data["why"]["text"]))))
    example = data.get("example", {})
    for key, heading in (("wrong", "Wrong"), ("right", "Right")):
        if key in example:
            parts.append(f"{heading}\n{_indented(example[key].strip(chr(10)))}")
    parts.append(_section("What to change", _list([_shown(step) for step in data["fix"]["steps"]])))
    steps = [*map(_shown, data.get("check", {}).get("steps", ())), _rerun(data)]
    parts.append(_section("How to check", _list(steps)))
    if known_issues:
        parts.append(_section("Known issues", _list(list(known_issues))))
    if references := data["why"].get("references"):
        parts.append(_section("References", _list(references)))
    versions = ", ".join(data.get("checked_with", ["0.1.15"]))
    parts.append(f"Checked with tilelang {versions}.")
    return "\n\n".join(parts) + "\n"


def _shown(text: str) -> str:
    """A text as a reader meets it before there are values: `{k_a}` and `{hazard.k_a}` become <k_a>."""
    return PLACEHOLDER.sub(lambda found: f"<{found[1].rpartition('.')[2]}>", text)


def _rerun(data: Mapping[str, Any]) -> str:
    """How to see that a change helped; what a lint finds, and what stops before a launch, needs no GPU for that."""
    if data["category"] == "environment":
        return "`triage doctor` says what this machine and this interpreter have."
    needs_gpu = data["stage"] in ON_DEVICE and data["match"]["on"] != "hazard"
    where = "on a machine with the GPU it is for" if needs_gpu else "that needs no GPU"
    return f"Run `triage run kernel.py` after the change; {where}."


def _sentence(text: str) -> str:
    """A claim as a sentence; one that asks keeps its question mark."""
    shown = _shown(text).strip()
    return shown if shown.endswith(("?", "!")) else f"{shown.rstrip('.')}."


def _section(title: str, body: str) -> str:
    return f"{title}\n{_indented(body)}"


def _indented(text: str) -> str:
    return "\n".join(f"  {line}".rstrip() for line in text.splitlines())


def _wrapped(text: str) -> str:
    """Paragraphs filled to `WIDTH`; one with an indented line is a picture or code and stays as it is."""
    paragraphs = text.strip("\n").split("\n\n")
    return "\n\n".join(p if "\n " in p or p.startswith(" ") else _filled(p) for p in paragraphs)


def _list(items: list[str]) -> str:
    return "\n".join(_filled(f"- {item}", "  ") for item in items)


def _filled(text: str, indent: str = "") -> str:
    return textwrap.fill(text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
