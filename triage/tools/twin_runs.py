"""What the tools of the correctness chain share: the script for the CPU twin, and the hazards that say what it showed there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from triage.experiment.comparisons import NAN_PASSES
from triage.experiment.scripts import Candidate
from triage.experiment.twin import Compared, TwinRun
from triage.lints.hazard import Hazard
from triage.model import FoundBy, KernelRecord, Place, Statement
from triage.numerics.hidden_faults import Comparing, blind_spots
from triage.numerics.pattern import FEW, UNPATTERNED, describe, pattern_of
from triage.numerics.steps import by_spacings
from triage.tools.base import Work

#: happenings of the interpreter as hazards that rules know
HAZARDS = {
    "uninitialized-read": "read-of-unwritten",
    "oob-read": "read-out-of-bounds",
    "oob-write": "write-out-of-bounds",
    "never-written": "output-never-written",
    "collision": "lanes-collide",
}
#: how the line of a comparison is known whose values a device computed: it is where the script compared
BY_DEVICE = FoundBy.FRAME
#: what is worth a line about a comparison that agreed; that NaN agrees with NaN is a default of most functions
TOLD = frozenset({"mismatches-cover-a-tile", "atol-covers-all", "loose"})


def unchanged(work: Work) -> Candidate | None:
    """The script as it ran, to be run in twin mode; None where it cannot be read."""
    source = work.script_source
    options = work.options
    return (
        None if source is None else Candidate(source, options.argv, options.call, twin=(), references=work.references)
    )


def lines_of(record: KernelRecord, file: str) -> set[int]:
    """The lines of a file on which statements of a kernel stand, those of macros included."""

    def walk(statements: tuple[Statement, ...]) -> Iterator[Place]:
        for statement in statements:
            yield from (statement.at,) if statement.at else ()
            yield from statement.via
            yield from walk((*statement.body, *statement.orelse))

    return {place.line for place in walk(record.statements) if place.file == file}


def wrong(run: TwinRun) -> Compared | None:
    """The failed comparison to speak of: the last one, which ended the script if any did; else one that the user asked for."""
    failed = [c for c in run.comparisons if not c.matched]
    if run.ended == "succeeded":
        failed = [c for c in failed if c.asked_for] or failed
    return failed[-1] if failed else None


def patterns(run: TwinRun) -> list[str]:
    """Words about the wrong elements of all failed comparisons."""
    found = [pattern_of(c.mismatch) for c in run.comparisons if c.mismatch is not None]
    return [word for pattern in found for word in (pattern.values, *pattern.where)]


def of_happenings(run: TwinRun, wrong_on_device: bool = False) -> list[Hazard]:
    """What the interpreter met in a run whose result is wrong.

    Alone it accuses nobody: a right kernel may read a column that it then masks. A value that nobody wrote counts only if it reached
    what was compared, which shows as NaN. Where the result is wrong on a device only, what nobody wrote may be why.
    """
    if run.verdict != "mismatched":
        unwritten = [h for h in run.happenings if wrong_on_device and h.get("kind") == "never-written"]
        return [hazard for hazard in map(_of_happening, unwritten) if hazard is not None]
    spoilt = any(c.mismatch and c.mismatch.nan for c in run.comparisons) or (bool(run.nan) and wrong(run) is None)
    met = (h for h in run.happenings if spoilt or h.get("kind") != "uninitialized-read")
    return [hazard for hazard in map(_of_happening, met) if hazard is not None]


def _of_happening(happening: Mapping[str, Any]) -> Hazard | None:
    """A happening as the rules match it; None for a kind that no rule knows."""
    kind = HAZARDS.get(str(happening.get("kind")))
    if kind is None:
        return None
    place = happening.get("place") or None
    fields = {
        "buffer": happening.get("buffer"),
        "count": happening.get("count"),
        "index": list(happening.get("indices") or ()),
        "shape": list(happening.get("extent") or ()),
        "found_by": FoundBy.TWIN.value,
    }
    return Hazard(kind, "run", Place(str(place["file"]), int(place["line"])) if place else None, fields=fields)


def wrong_on_twin(run: TwinRun) -> Hazard:
    """A run whose comparison failed as a hazard: what does not agree, and what may be at fault.

    Where no launch wrote an operand of the comparison as it is, the script has made it from what a launch wrote, by a cast or by more.
    """
    found = wrong(run)
    if found is None:
        compared, does = "the script's own check fails", "checks"
    else:
        compared, does = "what the script compares does not agree, and no launch wrote it as it is", "compares"
    between = f"what the script makes of {_result_of(run.kernels)} before it {does} it"
    if found is not None and found.of_kernel:
        compared, between = "the kernel does not agree with its reference", ""
        if found.function == NAN_PASSES:
            compared += " (the script's check passes, since NaN exceeds no bound)"
    at = None if found and found.at else run.raised_at
    return of_mismatch("wrong-on-twin", found, at, compared=compared, look_at=_look_at(between))


def _result_of(kernels: tuple[str, ...]) -> str:
    return f"the result of {kernels[0]}" if len(kernels) == 1 else f"the results of {len(kernels)} kernels"


def _look_at(between: str) -> str:
    """All that may be at fault, what is least thought of first: a report may cut the end."""
    first = f"{between}, " if between else ""
    return (
        f"{first}the arguments of the call, the reference, and the kernel's bounds, indices, initial values and factors"
    )


def of_mismatch(kind: str, found: Compared | None, at: Place | None = None, **fields: Any) -> Hazard:
    """A failed comparison as a hazard at the line that compares, or at `at`."""
    return Hazard(kind, "run", at or (found.at if found else None), fields=said_of(found) | fields)


def said_of(found: Compared | None) -> dict[str, Any]:
    """What rules may quote of a failed comparison; None for a check of the script's own."""
    by_twin = {"found_by": FoundBy.TWIN.value}
    if found is None:
        return {"function": "the script's own check", "where": "its results are wrong", "tolerance": "", **by_twin}
    return {
        "function": found.function,
        "where": describe(found.mismatch) if found.mismatch else "the shapes differ",
        "tolerance": ", ".join(f"{name}={value}" for name, value in sorted(found.tolerance.items())),
        "dtype": found.dtype,
        **by_twin,
    }


def hidden(run: TwinRun, by: FoundBy = FoundBy.TWIN) -> list[Hazard]:
    """What comparisons that agreed let through, and what is no chance: wrong elements that have a place."""
    unwritten = [h for h in run.happenings if h.get("kind") == "never-written"]
    no_block = "".join(f"; no block writes {h['count']} elements of {h['buffer']}" for h in unwritten[:1])
    return [
        of_mismatch(
            "comparison-hides-mismatch",
            compared,
            ratio=compared.tolerance.get("max_mismatched_ratio"),
            where=describe(compared.let_through) + no_block,
            found_by=by.value,
        )
        for compared in run.comparisons
        if compared.let_through is not None and _hides(compared)
    ]


def _hides(compared: Compared) -> bool:
    """Whether the elements that a comparison let through are so many, or so wrong, that their place is no chance."""
    wrong = compared.let_through
    if wrong is None:
        return False
    if UNPATTERNED.intersection(pattern_of(wrong).where) or (wrong.wrong <= FEW and not wrong.nan):
        return False
    return wrong.differences is None or not by_spacings(wrong.differences, placed=False, real=True).inside


def blind(run: TwinRun, by: FoundBy = FoundBy.TWIN) -> list[Hazard]:
    """Comparisons that agreed and could not have seen a fault, by their parameters; those that hid one are told as such."""
    found = []
    for compared in run.comparisons:
        if not compared.matched or compared.vacuous or _hides(compared):
            continue
        spots = [spot for spot in blind_spots(_comparing(compared)) if spot.kind in TOLD]
        if spots:
            said: dict[str, Any] = {"says": spots[0].says, "spot": spots[0].kind, "where": "", "found_by": by.value}
            found.append(of_mismatch("comparison-blind", compared, **said))
    return found


def _comparing(compared: Compared) -> Comparing:
    given = compared.tolerance
    return Comparing(
        compared.function,
        compared.shape,
        compared.dtype,
        given.get("rtol"),
        given.get("atol"),
        given.get("max_mismatched_ratio"),
        bool(given.get("equal_nan")),
        rms_expected=compared.largest,  # not below the rms: only a tolerance that surely covers everything is told
    )
