"""What debugging left in a kernel: prints and device asserts."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from triage.lints.devices import Device
from triage.lints.hazard import Hazard, label
from triage.lints.program import Program, Visit, constant, shown
from triage.model import Label

#: `T.print` of a value, of one element of a buffer, or of a message, and `T.device_assert`
PRINT = re.compile(r"call_extern\('debug_print_(?:var|buffer_value|msg)'")
ASSERT = re.compile(r"device_assert(?:_with_msg)?\(")
#: of more places than this the report names the number
MOST_LABELS = 3


def prints(program: Program, device: Device, source: str | None) -> Iterator[Hazard]:
    """`T.print` of a tensor outside of any branch on the thread: every thread of every block prints all of it.

    For shared memory and fragments T.print picks one thread itself; for a tensor in global memory it does not.
    """
    for visit in program.visits:
        tensor = _printed_by_all(program, visit)
        if tensor is None:
            continue
        threads, blocks = _count(program.kernel.launch.threads), _count(program.kernel.launch.grid)
        loop = visit.parents[-1].loop
        elements = loop.extent if loop is not None and isinstance(loop.extent, int) else None
        known = [n for n in (threads, blocks, elements) if n is not None]
        fields = {
            "buffer": tensor,
            "threads": threads,
            "blocks": blocks,
            "elements": elements,
            "lines": math.prod(known) if len(known) == len(("threads", "blocks", "elements")) else None,
        }
        yield Hazard("print-by-every-thread", tensor, visit.at, fields=fields)


def leftovers(program: Program, device: Device, source: str | None) -> Iterator[Hazard]:
    """The prints and device asserts of a kernel, told once, at the first."""
    left = [visit for visit in program.visits if _is(PRINT, visit) or _is(ASSERT, visit)]
    told = {visit.at for visit in left if _printed_by_all(program, visit) is not None}
    places = list(dict.fromkeys(visit.at for visit in left if visit.at not in told))
    if not places:
        return
    of_asserts = {visit.at for visit in left if _is(ASSERT, visit)}
    fields = {
        "prints": sum(at not in of_asserts for at in places),
        "asserts": sum(at in of_asserts for at in places),
    }
    labels: tuple[Label, ...] = ()
    for at in places[1 : 1 + MOST_LABELS]:
        labels += label(at, "another assert" if at in of_asserts else "another print")
    yield Hazard("debugging-left", program.kernel.name, places[0], labels=labels, fields=fields)


def _count(dims: tuple[int | str, ...]) -> int | None:
    known = constant(dims)
    return math.prod(known) if known else None


def _is(pattern: re.Pattern[str], visit: Visit) -> bool:
    return visit.statement.kind == "call" and pattern.match(visit.statement.text) is not None


def _printed_by_all(program: Program, visit: Visit) -> str | None:
    """The tensor in global memory of which a statement, in its loop, prints every element in every thread."""
    if not _is(PRINT, visit) or not visit.parents or visit.parents[-1].loop is None:
        return None
    if any(parent.kind in ("if", "while") and parent.divergent is not False for parent in visit.parents):
        return None
    buffers = [program.buffers.get(access.buffer) for access in visit.statement.accesses]
    printed = [buffer for buffer in buffers if buffer is not None and buffer.scope == "global"]
    return shown(printed[0]) if "debug_print_buffer_value" in visit.statement.text and printed else None
