"""The one loop that executes the walker's effects, and the fold that turns a case's log back into a session.

Everything a session knows comes from the events of the case: `replay` folds them, `walk` appends to them and folds the
same way. So a report drawn tomorrow, or after a kill, is the report of the same facts.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import triage
from triage.case import Case, CaseError
from triage.experiment.template import Template
from triage.findings import MADE_UP, find
from triage.graph import walker
from triage.graph.check import check
from triage.graph.load import Graph, GraphError, loads
from triage.knowledge.facts import fact_types
from triage.knowledge.files import rules_root
from triage.knowledge.judge import Observability
from triage.knowledge.load import read_all
from triage.knowledge.rule import Problem, RuleSet
from triage.knowledge.stages import Stages
from triage.model import (
    Environment,
    Finding,
    NotChecked,
    State,
    Step,
    StepOutcome,
    StepStatus,
    from_json,
    to_json,
)
from triage.report import markdown
from triage.report.build import build_report
from triage.report.contract import Report
from triage.report.json_report import render as as_json
from triage.report.words import NOT_BUILT
from triage.tools import capabilities
from triage.tools.base import Kernel, Options, Result, Work
from triage.tools.registry import RUNNERS, SPECS

Progress = Callable[[str], None]
#: A source file above this size is not kept for the report.
SOURCE_LIMIT = 2 << 20


class CaseUnusable(Exception):
    """The case cannot be walked or drawn; the message says why."""


@dataclass
class Session:
    """A case folded from its events."""

    case: Case
    context: walker.Context
    options: Options = field(default_factory=Options)
    subject: dict[str, Any] = field(default_factory=dict)
    state: walker.State = field(default_factory=walker.State)
    effect: walker.Effect = field(default_factory=walker.Finish)
    results: list[Result] = field(default_factory=list)
    sources: dict[str, str] = field(default_factory=dict)  # file -> blob
    #: the node whose step began and did not end
    running: str | None = None

    @cached_property
    def _read_rules(self) -> tuple[RuleSet, list[Problem]]:
        found, problems = read_all(rules_root())
        return RuleSet(tuple(found), rules_root()), problems

    @property
    def rules(self) -> RuleSet:
        """The rules that can be read: one broken file must not cost the user the report."""
        return self._read_rules[0]

    @property
    def broken_rules(self) -> list[Problem]:
        return self._read_rules[1]

    @cached_property
    def stages(self) -> Stages:
        return Stages.load(rules_root() / "reference" / "stages.toml")

    @property
    def kernels(self) -> dict[str, Kernel]:
        wanted = self.options.kernel
        known = {k.id: k for result in self.results for k in result.kernels}
        return {i: k for i, k in known.items() if wanted is None or k.name == wanted}

    def gather(self, name: str) -> tuple[Any, ...]:
        """One field of all results, in the order of the steps."""
        return tuple(item for result in self.results for item in getattr(result, name))

    def facts(self) -> dict[str, dict[str, Any]]:
        """Values by what they are about and by name; the latest counts."""
        table: dict[str, dict[str, Any]] = {}
        for fact in self.gather("facts"):
            table.setdefault(fact.about, {})[fact.name] = fact.value
        return table

    def read_source(self, file: str) -> str | None:
        """The text of a user's file as it was when it ran; None if it was not kept."""
        blob = self.sources.get(file)
        try:
            return self.case.get(blob).decode("utf-8", "replace") if blob else None
        except CaseError:  # the blob is gone: the report then shows no source lines
            return None

    def findings(self) -> list[Finding]:
        """What the rules make of everything known now; without a verdict where nothing failed."""
        facts = self.facts()
        seen = Observability(
            tilelang=facts.get("run", {}).get("tilelang.version"),
            read_source=self.read_source,
            stage_of=lambda error: self.stages.stage_of(error).stage or error.stage,
        )
        return find(
            self.gather("errors"), self.gather("warnings"), self.gather("hazards"), self.gather("culprits"), facts,
            self.rules, seen, self.options.ignore,
        )  # fmt: skip

    def apply(self, event: dict[str, Any]) -> None:
        """Fold one event of the log."""
        match event.get("type"):
            case "open":
                self.options = from_json(Options, event["options"])
                self.subject = event["subject"]
                self._go(walker.Begin(
                    self.subject["kind"], frozenset(event["capabilities"]), self.options.budget, self.options.experiments
                ))  # fmt: skip
            case "resume":
                self.options = replace(self.options, budget=event["budget"], experiments=event["experiments"])
                self._go(walker.Resume(frozenset(event["capabilities"]), event["budget"], event["experiments"]))
            case "sources":
                self.sources |= event["files"]
            case "begin":
                self.running = event["node"]
            case "end":
                self.running = None
                self._end(event)

    def _end(self, event: dict[str, Any]) -> None:
        result = from_json(Result, event["result"])
        step = from_json(Step, event["step"])
        self.results.append(result)
        views = tuple(
            walker.FindingView(f.about, f.state, f.owner, f.category, f.rule)
            for f in self.findings()
            if f.level == "fault"
        )
        tool = self.context.graph.nodes[step.node].tool
        self._go(walker.Done(step, result.facts, views, counts=tool != "observe-run"))

    def _go(self, event: walker.Event) -> None:
        self.state, self.effect = walker.step(self.context, self.state, event)


# --------------------------------------------------------------------------------------------------------


def new_case(options: Options, root: Path, graph_file: Path | None = None) -> Case:
    """Make a case for a script and write its first event. Raises `GraphError` for a graph that cannot be walked."""
    text = read_graph(graph_file or rules_root() / "graph.toml")
    usable_graph(text)
    case = _make_case(root, Path(options.script).name if options.script else options.module or "case")
    script = Path(options.script) if options.script else None
    digest = hashlib.sha256(script.read_bytes()).hexdigest() if script else ""
    subject = {"kind": "script", "path": options.script or f"-m {options.module}", "sha256": digest}
    case.append(
        {
            "type": "open",
            "triage": triage.__version__,
            "at": str(case.path.absolute()),
            "subject": {**subject, "argv": list(options.argv)},
            "options": to_json(options),
            "capabilities": sorted(capabilities.quick(options.python)),
            "graph": case.put(text.encode("utf-8")),
        }
    )
    return case


def read_graph(path: Path) -> str:
    """The text of a graph file. Raises `GraphError` where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise GraphError([f"{path} cannot be read: {error}"]) from None


def _make_case(root: Path, name: str) -> Case:
    """A case below the working directory, or where nothing can be written there below the temporary directory."""
    try:
        return Case.create(root, name)
    except OSError:
        return Case.create(Path(tempfile.mkdtemp(prefix="triage-")), name)


def usable_graph(text: str) -> Graph:
    """Parse and check a graph. Raises `GraphError` with all problems."""
    graph = loads(text)
    problems = check(graph, SPECS, fact_types(rules_root()))
    if problems:
        raise GraphError(problems)
    return graph


def replay(case: Case) -> Session:
    """Fold the log of a case. Raises `CaseUnusable` for one that has no beginning or has lost its blobs."""
    try:
        return _replay(case)
    except (CaseError, OSError, GraphError) as error:
        raise CaseUnusable(f"{case.path} cannot be used: {error}") from None


def _replay(case: Case) -> Session:
    events = list(case.events())
    if not events or events[0].get("type") != "open":
        raise CaseUnusable(f"{case.path}: its log does not begin with an `open` event")
    graph = loads(case.get(events[0]["graph"]).decode("utf-8"))
    session = Session(case, walker.Context(graph, SPECS, f"triage resume {case.path}"))
    for event in events:
        try:
            session.apply(event)
        except (KeyError, TypeError, ValueError) as error:
            raise CaseUnusable(f"{case.path}: event {event.get('type')!r} cannot be read: {error}") from None
    return session


def walk(case: Case, progress: Progress) -> Session:
    """Execute effects until nothing is left to walk."""
    session = replay(case)
    with contextlib.ExitStack() as stack:
        template = _lazy_template(session, stack)
        while isinstance(session.effect, walker.Run):
            _execute(session, session.effect, template, progress)
    return session


def _lazy_template(session: Session, stack: contextlib.ExitStack) -> Callable[[], Template]:
    """The one template of this walk: started by the first tool that asks, ended with the walk."""
    running: list[Template] = []

    def template() -> Template:
        if not running:
            options = session.options
            made = Template(
                session.case.path / "experiments",
                python=options.python or None,
                env=_environment_of_run(session),
                script=Path(options.script) if options.script else None,
                target=next((k.target for k in session.kernels.values() if k.target), None),
            )
            running.append(stack.enter_context(made))
        return running[0]

    return template


def _environment_of_run(session: Session) -> dict[str, str]:
    """The variables that the script set before its imports: experiments must see them too."""
    values = session.facts().get("run", {}).get("run.env")
    return {str(k): str(v) for k, v in values.items() if v is not None} if isinstance(values, dict) else {}


def _execute(session: Session, effect: walker.Run, template: Callable[[], Template], progress: Progress) -> None:
    case = session.case
    spec = SPECS[effect.tool]
    progress(f"{spec.title}" + (f" ({effect.about})" if effect.about != "run" else ""))
    case.append({"type": "begin", "node": effect.node, "about": effect.about, "number": effect.number})
    began = time.monotonic()
    result = _run_tool(session, effect, template, progress)
    step = Step(
        node=effect.node, tool=effect.tool, about=effect.about, status=result.status, outcome=result.outcome,
        seconds=round(time.monotonic() - began, 3), detail=result.detail, number=effect.number,
    )  # fmt: skip
    sources = _keep_sources(session, result)
    for event in (
        *([{"type": "sources", "files": sources}] if sources else []),
        {"type": "end", "step": to_json(step), "result": to_json(result)},
    ):
        plain = json.loads(json.dumps(event))  # fold what a replay will read, not what is in memory
        case.append(plain)
        session.apply(plain)


def _run_tool(session: Session, effect: walker.Run, template: Callable[[], Template], progress: Progress) -> Result:
    """Run a tool. A tool that breaks is a failed step with its traceback as an artifact, and the walk goes on."""
    case = session.case
    work = Work(
        case=case,
        options=session.options,
        about=effect.about,
        number=effect.number,
        dir=case.step_dir(effect.number),
        seconds=session.state.budget,
        capabilities=session.state.capabilities,
        facts=walker.view(session.state, effect.about),
        kernels=session.kernels,
        errors=session.gather("errors"),
        stages=session.stages,
        rules_root=rules_root(),
        read_source=session.read_source,
        template=template,
        progress=progress,
    )
    try:
        return RUNNERS[effect.tool](work)
    except Exception as error:  # noqa: BLE001 - whatever breaks, the user gets a report
        import traceback

        (work.dir / "failure.txt").write_text("".join(traceback.format_exception(error)), encoding="utf-8")
        where = (work.dir / "failure.txt").relative_to(case.path)
        return Result(
            status=StepStatus.FAILED,
            outcome=StepOutcome.UNKNOWN,
            detail=f"triage failed here ({type(error).__name__}: {error}); see {where}",
        )


def _keep_sources(session: Session, result: Result) -> dict[str, str]:
    """Keep the user's files that this result points into, as they are now: the report quotes them later."""
    places: list[str] = [session.options.script] if session.options.script else []
    for error in result.errors:
        places += [f.file for e in _chain(error) for f in e.frames if f.user]
        places += [at.file for e in _chain(error) for at in e.named]
    places += [w.at.file for w in result.warnings if w.at]
    places += [h.at.file for h in result.hazards if h.at]
    places += [c.location.file for c in result.culprits if c.location]
    places += [k.defined_at.file for k in result.kernels if k.defined_at]
    kept = {}
    for file in dict.fromkeys(places):
        path = Path(file)
        if file in session.sources or not path.is_file() or path.stat().st_size > SOURCE_LIMIT:
            continue
        kept[file] = session.case.put(path.read_bytes())
    return kept


def _chain(error: Any) -> Iterable[Any]:
    yield error
    for cause in error.causes:
        yield from _chain(cause)


# --------------------------------------------------------------------------------------------------------


def build(session: Session) -> Report:
    """The report of everything known by now."""
    findings = session.findings()
    run = session.facts().get("run", {})
    if not any(f.level == "fault" for f in findings):
        stopped = any(f.cause == MADE_UP for f in findings)
        findings.append(_without_fault(session, run, stopped))
    return build_report(
        session.subject,
        _environments(session),
        findings,
        session.state.steps,
        session.gather("facts"),
        session.gather("artifacts"),
        tuple(dict.fromkeys(session.gather("checked"))),
        _not_checked(session),
        sources={file: text for file in session.sources if (text := session.read_source(file)) is not None},
        case=str(session.case.path),
    )


def _without_fault(session: Session, run: dict[str, Any], stopped: bool) -> Finding:
    """The verdict where no rule and no error says that something is wrong; `stopped` by a check of made-up values."""
    status = run.get("run.status")
    if status != "succeeded" and not stopped:
        if status is None:
            while_ = f"while the step {session.running!r} was running" if session.running else "before the first step"
            return Finding(
                State.UNKNOWN, None, "No conclusion yet", f"triage was stopped {while_}; `triage resume` goes on."
            )
        return Finding(
            State.UNKNOWN, None, "No cause was found", f"The script ended with status {status}, and nothing says why."
        )
    kernels = len(session.kernels)
    if not kernels:
        return Finding(
            State.HEALTHY,
            None,
            "The script ran, but it built no kernel",
            "No kernel was captured, so nothing about a kernel was checked. If the file only defines kernels, say which "
            "to build: `triage run kernel.py --call 'make_kernel(1024)'`.",
        )
    some = f"{kernels} kernel{'s' * (kernels != 1)}"
    if stopped:
        why = f"The script built {some}, and stopped at its own check of values that the virtual device made up."
        return Finding(State.HEALTHY, None, "No fault was found up to the script's own check", why)
    unseen = "; values were not computed (no GPU)" if run.get("launches.virtual") else ""
    return Finding(State.HEALTHY, None, f"No fault was found{unseen}", f"The script ran to its end and built {some}.")


def _environments(session: Session) -> list[Environment]:
    known = {e.id: e for e in session.gather("environments")}
    return list(known.values())


def _not_checked(session: Session) -> list[NotChecked]:
    """What tools left unchecked, then the steps that were skipped or broke, each node once."""
    lines = list(dict.fromkeys(session.gather("not_checked")))
    done = {s.node for s in session.state.steps if s.status is StepStatus.RAN}
    undone = {s.node: s for s in session.state.steps if s.status is not StepStatus.RAN and s.node not in done}
    planned = [SPECS[s.tool].title for s in undone.values() if not SPECS[s.tool].built]
    for step in undone.values():
        if SPECS[step.tool].built:
            why = step.detail or str(step.status)
            lines.append(NotChecked(SPECS[step.tool].title, why, step.elsewhere or step.command))
    if planned:
        lines.append(NotChecked("; ".join(planned), NOT_BUILT))
    if session.broken_rules:
        files = sorted({problem.file for problem in session.broken_rules})
        lines.append(NotChecked(f"the rules in {', '.join(files)}", "they cannot be read", "triage rules check"))
    if session.state.left_out:
        lines.append(NotChecked(f"{len(session.state.left_out)} more kernels one by one", "too many suspects"))
    return lines


def write_report(session: Session) -> Report:
    """Build the report and keep it in the case as JSON and Markdown."""
    report = build(session)
    session.case.path.mkdir(parents=True, exist_ok=True)
    (session.case.path / "report.json").write_text(as_json(report), encoding="utf-8")
    (session.case.path / "report.md").write_text(markdown.render(report), encoding="utf-8")
    return report


# --------------------------------------------------------------------------------------------------------


def may_resume(case: Case, trusted: bool) -> str | None:
    """Why a case must not be resumed as it is, or None. A case is untrusted data: it names a script to run."""
    session = replay(case)
    first = next(case.events())
    script = session.options.script
    if script:
        path = Path(script)
        if not path.is_file():
            return f"{script}, which this case is about, is not there; start anew with `triage run`"
        if hashlib.sha256(path.read_bytes()).hexdigest() != session.subject.get("sha256"):
            return f"{script} has changed since; start anew with `triage run {path.name}`"
    if first.get("at") != str(case.path.absolute()) and not trusted:
        return f"{case.path} comes from elsewhere; look at {script or session.options.module}, then resume with --yes"
    return None


def reopen(case: Case, budget: float, experiments: bool) -> bool:
    """Write the event that queues again what was skipped and can be done now; False where nothing can."""
    session = replay(case)
    able = sorted(capabilities.quick(session.options.python))
    case.append({"type": "resume", "capabilities": able, "budget": budget, "experiments": experiments})
    return isinstance(replay(case).effect, walker.Run)
