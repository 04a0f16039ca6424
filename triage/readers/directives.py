"""Where `#line` directives lead: from the line a compiler reports to the line of the user's file that a directive names.

TileLang writes one directive before each statement, and a statement may become many lines of C++. A compiler counts
on from the directive, so for the fourth of them it reports a line of the user's file that is three too far.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_DIRECTIVE = re.compile(r'\s*#\s*(?:line\s+)?(?P<line>\d{1,9})\s+"(?P<file>[^"]+)"')
_NAME = re.compile(r"[A-Za-z_]\w{2,}")


def directed_line(source: Sequence[str], file: str, reported: int, shown: Iterable[str], said: str = "") -> int | None:
    """The line of `file` whose statement became the generated line that is reported as `file(reported)`.

    `source` holds the generated lines, `shown` what the compiler quotes of them, and `said` the message, whose names
    may be in one of them alone. Without directives for `file` it is `reported` itself; None where several statements
    fit alike.
    """
    fitting: list[tuple[int, str]] = []
    named, start, at, directed = "", 0, 0, False
    for number, text in enumerate(source):
        found = _DIRECTIVE.match(text)
        if found:
            named, start, at = found["file"], int(found["line"]), number
            directed = directed or named == file
        elif named == file and start + number - at - 1 == reported:
            fitting.append((start, text))
    if not directed:
        return reported
    quoted = {_bare(text) for text in shown}
    fitting = [one for one in fitting if _bare(one[1]) in quoted] or _named_in(said, fitting)
    lines = {start for start, _ in fitting} or {reported}
    return lines.pop() if len(lines) == 1 else None


def _named_in(said: str, fitting: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """Those lines that have most of the names of a message."""
    names = set(_NAME.findall(said))
    counts = [len(names & set(_NAME.findall(text))) for _, text in fitting]
    return [one for one, count in zip(fitting, counts, strict=True) if count == max(counts)]


def _bare(text: str) -> str:
    """Without blanks: a compiler shows a line as its preprocessor left it."""
    return "".join(text.split())
