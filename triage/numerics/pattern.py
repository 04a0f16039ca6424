"""The pattern of a mismatch: where the wrong elements are, and what their values have in common. Pure.

It tells two faults apart and puts one into words; it does not say what caused it. Where something is wrong:

    everywhere                 in every row and column, though not always in every element
    tail-rows, head-columns …  in all of the last rows, the first columns; `band` for others in the middle
    periodic-rows …            in equal runs at equal distances
    edge-rows edge-columns     in the last rows and in the last columns, each all along
    few, scattered             nothing of that kind

An axis is called `columns`, `rows` or `axis-0` …; the only one of a vector `elements`. What the wrong values are: `nan` (all of
them), `some-nan`, `inf` (some), `expected-nan` (some of the reference), and if nearly all are: `zero`, `transposed`, `negated`, `scaled` by
one factor, or expected elsewhere (`model.Arrangement`): `duplicated`, `swapped`, `shifted`, `displaced-tiles`, `duplicated-tiles`,
`mixed-tiles`; else `other`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from triage.model import Axis, Mismatch, Runs
from triage.numerics.arranged import arranged

#: so many wrong elements without a place are few
FEW = 8
#: wrong elements fill a place if they are at least this part of it: some may be right by chance
FILLED = 0.5
#: and reach to an end if they miss it by no more than this part of their length
END = 0.02
#: a share from which a property holds for the wrong elements as a whole
NEARLY_ALL = 0.95
#: of fewer wrong elements a place, a common factor or a transposition shows nothing
TELLING = 4
#: a factor this near to -1 is a change of sign
SIGN = 0.02
UNPLACED = frozenset({"few", "scattered"})
#: where wrong elements are if their place says nothing of what makes them wrong
UNPATTERNED = frozenset({"nowhere", "everywhere", *UNPLACED})


@dataclass(frozen=True)
class Pattern:
    """`ratio` is the common factor of actual over expected, None without one; `varied`: the expected values differ, so that
    it is not common by the input alone."""

    where: tuple[str, ...]
    values: str
    ratio: float | None = None
    varied: bool = False
    #: how many elements are wrong
    count: int = 0

    def __str__(self) -> str:
        return " ".join([self.values, *self.where])


def pattern_of(mismatch: Mismatch) -> Pattern:
    """The pattern of what is wrong; `nowhere` if nothing is."""
    values = _values(mismatch)
    ratio = mismatch.ratio if values in ("scaled", "negated") else None
    return Pattern(_where(mismatch), values, ratio, mismatch.varied, mismatch.wrong)


def alike(start: Pattern, other: Pattern) -> tuple[bool, bool]:
    """Whether two patterns agree in where and in what values: they may be of one fault at other sizes or other values.

    So few elements that any place fits them agree with nothing, unless the start has no more. With a constant reference every constant error is a factor; then `scaled` and `other` cannot be told apart.
    """
    enough = other.count >= min(TELLING, start.count)
    return enough and _same_where(start.where, other.where), _same_values(start, other)


def _same_where(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    return one == other or (one[0] in UNPLACED and other[0] in UNPLACED)


def _same_values(one: Pattern, other: Pattern) -> bool:
    if one.ratio is not None and other.ratio is not None:
        return _side(one.ratio) == _side(other.ratio) or not (one.varied or other.varied)
    if one.values == other.values:
        return True
    factors = {"scaled", "negated"}
    if {one.values, other.values} not in ({"scaled", "other"}, {"negated", "other"}):
        return False
    constant = one if one.values in factors else other
    return not constant.varied


def _side(ratio: float) -> tuple[bool, bool]:
    return ratio < 0, abs(ratio) < 1


# ------------------------------------------------------------------------------------------------------------ places


def axis_names(rank: int) -> list[str]:
    """What the axes of a tensor of so many are called."""
    if rank <= 1:
        return ["elements"] * rank
    return [*(f"axis-{n}" for n in range(rank - 2)), "rows", "columns"]


def form_of(axis: Axis) -> str:
    """How the indices lie that hold wrong elements: full, head, tail, band, periodic or irregular.

    Elements that are right by chance leave holes, and may shorten an end a little.
    """
    runs = axis.touched
    if runs.count == axis.extent:
        return "full"
    if _is_periodic(runs, axis.extent):
        return "periodic"
    start, end = _span(runs)
    if runs.count < FILLED * (end - start):
        return "irregular"
    slack = int(END * (end - start))
    at_start, at_end = start <= slack, end >= axis.extent - slack
    return "full" if at_start and at_end else "head" if at_start else "tail" if at_end else "band"


def _span(runs: Runs) -> tuple[int, int]:
    """From the first chosen index to behind the last."""
    return runs.first[0][0], sum(runs.last)


def _is_periodic(runs: Runs, extent: int) -> bool:
    """Whether runs of one length come at one distance; two single indices always do."""
    if runs.runs < 2 or len(set(runs.distances)) != 1 or len(set(runs.lengths)) != 1:
        return False
    start, length = runs.last
    cut_off = start + length == extent and length < runs.lengths[0]
    return (runs.runs > 2 or runs.lengths[0] > 1) and (cut_off or length == runs.lengths[0])


def _where(mismatch: Mismatch) -> tuple[str, ...]:
    if not mismatch.wrong:
        return ("nowhere",)
    named = list(zip(axis_names(len(mismatch.axes)), mismatch.axes, strict=True))
    forms = {name: form_of(axis) for name, axis in named if axis.extent > 1}
    box = math.prod(axis.touched.count for axis in mismatch.axes)
    placed = tuple(f"{form}-{name}" for name, form in forms.items() if form != "full")
    if mismatch.wrong >= FILLED * box and "irregular" not in forms.values():
        if not placed:
            return ("everywhere",)
        if mismatch.wrong > FEW or any(form in ("head", "tail", "periodic") for form in forms.values()):
            return placed
    edges = _edges(dict(named), mismatch)
    return edges or (("few",) if mismatch.wrong <= FEW else ("scattered",))


def _edges(axes: Mapping[str, Axis], mismatch: Mismatch) -> tuple[str, ...]:
    """The axes at whose ends whole lines are wrong, if that is where the wrong elements are."""
    ends = {
        name: axis.dense.count for name, axis in axes.items()
        if axis.dense.count < axis.extent and axis.dense.runs == 1 and sum(axis.dense.last) == axis.extent
    }  # fmt: skip
    inner = math.prod(axis.extent - ends.get(name, 0) for name, axis in axes.items())
    covered = mismatch.total - inner
    if len(ends) > 1 and FILLED * covered <= mismatch.wrong <= covered:
        return tuple(f"edge-{name}" for name in ends)
    return ()


# ------------------------------------------------------------------------------------------------------------ values


def _values(mismatch: Mismatch) -> str:
    wrong = mismatch.wrong
    if mismatch.nan:
        return "nan" if mismatch.nan == wrong else "some-nan"
    if mismatch.inf:
        return "inf"
    if mismatch.expected_nan:
        return "expected-nan"
    if wrong and mismatch.zeros >= NEARLY_ALL * wrong:
        return "zero"
    if wrong >= TELLING and mismatch.transposed >= NEARLY_ALL:
        return "transposed"
    if wrong >= TELLING and mismatch.explained >= NEARLY_ALL and mismatch.ratio is not None:
        return "negated" if _is_negation(mismatch.ratio) else "scaled"
    return mismatch.arrangement.kind if mismatch.arrangement else "other"


def _is_negation(ratio: float) -> bool:
    return abs(ratio + 1) <= SIGN


# ------------------------------------------------------------------------------------------------------------- words


def describe(mismatch: Mismatch) -> str:
    """The mismatch in words: `wrong by a factor of 2 in the last 16 columns`.

    What only some of the wrong elements are is told of these alone: `infinite in 3 of 64 elements, the first at [0, 2]; wrong everywhere`.
    """
    if not mismatch.wrong:
        return "nothing is wrong"
    found, said = pattern_of(mismatch), _said(mismatch)
    some = _some(mismatch)
    if some:
        said = f"{some}; wrong"
    share = f"{mismatch.wrong} of {mismatch.total} elements"
    if found.where[0] in UNPLACED:
        return f"{said} in {share}" + (", scattered" if found.where[0] == "scattered" else "")
    return f"{said} {_placed(found.where, mismatch)} ({share})"


def _some(mismatch: Mismatch) -> str:
    """What a part of the wrong elements is, and where it begins; empty where all of them are that, or none."""
    counts = {"NaN": mismatch.nan, "infinite": mismatch.inf, "compared with NaN": mismatch.expected_nan}
    first = "" if sum(counts.values()) == 1 else "the first "
    place = f", {first}at {list(mismatch.not_finite_at)}" if mismatch.not_finite_at else ""
    if not any(counts.values()) and _values(mismatch) == "zero":
        counts, place = {"zero": mismatch.zeros}, ""
    told = [f"{word} in {count}" for word, count in counts.items() if count]
    if not told or mismatch.wrong in counts.values():
        return ""
    return f"{' and '.join(told)} of {mismatch.total} elements{place}"


def _said(mismatch: Mismatch) -> str:
    values, ratio = _values(mismatch), mismatch.ratio
    if values == "negated":
        return "nearly all negated" if mismatch.explained < 1 else "negated"
    if mismatch.arrangement and values == mismatch.arrangement.kind:
        return arranged(mismatch.arrangement)
    if values in ("scaled", "other") and ratio and mismatch.wrong > 1 and mismatch.explained >= NEARLY_ALL:
        nearly = "" if mismatch.explained == 1 else "nearly all "
        return f"{nearly}wrong by a factor of {ratio:.3g}"
    if values == "transposed" and mismatch.transposed < 1:
        return "nearly all transposed"
    return {
        "nan": "NaN",
        "inf": "infinite",
        "expected-nan": "compared with NaN",
        "zero": "zero",
        "transposed": "transposed",
    }.get(values, "wrong")


def _placed(where: tuple[str, ...], mismatch: Mismatch) -> str:
    if where == ("everywhere",):
        return "everywhere" if mismatch.wrong >= NEARLY_ALL * mismatch.total else "all over"
    axes = dict(zip(axis_names(len(mismatch.axes)), mismatch.axes, strict=True))
    told = []
    for one in where:
        form, _, name = one.partition("-")
        axis = axes[name]
        if form == "periodic":
            told.append(f"{axis.touched.lengths[0]} of every {axis.touched.distances[0]} {_many(name)}")
            continue
        start, end = _span(axis.dense if form == "edge" else axis.touched)
        if form == "band":
            told.append(_numbered(name, f"{start} to {end - 1}" if end - start > 1 else f"{start}", end - start > 1))
        else:
            count = end if form == "head" else axis.extent - start
            which = "first" if form == "head" else "last"
            told.append(f"the {which} {count} {_many(name)}" if count > 1 else f"the {which} {_one(name)}")
    return "in " + (" and in " if where[0].startswith("edge") else " of ").join(told)


def _many(name: str) -> str:
    return f"indices of {name}" if name.startswith("axis") else name


def _numbered(name: str, number: str, several: bool) -> str:
    if name.startswith("axis"):
        return f"{'indices' if several else 'index'} {number} of {name}"
    return f"{_many(name) if several else _one(name)} {number}"


def _one(name: str) -> str:
    return f"index of {name}" if name.startswith("axis") else name.removesuffix("s")
