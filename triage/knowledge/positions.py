"""Where in a TOML text a key stands, which no parser of TOML tells. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

HEADER = re.compile(r"\s*\[\[?\s*([\w.-]+)\s*\]?\]\s*(?:#|$)")
KEY = re.compile(r"""\s*(?:"(?P<quoted>[^"]+)"|(?P<bare>[\w-]+))\s*=""")
#: What a line can hold in which a quote or a `#` means something: a long quote, a whole string, a comment.
TOKEN = re.compile(r"""'''|\"{3}|"(?:\\.|[^"\\])*"|'[^']*'|#.*""")
LONG_QUOTES = ("'''", '"""')


class Positions:
    """The lines, counted from 1, of the keys of a TOML text. Of an array of tables, those of the first table."""

    def __init__(self, text: str) -> None:
        self._lines = text.split("\n")
        self._keys: dict[tuple[str, str], int] = {}
        self._headers: dict[str, int] = {}
        section = ""
        for number, line in _outside_strings(self._lines):
            if header := HEADER.match(line):
                section = header[1]
                self._headers.setdefault(section, number)
            elif key := KEY.match(line):
                self._keys.setdefault((section, key["quoted"] or key["bare"]), number)

    def line(self, section: str, key: str, shows: str = "") -> int:
        """The line of `key` in `section` ("" above all headers), of what it `shows` in its value if it is on a line below.

        Of a key that is not there, the line of the section; of a section that is not there, 1.
        """
        start = self._keys.get((section, key))
        if start is None:
            return self._headers.get(section or key, self._headers.get(section, 1))
        stop = min(
            (n for n in (*self._keys.values(), *self._headers.values()) if n > start), default=len(self._lines) + 1
        )
        shown = (n for n in range(start, stop) if shows in self._lines[n - 1])
        return next(shown, start)


def _outside_strings(lines: list[str]) -> Iterator[tuple[int, str]]:
    """The lines that do not begin inside a string of several lines, with their numbers."""
    closing = ""
    for number, line in enumerate(lines, 1):
        if not closing:
            yield number, line
        at = 0
        while True:
            if closing:
                end = line.find(closing, at)
                if end < 0:
                    break
                at, closing = end + 3, ""
            token = TOKEN.search(line, at)
            if token is None:
                break
            at = token.end()
            closing = token[0] if token[0] in LONG_QUOTES else ""
