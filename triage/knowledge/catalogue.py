"""All rules at a glance: `triage rules list`, and `docs/rules.md`, which is generated and checked for drift."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from triage.knowledge.files import CATEGORY_LETTERS, PLACEHOLDER
from triage.knowledge.rule import Rule, RuleSet

HEAD = """# The rules

Generated from `rules/` by `python -m triage.knowledge.catalogue`; do not edit. `triage explain CODE` shows a rule in full.
"""


def rows(rules: Iterable[Rule]) -> list[dict[str, object]]:
    """One plain object a rule, in the order of codes."""
    return [
        {
            "code": rule.code,
            "name": rule.name,
            "title": rule.title,
            "category": rule.category,
            "stage": rule.stage,
            "owner": rule.owner,
            "level": rule.level,
            "on": rule.match.on,
            "checked_with": list(rule.checked_with),
        }
        for rule in rules
    ]


def show_list(rules: RuleSet) -> str:
    """A line a rule: code, stage, title."""
    if not len(rules):
        return "no rules\n"
    width = max(len(rule.stage) for rule in rules)
    lines = [f"{rule.code}  {rule.stage:<{width}}  {rule.title}{_advice(rule)}" for rule in rules]
    return "\n".join([*lines, f"{len(rules)} rules"]) + "\n"


def catalogue(rules: RuleSet) -> str:
    """The text of `docs/rules.md`."""
    parts = [HEAD]
    order = list(CATEGORY_LETTERS)
    for category, members in groupby(
        sorted(rules, key=lambda r: (order.index(r.category), r.code)), lambda r: r.category
    ):
        lines = [f"## {category.capitalize()}", "", "| code | what | stage | owner | reads |", "|---|---|---|---|---|"]
        for rule in members:
            what = f"**{_cell(rule.title)}**{_advice(rule)}<br>{_cell(rule.claim.says)}"
            lines.append(f"| {rule.code} `{rule.name}` | {what} | {rule.stage} | {rule.owner} | {rule.match.on} |")
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def _advice(rule: Rule) -> str:
    return " (advice)" if rule.level == "advice" else ""


def _cell(text: str) -> str:
    """Text in a cell of a Markdown table; `{k_a}` stands for a value and is shown as *k_a*."""
    return PLACEHOLDER.sub(r"*\1*", text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " "))


if __name__ == "__main__":
    from triage.knowledge.load import load_rules

    print(catalogue(load_rules()), end="")
