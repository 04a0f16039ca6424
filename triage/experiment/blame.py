"""What two compiles, one that fails and one with other switches that does not, say about the pass that fails. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from triage.experiment.switches import Setting, governed
from triage.experiment.template import Result

#: the passes of a compile in their order, each with a digest of the program after it
Trace = Sequence[tuple[str, str | None]]
#: how a trace calls the passes that are Python functions
ANONYMOUS = "pass_fn"
#: how a sentence begins that names a pass by what experiments show of it
STRONG = "the pass that fails"
SKIPPED = "the pass that fails, {fails}, is not run with it"
READS = "the pass that fails, {fails}, works otherwise with it on the same program"
GOVERNS = "it governs the pass that fails, {fails}, and what that pass gets is another program, too"
BEFORE = "the first difference is that {first}; the pass that fails, {fails}, comes later"
NO_PASS = "the first difference is that {first}; what fails is no pass, but {fails}"
ABOUT = "it governs the pass that fails, {fails}; that this pass is at fault is not shown by that"
PLAIN = "which pass is at fault is not shown by that"


def blamed(start: Result, cured: Result, chosen: Sequence[Setting]) -> str | None:
    """What two experiments say about the pass that fails; None where the settings cannot be why the fault went."""
    before, after = _trace(start), _trace(cured)
    fails = start.pass_name
    if fails is not None and _times(fails, after) <= _times(fails, before):
        return SKIPPED.format(fails=fails)
    passes = governed(chosen)
    if any(s.change is not None or s.target is not None for s in chosen):  # another program from the beginning
        return ABOUT.format(fails=fails) if fails in passes else PLAIN
    first = first_difference(before, after)
    where = fails or ("the device compiler" if start.facts.get("phase") == "device" else "the code generator")
    of_fault = fails in passes or (fails is None and not {"codegen", "device-compile"}.isdisjoint(passes))
    if first is None:
        return READS.format(fails=where) if of_fault else None
    if of_fault:
        return GOVERNS.format(fails=where)
    return (BEFORE if fails else NO_PASS).format(first=first, fails=where)


def _trace(result: Result) -> Trace:
    return [(str(name), digest) for name, digest in result.facts.get("trace", [])]


def _times(name: str, trace: Trace) -> int:
    """How often a pass was run to its end. Those written in Python have all one name in a trace, which is no scoped one."""
    wanted = name if "." in name else ANONYMOUS
    return [other for other, _ in trace].count(wanted)


def first_difference(before: Trace, after: Trace) -> str | None:
    """What the first pass does otherwise, of those that finished before the fault; None if the program there is the same.

    A pass that only one of the two has, and that leaves the program as it is, makes no difference.
    """
    here = there = 0
    last: str | None = None
    while here < len(before) and there < len(after):
        (name, digest), (other, changed) = before[here], after[there]
        if name == other:
            if digest != changed:
                return f"{name} makes another program"
            here, there, last = here + 1, there + 1, digest
        elif name not in [n for n, _ in after[there:]]:
            if digest != last:
                return f"{name} is not run"
            here += 1
        else:
            if changed != last:
                return f"{other} is run"
            there += 1
    return None
