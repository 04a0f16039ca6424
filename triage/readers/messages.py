"""What an error message says besides its words: the failed check, the places and the names it mentions."""

from __future__ import annotations

import re
from dataclasses import dataclass

from triage.model import FoundBy, Location
from triage.readers.frames import User

_CHECK = re.compile(
    r"Check failed: (?P<condition>.*?)"
    r"(?: is false| \((?P<left>[^()]*(?:\([^()]*\)[^()]*)*) vs\. (?P<right>[^()]*(?:\([^()]*\)[^()]*)*)\) ?): ?(?P<text>.*)",
    re.DOTALL,
)
_SPAN = re.compile(r"\s*--> (?P<file>\S.*?):(?P<line>\d{1,9})(?::(?P<column>\d{1,9}))?$")
_SNIPPET = re.compile(r"\s*\d+ \| (?P<text>.*)")
_NAME = r"[A-Za-z_]\w*"
#: wordings of tilelang and tvm that name a buffer or a variable, most specific first
_MENTIONS = tuple(
    re.compile(pattern)
    for pattern in (
        rf"`(?P<a>{_NAME})(?=[`(\[])",
        rf"\bbetween (?P<a>{_NAME}) and (?P<b>{_NAME}) in\b",
        rf"\b(?:src|dst)=(?P<a>{_NAME})\b",
        rf"\b(?:[Bb]uffer|[Ff]ragment|[Vv]ariable|[Pp]arameter|[Tt]ensor|input|[Ll]ayout for)(?=:? ['\"]?(?P<a>{_NAME})['\"]?(?:[\s,.:;\[('=]|$))",
        rf"\bidentifier \"(?P<a>{_NAME})\"",
        rf"\bname '(?P<a>{_NAME})' is not defined",
        r"\bvariables \((?P<list>[\w, ]+)\)",
    )
)
#: words that the wordings above are followed by without naming anything
_FUNCTION_WORDS = (
    "a an the is are was be can could must should has have had not no of in on at to for from by with and or as it its"
    " that this these those which when where while type types shape shapes dtype scope scopes size sizes name names"
    " rank index indices element elements access accesses read write region regions layout layouts map store load"
    " pointer view declaration allocation argument arguments value values object objects count list dimension"
    " dimensions did does do used defined only device device_type mismatch shared local global fragment fragments"
    " cannot before after may will buffer buffers variables slicing slice int float bool str tensor"
)
_NOT_NAMES = frozenset(_FUNCTION_WORDS.split())


@dataclass(frozen=True, slots=True)
class Check:
    """`Check failed: (CONDITION) is false: TEXT` or `Check failed: a == b (LEFT vs. RIGHT) : TEXT`."""

    condition: str
    text: str
    left: str | None = None
    right: str | None = None


def parse_check(message: str) -> Check | None:
    """The first failed check of a tvm or tilelang message; None where there is none."""
    at = message.find("Check failed: ")
    if at < 0:
        return None
    match = _CHECK.match(message[at : at + 2_048])
    if match is None:
        return None
    condition = match["condition"]
    if condition.startswith("(") and condition.endswith(")"):
        condition = condition[1:-1]
    return Check(condition, match["text"].strip(), match["left"], match["right"])


def spans(views: list[str], user: User) -> tuple[Location, ...]:
    """The user's lines that `  --> file:line:col` marks name, each with the snippet printed below it."""
    found: list[Location] = []
    for at, view in enumerate(views):
        match = _SPAN.match(view) if "-->" in view[:40] else None
        if match is None or user(match["file"]) is False:
            continue
        snippet = next((s["text"].strip() for s in map(_SNIPPET.match, views[at + 1 : at + 4]) if s), None)
        column = int(match["column"] or 1)
        found.append(
            Location(
                match["file"],
                int(match["line"]),
                column=column if column > 1 else None,  # statement spans always say 1: the column is not known
                snippet=snippet,
                found_by=FoundBy.SPAN,
            )
        )
    return tuple(found)


def mentions(message: str) -> tuple[str, ...]:
    """Names of buffers and variables in `message`, in order of appearance, each once."""
    found: list[tuple[int, str]] = []
    head = message[:8_192]
    for pattern in _MENTIONS:
        for match in pattern.finditer(head):
            for group in match.groupdict():
                names = re.compile(_NAME).finditer(head, *match.span(group))
                found += [(name.start(), name[0]) for name in names if name[0] not in _NOT_NAMES]
    return tuple(dict.fromkeys(name for _, name in sorted(found)))
