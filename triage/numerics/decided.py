"""Elements that rounding may have decided, in results that are right both times. Pure.

Where a kernel rounds to whole numbers or to the steps of a quantization, or chooses the largest of some values, the last bit of a sum can decide
between two answers that are far apart. That happens to elements here and there, and to few of them; or it moves whole numbers by one.
"""

from __future__ import annotations

from triage.model import Mismatch
from triage.numerics.pattern import UNPLACED, pattern_of

#: a larger part of the elements is not so near to an edge that the last bit decides
RARE = 0.02


def may_be_decided_by_rounding(mismatch: Mismatch) -> bool:
    """Whether each wrong element of a kernel that computes in floating point can be an answer that the last bit decided. Never where one is not finite."""
    if mismatch.nan or mismatch.inf or mismatch.expected_nan:
        return False
    whole = mismatch.dtype.startswith(("int", "uint", "bool"))
    if whole and mismatch.max_abs is not None and mismatch.max_abs <= 1:
        return True
    return mismatch.wrong <= RARE * mismatch.total and set(pattern_of(mismatch).where) <= UNPLACED
