"""What an edit changes, statement by statement: for whoever builds single statements again (`harness/rebuilt.py`). Pure."""

from __future__ import annotations

import ast
import textwrap
from typing import Any

from triage.experiment.repairs.edit import Change, Edit
from triage.experiment.repairs.syntax import SIMPLE
from triage.experiment.repairs.text import Text

Part = dict[str, Any]


class Statements:
    """The simple statements of a source, and the headers of its loops and conditions, by where they stand."""

    def __init__(self, source: str) -> None:
        self.source = source
        self._text = Text(source)
        #: from the beginning of its first line to the end of its last one, line number, whether it is a header
        self._spans: list[tuple[int, int, int, bool]] = []
        #: the whole loops and conditions, with their line numbers
        self._compound: dict[tuple[int, int], int] = {}
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, (*SIMPLE, ast.Pass)):
                self._spans.append((*self._text.whole_lines(node), node.lineno, False))
            elif isinstance(node, (ast.For, ast.If)):
                self._compound[self._text.whole_lines(node)] = node.lineno
                start, _ = self._text.whole_lines(node)
                stop, _ = self._text.whole_lines(node.body[0])
                if stop > start:
                    self._spans.append((start, stop, node.lineno, True))
        self._spans.sort()

    def parts(self, edit: Edit) -> list[Part] | None:
        """The changed statements as `rebuilt` takes them; None where an edit changes more than statements."""
        changes: dict[tuple[int, int, int, bool], list[Change]] = {}
        whole: list[Part] = []
        others: list[Change] = []
        for change in edit.changes:
            part = self._of_compound(change)
            if part is None:
                others.append(change)
            else:
                whole.append(part)
        for change in map(self._at_a_statement, others):
            span = self._around(change)
            if span is None:
                return None
            changes.setdefault(span, []).append(change)
        parts = [self._part(span, some) for span, some in changes.items()]
        return None if None in parts else [*whole, *(part for part in parts if part is not None)]

    def _of_compound(self, change: Change) -> Part | None:
        """A change that leaves a loop or a condition out as a whole, or puts statements before it; None for any other."""
        start, stop, new = change
        if start == stop:
            line = next((line for (first, _), line in self._compound.items() if first == start), None)
            return None if line is None else {"line": line, "put": textwrap.dedent(new).strip()}
        left_out = (start, stop) in self._compound and new.strip() in ("", "pass")
        return {"line": self._compound[start, stop], "drop": True} if left_out else None

    def _at_a_statement(self, change: Change) -> Change:
        """What is put in behind a comment is put in before that, where a simple statement ends."""
        at, stop, new = change
        behind = max((span for span in self._spans if not span[3] and span[1] <= at), key=lambda s: s[1], default=None)
        if at != stop or behind is None or any(span[0] == at and not span[3] for span in self._spans):
            return change
        between = self.source[behind[1] : at].splitlines()
        return (behind[1], behind[1], new) if all(line.strip()[:1] in ("", "#") for line in between) else change

    def _around(self, change: Change) -> tuple[int, int, int, bool] | None:
        """The statement in which a change lies; of two that meet where something is put in, the later one, if that is a simple one."""
        around = [span for span in self._spans if span[0] <= change[0] and change[1] <= span[1]]
        if change[0] == change[1]:
            inside = [span for span in around if span[0] < change[0] < span[1]]
            simple = [span for span in around if not span[3]]
            around = inside or simple[::-1]
        return around[0] if around else None

    def _part(self, span: tuple[int, int, int, bool], changes: list[Change]) -> Part | None:
        start, stop, line, header = span
        was = textwrap.dedent(self.source[start:stop]).strip()
        moved = [(a - start, b - start, new) for a, b, new in changes]
        new = textwrap.dedent(Edit(line, line, "", "", tuple(moved)).apply(self.source[start:stop])).strip()
        if header:
            new, was = new.removeprefix("el"), was.removeprefix("el")
        try:
            tree = ast.parse(f"{new}\n    pass" if header else new)
        except (SyntaxError, ValueError):
            return None
        if header and (len(tree.body) != 1 or not isinstance(tree.body[0], (ast.For, ast.If))):
            return None
        return {"line": line, "text": new, "was": was, "header": header}
