"""Which lines of a source name something, in code or in a string literal (which may hold a program itself). Pure."""

from __future__ import annotations

import io
import re
import tokenize

#: tokens between which a string stands that is a statement of its own, such as a docstring
BEFORE = (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING)
#: tokens that say nothing of what stands around them
BLANK = (tokenize.NL, tokenize.COMMENT)


def lines_with(source: str, word: str) -> list[int]:
    """The lines, counted from 1, that have `word` not as part of a longer name; comments and docstrings do not count."""
    if not word:
        return []
    expression = re.compile(rf"(?<!\w){re.escape(word)}(?!\w)")
    return [number for number, line in enumerate(_without_comments(source), 1) if expression.search(line)]


def _without_comments(source: str) -> list[str]:
    """The lines; as they are from where the text is no Python."""
    lines = re.split(r"\r\n|\r|\n", source)
    before, string = tokenize.ENCODING, None
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            row, column = token.start
            if token.type == tokenize.COMMENT:
                lines[row - 1] = lines[row - 1][:column]
            if token.type in BLANK:
                continue
            if string and token.type == tokenize.NEWLINE:
                first, last = string.start[0], string.end[0]
                lines[first - 1 : last] = [""] * (last - first + 1)
            string = token if token.type == tokenize.STRING and before in BEFORE else None
            before = token.type
    except (tokenize.TokenError, SyntaxError):
        return lines
    return lines
