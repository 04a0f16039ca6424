"""A source text by lines and columns of its syntax tree: what stands where. Pure."""

from __future__ import annotations

import ast
import itertools

from triage.experiment.repairs.edit import Change


class Text:
    """Offsets of nodes in characters: `ast` counts columns in bytes of UTF-8."""

    def __init__(self, source: str) -> None:
        self.source = source
        self._lines = source.splitlines(keepends=True)
        self._starts = list(itertools.accumulate((len(line) for line in self._lines), initial=0))

    def offset(self, line: int, column: int) -> int:
        raw = self._lines[line - 1]
        within = column if raw.isascii() else len(raw.encode()[:column].decode("utf-8", "replace"))
        return self._starts[line - 1] + within

    def span(self, node: ast.AST) -> tuple[int, int]:
        start = self.offset(node.lineno, node.col_offset)  # type: ignore[attr-defined]
        return start, self.offset(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]

    def of(self, node: ast.AST) -> str:
        start, stop = self.span(node)
        return self.source[start:stop]

    def replaced(self, node: ast.AST, new: str) -> Change:
        return (*self.span(node), new)

    def whole_lines(self, node: ast.stmt) -> tuple[int, int]:
        return self._starts[node.lineno - 1], self._starts[node.end_lineno or node.lineno]

    def indent(self, statement: ast.stmt) -> str:
        line = self._lines[statement.lineno - 1]
        return line[: len(line) - len(line.lstrip())]

    def before(self, statement: ast.stmt, *lines: str) -> Change:
        """Lines put before a statement, indented as it is."""
        start, _ = self.whole_lines(statement)
        indent = self.indent(statement)
        return start, start, "".join(f"{indent}{line}\n" for line in lines)

    def after(self, statement: ast.stmt, *lines: str) -> Change:
        """Lines put behind a statement, indented as it is."""
        _, stop = self.whole_lines(statement)
        indent = self.indent(statement)
        begin = "" if self.source[:stop].endswith("\n") else "\n"
        return stop, stop, begin + "".join(f"{indent}{line}\n" for line in lines)

    def behind(self, statement: ast.stmt, following: ast.stmt | None, *lines: str) -> Change:
        """Lines put behind a statement: before the one that follows it, if one does."""
        return self.after(statement, *lines) if following is None else self.before(following, *lines)

    def instead(self, statement: ast.stmt, line: str) -> Change:
        return (*self.whole_lines(statement), f"{self.indent(statement)}{line}\n")
