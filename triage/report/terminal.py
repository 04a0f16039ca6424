"""The report on a terminal: one screen that tells what, where, why, what to change, how sure, and what was not checked.

Everything is built as `rich.text.Text` pieces from text that `visible` has cleaned; rich's markup is never used.
"""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Iterator, Mapping
from typing import TextIO

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from triage.report import words
from triage.report.contract import FixEntry, LocationEntry, Report, Verdict
from triage.report.source import Drawn, draw
from triage.report.text import defuse, encodable, one_line, visible

MIN_WIDTH = 40
MAX_WIDTH = 120
#: the margin that holds the headings; the longest is "NOT CHECKED"
MARGIN = 12
#: how many entries a list shows before it refers to the full report, so that the first screen stays one
SHOWN = 4
QUOTE_LINES = 3

_COLOR = {"localized": "red", "classified": "yellow", "unknown": "yellow", "healthy": "green"}
_MARK = {"localized": "✗", "classified": "✗", "unknown": "?", "healthy": "✓"}


def show(report: Report, stream: TextIO, environ: Mapping[str, str] = os.environ) -> None:
    """Write the report to `stream`, with colours only on a terminal that wants them (NO_COLOR, TERM=dumb)."""
    tty = stream.isatty()
    color = tty and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"
    width = shutil.get_terminal_size().columns if tty or environ.get("COLUMNS") else 80
    stream.write(encodable(render(report, width=width, color=color), stream.encoding or "utf-8"))
    stream.flush()


def render(report: Report, *, width: int = 80, color: bool = False) -> str:
    """The report as text of at most `width` columns (within `MIN_WIDTH` and `MAX_WIDTH`)."""
    width = max(MIN_WIDTH, min(width, MAX_WIDTH))
    page = _Page(width, color)
    verdict = report["verdict"]
    _headline(page, verdict)
    _where(page, report, verdict)
    if verdict["state"] == "unknown":
        _looked_at(page, report)
    if verdict["state"] == "healthy":
        page.section("CHECKED", (Text("✓ ").append(one_line(item)) for item in verdict["checked"]), limit=2 * SHOWN)
    else:
        page.section("WHY", _why(verdict))
        page.section("CHANGE" if verdict["fixes"] else "TRY NEXT", _changes(report, verdict))
        page.section("HOW SURE", _how_sure(verdict))
    page.section("NOT CHECKED", _not_checked(verdict), limit=SHOWN)
    page.section("ALSO FOUND", (_brief(other) for other in report["other_findings"]), limit=SHOWN)
    page.section("NOTES", (_brief(note) for note in report["notes"]), limit=SHOWN)
    page.section("REPORT", _report_place(report))
    return defuse(page.text())


class _Page:
    """Output of one width: headings in a margin, wrapped text beside them."""

    def __init__(self, width: int, color: bool) -> None:
        self.width = width
        self._console = Console(
            file=io.StringIO(),
            width=width,
            force_terminal=color,
            color_system="standard" if color else None,
            no_color=not color,
            legacy_windows=False,
            highlight=False,
            markup=False,
            emoji=False,
        )

    @property
    def body_width(self) -> int:
        return self.width - MARGIN

    def line(self, text: Text) -> None:
        text.rstrip()
        self._console.print(text, overflow="fold", no_wrap=True, crop=False, soft_wrap=True)

    def section(self, heading: str, items: Iterator[Text], limit: int | None = None) -> None:
        """Items under a heading, each wrapped; those above `limit` are only counted. Nothing is drawn without items."""
        entries = list(items)
        if not entries:
            return
        self.line(Text())
        shown = entries[:limit]
        if limit is not None and len(entries) > limit:
            shown.append(Text(f"… and {len(entries) - limit} more in the full report", style="dim"))
        label = Text(heading.ljust(MARGIN), style="bold")
        for entry in shown:
            for line in self.wrap(entry, self.body_width):
                self.line(label + line)
                label = Text(" " * MARGIN)

    def wrap(self, text: Text, width: int) -> list[Text]:
        """Wrap at blanks; lines after the first are indented like the first one's list mark, if it has one."""
        lines: list[Text] = []
        for part in text.split("\n", allow_blank=True):
            hang = _hang(part.plain)
            first, *rest = part.wrap(self._console, width, overflow="fold") or [Text()]
            lines.append(first)
            if rest:
                tail = part[len(first.plain) :]
                tail = tail[len(tail.plain) - len(tail.plain.lstrip()) :]
                lines += [Text(" " * hang) + line for line in tail.wrap(self._console, width - hang, overflow="fold")]
        for line in lines:
            line.rstrip()
        return lines

    def text(self) -> str:
        file = self._console.file
        assert isinstance(file, io.StringIO)
        return file.getvalue()


def _hang(line: str) -> int:
    body = line.lstrip()
    indent = len(line) - len(body)
    mark = body.split(" ", 1)[0]
    is_mark = mark in ("✓", "•", "✗") or (mark.endswith(".") and mark[:-1].isdigit())
    return indent + (len(mark) + 1 if is_mark else 0)


def _headline(page: _Page, verdict: Verdict) -> None:
    state = verdict["state"]
    style = f"bold {_COLOR[state]}"
    kind = " · ".join(str(part) for part in (verdict["category"], verdict["stage"]) if part)
    name = f"{verdict['rule']}  " if verdict["rule"] else ""
    head = Text(f"{_MARK[state]} {name}{one_line(verdict['title'])}", style=style)
    if kind and cell_len(head.plain) + cell_len(kind) + 2 <= page.width:
        page.line(head + Text(" " * (page.width - cell_len(head.plain) - cell_len(kind)) + one_line(kind), style="dim"))
    else:
        for line in page.wrap(head, page.width):
            page.line(line)
        if kind:
            page.line(Text(f"  {one_line(kind)}", style="dim"))
    if verdict["summary"]:
        for line in page.wrap(Text(visible(verdict["summary"])), page.width - 2):
            page.line(Text("  ") + line)


def _where(page: _Page, report: Report, verdict: Verdict) -> None:
    location = verdict["location"]
    if location is None:
        if verdict["state"] in ("classified", "unknown"):
            page.section("WHERE", iter([Text("no line of your file could be singled out")]))
        page.section("SAID", _quote(verdict))
        return
    page.section("WHERE", iter([_place(location)]))
    for drawn in draw(verdict, page.width):
        page.line(_source_line(drawn))
    if not verdict.get("excerpts"):
        page.section("SAID", _quote(verdict))


def _source_line(drawn: Drawn) -> Text:
    style = {"fault": "bold", "caret": "bold red", "label": "cyan"}.get(drawn.kind, "")
    gutter_style = "bold red" if drawn.kind == "fault" else "dim"
    return Text(drawn.gutter, style=gutter_style) + Text(drawn.text, style=style)


def _place(location: LocationEntry) -> Text:
    place = f"{location['file']}:{location['line']}"
    if location["column"] is not None:
        place += f":{location['column']}"
    text = Text(one_line(place), style="bold")
    if location["function"]:
        text.append(f" in {one_line(location['function'])}", style="not bold")
    return text


def _quote(verdict: Verdict) -> Iterator[Text]:
    quote = verdict["quote"]
    if quote is None:
        return
    lines = [line for line in visible(quote["text"]).split("\n") if line.strip()]
    for line in lines[:QUOTE_LINES]:
        yield Text(line.strip(), style="italic")
    if quote["artifact"]:
        at = f", line {quote['line']}" if quote["line"] else ""
        yield Text(f"({one_line(quote['artifact'])}{at})", style="dim")


def _looked_at(page: _Page, report: Report) -> None:
    ran = [s for s in report["walk"] if s["status"] != "skipped"]
    names = ", ".join(f"{one_line(s['tool'])} ({s['outcome'] if s['status'] == 'ran' else s['status']})" for s in ran)
    page.section("LOOKED AT", iter([Text(names)] if names else []))


def _why(verdict: Verdict) -> Iterator[Text]:
    if verdict.get("why"):
        yield Text(visible(verdict["why"].strip()))
    if verdict["location"] is not None and verdict.get("excerpts"):
        yield from _quote(verdict)
    owner = words.OWNER[verdict["owner"]]
    if owner and verdict["owner"] != "kernel":
        yield Text(f"At fault: {owner}.")
    for issue in verdict["known_issues"]:
        fixed = f", fixed in {one_line(str(issue['fixed_in']))}" if issue.get("fixed_in") else ""
        yield Text(f"Known issue {one_line(str(issue.get('id', '')))}{fixed}.")


def _changes(report: Report, verdict: Verdict) -> Iterator[Text]:
    if not verdict["fixes"]:
        yield from _next_steps(report, verdict)
        return
    numbered = len(verdict["fixes"]) > 1
    for number, fix in enumerate(verdict["fixes"][:SHOWN], start=1):
        yield _fix(fix, f"{number}. " if numbered else "")


def _fix(fix: FixEntry, prefix: str) -> Text:
    indent = " " * len(prefix)
    text = Text(f"{prefix}{one_line(fix['title'])}", style="bold")
    text.append(f"  [{words.fix_basis(fix['verified'], fix['level'], fix['by'])}]", style="not bold dim")
    for part in (fix["detail"], fix["patch"] or ""):
        for line in visible(part.strip("\n")).split("\n") if part.strip() else ():
            style = "green" if part is fix["patch"] and line.startswith("+") else ""
            style = "red" if part is fix["patch"] and line.startswith("-") else style
            text.append(f"\n{indent}{line}", style=f"not bold {style}")
    return text


def _next_steps(report: Report, verdict: Verdict) -> Iterator[Text]:
    """Where nothing can be suggested for the file: the commands that would tell more."""
    commands = [item["command"] for item in verdict["not_checked"] if item["command"]]
    commands += [step["elsewhere"] for step in report["walk"] if step["elsewhere"]]
    if verdict["state"] == "unknown" and report.get("case"):
        yield Text("Read the decisive lines in the full report: its artifacts hold the whole output.")
    for command in dict.fromkeys(commands):
        yield Text(f"• {one_line(command)}")


def _how_sure(verdict: Verdict) -> Iterator[Text]:
    if verdict["state"] == "unknown":
        yield Text(f"{words.STATE['unknown']} [{verdict.get('basis', words.NOT_RUN)}]")
        return
    yield Text(f"{words.CONFIDENCE[verdict['confidence']]} [{verdict.get('basis', words.NOT_RUN)}]")
    location = verdict["location"]
    if location is not None and location["found_by"]:
        yield Text(f"The line: {words.FOUND_BY[location['found_by']]}.")


def _not_checked(verdict: Verdict) -> Iterator[Text]:
    for item in verdict["not_checked"]:
        text = Text(f"• {one_line(item['what'])}: {one_line(item['why'])} [{words.NOT_RUN}]")
        if item["command"]:
            text.append(f"\n  {one_line(item['command'])}", style="dim")
        yield text


def _brief(entry: Mapping[str, object]) -> Text:
    location = entry["location"]
    text = Text("• ")
    if entry["rule"]:
        text.append(f"{entry['rule']} ", style="bold")
    text.append(one_line(str(entry["title"])))
    if isinstance(location, dict):
        text.append(f" ({one_line(str(location['file']))}:{location['line']})")
    if entry.get("explained_by"):
        text.append(f", a consequence of {entry['explained_by']}")
    if entry.get("basis"):
        text.append(f" [{entry['basis']}]", style="dim")
    return text


def _report_place(report: Report) -> Iterator[Text]:
    case = report.get("case")
    if case:
        yield Text(one_line(f"{case.rstrip('/')}/report.md"))
    rule = report["verdict"]["rule"]
    if rule:
        yield Text(f"More about this rule: triage explain {one_line(rule)}", style="dim")
