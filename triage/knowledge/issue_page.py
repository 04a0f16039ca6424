"""The known issues as text: those of one rule for `triage explain`, all of them for `docs/known-issues.md`, which is generated.

Works on the raw table and imports almost nothing, because `triage explain CODE` must answer at once; `upstream` reads and
checks the same table for those who judge.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from triage.knowledge.files import read_table, rules_root, taken_apart

FILE = "reference/upstream.toml"
HEAD = """# Known issues of TileLang

Generated from `rules/reference/upstream.toml` by `python -m triage.knowledge.issue_page`; do not edit. A report names an issue where
its fingerprint agrees with what was seen, and advises to upgrade only where the installed release has the fault and a later
one does not. Issues with one root cause stand together.
"""
EVIDENCE = {"thread": "thread", "commit": "commit", "run": "own runs"}


def known_issues_of(code: str, root: Path | None = None) -> list[dict[str, Any]]:
    """The entries that name a rule, as the table has them: as a sign of the fault, or as what is said since it is fixed.

    Raises `FileError` for a table that is none; a folder without the table knows none.
    """
    root = root or rules_root()
    with taken_apart(root / FILE):
        return [row for row in _rows(root) if code in (*row.get("rules", ()), *row.get("now", ()))]


def _rows(root: Path) -> list[dict[str, Any]]:
    path = root / FILE
    if not path.is_file():
        return []
    rows: list[dict[str, Any]] = read_table(path).get("issue", [])
    return rows


def shown(row: Mapping[str, Any], code: str) -> str:
    """An issue on the page of a rule: as what its error may be, or as what was there before the rule had anything to read."""
    if code not in row.get("rules", ()):
        silent = ", and nothing was said of it" if row["outcome"] == "rejected" else ""
        return f"{row['id']}: before {row['fixed_in']}, {row['title']}{silent}"
    only_if = f", if {row['provided']}" if row.get("provided") else ""
    ways = "".join(f"; set {way}" for way in _switches(row))
    return f"{row['id']} ({_until(row)}){only_if}: {row['title']}{ways}"


def _until(row: Mapping[str, Any]) -> str:
    return f"fixed in {row['fixed_in']}" if "fixed_in" in row else f"not known to be fixed; {row['reported']} has it"


def _switches(row: Mapping[str, Any]) -> list[str]:
    return [f"{name}={value!r}" for name, value in row.get("switches", {}).items()]


def table(root: Path | None = None) -> str:
    """The text of `docs/known-issues.md`."""
    rows = _rows(root or rules_root())
    causes = dict.fromkeys(row["cause"] for row in rows)
    lines = ["| issue | what | seen as | releases | without an upgrade | known from |", "|---|---|---|---|---|---|"]
    for cause in causes:
        lines += [_line(row) for row in rows if row["cause"] == cause]
    return f"{HEAD}\n{len(rows)} issues, {len(causes)} root causes.\n\n" + "\n".join(lines) + "\n"


def _line(row: Mapping[str, Any]) -> str:
    number = f"[{row['id'].rpartition('/')[2]}](https://github.com/{row['id'].replace('#', '/issues/')})"
    only_if = f"; if {row['provided']}" if row.get("provided") else ""
    seen_as = ", ".join([*row.get("rules", ()), *(["its own text"] if row.get("text") else [])])
    affected = " or ".join(row["affected"])
    then = {"rejected": ", refused since", "explained": ", explained since"}.get(row.get("outcome", ""), ", fixed in")
    now = f" ({', '.join(row['now'])})" if row.get("now") else ""
    releases = f"{affected}{then} {row['fixed_in']}{now}" if "fixed_in" in row else f"{affected}, {_until(row)}"
    ways = "; ".join([*(f"`{way}`" for way in _switches(row)), *([row["change"]] if row.get("change") else [])])
    evidence = ", ".join(EVIDENCE[word] for word in row["evidence"])
    return "| " + " | ".join(map(_cell, (number, row["title"] + only_if, seen_as, releases, ways, evidence))) + " |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


if __name__ == "__main__":
    print(table(), end="")
