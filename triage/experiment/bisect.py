"""Which switches make a fault of the compiler go: the search, and what its experiments show of the passes.

    start        the unchanged kernel twice: the reported fault, both times (`search.py`)
    one by one   every setting that the kernel has (`switches.py`)
    together     if none works alone: sets of them, made 1-minimal by delta debugging
    end          each set found once more, and then the unchanged kernel once more

A set counts only if the kernel then comes through without any fault: another fault is no success. A setting that leaves
the program before the fault as it was is no evidence, unless it governs the pass that fails.
"""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from triage.experiment import neighbours
from triage.experiment.blame import STRONG, blamed
from triage.experiment.minimal import OutOfBudget, minimize
from triage.experiment.oracle import Verdict, told
from triage.experiment.search import Search
from triage.experiment.switches import Setting, applied, effect_of, governed, settings, together, worded
from triage.experiment.template import Program, Result, Template
from triage.knowledge.switches import Effect, Switch
from triage.model import ErrorRecord, Neighbour, SwitchSet, SwitchSetting

#: what is said where no experiment was made
TOO_LATE = "the time for experiments ran out before they showed anything"
Trial = Callable[[Sequence[Setting]], Verdict]
#: what the settings of a set are about, where the script itself wrote what fails
OF_THE_SCRIPT = ("threads", "annotation", "op-annotation", "loop-kind", "attribute")
#: an error that speaks to the author of the kernel names what the author wrote
TO_THE_AUTHOR = re.compile(r"\bT\.\w+|\bplease\b|\bannotate_layout\b|`threads`|\bnum_stages\b", re.IGNORECASE)


@dataclass(frozen=True)
class Bisection:
    """What the search found. `how` says it in a sentence.

    `sets` are 1-minimal, the least harmful first; `complete`: everything was tried. `compiler`: the experiments show that
    a pass of the compiler is at fault. `tries` counts experiments.
    """

    how: str
    sets: tuple[SwitchSet, ...] = ()
    neighbours: tuple[Neighbour, ...] = ()
    complete: bool = True
    compiler: bool = False
    tries: int = 0
    seconds: float = 0.0


def bisect(
    program: Program,
    template: Template,
    switches: Sequence[Switch],
    *,
    deadline: float,
    fault: ErrorRecord | None = None,
    device: bool = False,
    progress: Callable[[str], None] = lambda line: None,
) -> Bisection:
    """Bisect the fault that `program` shows when it is lowered, generated or compiled for the device.

    `deadline` is a `time.monotonic()` value after which no experiment starts. `fault` is the error that was reported; one
    that does not come again is not bisected. `device`: the device compiler is there to confirm with. Raises
    `client.TemplateError` if the template goes away.
    """
    began = time.monotonic()
    work = Bisecting(Search(program, template, deadline), device, progress)
    try:
        refusal = work.search.begin(fault)
        found = Bisection(refusal, complete=False) if refusal else work.run(switches)
    except OutOfBudget:
        found = Bisection(TOO_LATE, complete=False)
    return Bisection(
        found.how, found.sets, found.neighbours, found.complete, found.compiler,
        len(work.search.log) + work.repeats, round(time.monotonic() - began, 2),
    )  # fmt: skip


def find(options: Sequence[Setting], trial: Trial) -> tuple[list[tuple[Setting, ...]], bool]:
    """The sets of settings with which the fault goes, each 1-minimal, and whether everything was tried. Pure.

    First each setting alone; of those of one slot the first that works. Only if none does, sets.
    """
    alone: dict[Setting, Verdict] = {}
    found: list[tuple[Setting, ...]] = []
    try:
        for _, values in itertools.groupby(options, key=lambda setting: setting.slot):
            for setting in values:
                alone[setting] = trial([setting])
                if alone[setting] == Verdict.NONE:
                    found.append((setting,))
                    break
        if found:
            return found, True
        for start in _starts(options, alone):
            if trial(start) == Verdict.NONE:
                kept, minimal = minimize(start, lambda some: bool(some) and trial(some) == Verdict.NONE)
                return [tuple(kept)], minimal
    except OutOfBudget:
        return found, False
    return [], True


def _starts(options: Sequence[Setting], alone: dict[Setting, Verdict]) -> Iterable[list[Setting]]:
    """Sets worth trying when no setting works alone: those that change nothing about the fault together; with them each
    that brings another fault, because that one may go by another setting; in the end everything."""
    seen: list[list[Setting]] = []
    here = [s for s in options if s.slot != "target"]  # another device is no part of a remedy for this one
    for most in Effect:
        allowed = [s for s in here if s.effect in tuple(Effect)[: tuple(Effect).index(most) + 1]]
        harmless = [s for s in allowed if alone.get(s) == Verdict.SAME]
        others = [s for s in allowed if alone.get(s) == Verdict.OTHER]
        for start in ([harmless], [[s, *harmless] for s in others], [allowed]):
            for chosen in map(together, start):
                if len(chosen) > 1 and chosen not in seen:
                    seen.append(chosen)
                    yield chosen


class Bisecting:
    """One bisection under way."""

    def __init__(self, search: Search, device: bool, progress: Callable[[str], None]) -> None:
        self.search, self.device, self.progress = search, device, progress
        self.repeats = 2
        #: the generated source of the unchanged kernel, where only the device compiler refuses it
        self.source: Any = None
        #: sets with which the kernel lowers, and the device compiler refuses it
        self.refused = 0

    def run(self, switches: Sequence[Switch]) -> Bisection:
        search = self.search
        if search.op == "device":
            self.source = search.show(search.program, "codegen", ())[1].facts.get("source")
        options = settings(switches, search.units, search.program)
        found, complete = find(options, self.trial)
        found.sort(key=lambda chosen: (tuple(Effect).index(effect_of(chosen)), len(chosen)))
        sets = self.confirmed(found, complete)
        if sets and not self.start_again():
            return Bisection("the unchanged kernel does not show the fault any more at the end", complete=False)
        near: tuple[Neighbour, ...] = ()
        if complete:
            near, complete = neighbours.nearest(search, options, self.trial)
        shown = tuple(told for told, _ in sets)
        compiler = complete and not any(_of_the_script(s) for chosen in found for s in chosen) and self.of_a_pass(sets)
        return Bisection(self.how(shown, complete), shown, near, complete, compiler)

    # ------------------------------------------------------------------------------------------------- experiments

    def trial(self, chosen: Sequence[Setting]) -> Verdict:
        """What the kernel shows with these settings; an unchanged source is not compiled again."""
        self.progress(f"{len(self.search.log)} experiments, now {', '.join(s.text for s in chosen[:2])}")
        program, changes = applied(self.search.program, chosen)
        outcome, result = self.search.show(program, "codegen", changes)
        if self.search.op == "device" and outcome.verdict == Verdict.NONE:
            if self.same_source(result, chosen):
                self.search.note(_names(chosen), outcome, result)
                return Verdict.SAME
            outcome, result = self.search.show(program, "device", changes)
        self.search.note(_names(chosen), outcome, result)
        return outcome.verdict

    def same_source(self, result: Result, chosen: Sequence[Setting]) -> bool:
        """Whether the device compiler gets what it got from the unchanged kernel."""
        moved = any(s.target is not None for s in chosen) or "device-compile" in governed(chosen)
        return not moved and self.source is not None and result.facts.get("source") == self.source

    def confirmed(
        self, found: Sequence[tuple[Setting, ...]], minimal: bool
    ) -> list[tuple[SwitchSet, tuple[Setting, ...]]]:
        """The sets with which the kernel comes through once more, the first also through the device compiler if there is
        one. After the deadline only the first is confirmed. `minimal`: nothing can be left out of any of them."""
        sets: list[tuple[SwitchSet, tuple[Setting, ...]]] = []
        for chosen in found:
            if sets and self.search.deadline <= time.monotonic():
                break
            result, level = self.once_more(chosen, device=self.device and not sets)
            blame = blamed(self.search.first, result, chosen) if result and self.search.first else None
            if blame is not None and len(chosen) > 1 and not minimal:
                blame += "; the time ran out before it was known whether all of these settings are needed"
            if blame is not None:
                settings_told = tuple(map(_told, chosen))
                sets.append((SwitchSet(settings_told, effect_of(chosen), governed(chosen), blame, level), chosen))
        return sets

    def once_more(self, chosen: Sequence[Setting], device: bool) -> tuple[Result | None, str]:
        """The result with these settings and how far it came, lowers or builds; None where it fails."""
        program, changes = applied(self.search.program, chosen)
        levels = {"codegen": "lowers"}
        if device or self.search.op == "device":
            levels = {"device": "builds"} | ({} if self.search.op == "device" else levels)
        for op, level in levels.items():  # a device compiler that does not end says nothing about the lowering
            self.repeats += 1
            result = self.search.template.again(program, op, changes)
            if result.status == "succeeded":
                return result, level
            if result.status == "failed":
                self.refused += op == "device"
                break
        return None, ""

    def start_again(self) -> bool:
        """Whether the unchanged kernel still shows the fault."""
        self.repeats += 1
        result = self.search.template.again(self.search.program, self.search.op)
        return self.search.judged(result).verdict == Verdict.SAME

    def how(self, sets: Sequence[SwitchSet], complete: bool) -> str:
        if not sets and not self.search.log:
            return TOO_LATE
        if not sets:
            refused = f"; with {self.refused} it lowers, and the device compiler refuses it" if self.refused else ""
            return (
                "no switch makes the fault go" if complete else "no switch that was tried makes the fault go"
            ) + refused
        first = " and ".join(worded(s.what, s.was, s.now) for s in sets[0].settings)
        rest = f", and {len(sets) - 1} other set{'s' * (len(sets) > 2)} of switches" if len(sets) > 1 else ""
        return f"the fault goes with {first}{rest}"

    def of_a_pass(self, sets: Sequence[tuple[SwitchSet, tuple[Setting, ...]]]) -> bool:
        """Whether the experiments show that a pass of the compiler is at fault, if nothing of the script is.

        They do where an assertion of a pass fails, and the pass is one that only optimizes: without it, or with it working
        otherwise, the same program compiles and computes the same. That it is right for another device says nothing.
        """
        error = self.search.error
        if error is None or not error.type.endswith("InternalError") or TO_THE_AUTHOR.search(told(error.message)):
            return False
        return any(
            one.effect == Effect.PRESERVES
            and all(s.switch.kind == "pass-config" for s in chosen)
            and one.blame.startswith(STRONG)
            for one, chosen in sets
        )


def _of_the_script(setting: Setting) -> bool:
    """Whether a setting undoes what the author of the script decided about the kernel; how deep a loop is pipelined is
    left to the compiler."""
    dropped = setting.switch.kind == "loop-annotation" and setting.switch.value is None
    return setting.switch.kind in OF_THE_SCRIPT or dropped or bool(setting.without)


# -------------------------------------------------------------------------------------------------------------- words


def _told(setting: Setting) -> SwitchSetting:
    back = setting.without and setting.switch.value is not None  # the row tells what setting it costs
    cost = "" if back else setting.switch.cost
    return SwitchSetting(setting.what, setting.was, setting.now, setting.effect, cost, setting.file, setting.line)


def _names(chosen: Sequence[Setting]) -> tuple[str, ...]:
    return tuple(setting.text for setting in chosen)
