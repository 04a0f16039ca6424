"""What a rule means, as text: the rule file is the user's documentation.

Works on the raw TOML of one file and imports almost nothing, because `triage explain CODE` must answer at once and must
answer even if another rule file is broken. `fits` answers the other question, which rules fit a text.
"""

from __future__ import annotations

import textwrap
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from triage.knowledge.files import PLACEHOLDER, file_of, rules_root

WIDTH = 96


class UnknownCodeError(LookupError):
    """No rule has this code."""


def explain_code(code: str, root: Path | None = None) -> str:
    """The page of one rule. Raises `UnknownCodeError`; `ValueError` with file and reason if its file is broken."""
    path = file_of(code.strip().upper(), root or rules_root())
    if path is None:
        raise UnknownCodeError(f"there is no rule {code.strip()!r}; `triage rules list` names them all")
    try:
        data = tomllib.loads(path.read_text("utf-8"))
        return page(data)
    except (KeyError, TypeError, AttributeError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"{path.name}: {type(error).__name__}: {error}") from None


def page(data: Mapping[str, Any]) -> str:
    """A rule as plain text: what, where to look, why, an example, how to check, how to fix, references."""
    head = f"{data['code']} {data['name']}: {data['title']}"
    facts = f"{data['category']}, stage {data['stage']}, owner: {data['owner']}"
    if data.get("level") == "advice":
        facts += ", advice only"
    parts = [f"{head}\n{facts}"]
    parts.append(_section("What", _wrapped(_sentence(data["claim"]["says"]))))
    if look_at := data["claim"].get("look_at"):
        parts.append(_section("Look at", _wrapped(_sentence(look_at))))
    parts.append(_section("Why", _wrapped(data["why"]["text"])))
    example = data.get("example", {})
    for key, title in (("wrong", "Wrong"), ("right", "Right")):
        if key in example:
            parts.append(f"{title}\n{_indented(example[key].strip(chr(10)))}")
    parts.append(_section("What to change", _list([_shown(step) for step in data["fix"]["steps"]])))
    if steps := data.get("check", {}).get("steps"):
        parts.append(_section("How to check", _list(steps)))
    if issues := data.get("known_issues"):
        parts.append(_section("Known issues", _list([_issue(issue) for issue in issues])))
    if references := data["why"].get("references"):
        parts.append(_section("References", _list(references)))
    versions = ", ".join(data.get("checked_with", ["0.1.15"]))
    parts.append(f"Checked with tilelang {versions}.")
    return "\n\n".join(parts) + "\n"


def _shown(text: str) -> str:
    """A text as a reader meets it before there are values: `{k_a}` becomes <k_a>."""
    return PLACEHOLDER.sub(r"<\1>", text)


def _sentence(text: str) -> str:
    return f"{_shown(text).rstrip('.')}."


def _section(title: str, body: str) -> str:
    return f"{title}\n{_indented(body)}"


def _indented(text: str) -> str:
    return "\n".join(f"  {line}".rstrip() for line in text.splitlines())


def _wrapped(text: str) -> str:
    """Paragraphs filled to `WIDTH`; one with an indented line is a picture or code and stays as it is."""
    paragraphs = text.strip("\n").split("\n\n")
    return "\n\n".join(p if "\n " in p or p.startswith(" ") else textwrap.fill(p, WIDTH) for p in paragraphs)


def _list(items: list[str]) -> str:
    return "\n".join(textwrap.fill(f"- {item}", WIDTH, subsequent_indent="  ") for item in items)


def _issue(issue: Mapping[str, Any]) -> str:
    fixed = f", fixed in {issue['fixed_in']}" if issue.get("fixed_in") else ""
    note = f": {issue['note']}" if issue.get("note") else ""
    return f"{issue['id']}{fixed}{note}"
