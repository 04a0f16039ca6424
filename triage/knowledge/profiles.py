"""What the search for all rules needs to know of each expression, kept between runs.

To read it from the syntax of 400 expressions takes a tenth of a second, at every start. So it lies in the user's cache folder, as
plain JSON. It cannot be stale: an entry belongs to the very text of an expression, and the file's name to this Python and to the
code that made it. Where there is no such folder, or the file is not the user's own or not as expected, all is read anew.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from triage.knowledge import pattern


class Profile(NamedTuple):
    """See `pattern.anchors` and `pattern.crosses_lines`."""

    anchors: frozenset[str]
    crosses_lines: bool


#: Profiles that this process knows, by the text of the expression; what `functools.cache` would hold, but to be read and written.
_known: dict[str, Profile] = {}
#: Those among them that the file holds.
_kept: set[str] = set()


def profile(expression: str) -> Profile:
    """The profile of an expression. Raises `PatternError`."""
    found = _known.get(expression)
    if found is None:
        found = Profile(pattern.anchors(expression), pattern.crosses_lines(expression))
        _known[expression] = found
    return found


def recall() -> None:
    """Take in what an earlier run kept."""
    path = _path()
    found = _read(path) if path and not _kept else {}
    _known.update(found)
    _kept.update(found)


def keep(expressions: Collection[str]) -> None:
    """Keep the profiles of these, if one is not kept yet, and of no others; nowhere, if that cannot be."""
    path = _path()
    if path is None or _kept.issuperset(expressions):
        return
    found = {text: profile(text) for text in expressions}
    data = {text: [sorted(one.anchors), one.crosses_lines] for text, one in found.items()}
    with suppress(OSError):  # a full or read-only disk costs time, not the run
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, delete=False) as file:
            json.dump(data, file)
        os.replace(file.name, path)
        _kept.update(found)


def _path() -> Path | None:
    """The file of this Python and this version of the code; None without a home or without the code's text."""
    try:
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        code = Path(pattern.__file__).read_bytes()
    except (RuntimeError, OSError):
        return None
    key = hashlib.sha256(code + sys.version.encode()).hexdigest()[:16]
    return home / "triage" / f"expressions-{key}.json"


def _read(path: Path) -> dict[str, Profile]:
    try:
        with open(path, encoding="utf-8") as file:
            if hasattr(os, "getuid") and os.fstat(file.fileno()).st_uid != os.getuid():
                return {}
            data = json.load(file)
        return {text: _profile(*entry) for text, entry in data.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def _profile(anchors: object, crosses: object) -> Profile:
    if not isinstance(anchors, list) or not all(isinstance(word, str) and word for word in anchors):
        raise TypeError("anchors must be a list of words")
    if not isinstance(crosses, bool):
        raise TypeError("crosses_lines must be a truth value")
    return Profile(frozenset(anchors), crosses)
