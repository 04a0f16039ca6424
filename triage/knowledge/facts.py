"""The declared names of facts: `rules/reference/facts.toml`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from triage.knowledge.files import FileError, parse, read_text, rules_root
from triage.knowledge.positions import Positions
from triage.knowledge.rule import Problem, RuleErrors

FILE = "reference/facts.toml"
TYPES = ("bool", "int", "float", "str", "list", "dict")
KEYS = {"type", "what", "unit", "values", "of"}


@dataclass(frozen=True)
class FactName:
    """A declared name. `of` says where its value comes from: `fact` of a case, or the `record` that a rule matches."""

    name: str
    type: str
    what: str
    unit: str | None = None
    values: tuple[str, ...] = ()
    of: str = "fact"


def load_fact_names(root: Path | None = None) -> dict[str, FactName]:
    """Every declared name. Raises `RuleErrors` with all problems."""
    names, problems = read_fact_names(root or rules_root())
    if problems:
        raise RuleErrors(problems)
    return names


def read_fact_names(root: Path) -> tuple[dict[str, FactName], list[Problem]]:
    """The declared names and all problems; a name of which something else is wrong counts as declared."""
    try:
        text = read_text(root / FILE)
        data = parse(text, root / FILE)
    except FileError as error:
        return {}, [Problem(FILE, error.line, error.why)]
    positions = Positions(text)
    names: dict[str, FactName] = {}
    problems: list[Problem] = []
    for group, members in data.items():
        if not isinstance(members, dict):
            problems.append(Problem(FILE, positions.line("", group), f"{group} must be a table of names"))
            continue
        for short, entry in members.items():
            name = f"{group}.{short}"
            if wrong := _wrong(entry):
                problems.append(Problem(FILE, positions.line(group, short), f"{name}: {wrong}"))
                names[name] = FactName(name, "str", "")
            else:
                values = tuple(entry.get("values", ()))
                names[name] = FactName(
                    name, entry["type"], entry["what"], entry.get("unit"), values, entry.get("of", "fact")
                )
    return names, problems


def fact_types(root: Path | None = None) -> Mapping[str, str]:
    """Name to type, as the check of the graph wants it."""
    return {name: fact.type for name, fact in load_fact_names(root).items()}


def _wrong(entry: object) -> str | None:
    if not isinstance(entry, dict):
        return "must be a table {type, what, …}"
    if unknown := set(entry) - KEYS:
        return f"unknown key {sorted(unknown)[0]!r}"
    if entry.get("type") not in TYPES:
        return f"type must be one of {', '.join(TYPES)}"
    if not isinstance(entry.get("what"), str) or not entry["what"]:
        return "what is missing"
    if entry.get("of", "fact") not in ("fact", "record"):
        return "of must be fact or record"
    if not isinstance(entry.get("values", []), list) or not isinstance(entry.get("unit", ""), str):
        return "values must be a list, unit a string"
    return None
