"""Rule files to rules: find them, parse them, and say everything that is wrong with them at once."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import regex

from triage import conditions, model
from triage.knowledge import rule as schema
from triage.knowledge.files import CATEGORY_LETTERS, CODE, rule_files, rules_root
from triage.knowledge.match import USER, compiled
from triage.knowledge.pattern import PatternError, tree
from triage.knowledge.rule import Claim, KnownIssue, Match, Problem, Rule, RuleErrors, RuleFix, RuleSet

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
    "match": {"on": str, "text": str, "line": str, "when": list, "unless": list, "raised_in": list, "same_fault": list},
    "claim": {"says": str, "look_at": str, "place": str, "argument": str},
    "fix": {"steps": list, "strategy": str | list},
    "why": {"text": str, "references": list},
    "example": {"wrong": str, "right": str},
    "check": {"steps": list},
}
KNOWN_ISSUE = {"id": str, "fixed_in": str, "note": str}
REQUIRED = {
    "": ("code", "name", "title", "category", "stage", "owner"),
    "match": ("on",),
    "claim": ("says",),
    "fix": ("steps",),
    "why": ("text",),
}


def load_rules(root: Path | None = None) -> RuleSet:
    """Read every rule. Raises `RuleErrors` with all problems of all files, `FileNotFoundError` without a folder."""
    root = root or rules_root()
    rules, problems = read_all(root)
    if problems:
        raise RuleErrors(problems)
    return RuleSet(tuple(rules), root)


def read_all(root: Path) -> tuple[list[Rule], list[Problem]]:
    """The rules that can be read, in the order of their codes, and all problems. Raises `FileNotFoundError`."""
    if not root.is_dir():
        raise FileNotFoundError(f"no rules folder at {root}")
    rules: list[Rule] = []
    problems: list[Problem] = []
    for path in rule_files(root):
        found, wrong = read_rule(path, root)
        problems += wrong
        if found:
            rules.append(found)
    problems += _across(rules, root)
    return sorted(rules, key=lambda rule: rule.code), problems


def read_rule(path: Path, root: Path | None = None) -> tuple[Rule | None, list[Problem]]:
    """Read one file; a rule or the problems that keep it from being one."""
    shown = str(path.relative_to(root)) if root and path.is_relative_to(root) else str(path)
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        return None, [Problem(shown, None, f"cannot be read: {error}")]
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        at = re.search(r"at line (\d+)", str(error))
        return None, [Problem(shown, int(at[1]) if at else None, f"not TOML: {error}")]
    reader = _Reader(shown, text, data)
    found = reader.rule(path)
    return (None, reader.problems) if reader.problems else (found, [])


def _across(rules: list[Rule], root: Path) -> list[Problem]:
    """What is wrong only in the company of the other rules."""
    problems = []
    codes: dict[str, Rule] = {}
    names: dict[str, Rule] = {}
    for rule in rules:
        shown = str(rule.path.relative_to(root)) if rule.path else rule.code
        for key, seen, what in ((rule.code, codes, "code"), (rule.name, names, "name")):
            if key in seen:
                problems.append(Problem(shown, None, f"{what} {key!r} is taken by {seen[key].code}-{seen[key].name}"))
            seen.setdefault(key, rule)
    for rule in rules:
        for code in rule.explains:
            if code not in codes:
                shown = str(rule.path.relative_to(root)) if rule.path else rule.code
                problems.append(Problem(shown, None, f"explains {code}, which is no rule"))
    return problems


def _listed(names: str | list[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


class _Reader:
    """Reads one parsed file and collects what is wrong with it, with the line of the key."""

    def __init__(self, file: str, text: str, data: dict[str, Any]) -> None:
        self.file, self.lines, self.data = file, text.splitlines(), data
        self.problems: list[Problem] = []

    def rule(self, path: Path) -> Rule | None:
        top = {key: value for key, value in self.data.items() if key not in SECTIONS and key != "known_issues"}
        self._check("", top, TOP)
        parts = {}
        for section, keys in SECTIONS.items():
            part = self.data.get(section, {})
            if not isinstance(part, dict):
                self._wrong("", section, f"[{section}] must be a table")
                part = {}
            self._check(section, part, keys)
            parts[section] = part
        issues = self._known_issues()
        if self.problems:
            return None
        self._values(top, parts["match"], parts["claim"], path)
        conditions_of = {key: self._conditions(key, parts["match"]) for key in ("when", "unless", "same_fault")}
        if self.problems:
            return None
        match, claim, fix, why = parts["match"], parts["claim"], parts["fix"], parts["why"]
        place = claim.get("place") or schema.default_place(top["stage"])
        return Rule(
            **{key: top[key] for key in REQUIRED[""]},
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
            claim=Claim(claim["says"], claim.get("look_at", ""), place, claim.get("argument")),
            fix=RuleFix(tuple(fix["steps"]), _listed(fix.get("strategy", []))),
            why=why["text"].strip(),
            references=tuple(why.get("references", ())),
            wrong=parts["example"].get("wrong"),
            right=parts["example"].get("right"),
            check_steps=tuple(parts["check"].get("steps", ())),
            known_issues=issues,
            path=path,
        )

    def _check(self, section: str, part: Mapping[str, Any], keys: Mapping[str, Any]) -> None:
        """Unknown keys, wrong types, missing or empty required keys."""
        for key, value in part.items():
            if key not in keys:
                self._wrong(section, key, f"unknown key {key!r}; known: {', '.join(keys)}")
            elif not isinstance(value, keys[key]):
                self._wrong(section, key, f"{key} must be a {'string' if keys[key] is str else 'list'}")
            elif isinstance(value, list) and not all(isinstance(item, str) for item in value):
                self._wrong(section, key, f"{key} must hold strings only")
        for key in REQUIRED.get(section, ()):
            if not part.get(key):
                self._wrong(section, key, f"{f'[{section}] ' if section else ''}{key} is missing")

    def _values(self, top: dict[str, Any], match: dict[str, Any], claim: dict[str, Any], path: Path) -> None:
        """Values out of a fixed set, and the names that must agree with the file."""
        allowed: list[tuple[str, str, Any, tuple[str, ...]]] = [
            ("", "category", top["category"], tuple(CATEGORY_LETTERS)),
            ("", "stage", top["stage"], model.STAGES),
            ("", "owner", top["owner"], tuple(model.Owner)),
            ("", "level", top.get("level", "fault"), schema.LEVELS),
            ("", "confidence", top.get("confidence", "confirmed"), tuple(model.Confidence)),
            ("match", "on", match["on"], schema.ON),
            ("claim", "place", claim.get("place", "frame"), schema.PLACES),
        ]
        for section, key, value, values in allowed:
            if value not in values:
                self._wrong(section, key, f"{key} {value!r} is none of {', '.join(values)}")
        if not CODE.fullmatch(top["code"]):
            self._wrong("", "code", f"code {top['code']!r} is not TL + one of G C P I E + three digits")
        elif top["code"][2] != CATEGORY_LETTERS.get(top["category"]):
            self._wrong("", "code", f"code {top['code']} does not belong to category {top['category']!r}")
        if not NAME.fullmatch(top["name"]):
            self._wrong("", "name", f"name {top['name']!r} is not words of small letters joined by -")
        if path.name != f"{top['code']}-{top['name']}.toml":
            self._wrong("", "code", f"the file should be called {top['code']}-{top['name']}.toml")
        if path.parent.name != top["category"]:
            self._wrong("", "category", f"the file should lie in {top['category']}/")
        for key in ("text", "line"):
            try:
                compiled(match.get(key, ""))
                tree(match.get(key, ""))
            except (regex.error, PatternError) as error:
                self._wrong("match", key, f"{key} is not a regular expression that re and regex both read: {error}")
        if not match.get("text") and not match.get("when"):
            self._wrong("match", "on", "a rule needs text or when")
        if (claim.get("place") in schema.NAMING_PLACES) != ("argument" in claim):
            self._wrong("claim", "place", f"place = {' or '.join(schema.NAMING_PLACES)} and argument belong together")
        if match.get("raised_in") and match["on"] != "error":
            self._wrong("match", "raised_in", "only an error has a raising frame")
        if match.get("line") and match.get("raised_in") != [USER]:
            self._wrong("match", "line", 'line goes with raised_in = ["user"]: only there the line is the user\'s')

    def _conditions(self, key: str, match: dict[str, Any]) -> tuple[conditions.Condition, ...]:
        parsed = []
        for text in match.get(key, ()):
            try:
                parsed.append(conditions.parse(text))
            except conditions.ConditionError as error:
                self._wrong("match", key, f"{key}: {error}")
        return tuple(parsed)

    def _known_issues(self) -> tuple[KnownIssue, ...]:
        entries = self.data.get("known_issues", [])
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            self._wrong("", "known_issues", "known_issues must be [[known_issues]] tables")
            return ()
        for entry in entries:
            self._check("known_issues", entry, KNOWN_ISSUE)
            if not entry.get("id"):
                self._wrong("known_issues", "id", "[[known_issues]] id is missing")
        return () if self.problems else tuple(KnownIssue(**entry) for entry in entries)

    def _wrong(self, section: str, key: str, message: str) -> None:
        self.problems.append(Problem(self.file, self._line(section, key), message))

    def _line(self, section: str, key: str) -> int | None:
        """The line of `key` in `section`, else of the section's header. A guess for keys inside multi-line strings."""
        now, header = "", None
        for number, line in enumerate(self.lines, 1):
            if opened := re.match(r"\s*\[\[?\s*([\w.-]+)\s*\]?\]\s*(#|$)", line):
                now = opened[1]
                if now in (section, key):
                    header = header or number
            elif now == section and re.match(rf'\s*"?{re.escape(key)}"?\s*=', line):
                return number
        return header
