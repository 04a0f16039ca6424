"""The arrangement of wrong values in words. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from triage.model import Arrangement


def arranged(found: Arrangement) -> str:
    """Where the values are expected, in words: `shifted 1 row down`, `4 × 8 tiles displaced: (0, 1) holds what (0, 0) should`."""
    nearly = "" if found.share == 1 else "nearly all "
    if found.kind == "shifted":
        (down, right) = found.by
        told = [_distance(down, "row", "down", "up"), _distance(right, "column", "to the right", "to the left")]
        return f"{nearly}shifted {' and '.join(filter(None, told))}"
    if found.kind in ("swapped", "duplicated"):
        count, one = (found.by[0], "row") if found.by[0] else (found.by[1], "column")
        if found.kind == "swapped":
            return (
                f"{nearly}swapped: each {count} {one}s with the next {count}"
                if count > 1
                else f"{nearly}swapped: {one}s in pairs"
            )
        return f"{nearly}duplicated: of every {count} {one}s all hold what number {found.first[0]} should"
    size = f"{found.tile[0]} × {found.tile[1]} tiles"
    if found.kind == "mixed-tiles":
        return f"{nearly}in another order within {size}"
    what = "displaced" if found.kind == "displaced-tiles" else "duplicated"
    return f"{nearly}{what} in {size}: {_tile(found.first)} holds what {_tile(found.source)} should,"


def _distance(count: int, one: str, onward: str, back: str) -> str:
    return f"{abs(count)} {one}{'s' * (abs(count) != 1)} {onward if count > 0 else back}" if count else ""


def _tile(place: Sequence[int]) -> str:
    plane, row, column = place
    return f"({row}, {column})" + (f" of plane {plane}" if plane else "")
