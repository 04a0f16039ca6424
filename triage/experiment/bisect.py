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
        sets = self.confirmed(found)
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

    def confirmed(self, found: Sequence[tuple[Setting, ...]]) -> list[tuple[SwitchSet, tuple[Setting, ...]]]:
        """The sets with which the kernel comes through once more, the first also through the device compiler if there is
        one. After the deadline only the first is confirmed."""
        sets: list[tuple[SwitchSet, tuple[Setting, ...]]] = []
        for chosen in found:
            if sets and self.search.deadline <= time.monotonic():
                break
            result, level = self.once_more(chosen, device=self.device and not sets)
            blame = blamed(self.search.first, result, chosen) if result and self.search.first else None
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


# -------------------------------------------------------------------------------------------------------------- blame

#: how a sentence begins that names a pass by what experiments show of it
STRONG = ("the pass that fails",)
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


Trace = Sequence[tuple[str, str | None]]
#: how a trace calls the passes that are Python functions
ANONYMOUS = "pass_fn"


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


# -------------------------------------------------------------------------------------------------------------- words


def _told(setting: Setting) -> SwitchSetting:
    back = setting.without and setting.switch.value is not None  # the row tells what setting it costs
    cost = "" if back else setting.switch.cost
    return SwitchSetting(setting.what, setting.was, setting.now, setting.effect, cost, setting.file, setting.line)


def _names(chosen: Sequence[Setting]) -> tuple[str, ...]:
    return tuple(setting.text for setting in chosen)
