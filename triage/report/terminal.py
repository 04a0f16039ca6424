"""The report on a terminal: one screen that tells what, where, why, what to change, how sure, and what was not checked.

Everything is built as `rich.text.Text` pieces from text that `visible` has cleaned; rich's markup is never used.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from typing import TextIO

from rich.cells import cell_len
from rich.text import Text

from triage.report import words
from triage.report.contract import FixEntry, LocationEntry, NotCheckedEntry, Report, Verdict, WalkStep
from triage.report.page import Page
from triage.report.source import Drawn, changed_lines, draw
from triage.report.text import GLUE, defuse, encodable, one_line, paragraphs, visible

MIN_WIDTH = 40
MAX_WIDTH = 120
#: how many entries a list shows before it refers to the full report, so that the first screen stays one
SHOWN = 4
QUOTE_LINES = 3
WHY_LINES = 5
#: names merged into one entry of NOT CHECKED
MERGED = 4

_COLOR = {"localized": "red", "classified": "yellow", "unknown": "yellow", "healthy": "green"}
_MARK = {"localized": "✗", "classified": "✗", "unknown": "?", "healthy": "✓"}


def show(report: Report, stream: TextIO, environ: Mapping[str, str] = os.environ, base: str | None = None) -> None:
    """Write the report to `stream`, with colours only on a terminal that wants them (NO_COLOR, TERM=dumb).

    Paths are shown relative to `base`, by default the working directory.
    """
    tty = stream.isatty()
    color = tty and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"
    width = shutil.get_terminal_size().columns if tty or environ.get("COLUMNS") else 80
    page = render(report, width=width, color=color, base=base or os.getcwd())
    stream.write(encodable(page, stream.encoding or "utf-8"))
    stream.flush()


def render(report: Report, *, width: int = 80, color: bool = False, base: str | None = None) -> str:
    """The report as text of at most `width` columns (within `MIN_WIDTH` and `MAX_WIDTH`).

    Paths below the folder `base` are shown relative to it.
    """
    width = max(MIN_WIDTH, min(width, MAX_WIDTH))
    page = Page(width, color, base)
    verdict = report["verdict"]
    _headline(page, verdict, report["subject"]["path"])
    _where(page, verdict)
    if verdict["state"] == "unknown":
        page.section("LOOKED AT", _looked_at(report))
    if verdict["state"] == "healthy":
        page.section("CHECKED", (Text("✓ ").append(one_line(item)) for item in verdict["checked"]), limit=2 * SHOWN)
    else:
        page.section("WHY", _why(page, verdict))
        page.section("CHANGE" if verdict["fixes"] else "TRY NEXT", _changes(report, verdict))
        page.section("EXPERIMENTS", _experiments(verdict), limit=SHOWN, close=True)
        page.section("HOW SURE", _how_sure(verdict))
    page.section("NOT CHECKED", _not_checked(verdict), limit=SHOWN, close=True)
    page.section("ALSO FOUND", (_brief(page, other) for other in report["other_findings"]), limit=SHOWN, close=True)
    page.section("NOTES", (_brief(page, note) for note in report["notes"]), limit=SHOWN, close=True)
    page.section("REPORT", _report_place(page, report), close=True)
    return defuse(page.text())


def _headline(page: Page, verdict: Verdict, subject: str) -> None:
    state = verdict["state"]
    style = f"bold {_COLOR[state]}"
    kind = " · ".join(one_line(part) for part in (verdict["category"], verdict["stage"]) if part) or page.path(subject)
    name = f"{one_line(verdict['rule'])}  " if verdict["rule"] else ""
    head = Text(f"{_MARK[state]} {name}{one_line(verdict['title'])}", style=style)
    if kind and cell_len(head.plain) + cell_len(kind) + 2 <= page.width:
        gap = " " * (page.width - cell_len(head.plain) - cell_len(kind))
        page.line(Text.assemble(head, gap, (kind, "dim")))
    else:
        for line in page.wrap(head, page.width):
            page.line(line)
        if kind:
            page.line(Text(f"  {kind}", style="dim"))
    if verdict["summary"]:
        for line in page.wrap(Text(visible(verdict["summary"])), page.width - 2):
            page.line(Text.assemble("  ", line))


def _where(page: Page, verdict: Verdict) -> None:
    location = verdict["location"]
    if location is not None:
        page.section("WHERE", iter([_place(page, location)]))
        for drawn in draw(verdict, page.width, page.path):
            page.line(_source_line(drawn))
    elif verdict["state"] in ("classified", "unknown"):
        page.section("WHERE", iter([Text("no line of your file could be singled out")]))


def _source_line(drawn: Drawn) -> Text:
    style = {"fault": "bold", "caret": "bold red", "label": "cyan"}.get(drawn.kind, "")
    gutter_style = "bold red" if drawn.kind == "fault" else "dim"
    return Text.assemble((drawn.gutter, gutter_style), (drawn.text, style))


def _place(page: Page, location: LocationEntry) -> Text:
    place = f"{page.path(location['file'])}:{location['line']}"
    if location["column"] is not None:
        place += f":{location['column']}"
    text = Text(place, style="bold")
    if location["function"]:
        text.append(f" in {one_line(location['function'])}", style="not bold")
    return text


def _quote(page: Page, verdict: Verdict) -> Iterator[Text]:
    quote = verdict["quote"]
    if quote is None:
        return
    lines = [line.strip() for line in visible(quote["text"]).split("\n") if line.strip()]
    for line in _shortened("\n".join(lines[:QUOTE_LINES]), page.body_width * QUOTE_LINES).split("\n"):
        yield Text(f"│ {line}", style="italic")
    if quote["artifact"]:
        at = f", line {quote['line']}" if quote["line"] else ""
        yield Text(f"│ {one_line(quote['artifact'])}{at}", style="dim")


def _looked_at(report: Report) -> Iterator[Text]:
    ran = [step for step in report["walk"] if step["status"] != "skipped"]
    if ran:
        yield Text(", ".join(f"{one_line(s['tool'])} ({_result(s)})" for s in ran))


def _result(step: WalkStep) -> str:
    return step["outcome"] if step["status"] == "ran" else step["status"].replace("_", " ")


def _why(page: Page, verdict: Verdict) -> Iterator[Text]:
    yield from _quote(page, verdict)
    told = paragraphs(verdict.get("why", ""))
    if told:
        yield Text(_shortened(told[0], page.body_width * WHY_LINES))
    owner = words.OWNER[verdict["owner"]]
    if owner and verdict["owner"] != "kernel":
        yield Text(f"At fault: {owner}.")
    issues = verdict["known_issues"]
    for issue in issues[:SHOWN]:
        yield Text(one_line(issue["says"]))
    if len(issues) > SHOWN:
        yield Text(f"… and {len(issues) - SHOWN} more known issues in the full report", style="dim")


def _shortened(text: str, room: int) -> str:
    """`text` cut after a sentence that still fits into `room` characters, or after a word."""
    if len(text) <= room:
        return text
    cut = text[: room - 1]
    end = cut.rfind(". ")
    return cut[: end + 1] if end > room // 3 else cut.rsplit(" ", 1)[0] + " …"


def _changes(report: Report, verdict: Verdict) -> Iterator[Text]:
    if not verdict["fixes"]:
        yield from _next_steps(report, verdict)
        return
    fixes = verdict["fixes"]
    tried = any(fix["verified"] != "not-run" or fix["level"] for fix in fixes)
    for number, fix in enumerate(fixes[:SHOWN], start=1):
        yield _fix(fix, f"{number}. " if len(fixes) > 1 else "", tag=tried or len(fixes) == 1)
    if len(fixes) > SHOWN:
        yield Text(f"… and {len(fixes) - SHOWN} more in the full report", style="dim")
    if not tried and len(fixes) > 1:
        yield Text("none of these was tried", style="dim").append_text(_tag(words.NOT_RUN))


def _experiments(verdict: Verdict) -> Iterator[Text]:
    """What makes the fault go, and the nearest values that work."""
    for one in verdict.get("switches", []):
        yield Text(f"• {one_line(words.switch_set(one))}").append_text(_tag(words.MEASURED_HERE))
    near = [one_line(words.neighbour(one)) for one in verdict.get("neighbours", [])]
    if near:
        yield Text(f"• nearest values that work: {'; '.join(near)}").append_text(_tag(words.MEASURED_HERE))


def _fix(fix: FixEntry, prefix: str, *, tag: bool) -> Text:
    indent = " " * len(prefix)
    text = Text(f"{prefix}{one_line(fix['title'])}")
    if tag:
        text.append_text(_tag(words.fix_basis(fix["verified"], fix["level"])))
    for part in paragraphs(fix["detail"]):
        text.append(f"\n{indent}{part}")
    for line in changed_lines(fix["patch"] or ""):
        text.append(f"\n{indent}{line}", style={"-": "red", "+": "green"}[line[0]])
    return text


def _next_steps(report: Report, verdict: Verdict) -> Iterator[Text]:
    """Where nothing can be suggested for the file: what a person can look at, and the commands that would tell more."""
    if verdict["state"] == "unknown" and report.get("case"):
        yield Text("• read the whole output: it is kept beside the full report")
    if verdict["quote"]:
        yield Text("• read the error and the line it names together; triage explain 'ITS TEXT' lists the nearest rules")
    commands = [item["command"] for item in verdict["not_checked"] if item["command"] and verdict["state"] == "healthy"]
    if verdict["category"] == "environment" or verdict["state"] == "unknown":
        commands.append("triage doctor")
    for command in list(dict.fromkeys(commands))[:SHOWN]:
        yield Text(f"• {one_line(command)}")


def _tag(basis: str) -> Text:
    """What a conclusion rests on, behind it, and never broken over lines."""
    return Text(f" [{one_line(basis).replace(' ', GLUE)}]", style="dim")


def _how_sure(verdict: Verdict) -> Iterator[Text]:
    location = verdict["location"]
    sure = words.how_sure(verdict["state"], verdict["confidence"], location["found_by"] if location else None)
    yield Text(sure).append_text(_tag(verdict.get("basis", words.NOT_RUN)))


def _not_checked(verdict: Verdict) -> Iterator[Text]:
    """One entry a reason: what was not checked for it, and the commands that would."""
    by_reason: dict[str, list[NotCheckedEntry]] = {}
    #: beside a fault, what triage itself cannot do yet only stands in the full report
    shown = [i for i in verdict["not_checked"] if verdict["state"] == "healthy" or i["why"] != words.NOT_BUILT]
    for item in shown:
        by_reason.setdefault(one_line(item["why"]), []).append(item)
    for reason, items in by_reason.items():
        names = list(dict.fromkeys(one_line(item["what"]) for item in items))
        more = f" and {len(names) - MERGED} more" if len(names) > MERGED else ""
        text = Text(f"• {'; '.join(names[:MERGED])}{more}: {reason}").append_text(_tag(words.NOT_RUN))
        for command in dict.fromkeys(item["command"] for item in items if item["command"]):
            text.append(f"\n  {one_line(command)}", style="dim")
        yield text


def _brief(page: Page, entry: Mapping[str, object]) -> Text:
    location = entry["location"]
    text = Text("• ")
    if entry["rule"]:
        text.append(f"{one_line(str(entry['rule']))} ", style="bold")
    text.append(one_line(str(entry["title"])))
    if isinstance(location, dict):
        text.append(f" ({page.path(str(location['file']))}:{location['line']})")
    if entry.get("explained_by"):
        text.append(f", a consequence of {one_line(str(entry['explained_by']))}")
    if entry.get("basis"):
        text.append_text(_tag(str(entry["basis"])))
    return text


def _report_place(page: Page, report: Report) -> Iterator[Text]:
    rule = report["verdict"]["rule"]
    case = report.get("case")
    if case:
        yield Text(page.path(f"{case.rstrip('/')}/report.md"))
        for artifact in report["artifacts"]:
            if artifact["kind"] == words.MINIMIZED:
                small = page.path(f"{case.rstrip('/')}/{artifact['path']}")
                yield Text(f"{small} is your script made small, with the same fault")
    if rule:
        yield Text(f"triage explain {one_line(rule)} tells more about this kind of fault", style="dim")
