"""The buffers whose values reach an output, from the record of its kernel. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from triage.model import KernelRecord, Statement


def leading_to(record: KernelRecord, output: str) -> frozenset[str]:
    """Names of the buffers that some chain of statements carries to `output`, without itself unless it is read."""
    flows = [
        ({a.buffer for a in s.accesses if a.mode != "write"}, {a.buffer for a in s.accesses if a.mode != "read"})
        for s in _all(record.statements)
    ]
    reached, found = {output}, set[str]()
    while reached:
        reached = {buffer for read, written in flows if written & reached for buffer in read} - found
        found |= reached
    return frozenset(found)


def _all(statements: Sequence[Statement]) -> Iterator[Statement]:
    for statement in statements:
        yield statement
        yield from _all((*statement.body, *statement.orelse))
