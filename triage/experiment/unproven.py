"""What a statement computes with that nobody has said the right values of. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from triage.model import KernelRecord, Place, Statement

WORD = re.compile(r"[A-Za-z_]\w*")
#: a statement that gives a value a name: `m: T.int32 = by * 32 + i`
BOUND = re.compile(r"^\s*([A-Za-z_]\w*)\s*(?::[^=]+)?=(?!=)")


def unproven(
    record: KernelRecord | None, at: Place, buffer: str, stated: Collection[str], met: Collection[str]
) -> list[tuple[Place, str]]:
    """Where else the fault may be of a statement at `at` that leaves something wrong in `buffer`, each with why: what writes the on-chip buffers that
    it reads and that are not `stated`, or what the buffer itself held before if no stage of it was `met`; the names that it uses, and the conditions
    under which it stands. The statement itself, where its kernel is not known."""
    if record is None:
        return [(at, "its kernel is not known")]
    own = [(one, above) for one, above in _walk(record.statements, ()) if one.at == at and _writes(one, buffer)]
    if not own:
        return [(at, "it is not known what this statement reads")]
    on_chip = {b.name for b in record.buffers if b.scope != "global"}
    reads = {a.buffer for one, _ in own for a in one.accesses if a.mode != "write"} & on_chip
    doubted = (reads - set(stated)) | ({buffer} & reads - set(met))
    words = {word for one, _ in own for word in WORD.findall(one.text)}
    found: dict[Place, str] = {}
    for statement, _ in _walk(record.statements, ()):
        if statement.at is None or statement.at == at:
            continue
        for name in doubted:
            if _writes(statement, name):
                found.setdefault(statement.at, f"{name} is written here, which no stage before tells of")
        bound = BOUND.match(statement.text) if statement.kind == "bind" else None
        if bound is not None and bound.group(1) in words:
            found.setdefault(statement.at, f"{bound.group(1)} is computed here")
    for _, above in own:
        for outer in above:
            if outer.kind == "if" and outer.at is not None and outer.at != at:
                found.setdefault(outer.at, "the condition under which it stands")
    return list(found.items())


def _walk(
    statements: Sequence[Statement], above: tuple[Statement, ...]
) -> Iterator[tuple[Statement, tuple[Statement, ...]]]:
    for statement in statements:
        yield statement, above
        yield from _walk((*statement.body, *statement.orelse), (*above, statement))


def _writes(statement: Statement, buffer: str) -> bool:
    return any(access.buffer == buffer and access.mode != "read" for access in statement.accesses)
