"""Which lines of a source name something, in code or in a string literal (which may hold a program itself). Pure."""

from __future__ import annotations

import io
import re
import tokenize


def lines_with(source: str, word: str) -> list[int]:
    """The lines, counted from 1, that have `word` not as part of a longer name; comments of Python do not count."""
    if not word:
        return []
    expression = re.compile(rf"(?<!\w){re.escape(word)}(?!\w)")
    return [number for number, line in enumerate(_without_comments(source), 1) if expression.search(line)]


def _without_comments(source: str) -> list[str]:
    """The lines; as they are from where the text is no Python."""
    lines = re.split(r"\r\n|\r|\n", source)
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT:
                row, column = token.start
                lines[row - 1] = lines[row - 1][:column]
    except (tokenize.TokenError, SyntaxError):
        return lines
    return lines
