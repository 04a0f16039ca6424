"""Indices that leave their buffer.

What 0.1.15 makes of an index, read in its sources and in the code it generates:

* An index that is always negative counts from the end, as in Python: -1 is the last element.
* Element accesses of *global* buffers get a predicate: outside, a load gives 0 and a store is dropped. That is how
  tail tiles work, so only an access that is always outside is a fault. An index without variables gets no predicate
  at all and touches foreign memory.
* Element accesses of shared memory and registers get none, and an index of both signs is left as it is.
* `T.copy` predicates both sides in the dimensions it iterates over, unless it becomes a bulk copy. Other tile
  operators do not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from triage.lints.devices import Device
from triage.lints.hazard import Hazard, label
from triage.lints.program import Program, Visit, on_chip, ranked, shown
from triage.model import Access, BufferInfo

#: tile operators that guard the regions they are given
COPIES = frozenset({"copy", "async_copy", "tma_copy", "copy_cluster", "im2col", "c2d_im2col"})


@dataclass(frozen=True)
class Reach:
    """One dimension of an access: from an index between `low` and `high`, `extent` of `size` elements are touched.

    All are counted as written, before a negative index wraps; `first` and `last` bound what is touched over all
    iterations.
    """

    dimension: int
    size: int
    low: int
    high: int
    extent: int

    @property
    def first(self) -> int:
        return self.low

    @property
    def last(self) -> int:
        return self.high + self.extent - 1

    def always_outside(self) -> bool:
        return self.low >= self.size or self.last < -self.size

    def sometimes_outside(self) -> bool:
        if self.high < 0:  # wraps as a whole: 64 elements from -32 in a dimension of 128 are 96 to 159
            return self.low < -self.size or self.last >= 0
        return self.low < 0 or self.last >= self.size


def elements(program: Program, device: Device, source: str | None) -> Iterator[Hazard]:
    """A load or store of one element outside its buffer."""
    told: set[str] = set()  # of a fragment declared too small one use is enough
    for visit, access, buffer in program.accesses():
        if visit.statement.kind == "op" or buffer.name in told:
            continue
        may_not_happen = visit.conditional or access.guarded
        for reach in _reaches(access, buffer):
            outside = reach.always_outside()
            if may_not_happen and (not outside or _varies(access.index[reach.dimension])):
                continue  # the condition may be what keeps it inside; a number stays outside whatever it says
            if outside or (on_chip(buffer) and access.exact and reach.sometimes_outside()):
                masked = buffer.scope == "global" and _varies(access.index[reach.dimension])
                kind = "fragment-shape-too-small" if _agreed(program, buffer, reach) else "index-out-of-bounds"
                found = _hazard(kind, visit, access, buffer, reach, always=outside, masked=masked)
                yield replace(found, certainty="likely") if may_not_happen else found
                told |= {buffer.name} if kind == "fragment-shape-too-small" else set()
                break


def regions(program: Program, device: Device, source: str | None) -> Iterator[Hazard]:
    """A slice handed to a tile operator that does not lie in its buffer."""
    for visit, access, buffer in program.accesses():
        op = visit.statement.op
        if op is None or visit.conditional or access.guarded:
            continue
        for reach in _reaches(access, buffer):
            if reach.always_outside() or (on_chip(buffer) and _leaves_unguarded(op.name, access, reach)):
                always, masked = reach.always_outside(), buffer.scope == "global"
                yield _hazard("region-out-of-bounds", visit, access, buffer, reach, always=always, masked=masked)
                break


def _agreed(program: Program, buffer: BufferInfo, reach: Reach) -> bool:
    """Whether a fragment is only ever used beyond its shape in the same way.

    A fragment's elements are spread over threads by the loops that use it. If all of them agree on more elements than
    the shape has, the layout follows the loops, and the result is right although the declaration is not.
    """
    if buffer.scope != "local.fragment":
        return False
    ranges = {
        (access.low[reach.dimension], access.high[reach.dimension], access.extent[reach.dimension])
        for visit, access, other in program.accesses()
        if other.name == buffer.name and ranked(access, other)
    }
    return ranges == {(reach.low, reach.high, reach.extent)} and reach.low == 0


def _leaves_unguarded(op: str, access: Access, reach: Reach) -> bool:
    """Whether a slice of on-chip memory that leaves its buffer at times is a fault.

    The last tile of a copy over an extent that is no multiple of the tile is masked and legal; a copy whose slice
    has a constant start leaves the buffer every time.
    """
    if not access.exact or not reach.sometimes_outside():
        return False
    return op not in COPIES or reach.extent == 1 or reach.low == reach.high


def _reaches(access: Access, buffer: BufferInfo) -> Iterator[Reach]:
    if not ranked(access, buffer):
        return
    for dimension, extent in enumerate(buffer.shape):
        low, high, touched = access.low[dimension], access.high[dimension], access.extent[dimension]
        if isinstance(extent, int) and low is not None and high is not None and touched is not None:
            yield Reach(dimension, extent, low, high, touched)


def _varies(index: str) -> bool:
    return re.search(r"[A-Za-z_]", index) is not None


def _hazard(
    kind: str, visit: Visit, access: Access, buffer: BufferInfo, reach: Reach, *, always: bool, masked: bool
) -> Hazard:
    fields = {
        "buffer": shown(buffer),
        "scope": buffer.scope,
        "shape": list(buffer.shape),
        "dimension": reach.dimension,
        "size": reach.size,
        "index": access.index[reach.dimension],
        "first": reach.first,
        "last": reach.last,
        "extent": reach.extent,
        "mode": access.mode,
        "always": always,
        "masked": masked,
    }
    if visit.statement.op is not None:
        fields["op"] = visit.statement.op.name
    where = label(buffer.at, f"{shown(buffer)} has {reach.size} elements in dimension {reach.dimension}")
    return Hazard(kind, shown(buffer), visit.at, labels=where, fields=fields)
