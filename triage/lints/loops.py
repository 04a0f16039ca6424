"""Loops that do less than their Python reads: a `break` that leaves one thread's share, a value that is not carried on."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from triage.lints.devices import Device
from triage.lints.hazard import Hazard, label
from triage.lints.program import Program, Visit
from triage.model import Statement

BREAK = re.compile(r"\b(?:loop_break|break_loop)\(")
#: `name = value`, as the record prints a value that is bound to a name
BIND = re.compile(r"(?P<name>[A-Za-z_]\w*) = (?P<value>.+)", re.DOTALL)
#: loops of which one thread runs all iterations, one after the other
ITERATED = frozenset({"serial", "pipelined", "unrolled"})
WRITES = frozenset({"store", "op", "call"})


def breaks(program: Program, device: Device, source: str | None) -> Iterator[Hazard]:
    """A `break` in T.Parallel that some threads reach, where a thread has several iterations and others write.

    It ends the iterations of its own thread only, so which ones are left out follows from how they were spread over
    the threads. A search that only breaks, or writes only where it breaks, loses nothing by that.
    """
    for visit in program.visits:
        if not _is_break(visit.statement):
            continue
        inner = _innermost_loop(visit.parents)
        if inner is None or visit.parents[inner].kind == "while" or _kind(visit.parents[inner]) != "parallel":
            continue
        loop = visit.parents[inner]
        branches = [p for p in visit.parents[inner + 1 :] if p.kind == "if"]
        extent = _parallel_extent(visit.parents[: inner + 1])
        threads = program.threads
        if extent is None or threads is None or extent <= threads or not any(b.divergent for b in branches):
            continue
        if any(_writes(child) for child in loop.body if child is not branches[0]):
            why = label(branches[0].at, f"only threads with {branches[0].condition} leave the loop")
            fields = {"extent": extent, "threads": threads, "condition": branches[0].condition or ""}
            yield Hazard("break-in-parallel", program.kernel.name, visit.at, why, fields, "likely")


def not_carried(program: Program, device: Device, source: str | None) -> Iterator[Hazard]:
    """A name bound before a loop and, in it, bound again to a value that is made from it.

    A binding of the tile language is no variable: the next iteration reads the value from before the loop again. Names
    in macros are left alone, where `x = f(x)` gives a parameter a new value for the rest of the macro only.
    """
    bound: list[tuple[str, Visit]] = []
    for visit in program.visits:
        found = BIND.fullmatch(visit.statement.text) if visit.statement.kind == "bind" else None
        if found is None:
            continue
        name = found["name"]
        before = next((v for n, v in reversed(bound) if n == name and _sees(visit, v)), None)
        bound.append((name, visit))
        if before is None or visit.statement.via or not _reads(found["value"], name):
            continue
        loop = next((p for p in visit.parents[len(before.parents) :] if _kind(p) in ITERATED), None)
        if loop is not None and loop.loop is not None and loop.loop.extent != 1:
            why = label(before.at, f"every iteration reads this value of {name}")
            fields = {"name": name, "loop": loop.loop.var, "extent": loop.loop.extent}
            yield Hazard("value-not-carried", program.kernel.name, visit.at, why, fields, "likely")


def _is_break(statement: Statement) -> bool:
    return statement.kind in ("call", "op") and BREAK.search(statement.text) is not None


def _kind(statement: Statement) -> str | None:
    return statement.loop.kind if statement.loop is not None else None


def _innermost_loop(parents: tuple[Statement, ...]) -> int | None:
    return next((n for n in range(len(parents) - 1, -1, -1) if parents[n].kind in ("for", "while")), None)


def _parallel_extent(parents: tuple[Statement, ...]) -> int | None:
    """The iterations of the parallel loops that end here, one directly in the other; None if not constant."""
    extents: list[int | str] = []
    for parent in reversed(parents):
        if parent.loop is None or parent.loop.kind != "parallel":
            break
        extents.append(parent.loop.extent)
    known = [extent for extent in extents if isinstance(extent, int)]
    return math.prod(known) if len(known) == len(extents) else None


def _writes(statement: Statement) -> bool:
    own = statement.kind in WRITES and not _is_break(statement)
    return own or any(_writes(child) for child in (*statement.body, *statement.orelse))


def _sees(visit: Visit, earlier: Visit) -> bool:
    """Whether what an earlier statement binds is in scope: it stands in the same body, or in one around it."""
    outer = earlier.parents
    return len(outer) <= len(visit.parents) and all(a is b for a, b in zip(outer, visit.parents, strict=False))


def _reads(value: str, name: str) -> bool:
    """Whether an expression reads the value of this name: it is no buffer that is indexed, no function, no attribute."""
    return re.search(rf"(?<![\w.\"']){re.escape(name)}(?![\w\[(\"'=.])", value) is not None
