"""Rule files to rules: find them, parse them, and say everything that is wrong with them at once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from triage import conditions, model
from triage.knowledge import rule as schema
from triage.knowledge.files import CATEGORY_LETTERS, CODE, FileError, parse, read_text, rule_files, rules_root
from triage.knowledge.match import USER
from triage.knowledge.pattern import PatternError
from triage.knowledge.positions import Positions
from triage.knowledge.profiles import keep, profile, recall
from triage.knowledge.rule import Claim, Match, Problem, Rule, RuleErrors, RuleFix, RuleSet

NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")

TOP = {
    "code": str,
    "name": str,
    "title": str,
    "category": str,
    "stage": str,
    "owner": str,
    "level": str,
    "confidence": str,
    "checked_with": list,
    "explains": list,
}
SECTIONS: dict[str, dict[str, Any]] = {
    "": TOP,
    "match": {"on": str, "text": str, "line": str, "when": list, "unless": list, "raised_in": list, "same_fault": list},
    "claim": {"says": str, "look_at": str, "place": str, "argument": str},
    "fix": {"steps": list, "strategy": str | list},
    "why": {"text": str, "references": list},
    "example": {"wrong": str, "right": str},
    "check": {"steps": list},
}
#: What decides which records a rule matches, beside which others, and under which code its hits are marked.
DECIDING = frozenset({"match", "level", "explains", "code"})
#: section, key and the values there are
ALLOWED: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("", "category", tuple(CATEGORY_LETTERS)),
    ("", "stage", model.STAGES),
    ("", "owner", tuple(model.Owner)),
    ("", "level", schema.LEVELS),
    ("", "confidence", tuple(model.Confidence)),
    ("match", "on", schema.ON),
    ("claim", "place", schema.PLACES),
)
REQUIRED = {
    "": ("code", "name", "title", "category", "stage", "owner"),
    "match": ("on",),
    "claim": ("says",),
    "fix": ("steps",),
    "why": ("text",),
}


@dataclass(frozen=True)
class RuleFile:
    """One file: the rule as far as it can be read, and what is wrong with it. `shown` is its path below the rules folder.

    A rule is not `whole` where something of what decides its matches was lost: tried, it would match what it never meant.
    """

    shown: str
    text: str
    rule: Rule | None
    problems: tuple[Problem, ...] = ()
    whole: bool = False

    @property
    def codes(self) -> frozenset[str]:
        """The code that the file's name promises, and that of the rule in it; they differ only where one is wrong."""
        named = CODE.match(self.shown.rpartition("/")[2])
        own = [self.rule.code] if self.rule else []
        return frozenset([*own, *([named[0]] if named else [])])

    @cached_property
    def positions(self) -> Positions:
        return Positions(self.text)

    def problem(self, section: str, key: str, message: str, shows: str = "") -> Problem:
        """Something wrong with a key; `shows` tells its line where the value has several."""
        return Problem(self.shown, self.positions.line(section, key, shows), message)


def load_rules(root: Path | None = None) -> RuleSet:
    """Read every rule. Raises `RuleErrors` with all problems of all files, `NoRulesError` without a folder."""
    root = root or rules_root()
    rules, problems = read_all(root)
    if problems:
        raise RuleErrors(problems)
    return RuleSet(tuple(rules), root)


def read_all(root: Path) -> tuple[list[Rule], list[Problem]]:
    """The rules with which nothing is wrong, in the order of their codes, and all problems. Raises as `read_files`."""
    files = read_files(root)
    problems = [problem for file in files for problem in file.problems]
    sound = [file for file in files if not file.problems]
    problems += problems_across(files)
    return sorted((file.rule for file in sound if file.rule), key=lambda rule: rule.code), problems


def read_files(root: Path) -> list[RuleFile]:
    """Every rule file, in the order of the codes. Raises `NoRulesError`."""
    shipped = root == rules_root()  # others are read once, to be checked
    if shipped:
        recall()
    files = [read_file(path, f"{path.parent.name}/{path.name}") for path in rule_files(root)]
    if shipped:
        keep([file.rule.match.text for file in files if file.rule and file.rule.match.text])
    return files


def read_file(path: Path, shown: str | None = None) -> RuleFile:
    """Read one file."""
    shown = shown or str(path)
    text = ""
    try:
        text = read_text(path)
        data = parse(text, path)
    except FileError as error:
        return RuleFile(shown, text, None, (Problem(shown, error.line, error.why),))
    reader = _Reader(RuleFile(shown, text, None), data)
    found = reader.rule(path)
    return RuleFile(shown, text, found, tuple(reader.problems), found is not None and not reader.lost)


def problems_across(files: Sequence[RuleFile]) -> list[Problem]:
    """What is wrong only in the company of the other rules."""
    readable = [(file, file.rule) for file in files if file.rule]
    problems = []
    codes: dict[str, Rule] = {}
    names: dict[str, Rule] = {}
    for file, rule in readable:
        for what, key, seen in (("code", rule.code, codes), ("name", rule.name, names)):
            if other := seen.get(key):
                problems.append(file.problem("", what, f"{what} {key!r} is taken by {other.code}-{other.name}"))
            seen.setdefault(key, rule)
    there = {code for file in files for code in file.codes}
    for file, rule in readable:
        for code in rule.explains:
            if code not in there:
                problems.append(file.problem("", "explains", f"explains {code}, which is no rule", code))
    return problems


def _listed(names: str | list[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


class _Reader:
    """Reads one parsed file and collects what is wrong with it. Values that are wrong count as not given."""

    def __init__(self, file: RuleFile, data: dict[str, Any]) -> None:
        self.file, self.data = file, data
        self.problems: list[Problem] = []
        #: whether something is wrong with a key of `DECIDING`
        self.lost = False
        self.values: dict[str, dict[str, Any]] = {}

    def rule(self, path: Path) -> Rule | None:
        """The rule of what can be read; None without a code and a kind of record."""
        for section in SECTIONS:
            self.values[section] = self._section(section)
        top, match, claim = (self.values[section] for section in ("", "match", "claim"))
        fix, why, example = (self.values[section] for section in ("fix", "why", "example"))
        self._allowed()
        self._names(path)
        self._patterns(match)
        self._together(match, claim)
        conditions_of = {key: self._conditions(key) for key in ("when", "unless", "same_fault")}
        if not top.get("code") or not match.get("on"):
            return None
        return Rule(
            **{key: top.get(key, "") for key in REQUIRED[""]},
            level=top.get("level", "fault"),
            confidence=top.get("confidence", "confirmed"),
            checked_with=tuple(top.get("checked_with", schema.DEFAULT_CHECKED_WITH)),
            explains=tuple(top.get("explains", ())),
            match=Match(
                match["on"],
                match.get("text"),
                match.get("line"),
                raised_in=tuple(match.get("raised_in", ())),
                **conditions_of,
            ),
            claim=Claim(
                claim.get("says", ""),
                claim.get("look_at", ""),
                claim.get("place") or schema.default_place(top.get("stage", "")),
                claim.get("argument"),
            ),
            fix=RuleFix(tuple(fix.get("steps", ())), _listed(fix.get("strategy", []))),
            why=why.get("text", "").strip(),
            references=tuple(why.get("references", ())),
            wrong=example.get("wrong"),
            right=example.get("right"),
            check_steps=tuple(self.values["check"].get("steps", ())),
            path=path,
        )

    def _section(self, section: str) -> dict[str, Any]:
        if not section:
            part = {k: v for k, v in self.data.items() if k not in SECTIONS}
        else:
            part = self.data.get(section, {})
            if not isinstance(part, dict):
                self._wrong("", section, f"[{section}] must be a table")
                part = {}
        return self._checked(section, part, SECTIONS[section])

    def _checked(self, section: str, part: dict[str, Any], keys: dict[str, Any]) -> dict[str, Any]:
        """The well-formed values; told are unknown keys, wrong types, and missing or empty required keys."""
        good = {}
        for key, value in part.items():
            if key not in keys:
                self._wrong(section, key, f"unknown key {key!r}; known: {', '.join(keys)}")
            elif not isinstance(value, keys[key]):
                self._wrong(section, key, f"{key} must be a {'string' if keys[key] is str else 'list'}")
            elif isinstance(value, list) and not all(isinstance(item, str) for item in value):
                self._wrong(section, key, f"{key} must hold strings only")
            else:
                good[key] = value
        for key in REQUIRED.get(section, ()):
            if not part.get(key):
                self._wrong(section, key, f"{f'[{section}] ' if section else ''}{key} is missing")
        return good

    def _allowed(self) -> None:
        """Values out of a fixed set; one that is none of it is told and dropped."""
        for section, key, values in ALLOWED:
            value = self.values[section].get(key)
            if value and value not in values:
                self._wrong(section, key, f"{key} {value!r} is none of {', '.join(values)}")
                del self.values[section][key]

    def _names(self, path: Path) -> None:
        """The code and the name, which must agree with the file."""
        top = self.values[""]
        code, name, category = top.get("code"), top.get("name"), top.get("category")
        if code and not CODE.fullmatch(code):
            self._wrong("", "code", f"code {code!r} is not TL + one of G C P I E + three digits")
            code = top.pop("code", None)
        elif code and category and code[2] != CATEGORY_LETTERS[category]:
            self._wrong("", "code", f"code {code} does not belong to category {category!r}")
        if name and not NAME.fullmatch(name):
            self._wrong("", "name", f"name {name!r} is not words of small letters joined by -")
        if code and name and path.name != f"{code}-{name}.toml":
            self._wrong("", "code", f"the file should be called {code}-{name}.toml")
        if category and path.parent.name != category:
            self._wrong("", "category", f"the file should lie in {category}/")

    def _patterns(self, match: dict[str, Any]) -> None:
        for key in ("text", "line"):
            try:
                profile(match.get(key, ""))
            except PatternError as error:
                self._wrong("match", key, f"{key} is not a regular expression: {error}")
                del match[key]

    def _together(self, match: dict[str, Any], claim: dict[str, Any]) -> None:
        """Keys that need each other."""
        given = self.data.get("match", {})
        if isinstance(given, dict) and given and not given.get("text") and not given.get("when"):
            self._wrong("match", "on", "a rule needs text or when")
        if (claim.get("place") in schema.NAMING_PLACES) != ("argument" in claim):
            self._wrong("claim", "place", f"place = {' or '.join(schema.NAMING_PLACES)} and argument belong together")
        if match.get("raised_in") and match.get("on", "error") != "error":
            self._wrong("match", "raised_in", "only an error has a raising frame")
        if match.get("line") and match.get("raised_in") != [USER]:
            self._wrong("match", "line", 'line goes with raised_in = ["user"]: only there the line is the user\'s')

    def _conditions(self, key: str) -> tuple[conditions.Condition, ...]:
        parsed = []
        for text in self.values["match"].get(key, ()):
            try:
                parsed.append(conditions.parse(text))
            except conditions.ConditionError as error:
                self._wrong("match", key, f"{key}: {error}", text)
        return tuple(parsed)

    def _wrong(self, section: str, key: str, message: str, shows: str = "") -> None:
        self.lost = self.lost or (section or key) in DECIDING
        self.problems.append(self.file.problem(section, key, message, shows))
