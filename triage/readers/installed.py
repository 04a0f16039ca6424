"""Which tilelang a text says is installed. Pure.

People name releases for many reasons: what works, what was tried, where something was fixed. So a release counts where it is
stated: by a line that says nothing else, as pip and Python print it, as the answer of a report form, or behind a word such as
`installed`. Without such a statement it counts where one release alone is mentioned and its line speaks of no other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_RELEASE = r"(?P<release>\d+\.\d+\.\d+(?:\.?(?:post|rc|dev)\d+)?)(?:\+[\w.]{1,60})?(?!\w|[.-]\w)"
_NAME = r"(?<![\w./\\-])[Tt]ile-?[Ll]ang(?![\w./\\]|-(?!\d))"
#: what may stand between the name and the release; `>=` and its like name a range and no release
_BETWEEN = r"[ \t]*(?:(?:\.__version__|version|ver\.?|release)\b[ \t]*)?(?:is[ \t]+)?[\s=:@|v\"'`*_()-]{0,40}"
_NAMED = re.compile(
    rf"(?:{_NAME}|(?<![\w.])tilelang\.__version__)(?:\s+are\s+you\s+using\?)?{_BETWEEN}{_RELEASE}", re.IGNORECASE
)
#: another package and its release, which a line may state beside tilelang's: `torch 2.6.0`, `cuda: 12.4`, `| torch | 2.6 |`
_PACKAGE = re.compile(r"\b[A-Za-z][\w.+-]{0,60}[ \t]{0,40}[=:@| \t-][=:@|]{0,2}[ \t]{0,40}v?\d[\w.+-]{0,60}")
#: lines below a name within which its release may stand, and what stands for lines that were left out
_ANSWER, _GAP = 3, "…\n"
#: what is longer is no list of packages
_LINE = 400
#: `pip show`, a prompt of Python and a report form state the release on a line of its own
_BELOW = re.compile(
    rf"(?:^Name: {_NAME}\s*\nVersion: |^Requirement already satisfied: {_NAME}[^\n]{{0,300}}\(|tilelang\.__version__\)?\s*\n\s*|version of tile-?lang[^\n]{{0,40}}\n\s*)['\"`v]*{_RELEASE}",
    re.IGNORECASE | re.MULTILINE,
)
#: behind these words a release is the one that is there
_STATED = re.compile(
    rf"(?:\binstalled\b[ \t]*(?:version)?|\b(?:installed|my|current)[ \t]+version\b|\bversion\b(?=[ \t]*[:=])|\b(?:I am|I'm|we are|we're)[ \t]+(?:on|using|running)\b)"
    rf"[ \t]*(?:[:=]|is|of)?[ \t]*[\"'`*]*{_NAMED.pattern}|\bSuccessfully installed [^\n]{{0,4000}}?{_NAME}-{_RELEASE.replace('release', 'pip')}",
    re.IGNORECASE,
)
#: with these words a line tells of another release than the one that failed, or of a change between two
_DOUBT = re.compile(
    r"\b(?:(?:not|never|no longer|cannot|\w+n['’]t)\s+(?:(?:\w+\s+){0,2}?(?:reproduc\w*|happen\w*|occur\w*|appear\w*|fail\w*|affect\w*|see|seen|crash\w*|hang\w*|"
    r"us\w+)|with|in|on)|upgrad\w*|downgrad\w*|updat\w*|bump\w*|migrat\w*|works?|worked|working|fixed|fixes|resolved|since|before|"
    r"after|until|prior|newer|older|later|earlier|previous\w*|last|latest|other|another|both|docs?|documentation|readme|changelog|"
    r"release notes?|compar\w*|tried|try|tested|unlike|instead|than|versus|vs|against|regress\w*|introduced|requires?|required|needs?|wants?|"
    r"supports?|supported|expects?|should|could|would|may|might|if|maybe|please|revert\w*|rolled|went back|go back|from tile-?lang|fine|ok|okay)\b",
    re.IGNORECASE,
)
#: another release on the same line; of another package it says nothing, and those of tilelang begin with 0
_OTHER = re.compile(r"(?<![\w.+-])v?(0\.\d+\.\d+(?:\.?post\d+)?)(?!\w|\.\w)")


def installed_tilelang(text: str) -> str | None:
    """The release, without its local part; None where the text states none, or two."""
    text = _about_tilelang(text)
    stated = set(_stated(text))
    if not stated:
        stated = set(_mentioned(text))
    return stated.pop() if len(stated) == 1 else None


def _about_tilelang(text: str) -> str:
    """The lines that name it, each with those below it that may answer; of a long log these are few."""
    lines = text.split("\n")
    named = (at for at, line in enumerate(text.lower().split("\n")) if "tilelang" in line or "tile-lang" in line)
    kept = {at + below for at in named for below in range(_ANSWER + 1) if at + below < len(lines)}
    return "\n".join(lines[at] if at - 1 in kept else f"{_GAP}{lines[at]}" for at in sorted(kept))


def _stated(text: str) -> Iterator[str]:
    for found in _BELOW.finditer(text):
        yield found["release"]
    for line in text.splitlines():
        if "." not in line:
            continue
        named = _NAMED.search(line) if len(line) <= _LINE else None
        if named is not None and _is_list(line[: named.start()], line[named.end() :]):
            yield named["release"]
            continue
        for found in _STATED.finditer(line):
            before = line[max(found.start() - _LINE, 0) : found.start()]
            if _DOUBT.search(before.rpartition(";")[2]) is None:
                yield found["release"] or found["pip"]


def _is_list(before: str, after: str) -> bool:
    """Whether what stands around the release on its line is nothing but further packages with theirs."""
    return not any(re.search(r"\w", _PACKAGE.sub("", part)) for part in (before, after))


def _mentioned(text: str) -> Iterator[str]:
    """Where a line names one release and tells nothing else of it."""
    end, releases, doubted = -1, set[str](), False
    for found in _NAMED.finditer(text):
        if found.end() > end:  # not on the line of the one before
            begin, end = text.rfind("\n", 0, found.start()) + 1, text.find("\n", found.end())
            end = end if end >= 0 else len(text)
            line = text[begin:end]
            releases = {other[1] for other in _OTHER.finditer(line)}
            doubted = _DOUBT.search(line) is not None
            end = found.end() if "\n" in found[0] else end  # what follows stands on its second line alone
        if not doubted and not releases - {found["release"]}:
            yield found["release"]
