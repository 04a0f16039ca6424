"""One edit of a source text, and the order in which edits are tried. Pure."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

#: from a character to before another, and what is put there
Change = tuple[int, int, str]

#: the kinds of edits, the likeliest first where nothing else is known
KINDS = (
    "bounds", "initial value", "condition", "index", "transposition", "scale", "term", "operator", "reduction", "statement", "order", "data type", "offset",
)  # fmt: skip
#: … and which come before them, by what the pattern of the wrong elements says
HINTS = {
    "tail": ("bounds", "condition", "offset"),
    "head": ("bounds", "condition", "offset"),
    "scaled": ("scale", "term", "operator", "statement", "initial value"),
    "transposed": ("transposition", "index"),
    "nan": ("initial value", "operator", "condition"),
    "some-nan": ("initial value", "condition", "operator"),
    "inf": ("initial value", "operator", "scale", "term"),
    "zero": ("bounds", "index", "condition", "statement"),
    "periodic": ("index", "bounds", "offset"),
}
#: the kinds that say which elements are meant
OF_PLACES = ("index", "offset", "transposition")
#: how usual a slip is: authors make it often, sometimes, or hardly ever
USUAL, LESS_USUAL, RARE = 0, 1, 2
#: … and what nobody thought of as a slip: put together from the names around, or two slips at once
SYNTHETIC, PAIRED = 3, 4
#: In the order of edits a less likely kind counts this much, …
OF_KIND = 0.5
#: … a further edit of the same statement, kind and family, …
OF_TURN = 2.0
#: … a slip one grade rarer: as much as all kinds and a turn, so that few usual slips wait for a rarer one, …
OF_GRADE = 7.0
#: … and a kernel whose output nobody found wrong: as much as a grade
OF_OTHERS = 7.0


#: A factor, summand or sign that is missing, or too much, can be put in or taken out wherever the value goes through: that one statement
#: takes such an edit says little of where it belongs.
MOVABLE = "term"


@dataclass(frozen=True)
class Edit:
    """Changes of a text. `line` and `end` are the lines of the statement that is changed (of a compound one, of its header),
    and `says` tells the change."""

    line: int
    end: int
    kind: str
    says: str
    changes: tuple[Change, ...]
    rare: int = USUAL
    #: what is looked at to make it, so that a few edits of one sort do not wait for many of another
    family: str = field(default="", compare=False)
    #: the module that is changed; empty for the script itself
    file: str = ""

    def place_in(self, text: str) -> int:
        """The line of the first change, which of a statement of several lines tells more than the first of them."""
        first = min((start for start, _, _ in self.changes), default=0)
        return min(max(self.line, text.count("\n", 0, first) + 1), self.end)

    def apply(self, text: str) -> str:
        for start, stop, new in sorted(self.changes, reverse=True):
            text = text[:start] + new + text[stop:]
        return text


def throughout(edits: Sequence[Edit]) -> list[Edit]:
    """Where a statement says the same in several places, and each of them is edited alike: all of them at once."""
    alike: dict[tuple[int, int, str, str], list[Edit]] = defaultdict(list)
    for edit in edits:
        if len(edit.changes) == 1 and edit.changes[0][0] < edit.changes[0][1]:
            alike[edit.line, edit.end, edit.kind, edit.says].append(edit)
    found = []
    for (line, end, kind, says), same in alike.items():
        changes = tuple(sorted({edit.changes[0] for edit in same}))
        apart = all(one[1] <= other[0] for one, other in itertools.pairwise(changes))
        if len(changes) > 1 and apart:
            rare = min(RARE, min(edit.rare for edit in same) + 1)
            found.append(Edit(line, end, kind, f"{says} throughout", changes, rare, "throughout"))
    return found


def in_neighbours(edits: Sequence[Edit]) -> list[Edit]:
    """Where two statements, one behind the other, say the same, and it is edited alike: both at once, as the loads of two operands are."""
    single = [edit for edit in edits if len(edit.changes) == 1 and edit.kind in OF_PLACES and _is_likely(edit)]
    turns: Counter[tuple[int, str, str]] = Counter()
    ending: dict[tuple[int, str, str, int], Edit] = {}
    starting: dict[tuple[int, str, str, int], Edit] = {}
    for edit in single:  # which a statement may say several times
        turn = turns[edit.line, edit.kind, edit.says]
        turns[edit.line, edit.kind, edit.says] += 1
        ending[edit.end + 1, edit.kind, edit.says, turn] = edit
        starting[edit.line, edit.kind, edit.says, turn] = edit
    return [
        Edit(
            one.line, one.end, one.kind, f"{one.says} here and in the next statement", (*one.changes, *starting[key].changes), RARE,
            "neighbours",
        )
        for key, one in ending.items() if key in starting
    ]  # fmt: skip


def _is_likely(edit: Edit) -> bool:
    return edit.rare == USUAL or (edit.rare == LESS_USUAL and edit.family.startswith("name"))


def in_order(edits: Sequence[Edit], patterns: Sequence[str], later: Collection[int] = ()) -> list[Edit]:
    """By grade and kind, and within these one of every statement before the second of any; they overlap a little, so that
    a statement with few edits does not wait for all of a likely kind.

    `patterns` are words about the wrong elements; `later` are lines of kernels that did not write them.
    """
    hinted = [
        kind for pattern in patterns for word, kinds in HINTS.items() if pattern.startswith(word) for kind in kinds
    ]
    ranks = {kind: rank for rank, kind in enumerate(dict.fromkeys((*hinted, *KINDS)))}
    turns: dict[tuple[int, str, int, str], itertools.count[int]] = defaultdict(itertools.count)

    def cost(edit: Edit) -> float:
        turn = next(turns[edit.line, edit.kind, edit.rare, edit.family])
        return OF_KIND * ranks[edit.kind] + OF_TURN * turn + OF_GRADE * edit.rare + OF_OTHERS * (edit.line in later)

    keyed = [(cost(edit), number) for number, edit in enumerate(edits)]
    return [edits[number] for _, number in sorted(keyed)]
