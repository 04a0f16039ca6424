"""The buffers whose values reach an output, from the record of its kernel. Pure."""

from __future__ import annotations

from triage.experiment.output_tiles import every_statement
from triage.model import KernelRecord


def leading_to(record: KernelRecord, output: str) -> frozenset[str]:
    """Names of the buffers that some chain of statements carries to `output`, without itself unless it is read."""
    flows = [
        ({a.buffer for a in s.accesses if a.mode != "write"}, {a.buffer for a in s.accesses if a.mode != "read"})
        for s in every_statement(record.statements)
    ]
    reached, found = {output}, set[str]()
    while reached:
        reached = {buffer for read, written in flows if written & reached for buffer in read} - found
        found |= reached
    return frozenset(found)
