"""Loops written as vectors that cannot become one vector."""

from __future__ import annotations

from collections.abc import Iterator

from triage.lints.devices import Device
from triage.lints.hazard import Hazard
from triage.lints.program import Program, Visit

#: the widest vector of one access: 32 bytes from sm_100 on, 16 before, and on AMD
WIDE_BITS, BITS = 256, 128


def extents(program: Program, device: Device, source: str | None) -> Iterator[Hazard]:
    """`T.vectorized` over more than one vector holds: the compiler splits it, or runs it element by element."""
    for visit in program.visits:
        loop = visit.statement.loop
        if loop is None or loop.kind != "vectorized" or not isinstance(loop.extent, int):
            continue
        bits = _narrowest_element(program, visit)
        if bits is None or loop.extent <= 1:
            continue
        widest = max(1, vector_bits(device.arch) // bits)
        if loop.extent > widest or loop.extent & (loop.extent - 1):
            fields = {"loop": loop.var, "extent": loop.extent, "bits": bits, "lanes": widest, "arch": device.arch}
            yield Hazard("vector-extent", loop.var, visit.at, fields=fields)


def vector_bits(arch: str) -> int:
    return WIDE_BITS if arch.startswith("sm_1") and len(arch) == len("sm_100") else BITS


def _narrowest_element(program: Program, loop: Visit) -> int | None:
    """Bits of the narrowest element that the body loads or stores; None if it touches no known buffer.

    A loop over eight 16-bit elements is one vector, even if it also touches 32-bit ones in two.
    """
    inside = (v for v in program.visits if loop.statement in v.parents)
    names = {access.buffer for visit in inside for access in visit.statement.accesses}
    known = (program.buffers[name].bits for name in names if name in program.buffers)
    return min((bits for bits in known if bits > 0), default=None)
