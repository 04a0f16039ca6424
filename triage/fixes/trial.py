"""Run the script with a patch on a copy, and look at everything it then shows: errors, hazards, warnings, kernels."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from triage.experiment.client import TemplateError
from triage.experiment.errors import Observed, read_events, warnings_of
from triage.experiment.events import Event
from triage.experiment.hazards import hazards_of
from triage.experiment.kernels import Kernel, kernels_of, record_of
from triage.experiment.scripts import Candidate, ScriptRunner, Shown
from triage.experiment.template import Program, Template
from triage.knowledge.judge import Observability, judge
from triage.knowledge.made_up import about_made_up_values
from triage.knowledge.match import record_of_hazard, record_of_warning, records_of_error
from triage.knowledge.rule import RuleSet
from triage.knowledge.stages import Stages
from triage.lints import DeviceTable
from triage.model import ErrorRecord, Finding, KernelRecord, State, to_json
from triage.readers import decisive


@dataclass(frozen=True)
class Fault:
    """Something wrong that a run showed, and the error or the measured fields that it was read from."""

    finding: Finding
    error: ErrorRecord | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Seen:
    """What one run showed. `broken` says why it tells nothing. `built` are the kernels that compiled as far as they
    were tried, `attempted` all that were, by name; `compared` the outcomes of comparisons of real values."""

    faults: tuple[Fault, ...] = ()
    broken: str = ""
    ended: str = ""
    built: tuple[str, ...] = ()
    attempted: tuple[str, ...] = ()
    records: tuple[KernelRecord, ...] = ()
    launches: int = 0
    compared: tuple[bool, ...] = ()

    @property
    def healthy(self) -> bool:
        """Nothing is wrong, and something was built."""
        sound = not self.broken and not self.faults and all(self.compared)
        return sound and bool(self.built) and not missing(self.attempted, self.built)


def missing(wanted: tuple[str, ...], there: tuple[str, ...]) -> tuple[str, ...]:
    """Those of `wanted` that are missing, each counted as often as it is wanted."""
    left = list(there)
    lost = []
    for name in wanted:
        if name in left:
            left.remove(name)
        else:
            lost.append(name)
    return tuple(lost)


class Trials:
    """Runs patched copies of one script. `template` lowers kernels that the script defines and does not compile."""

    def __init__(
        self,
        runner: ScriptRunner,
        asked: Candidate,
        template: Callable[[], Template],
        rules: RuleSet,
        stages: Stages,
        devices: DeviceTable,
        tilelang: str | None,
        seconds: float,
    ) -> None:
        self.runner, self.asked, self.template = runner, asked, template
        self.rules, self.stages, self.devices, self.tilelang = rules, stages, devices, tilelang
        #: how long one run may take
        self.seconds = seconds

    def run(self, texts: Mapping[str, str], compile: bool = True) -> Seen:
        """The script with these texts in the place of its files'; `compile` False leaves out the device compiler.

        Raises `TemplateError`.
        """
        script = os.path.abspath(self.runner.path)  # as the frames name it
        others = tuple(sorted((path, text) for path, text in texts.items() if path != script))
        self.runner.compile = compile
        shown = self.runner.run(replace(self.asked, source=texts[script], others=others), self.seconds)
        return self._look(shown, texts)

    def _look(self, shown: Shown, texts: Mapping[str, str]) -> Seen:
        if shown.status in ("infra_error", "timed_out"):
            return Seen(broken=shown.why or shown.status, ended=shown.status)
        events = read_events(shown.directory)
        kernels = list(kernels_of(events).values())
        records = {k.id: record for k in kernels if (record := record_of(k, self._blob)) is not None}
        made_up = sum(e["type"] == "launch.begin" and bool(e.get("virtual")) for e in events)
        errors = [e for e in shown.errors if not (e.recovered or e.stubbed)]
        errors = [e for e in errors if not about_made_up_values(decisive(e), {"launches.virtual": made_up}, texts.get)]
        later, lowered = self._lower(kernels)
        faults = self._faults([*errors, *later], events, kernels, records, shown, texts)
        states = {
            k.id: lowered.get(k.id, bool(k.phases) and not k.failed and "unfinished" not in k.phases.values())
            for k in kernels
        }
        return Seen(
            tuple(faults),
            ended=shown.status,
            built=tuple(k.name for k in kernels if states[k.id]),
            attempted=tuple(k.name for k in kernels if k.compiled or k.id in lowered),
            records=tuple(records[k.id] for k in kernels if k.id in records),
            launches=sum(e["type"] == "launch.begin" for e in events),
            compared=tuple(
                bool(e["matched"])
                for e in events
                if e["type"] == "compare" and not e.get("virtual") and e.get("matched") is not None
            ),
        )

    def _blob(self, sha: str) -> bytes:
        return (self.runner.directory / "blobs" / sha).read_bytes()

    def _lower(self, kernels: list[Kernel]) -> tuple[list[ErrorRecord], dict[str, bool]]:
        """Lower what the script only defines: the errors, and by kernel whether it lowers."""
        errors, states = [], {}
        for kernel in kernels:
            if kernel.compiled or "lower" in kernel.phases or kernel.primfunc is None:
                continue
            path = self.runner.directory / "blobs" / kernel.primfunc
            try:
                result = self.template().run(Program(path, kernel.target or None, kernel.pass_configs), "lower")
            except TemplateError:
                states[kernel.id] = False
                continue
            states[kernel.id] = result.status == "succeeded"
            if result.error is not None:
                errors.append(replace(result.error, kernel=kernel.id, latent=True))
        return errors, states

    def _faults(
        self,
        errors: list[ErrorRecord],
        events: list[Event],
        kernels: list[Kernel],
        records: Mapping[str, KernelRecord],
        shown: Shown,
        texts: Mapping[str, str],
    ) -> list[Fault]:
        """What the rules call a fault of all that this run showed."""
        seen = Observability(
            tilelang=self.tilelang,
            read_source=texts.get,
            guess_of=self.stages.stage_of,
        )
        facts = {"run.status": shown.status}
        faults = []
        for error in errors:
            one = decisive(error)
            chain = records_of_error(error, seen.stage_of(one), decides=one)
            faults += [Fault(finding, error) for finding in judge(chain, facts, self.rules, seen)]
        observed = Observed(shown.directory, events, kernels, self._blob)
        told = [record_of_warning(warning) for warning in warnings_of(events, observed.readings())]
        for kernel in kernels:
            if kernel.id in records:
                source = self._blob(kernel.source).decode("utf-8", "replace") if kernel.source else None
                found = hazards_of(kernel, records[kernel.id], self.devices, source)
                told += [record_of_hazard(to_json(hazard), hazard.about) for hazard in found]
        for record in told:
            faults += [Fault(finding, fields=record.fields) for finding in judge([record], facts, self.rules, seen)]
        silent = shown.status == "failed" and not shown.errors
        if silent:
            faults.append(Fault(Finding(State.UNKNOWN, None, "the script failed without an error", "")))
        return [fault for fault in faults if fault.finding.level == "fault"]
