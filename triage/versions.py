"""Version numbers and specifiers, as far as Python packages and toolkits use them (the common part of PEP 440).

Written here because the parent must not need more than the standard library to tell a broken installation.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_VERSION = re.compile(
    r"\s*v?(?:\d+!)?(?P<release>\d+(?:\.\d+)*)"
    r"(?:[-_.]?(?P<pre>a|b|c|rc|alpha|beta|pre|preview)[-_.]?(?P<pre_n>\d*))?"
    r"(?:-(?P<post_short>\d+)|[-_.]?(?P<post>post|rev|r)[-_.]?(?P<post_n>\d*))?"
    r"(?:[-_.]?(?P<dev>dev)[-_.]?(?P<dev_n>\d*))?"
    r"(?:\+(?P<local>[a-z0-9._-]+))?\s*",
    re.I,
)
_CLAUSE = re.compile(r"\s*(===|==|!=|<=|>=|~=|<|>)\s*([^\s,]+)\s*")
_REQUIREMENT = re.compile(
    r"\s*(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[[^\]]*\])?\s*\(?(?P<spec>[^;()@]*)\)?\s*(?:;(?P<marker>.*))?"
)
_PRE_RANK = {"a": 0, "alpha": 0, "b": 1, "beta": 1, "c": 2, "rc": 2, "pre": 2, "preview": 2}
#: a development release comes before its pre-releases, a final release after them
_DEV_ONLY, _FINAL = -1, 3

Key = tuple[tuple[int, ...], tuple[int, int], tuple[int, int], tuple[int, int]]


class VersionError(ValueError):
    """The text is no version or no specifier."""


@dataclass(frozen=True)
class Requirement:
    """`name` is normalized (lower case, hyphens); `marker` is the text behind the semicolon, unread."""

    name: str
    specifier: str
    marker: str = ""


def key(text: str) -> Key:
    """What to sort versions by; a local part (`+cpu`) has no rank. Raises `VersionError`."""
    found = _VERSION.fullmatch(text)
    if found is None:
        raise VersionError(f"{text!r} is no version")
    release = tuple(int(part) for part in found["release"].split("."))
    while len(release) > 1 and release[-1] == 0:
        release = release[:-1]
    has_post = found["post"] is not None or found["post_short"] is not None
    post = (1, int(found["post_n"] or found["post_short"] or 0)) if has_post else (0, 0)
    dev = (0, int(found["dev_n"] or 0)) if found["dev"] else (1, 0)
    if found["pre"]:
        pre = (_PRE_RANK[found["pre"].lower()], int(found["pre_n"] or 0))
    else:
        pre = (_DEV_ONLY, 0) if found["dev"] and not has_post else (_FINAL, 0)
    return release, pre, post, dev


def satisfies(version: str, specifier: str) -> bool:
    """Whether a version meets every clause of `>=1.2,<2`; an empty specifier is met. Raises `VersionError`."""
    clauses = [part for part in specifier.split(",") if part.strip()]
    return all(_meets(version, clause) for clause in clauses)


def _meets(version: str, clause: str) -> bool:
    found = _CLAUSE.fullmatch(clause)
    if found is None:
        raise VersionError(f"{clause!r} is no version specifier")
    op, wanted = found[1], found[2]
    if op == "===":
        return version.strip().lower() == wanted.lower()
    if wanted.endswith(".*") and op in ("==", "!="):
        return _starts(version, wanted[:-2]) == (op == "==")
    have, want = key(version), key(wanted)
    if op == "~=":
        prefix = _release(wanted)[:-1]
        if not prefix:
            raise VersionError(f"{clause!r}: ~= needs at least two numbers")
        return have >= want and _padded(version, len(prefix)) == prefix
    if op == ">":  # 1.2.post1 is no answer to >1.2
        return have > want and not (have[2][0] and not want[2][0] and have[:2] == want[:2])
    if (
        op == "<"
    ):  # nor is 1.2rc1 one to <1.2: the bound lies below all that leads to it, if it is no such version itself
        leads = want[1][0] < _FINAL or want[3][0] == 0
        return have < (want if leads else key(f"{wanted.partition('+')[0]}.dev0"))
    return {"==": have == want, "!=": have != want, "<=": have <= want, ">=": have >= want}[op]


def _release(text: str) -> tuple[int, ...]:
    found = _VERSION.fullmatch(text)
    if found is None:
        raise VersionError(f"{text!r} is no version")
    return tuple(int(part) for part in found["release"].split("."))


def _padded(text: str, length: int) -> tuple[int, ...]:
    release = _release(text)
    return (release + (0,) * length)[:length]


def _starts(version: str, prefix: str) -> bool:
    want = _release(prefix)
    return _padded(version, len(want)) == want


def requirement(text: str) -> Requirement | None:
    """Read one `Requires-Dist` line; None for what is none (a direct reference by URL, say)."""
    found = _REQUIREMENT.fullmatch(text)
    if found is None:
        return None
    name = re.sub(r"[-_.]+", "-", found["name"]).lower()
    return Requirement(name, found["spec"].strip(), (found["marker"] or "").strip())
