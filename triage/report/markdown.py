"""The full report as Markdown: what the terminal says, and the walk, the facts, the excerpts and the artifacts.

Text from the subject stands in fences longer than any run of backticks in it, or in code spans, so that it cannot
end its container; table cells escape what would end them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from triage.report import words
from triage.report.contract import FixEntry, KnownIssueEntry, Report, SwitchSetEntry, Verdict
from triage.report.source import draw
from triage.report.text import defuse, one_line, paragraphs, visible

#: the drawing of source lines; a Markdown page is not bound to a terminal's width
WIDTH = 120

#: what Markdown reads inside a line; an underscore within a word is none
_SPECIAL = re.compile(r"[\\`*\[\]<>#|~&$@]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
#: and only at the beginning of one: lists, rules, underlines of headings
_OPENING = re.compile(r"(\d*)([-+=.)])")


def render(report: Report) -> str:
    """The report as GitHub-flavoured Markdown, ending with one newline."""
    verdict = report["verdict"]
    blocks: list[str] = [f"# {_title(verdict)}", _facts_line(report, verdict)]
    blocks += _verdict(verdict)
    if verdict["state"] == "unknown":
        blocks += _section("What was looked at", _bullets(_step_line(step) for step in report["walk"]))
    blocks += _section("Checked", _bullets(prose(item) for item in verdict["checked"]))
    blocks += _section("Not checked", _bullets(_not_checked(verdict)))
    for other in report["other_findings"]:
        blocks += _section(f"Also found: {_title(other)}", _verdict(other, level=3))
    blocks += _section("Notes", _bullets(_note(note) for note in report["notes"]))
    blocks += _section("Walk", _walk(report))
    blocks += _section("Pictures", _pictures(report))
    blocks += _section("Facts", _facts(report))
    blocks += _section("Environments", _environments(report))
    blocks += _section("Artifacts", _artifacts(report))
    return defuse("\n\n".join(block for block in blocks if block) + "\n")


def prose(text: str) -> str:
    """Foreign text inside a sentence: every character that Markdown reads is escaped."""
    escaped = _SPECIAL.sub(lambda found: "\\" + found.group(), one_line(text))
    return _OPENING.sub(r"\1\\\2", escaped, count=1) if _OPENING.match(escaped) else escaped


def code(text: str) -> str:
    """Foreign text as a code span that it cannot leave."""
    line = one_line(text) or " "
    ticks = "`" * (_longest_run(line) + 1)
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{ticks}{pad}{line}{pad}{ticks}"


def fence(text: str, language: str = "text") -> str:
    """Foreign text as a fenced block that it cannot leave."""
    body = visible(text.strip("\n"))
    ticks = "`" * max(3, _longest_run(body) + 1)
    return f"{ticks}{language}\n{body}\n{ticks}"


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)


def _section(title: str, blocks: Sequence[str]) -> list[str]:
    return [f"## {title}", *blocks] if any(blocks) else []


def _bullets(items: Iterable[str]) -> list[str]:
    return ["\n".join(f"- {item}" for item in items)]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    body = [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows]
    if not body:
        return []
    return ["\n".join([f"| {' | '.join(head)} |", f"|{'---|' * len(head)}", *body])]


def _cell(text: str) -> str:
    """A table cell in code style; a pipe is escaped by `_table`, which GitHub undoes inside code spans."""
    return code(text) if text else ""


def _title(verdict: Verdict) -> str:
    return f"{prose(verdict['rule'])}: {prose(verdict['title'])}" if verdict["rule"] else prose(verdict["title"])


def _facts_line(report: Report, verdict: Verdict) -> str:
    parts = [f"**{words.STATE[verdict['state']]}**"]
    parts += [prose(part) for part in (verdict["category"], verdict["stage"]) if part]
    return " · ".join([*parts, f"{report['subject']['kind']} {code(report['subject']['path'])}"])


def _verdict(verdict: Verdict, level: int = 2) -> list[str]:
    head = "#" * level
    blocks = [prose(verdict["summary"])]
    location, quote = verdict["location"], verdict["quote"]
    if location is not None:
        place = f"{location['file']}:{location['line']}" + (f":{location['column']}" if location["column"] else "")
        inside = f" in {code(location['function'])}" if location["function"] else ""
        blocks += [f"{head} Where", code(place) + inside]
        drawn = [line.gutter + line.text for line in draw(verdict, WIDTH)]
        blocks += [fence("\n".join(drawn))] if drawn else []
    if verdict.get("why") or quote is not None or verdict["known_issues"]:
        blocks += [f"{head} Why", *(prose(part) for part in paragraphs(verdict.get("why", "")))]
    if quote is not None:
        at = f"{code(quote['artifact'])}" if quote["artifact"] else "the output"
        blocks += [f"From {at}" + (f", line {quote['line']}:" if quote["line"] else ":"), fence(quote["text"])]
    blocks += _bullets(_issue(issue) for issue in verdict["known_issues"])
    if verdict["fixes"]:
        blocks.append(f"{head} What to change")
        for number, fix in enumerate(verdict["fixes"], start=1):
            blocks += _fix(number, fix)
    blocks += _experiments(verdict, head)
    if verdict["state"] != "healthy":
        blocks += [f"{head} How sure", *_how_sure(verdict)]
    return blocks


def _experiments(verdict: Verdict, head: str) -> list[str]:
    """The sets of switches with which the fault goes, and the nearest values that work."""
    sets, near = verdict.get("switches", []), verdict.get("neighbours", [])
    blocks = [f"{head} Experiments"] if sets or near else []
    if sets:
        items = [f"{prose(words.switch_set(one))} ({words.MEASURED_HERE}){_cost(one)}" for one in sets]
        blocks += ["What makes the fault go:", *_bullets(items)]
    if near:
        blocks += ["The nearest values that work, everything else unchanged:"]
        blocks += _table(["what", "now", "works"], [[_cell(n["what"]), _cell(n["was"]), _cell(n["now"])] for n in near])
    return blocks


def _cost(one: SwitchSetEntry) -> str:
    costs = [setting["cost"] for setting in one["settings"] if setting["cost"]]
    return f"; cost: {prose('; '.join(costs))}" if costs else ""


def _issue(issue: KnownIssueEntry) -> str:
    return f"{prose(issue['says'])} {code(issue['url'])}"


def _fix(number: int, fix: FixEntry) -> list[str]:
    by = f" by {code(fix['by'])}" if fix["by"] else ""
    blocks = [f"{number}\\. {prose(fix['title'])} ({words.fix_basis(fix['verified'], fix['level'])}{by})"]
    blocks += [prose(part) for part in paragraphs(fix["detail"])]
    if fix["patch"]:
        blocks.append(fence(fix["patch"], "diff"))
    return blocks


def _how_sure(verdict: Verdict) -> list[str]:
    location = verdict["location"]
    sure = words.how_sure(verdict["state"], verdict["confidence"], location["found_by"] if location else None)
    lines = [f"{sure} ({prose(verdict.get('basis', words.NOT_RUN))})"]
    if verdict["state"] in ("localized", "classified"):
        lines.append(f"{verdict['confidence']} means: {words.CONFIDENCE[verdict['confidence']]}")
    owner = words.OWNER[verdict["owner"]]
    if owner:
        lines.append(f"At fault: {owner}.")
    return _bullets(lines)


def _step_line(step: Any) -> str:
    result = step["outcome"] if step["status"] == "ran" else step["status"]
    return f"{code(step['tool'])}: {result}"


def _not_checked(verdict: Verdict) -> Iterable[str]:
    for item in verdict["not_checked"]:
        command = f": {code(item['command'])}" if item["command"] else ""
        yield f"{prose(item['what'])}, because {prose(item['why'])} ({words.NOT_RUN}){command}"


def _note(note: Any) -> str:
    location = note["location"]
    place = f" ({code(location['file'] + ':' + str(location['line']))})" if location else ""
    rule = f"{prose(note['rule'])}: " if note["rule"] else ""
    summary = f": {prose(note['summary'])}" if note.get("summary") else ""
    return f"{rule}{prose(note['title'])}{place}{summary}"


def _walk(report: Report) -> list[str]:
    rows = []
    for number, step in enumerate(report["walk"], start=1):
        result = f"{step['status']}: {step['outcome']}" if step["status"] == "ran" else step["status"]
        again = step["elsewhere"] or step["command"]
        rows.append(
            [
                str(step.get("number") or number),
                _cell(step["node"]),
                _cell(step["tool"]),
                _cell(step["about"]),
                prose(step["env"]),
                result,
                _cell(step["why"]),
                f"{step['seconds']:.2f}",
                _cell(again or ""),
            ]
        )
    return _table(["step", "node", "tool", "about", "env", "result", "why", "s", "command"], rows)


def _facts(report: Report) -> list[str]:
    return _table(
        ["fact", "about", "value", "unit", "caliber", "env", "source"],
        (
            [
                _cell(fact["name"]),
                _cell(fact["about"]),
                _cell(_value(fact["value"])),
                prose(fact["unit"] or ""),
                fact["caliber"],
                prose(fact["env"]),
                _cell(fact["source"]),
            ]
            for fact in report["facts"]
        ),
    )


def _value(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 200 else text[:199] + "…"


def _environments(report: Report) -> list[str]:
    return _table(
        ["id", "python", "tilelang", "torch", "ran on"],
        (
            [
                prose(e["id"]),
                prose(e["python"]),
                prose(e["tilelang"] or "none"),
                prose(e["torch"] or "none"),
                prose(e["ran_on"]),
            ]
            for e in report["environments"]
        ),
    )


def _artifacts(report: Report) -> list[str]:
    return _table(
        ["path", "kind", "sha256"],
        ([_cell(a["path"]), prose(a["kind"]), _cell(a["sha256"][:16])] for a in report["artifacts"]),
    )


def _pictures(report: Report) -> list[str]:
    """The small drawings among the artifacts, each behind a line that says what it is."""
    drawn = [(a, a.get("picture")) for a in report["artifacts"]]
    return [
        block
        for a, picture in drawn
        if picture
        for block in (f"{prose(a['kind'])}, {code(a['path'])}:", fence(picture))
    ]
