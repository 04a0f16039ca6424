"""compare-segments: after which statement does the device first have other values than the twin, for the same arguments?

For a kernel whose twin is right. The kernel is changed to write its tiles out behind each statement (`harness/segments.py`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from triage.experiment.client import TemplateError
from triage.experiment.errors import read_events
from triage.experiment.scripts import Candidate, ScriptRunner
from triage.experiment.switches import OURS, of_tiles_only
from triage.experiment.twin import read
from triage.graph.spec import ToolSpec
from triage.lints.hazard import Hazard
from triage.model import Fact, FoundBy, Label, Place, StepOutcome, StepStatus
from triage.tools import reruns
from triage.tools.base import Result, Work
from triage.tools.compared import Seen, observed_run, order_decides
from triage.tools.lower_kernels import units_of
from triage.tools.twin_runs import wrong

SPEC = ToolSpec(
    "compare-segments",
    "compare after each statement with the twin",
    adds=("segments.compared", "segments.differing", "segments.line"),
    seconds=lambda facts: 5.0 + 2.0 * float(facts.get("run.seconds") or 0.0),
)


@dataclass(frozen=True)
class Told:
    """What a run with copies told: the segments in their order, and whether the script's check still failed."""

    segments: Sequence[Mapping[str, Any]]
    failed: bool

    @property
    def differing(self) -> list[Mapping[str, Any]]:
        return [segment for segment in self.segments if segment.get("wrong")]


def run(work: Work) -> Result:
    """Look for the first statement whose values differ."""
    if work.facts.get("twin.verdict") != "matched" or work.facts.get("run.check") != "failed":
        return Result(
            detail="the values of statements are held against the twin's where that is right and a device is not"
        )
    device = observed_run(work)
    script, kernel = reruns.candidate(work), _kernel(work, device)
    if script is None or kernel is None:
        return Result(detail="no kernel is known to have written what is compared, or the script cannot be run again")
    try:
        with reruns.runner(work) as runner:
            seen = _seen(runner, script, kernel, pipelined=True, limit=reruns.limit(work))
            if not (seen.failed and seen.differing):  # copies in a pipelined loop change its schedule
                seen = _seen(runner, script, kernel, pipelined=False, limit=reruns.limit(work))
        of_compiler = bool(seen.differing) and _left_to_the_compiler(work, kernel, device)
    except TemplateError as error:
        return Result(status=StepStatus.FAILED, detail=f"the script cannot be run again: {error}")
    facts = [
        Fact("segments.compared", len(seen.segments), source=SPEC.name),
        Fact("segments.differing", len(seen.differing), source=SPEC.name),
    ]
    if not seen.segments:
        return Result(detail="no tile of the kernel could be written out and compared", facts=tuple(facts))
    if not seen.failed:
        how = "with its tiles written out after each statement the kernel's result is right"
        return Result(detail=f"{how}: what is wrong depends on what stands around the statements", facts=tuple(facts))
    if not seen.differing:
        how = f"the tiles agree with the twin's after all of {len(seen.segments)} statements"
        return Result(detail=f"{how}; what is wrong comes after them", facts=tuple(facts))
    first = seen.differing[0]
    at = first.get("at") or {}
    facts += [Fact("segments.line", int(at["line"]), source=SPEC.name)] if at.get("file") == work.script_path else []
    return Result(
        outcome=StepOutcome.FINDING,
        detail=f"the first of {len(seen.segments)} that differs: {first['buffer']} after {first['text']}, {_much(first)}",
        facts=tuple(facts),
        hazards=_hazards(seen, first, of_compiler),
        checked=(f"the tiles of a launch after {len(seen.segments)} statements, against the twin's [measured here]",),
    )


def _kernel(work: Work, device: Seen | None) -> str | None:
    """The kernel that wrote what is wrong; the only one of a script, where that is not known."""
    compared = wrong(device.run) if device else None
    wrote = compared.writers if compared else frozenset()
    return next(iter(sorted(wrote or (work.kernels.keys() if len(work.kernels) == 1 else ()))), None)


def _left_to_the_compiler(work: Work, kernel: str, device: Seen | None) -> bool:
    """Whether what each thread does, and what it waits for, is the compiler's to decide. The twin has one order for all threads: what
    a kernel that synchronizes by itself gets wrong looks the same as a fault of the compiler, and so does what a switch that the script sets
    takes from it (`bisect-switches` comes later, or not at all)."""
    if device is not None and order_decides(device, {kernel}):
        return False
    known = work.kernels.get(kernel)
    if known is None or known.primfunc is None or {*known.pass_configs} - OURS:
        return False
    units = units_of(work, known)
    return bool(units) and of_tiles_only(units)


def _seen(runner: ScriptRunner, script: Candidate, kernel: str, pipelined: bool, limit: float) -> Told:
    asked = json.dumps({"kernel": kernel, "segments": pipelined}, sort_keys=True)
    shown = runner.run(replace(script, settings=asked), limit)
    events = read_events(shown.directory)
    told = [event for event in events if event["type"] == "segment"]
    return Told(told, read(events, shown.status, runner.blob).verdict == "mismatched")


def _hazards(seen: Told, first: Mapping[str, Any], of_compiler: bool) -> tuple[Hazard, ...]:
    at = first.get("at") or {}
    if not at.get("user"):
        return ()
    before = [s for s in seen.segments if s["number"] < first["number"] and (s.get("at") or {}).get("user")]
    labels = [Label(s["at"]["file"], int(s["at"]["line"]), f"{s['buffer']} is still right here") for s in before[-1:]]
    fields = {
        "buffer": first["buffer"],
        "statement": first["text"],
        "much": _much(first),
        "compared": len(seen.segments),
        "found_by": FoundBy.EXPERIMENT.value,
    }
    kind = "segment-differs" if of_compiler else "segment-of-threads-differs"
    return (Hazard(kind, "run", Place(at["file"], int(at["line"])), tuple(labels), fields),)


def _much(segment: Mapping[str, Any]) -> str:
    return f"{segment['wrong']} of {segment['total']} elements"
