"""Text as people paste it: reports, chats, collected logs. The same output with what was put around it taken off. Pure.

Readers know the output of programs. Around it stand fences and quotation marks of Markdown, prompts with the commands that
were typed, the prefixes of log collectors, and one level of indentation.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass

from triage.readers.blocks import TRACEBACK, bare_exception_line
from triage.readers.lines import clean, split_lines

#: Prefixes that may stand before each other; more than these few are no prefixes.
MOST_PREFIXES = 4

_FENCE = re.compile(r"\s{0,3}(?:```|~~~)[\w+{}. -]*$")
_TAG = re.compile(r"\s*</?(?:details|summary|pre|code|p|br|b|blockquote)\b[^>]*>(?P<rest>.*)$", re.IGNORECASE)
_PROMPT = re.compile(
    r"(?:\([\w.-]+\) )?(?:[\w.-]+@[\w.-]+[:\s][^$#>]{0,100}[$#] |\$ |[➜❯λ] |PS [A-Z]:[^>]{0,100}> |[A-Z]:\\[^>]{0,100}>|>>> |In \[\d+\]: )\S"
)
_PREFIX = re.compile(
    r"(?:##\[(?:error|warning|debug)\]|::(?:error|warning)(?: [^:]*)?::"  # commands of a CI system
    r"|[^\t\n]{1,60}\t[^\t\n]{1,60}\t(?=\d{4}-\d\d-\d\dT)"  # job and step, of a downloaded log
    r"|\ufeff?\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?[ \t](?:- )?"
    r"|\[\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?\][ \t]?"
    r"|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d [\w.-]+ [\w./-]+(?:\[\d+\])?: "  # syslog
    r"|[EWIF]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ [\w./-]+:\d+\] "  # glog
    r"|(?:ERROR|WARNING|INFO|CRITICAL|DEBUG)(?:\s+\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d+)?)?\s*(?:\[[\w./-]+:\d+\]|[-:|])[ \t]?"
    r"|\[(?:ERROR|WARNING|INFO|CRITICAL|DEBUG|stderr|stdout)\]:?[ \t]?"
    r"|\((?:[\w.]+ )?(?:\w+=[\w.:-]+,? ?)+\) ?"  # (Worker pid=12, ip=10.0.0.1)
    r"|[\w.-]{1,60}(?:-\d+)? +\| "  # a container of several
    r"|#\d+ \d+\.\d+ "  # a step of an image build
    r"|\[\d+\.\d+s?\] )"
)
_CODE = re.compile(r"(?: {4}|\t)\S")
_SUMMARY = re.compile(r"(?:FAILED|ERROR) \S+(?:::\S+)* - (?P<rest>\S.*)")
_PYTEST = re.compile(r"E(?: {3,}(?P<text>.*))?$")


@dataclass(frozen=True)
class Unwrapped:
    """The text, and for each of its lines the number, from 1, of the line it was in the original."""

    text: str
    numbers: tuple[int, ...]

    def number(self, line: int | None) -> int | None:
        """The line of the original that a line of `text` was."""
        return self.numbers[line - 1] if line and line <= len(self.numbers) else None


def unwrap(text: str) -> Unwrapped:
    """The text without what was put around it; line for line, but where line feeds were spelled out."""
    lines = _spelled_out(text)
    views = _unquoted([_without_prefixes(view) for _, view in lines])
    views = _dedented([_undecorated(view) for view in views])
    return Unwrapped("\n".join(views), tuple(number for number, _ in lines))


def _spelled_out(text: str) -> list[tuple[int, str]]:
    """Numbered lines as a terminal shows them; of one endless line with spelled-out line feeds, as in JSON, its parts."""
    lines = split_lines(text)
    if len(lines) == 1 and lines[0].raw.count("\\n") > 1:
        parts = lines[0].raw.replace("\\t", "\t").replace('\\"', '"').split("\\n")
        return [(1, clean(part)) for part in parts]
    return [(line.number, line.view) for line in lines]


def _without_prefixes(view: str) -> str:
    """A line without what log collectors put before it, and with the characters that HTML spells out."""
    if "&" in view:
        view = html.unescape(view).replace("\n", " ")
    for _ in range(MOST_PREFIXES):
        found = _PREFIX.match(view)
        if found is None:
            break
        view = view[found.end() :]
    return view


def _undecorated(view: str) -> str:
    """A line without a decoration of its own; empty where it is nothing but one, or what was typed."""
    if _FENCE.match(view) or _PROMPT.match(view):
        return ""
    tag = _TAG.match(view)
    if tag:
        return re.sub(r"</?\w+>", "", tag["rest"])
    summary = _SUMMARY.match(view)
    if summary:
        return summary["rest"]
    failure = _PYTEST.match(view)
    return (failure["text"] or "").strip() if failure else view


def _unquoted(views: list[str]) -> list[str]:
    """Without the `> ` of a quotation: a single line that begins so is pytest's mark of the failing line."""
    found = list(views)
    alone = sum(bool(view.strip()) for view in views) == 1
    at = 0
    while at < len(views):
        end = at
        while end < len(views) and views[end].startswith(">") and not views[end].startswith(">>>"):
            end += 1
        if end - at > 1 or (end - at == 1 and alone):
            found[at:end] = [re.sub(r"^(?:> ?)+", "", view) for view in views[at:end]]
        at = max(end, at + 1)
    return found


def _dedented(views: list[str]) -> list[str]:
    """Without the indentation of blocks that begin with an error or a traceback, or as code does in Markdown."""
    found: list[str] = []
    indent, above = "", ""
    for view in views:
        body = view.lstrip(" \t")
        begins = body.startswith(TRACEBACK) or bare_exception_line(body) is not None
        begins = begins or (not above.strip() and _CODE.match(view) is not None)
        above = view
        if view.strip() and not view.startswith(indent):
            indent = ""
        if begins and not indent:
            indent = view[: len(view) - len(body)]
        found.append(view[len(indent) :] if view.startswith(indent) else view)
    return found
